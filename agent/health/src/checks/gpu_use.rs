//! The jobs of each GPU, for the checks about jobs.

use std::time::Duration;

use collectors::{Subject, SubjectKind};

use super::Check;
use super::gpu::key;
use crate::condition::{Judged, Reading, USUAL};
use crate::finding::{Finding, Remedy};
use crate::judge::Judge;
use crate::reads::gpu_part::Part;

impl Part<'_> {
    /// The key of the condition.
    pub(super) fn key(&self, check: &str) -> String {
        key(check, self.gpu, self.instance)
    }

    /// A finding about a condition of it, without the details of the check.
    pub(super) fn finding(&self, check: &'static str) -> Finding {
        Finding {
            pci: self.gpu.pci.clone(),
            remedy: Remedy::Inspect,
            drains: true,
            ..Finding::of_condition(check, self.gpu.subject())
        }
    }
}

/// A condition of a job.
pub(super) fn of_job<'a>(job: &str, reading: Reading, at: Duration, finding: Finding) -> Judged<'a> {
    Judged {
        key: format!("{} job {job}", finding.check),
        subject: finding.subject.clone(),
        reading,
        at,
        pace: &USUAL,
        finding: Box::new(move |_| finding),
    }
}

/// Good readings for bad conditions that are no longer listed. `over`: the subject if the condition has ended.
pub(super) fn ended<'a>(
    judge: &Judge<'a>,
    check: &'static Check,
    listed: &[Judged<'a>],
    over: impl Fn(&str) -> Option<Subject>,
) -> Vec<Judged<'a>> {
    let is_listed = |key: &String| listed.iter().any(|judged| judged.key == *key);
    let gone = judge.bad.iter().filter(|key| !is_listed(key));
    gone.filter_map(|key| {
        let subject = over(key.strip_prefix(check.id)?.trim_start())?;
        let of = subject.clone();
        Some(Judged {
            key: key.clone(),
            subject,
            reading: Reading::Good,
            at: judge.snapshot.at,
            pace: &USUAL,
            finding: Box::new(move |_| Finding::of_condition(check.id, of)),
        })
    })
    .collect()
}

/// Ends the conditions of parts that no longer exist: the instances of the GPU changed.
pub(super) fn ended_parts<'a>(
    judge: &Judge<'a>,
    check: &'static Check,
    listed: &[Judged<'a>],
) -> Vec<Judged<'a>> {
    ended(judge, check, listed, |rest| {
        let place = rest.split(' ').next().unwrap_or_default();
        let of = |part: &&Part<'_>| key("", part.gpu, "").trim() == place;
        judge.parts.iter().find(of).map(|part| part.gpu.subject())
    })
}

/// Ends the conditions of jobs that left the node.
pub(super) fn ended_jobs<'a>(
    judge: &Judge<'a>,
    check: &'static Check,
    listed: &[Judged<'a>],
) -> Vec<Judged<'a>> {
    let jobs = &judge.snapshot.ownership().jobs;
    ended(judge, check, listed, |rest| {
        let job = rest.strip_prefix("job ")?;
        let is_gone = jobs.listed && !jobs.has(job);
        is_gone.then(|| Subject::new(SubjectKind::Job, job))
    })
}
