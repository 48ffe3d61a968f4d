//! Whose each GPU is and who uses it, for the checks about jobs. What is not known is said to be so.

use std::collections::BTreeMap;
use std::rc::Rc;

use collectors::gpu::metrics as m;
use collectors::slurm::metrics::{JOB_DEVICE, JOB_DEVICES, JOB_FOLDER};
use collectors::{Subject, SubjectKind};

use super::Check;
use super::gpu::{Gpu, gpus, key, whole};
use crate::core::derive::owners::{Evidence, Owner};
use crate::core::snapshot::{Presence, Snapshot};
use crate::health::condition::{Judged, Reading, USUAL};
use crate::health::finding::{Finding, Remedy};
use crate::health::judge::Judge;

/// Programs that serve a GPU and no one user, by what the kernel keeps of their names: 15 letters. The server of MPS computes
/// for its clients, which are listed beside it.
const SERVANTS: [&str; 12] = [
    "nv-hostengine",
    "dcgm-exporter",
    "dcgmi",
    "nvidia-smi",
    "nvidia-persiste",
    "nv-fabricmanage",
    "nvidia-imex",
    "nvidia-cuda-mps",
    "nvidia-device-p",
    "Xorg",
    "Xwayland",
    "gnome-shell",
];

/// The jobs of this node, as far as they could be read.
#[derive(Debug, Default)]
pub(super) struct Jobs<'a> {
    /// Whether every job there is was read.
    pub(super) listed: bool,
    /// Numbers by the name of the cgroup.
    folders: BTreeMap<&'a str, &'a str>,
    /// What each may use, by number. One whose devices are not known is missing.
    devices: BTreeMap<&'a str, Vec<&'a str>>,
}

impl<'a> Jobs<'a> {
    pub(super) fn of(snapshot: &'a Snapshot) -> Self {
        let mut jobs = Self::default();
        let Some(slurm) = snapshot.collector("slurm") else {
            return jobs;
        };
        let max_age = slurm.max_age();
        jobs.listed = slurm.presence == Presence::Open
            && slurm.late.is_empty()
            && slurm.devices.iter().all(|d| d.shown(snapshot.at, max_age));
        for sample in slurm.samples(snapshot.at) {
            match sample.labels {
                [job, folder] if sample.metric == &JOB_FOLDER => {
                    jobs.folders.insert(folder, job);
                }
                [job, reason] if sample.metric == &JOB_DEVICES && reason.is_empty() => {
                    jobs.devices.entry(job).or_default();
                }
                [job, device] if sample.metric == &JOB_DEVICE => {
                    jobs.devices.entry(job).or_default().push(device);
                }
                _ => {}
            }
        }
        jobs
    }

    /// Whether every job there is was read, and the devices of each.
    fn all_known(&self) -> bool {
        self.listed && self.folders.values().all(|job| self.devices.contains_key(job))
    }

    /// Whether a job is on the node.
    pub(super) fn has(&self, job: &str) -> bool {
        self.folders.values().any(|of| *of == job)
    }
}

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

/// Where a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place<'a> {
    /// In the cgroup of a job, by its name.
    Job(&'a str),
    /// In that of a pod of Kubernetes, by its uid.
    Pod(&'a str),
    /// In neither.
    Outside,
    /// Not known.
    Unknown,
}

/// One that computes on a GPU.
#[derive(Clone, Copy, Debug)]
pub(super) struct Process<'a> {
    pub(super) pid: &'a str,
    pub(super) place: Place<'a>,
    /// What it calls itself.
    pub(super) program: Option<&'a str>,
    /// Memory of the GPU that it has, in bytes.
    pub(super) memory: Option<u64>,
}

impl Process<'_> {
    /// Whether it serves the GPU and no user.
    pub(super) fn is_servant(&self) -> bool {
        self.program.is_some_and(|program| SERVANTS.contains(&program))
    }

    /// What tells it from another that gets its number.
    pub(super) fn id(&self) -> String {
        format!("{} {}", self.pid, self.program.unwrap_or_default())
    }

    /// `"python3" (pid 500)`, for people. Its name may hold anything.
    pub(super) fn words(&self) -> String {
        format!("{:?} (pid {})", self.program.unwrap_or_default(), self.pid)
    }
}

