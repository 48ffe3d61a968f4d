//! Whose each GPU is, for the checks about jobs. What is not known is said to be so.

use std::time::Duration;

use collectors::gpu::metrics as m;
use collectors::{Subject, SubjectKind};

use super::Check;
use super::gpu::key;
use super::gpu_process::{Process, processes};
use crate::condition::{Judged, Reading, USUAL};
use crate::finding::{Finding, Remedy};
use crate::judge::Judge;
use crate::reads::gpu::{Gpu, whole};
pub(super) use model::ownership::Jobs;
use model::ownership::{Evidence, Owner, Ownership, device};

/// Whose a GPU is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Owned {
    /// These jobs', exactly: the rules of each say so.
    By(Vec<String>),
    /// No job's: the rules of all jobs are known, and none names it.
    Nobody,
    /// Not known.
    Unknown,
}

/// A GPU that is not divided, or an instance of one.
pub(super) struct Part<'a> {
    pub(super) gpu: &'a Gpu<'a>,
    /// The `gpu_instance` label, empty for the whole.
    pub(super) instance: &'a str,
    pub(super) owned: Owned,
    pub(super) processes: Vec<Process<'a>>,
    /// Whether these are all processes of the GPU, and it is known on which part each is.
    pub(super) complete: bool,
}

impl Part<'_> {
    /// The condition's key.
    pub(super) fn key(&self, check: &str) -> String {
        key(check, self.gpu, self.instance)
    }

    /// The jobs that have it, exactly.
    pub(super) fn jobs(&self) -> &[String] {
        match &self.owned {
            Owned::By(jobs) => jobs,
            Owned::Nobody | Owned::Unknown => &[],
        }
    }

    /// ` on instance 1/0`, empty for the whole.
    pub(super) fn at_instance(&self) -> String {
        match self.instance {
            "" => String::new(),
            instance => format!(" on instance {instance}"),
        }
    }

    /// Its memory in use, in bytes, without what the driver keeps.
    pub(super) fn used(&self) -> Option<u64> {
        whole(self.gpu.with(&m::MEMORY_USED, &[("gpu_instance", self.instance)]))
    }

    /// A finding about a condition of it, which a person looks into; the check says the rest.
    pub(super) fn finding(&self, check: &'static str) -> Finding {
        Finding {
            pci: self.gpu.pci.clone(),
            remedy: Remedy::Inspect,
            drains: true,
            ..Finding::of_condition(check, self.gpu.subject())
        }
    }
}

/// Every GPU that answers, or every instance of one that is divided.
pub(super) fn parts<'a>(judge: &Judge<'a>) -> Vec<Part<'a>> {
    let Ownership { jobs, owners } = judge.snapshot.ownership();
    let gpus = judge.gpus;
    let minors: Vec<&'a str> = gpus.iter().filter_map(|gpu| minor(gpu)).collect();
    let mut parts = Vec::new();
    for gpu in gpus.iter().filter(|gpu| gpu.is_up() == Some(true)) {
        // What nobody names, or two go by, is joined with no device of a job.
        let minor = minor(gpu).filter(|own| minors.iter().filter(|other| *other == own).count() == 1);
        let mut instances: Vec<&'a str> = gpu
            .all(&m::INSTANCE_INFO)
            .filter_map(|s| s.labels.get(1))
            .map(String::as_str)
            .collect();
        if instances.is_empty() {
            instances.push("");
        }
        let resolved = minor.is_some_and(|minor| is_resolved(jobs, minor, &instances));
        let (processes, complete) = processes(gpu, &instances);
        for instance in instances {
            parts.push(Part {
                owned: owned(owners, gpu, instance, resolved && jobs.all_known()),
                processes: processes
                    .iter()
                    .filter(|(of, _)| *of == instance)
                    .map(|(_, p)| *p)
                    .collect(),
                gpu,
                instance,
                complete,
            });
        }
    }
    parts
}

/// The number of its device file.
fn minor<'a>(gpu: &Gpu<'a>) -> Option<&'a str> {
    let at = m::INFO.labels.iter().position(|name| *name == "minor")?;
    let minor = gpu.one(&m::INFO)?.labels.get(at)?;
    (!minor.is_empty()).then_some(minor)
}

/// Whether each job that may use anything of a GPU has a part of it that is there.
fn is_resolved(jobs: &Jobs, minor: &str, instances: &[&str]) -> bool {
    let mut all = jobs.devices.values().flatten();
    all.all(|name| match device(name) {
        Some((of, part)) if of == minor => instances.contains(&part),
        _ => true,
    })
}

fn owned(owners: &[Owner], gpu: &Gpu<'_>, instance: &str, all_known: bool) -> Owned {
    let label = gpu
        .one(&m::INFO)
        .and_then(|s| s.label("gpu"))
        .unwrap_or(&gpu.label);
    let is_it = |o: &&Owner| o.gpu == label && o.gpu_instance == instance;
    let exact = |o: &&Owner| is_it(o) && o.evidence == Evidence::DeviceProgram;
    let jobs: Vec<String> = owners.iter().filter(exact).map(|o| o.job.clone()).collect();
    match () {
        () if !jobs.is_empty() => Owned::By(jobs),
        () if all_known && !owners.iter().any(|o| is_it(&o)) => Owned::Nobody,
        () => Owned::Unknown,
    }
}

/// The condition of a job's that a check looks at: its finding is about the job.
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

/// What was bad and is not judged any more, where that is over: of each `(key, subject)` that `over` says.
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

/// What ends with a part that is there no more: one of a GPU that is divided otherwise now.
pub(super) fn ended_parts<'a>(
    judge: &Judge<'a>,
    check: &'static Check,
    parts: &[Part<'a>],
    listed: &[Judged<'a>],
) -> Vec<Judged<'a>> {
    ended(judge, check, listed, |rest| {
        let place = rest.split(' ').next().unwrap_or_default();
        let of = |part: &&Part<'_>| key("", part.gpu, "").trim() == place;
        parts.iter().find(of).map(|part| part.gpu.subject())
    })
}

/// What ends with a job that is on the node no more.
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
