//! The jobs of each GPU, for the checks about jobs.

use std::time::Duration;

use collectors::gpu::metrics as m;
use collectors::{Label, Subject, SubjectKind};

use super::Check;
use super::gpu::key;
use super::gpu_process::{Process, processes};
use crate::condition::{Judged, Reading, USUAL};
use crate::finding::{Finding, Remedy};
use crate::judge::Judge;
use crate::reads::gpu::{Gpu, whole};
pub(super) use model::ownership::Jobs;
use model::ownership::{Evidence, Gpus, Owner, Ownership};

/// The allocation of a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Owned {
    /// To these jobs, by their device rules.
    By(Vec<String>),
    /// Unallocated: the device rules of all jobs are known, and none names it.
    Unallocated,
    /// Not known.
    Unknown,
}

/// A GPU without instances, or an instance of one.
pub(super) struct Part<'a> {
    pub(super) gpu: &'a Gpu<'a>,
    /// The `gpu_instance` label, empty for the whole.
    pub(super) instance: &'a str,
    pub(super) owned: Owned,
    pub(super) processes: Vec<Process<'a>>,
    /// Whether the list of processes is complete, each with its part.
    pub(super) complete: bool,
}

impl Part<'_> {
    /// The key of the condition.
    pub(super) fn key(&self, check: &str) -> String {
        key(check, self.gpu, self.instance)
    }

    /// The jobs to which it is allocated.
    pub(super) fn jobs(&self) -> &[String] {
        match &self.owned {
            Owned::By(jobs) => jobs,
            Owned::Unallocated | Owned::Unknown => &[],
        }
    }

    /// ` on instance 1/0`, empty for the whole.
    pub(super) fn at_instance(&self) -> String {
        match self.instance {
            "" => String::new(),
            instance => format!(" on instance {instance}"),
        }
    }

    /// Its memory in use, in bytes, without memory reserved by the driver.
    pub(super) fn used(&self) -> Option<u64> {
        whole(self.gpu.with(&m::MEMORY_USED, &[("gpu_instance", self.instance)]))
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

/// Every GPU that is up, or its instances.
pub(super) fn parts<'a>(judge: &Judge<'a>) -> Vec<Part<'a>> {
    let Ownership { jobs, owners } = judge.snapshot.ownership();
    let gpus = judge.gpus;
    let known = Gpus::of(judge.snapshot);
    let mut parts = Vec::new();
    for gpu in gpus.iter().filter(|gpu| gpu.is_up() == Some(true)) {
        let mut instances: Vec<&'a str> = gpu
            .all(&m::INSTANCE_INFO)
            .filter_map(|s| s.labels.get(1))
            .map(Label::as_str)
            .collect();
        if instances.is_empty() {
            instances.push("");
        }
        let resolved = known.is_resolved(label(gpu), jobs);
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

/// The `gpu` label of its series.
fn label<'a>(gpu: &'a Gpu<'_>) -> &'a str {
    let info = gpu.one(&m::INFO);
    info.and_then(|s| s.label("gpu")).unwrap_or(&gpu.label)
}

fn owned(owners: &[Owner], gpu: &Gpu<'_>, instance: &str, all_known: bool) -> Owned {
    let label = label(gpu);
    let is_it = |o: &&Owner| o.gpu == label && o.gpu_instance == instance;
    let exact = |o: &&Owner| is_it(o) && o.evidence == Evidence::DeviceProgram;
    let jobs: Vec<String> = owners.iter().filter(exact).map(|o| o.job.clone()).collect();
    match () {
        () if !jobs.is_empty() => Owned::By(jobs),
        () if all_known && !owners.iter().any(|o| is_it(&o)) => Owned::Unallocated,
        () => Owned::Unknown,
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
    parts: &[Part<'a>],
    listed: &[Judged<'a>],
) -> Vec<Judged<'a>> {
    ended(judge, check, listed, |rest| {
        let place = rest.split(' ').next().unwrap_or_default();
        let of = |part: &&Part<'_>| key("", part.gpu, "").trim() == place;
        parts.iter().find(of).map(|part| part.gpu.subject())
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