/// A GPU that is not divided, or an instance of one.
pub(super) struct Part<'a> {
    pub(super) gpu: Rc<Gpu<'a>>,
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
        key(check, &self.gpu, self.instance)
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
pub(super) fn parts<'a>(judge: &Judge<'a>, jobs: &Jobs<'a>) -> Vec<Part<'a>> {
    let gpus: Vec<Rc<Gpu<'a>>> = gpus(judge.snapshot, judge.inventory)
        .into_iter()
        .map(Rc::new)
        .collect();
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
                owned: owned(judge.owners, gpu, instance, resolved && jobs.all_known()),
                processes: processes
                    .iter()
                    .filter(|(of, _)| *of == instance)
                    .map(|(_, p)| *p)
                    .collect(),
                gpu: Rc::clone(gpu),
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
fn is_resolved(jobs: &Jobs<'_>, minor: &str, instances: &[&str]) -> bool {
    let part = |device: &str| -> Option<String> {
        let rest = device.strip_prefix("nvidia")?.strip_prefix(minor)?;
        match rest.strip_prefix('/') {
            Some(instance) => Some(instance.to_owned()),
            None => rest.is_empty().then(String::new),
        }
    };
    jobs.devices.values().all(|devices| {
        let mut of_this = devices.iter().filter_map(|device| part(device));
        of_this.all(|part| instances.contains(&part.as_str()))
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

/// The processes of a GPU by instance, and whether these are all of them and it is known where each is.
fn processes<'a>(gpu: &Gpu<'a>, instances: &[&str]) -> (Vec<(&'a str, Process<'a>)>, bool) {
    let mut found: BTreeMap<(&'a str, &'a str), Process<'a>> = BTreeMap::new();
    for metric in [&m::PROCESS_OWNED, &m::PROCESS_PLACE, &m::PROCESS_PROGRAM] {
        for sample in gpu.all(metric) {
            let [_, instance, pid, rest @ ..] = sample.labels else {
                continue;
            };
            let (instance, pid) = (instance.as_str(), pid.as_str());
            let process = found.entry((instance, pid)).or_insert(Process {
                pid,
                place: Place::Unknown,
                program: None,
                memory: None,
            });
            match rest {
                [folder] if sample.metric == &m::PROCESS_PLACE => process.place = place(folder),
                [program] if sample.metric == &m::PROCESS_PROGRAM => process.program = Some(program.as_str()),
                _ => process.memory = whole(Some(sample)),
            }
        }
    }
    let known = u64::try_from(found.len()).ok();
    let complete =
        whole(gpu.one(&m::PROCESSES)) == known && found.keys().all(|(part, _)| instances.contains(part));
    (
        found
            .into_iter()
            .map(|((part, _), process)| (part, process))
            .collect(),
        complete,
    )
}

fn place(folder: &str) -> Place<'_> {
    match folder.strip_prefix("pod") {
        Some(uid) => Place::Pod(uid),
        None if folder.is_empty() => Place::Outside,
        None => Place::Job(folder),
    }
}

/// Whether a process on a part that jobs own is in none of their cgroups. `None`: it cannot be told.
pub(super) fn is_foreign(process: &Process<'_>, owners: &[String], jobs: &Jobs<'_>) -> Option<bool> {
    if process.is_servant() {
        return Some(false);
    }
    match process.place {
        Place::Job(folder) => {
            // One that has just begun, or of another slurmd, is not listed.
            let job = jobs.folders.get(folder)?;
            let is_owner = owners.iter().any(|owner| owner == job);
            // Where its rules are not known, it may have a part of it as well.
            (is_owner || jobs.devices.contains_key(job)).then_some(!is_owner)
        }
        // Whether it is a servant is known by its name.
        Place::Pod(_) | Place::Outside => process.program.map(|_| true),
        Place::Unknown => None,
    }
}

/// The first few, and how many more.
pub(super) fn some(words: &[String]) -> String {
    const MOST: usize = 4;
    let first: Vec<&str> = words.iter().take(MOST).map(String::as_str).collect();
    match words.len().saturating_sub(MOST) {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
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
        let of = |part: &&Part<'_>| key("", &part.gpu, "").trim() == place;
        parts.iter().find(of).map(|part| part.gpu.subject())
    })
}

/// What ends with a job that is on the node no more.
pub(super) fn ended_jobs<'a>(
    judge: &Judge<'a>,
    check: &'static Check,
    jobs: &Jobs<'a>,
    listed: &[Judged<'a>],
) -> Vec<Judged<'a>> {
    ended(judge, check, listed, |rest| {
        let job = rest.strip_prefix("job ")?;
        let is_gone = jobs.listed && !jobs.has(job);
        is_gone.then(|| Subject::new(SubjectKind::Job, job))
    })
}
