//! Which jobs own each GPU: now, from the best evidence in a snapshot ([`Ownership`]), and over time ([`Timeline`]).

mod jobs;
pub mod runs;
mod timeline;

use std::collections::{BTreeMap, BTreeSet};

use collectors::gpu::metrics as gpu;
use collectors::slurm::metrics::evidence;
use collectors::{Subject, SubjectKind};

use crate::readings::Readings;

pub use jobs::{Jobs, device};
pub(crate) use timeline::Tenure;
pub use timeline::{Timeline, When};

/// The evidence that a job owns a GPU, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub enum Evidence {
    /// The program that Slurm attached to the job's cgroup names the device: exact, used or not.
    DeviceProgram,
    /// Reported to the prolog: exact, by positions in gres.conf or UUIDs.
    Hook,
    /// Files of a prolog other than nodewarden's.
    MappingFile,
    /// A process in the job's cgroup computes on it: exact for GPUs in use, silent about idle ones.
    Process,
}

impl Evidence {
    /// All, the best first.
    const ALL: [Self; 4] = [Self::DeviceProgram, Self::Hook, Self::MappingFile, Self::Process];

    /// The word used in labels.
    pub const fn word(self) -> &'static str {
        match self {
            Self::DeviceProgram => "device_program",
            Self::Hook => evidence::HOOK,
            Self::MappingFile => evidence::MAPPING_FILE,
            Self::Process => "process",
        }
    }

    /// The evidence of a word.
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|evidence| evidence.word() == word)
    }
}

/// A GPU, or an instance of one, and a job that owns it.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Owner {
    /// The `gpu` label.
    pub gpu: String,
    /// The `gpu_instance` label, empty for the whole.
    pub gpu_instance: String,
    /// The job's number.
    pub job: String,
    /// The evidence for it.
    pub evidence: Evidence,
    /// The number of parts of the GPU that it has, if Slurm divides the GPU and that is known.
    #[serde(default)]
    pub parts: Option<u32>,
    /// Its share, from 0 to 1.
    pub share: f64,
}

/// Jobs and the GPUs that they own, of one snapshot: see [`crate::snapshot::Snapshot::ownership`].
#[derive(Clone, Debug, Default)]
pub struct Ownership {
    /// The jobs of this node.
    pub jobs: Jobs,
    /// The owners of all GPUs, by GPU, instance and job. GPUs with unknown owners have none.
    pub owners: Vec<Owner>,
}

impl Ownership {
    pub(crate) fn of(readings: &Readings) -> Self {
        let jobs = Jobs::of(readings);
        let owners = owners(&jobs, readings);
        Self { jobs, owners }
    }
}

fn owners(jobs: &Jobs, readings: &Readings) -> Vec<Owner> {
    if jobs.folders.is_empty() {
        return Vec::new();
    }
    let gpus = Gpus::of(readings);
    let mut found = Found::new();
    for (job, devices) in &jobs.devices {
        // A device that no driver reports, such as a lost GPU: its label is unknown.
        for (gpu, instance) in devices.iter().filter_map(|device| gpus.find(device)) {
            found.insert((gpu, instance, job), Evidence::DeviceProgram);
        }
    }
    for (job, (evidence, devices)) in &jobs.grants {
        for (gpu, instance) in devices.iter().filter_map(|device| gpus.find(device)) {
            found.insert((gpu, instance, job), *evidence);
        }
    }
    let exact: BTreeSet<(&str, &str)> = found.keys().map(|(gpu, instance, _)| (*gpu, *instance)).collect();
    found.extend(used(jobs, &gpus, &exact).map(|key| (key, Evidence::Process)));
    let owner = |((gpu, instance, job), evidence): ((&str, &str, &str), _)| Owner {
        gpu: gpu.to_owned(),
        gpu_instance: instance.to_owned(),
        job: job.to_owned(),
        evidence,
        parts: jobs.parts.get(job).copied(),
        share: 1.0,
    };
    let mut owners: Vec<Owner> = found.into_iter().map(owner).collect();
    share(&mut owners);
    owners
}

/// Owners of one GPU have shares by their parts, and equal ones where the parts of any are unknown.
fn share(owners: &mut [Owner]) {
    let place = |owner: &Owner| (owner.gpu.clone(), owner.gpu_instance.clone());
    let mut all: BTreeMap<_, Vec<Option<u32>>> = BTreeMap::new();
    for owner in owners.iter() {
        all.entry(place(owner)).or_default().push(owner.parts);
    }
    for owner in owners {
        let parts = all.get(&place(owner)).map(Vec::as_slice).unwrap_or_default();
        let total = parts.iter().map(|p| p.map(f64::from)).sum::<Option<f64>>();
        let known = owner.parts.zip(total).filter(|_| parts.len() > 1);
        #[expect(clippy::cast_precision_loss, reason = "a number of jobs")]
        let equal = 1.0 / parts.len().max(1) as f64;
        owner.share = known.map_or(equal, |(own, total)| f64::from(own) / total);
    }
}

/// By GPU, instance and job.
type Found<'a> = BTreeMap<(&'a str, &'a str, &'a str), Evidence>;

/// GPU, instance and job where a process of the job computes and the job's GPUs are not known otherwise.
fn used<'a>(
    jobs: &'a Jobs,
    gpus: &Gpus<'a>,
    exact: &BTreeSet<(&str, &str)>,
) -> impl Iterator<Item = (&'a str, &'a str, &'a str)> {
    gpus.processes.iter().filter_map(|(gpu, instance, folder)| {
        let job = jobs.of_folder(folder)?;
        // The process does not report which instance of a divided GPU it uses.
        let is_part = instance.is_empty() && gpus.divided.contains(gpu);
        // A job with known GPUs has no others, and a GPU that belongs to another job is not its own.
        let is_known = jobs.is_known(job) || exact.contains(&(*gpu, *instance));
        (!is_part && !is_known).then_some((*gpu, *instance, job))
    })
}

/// The jobs that own a device, by number: for a GPU its owners, for any other device all owners of GPUs.
pub fn jobs_on<'a>(owners: impl IntoIterator<Item = &'a Owner>, subject: &Subject) -> Vec<String> {
    let is_on = |owner: &&Owner| subject.kind != SubjectKind::Gpu || owner.gpu == subject.name;
    let owners = owners.into_iter().filter(is_on);
    let jobs: BTreeSet<&str> = owners.map(|o| o.job.as_str()).collect();
    jobs.into_iter().map(str::to_owned).collect()
}

/// The known facts about GPUs.
#[derive(Default)]
pub(crate) struct Gpus<'a> {
    /// Labels by the minor number of the device file.
    minors: BTreeMap<&'a str, &'a str>,
    /// GPUs that are divided.
    divided: BTreeSet<&'a str>,
    instances: BTreeSet<(&'a str, &'a str)>,
    /// Their GPUs and numbers by UUID.
    uuids: BTreeMap<&'a str, (&'a str, &'a str)>,
    /// All GPU labels, which are UUIDs if the driver reports them.
    labels: BTreeSet<&'a str>,
    /// GPU, instance, and the cgroup of a process on it.
    processes: BTreeSet<(&'a str, &'a str, &'a str)>,
}

impl<'a> Gpus<'a> {
    pub(crate) fn of(readings: &'a Readings) -> Self {
        let mut gpus = Self::default();
        let mut twice = Vec::new();
        for sample in readings.shown_of("nvidia") {
            if sample.metric == &gpu::INFO {
                let (Some(label), Some(minor)) = (sample.label("gpu"), sample.label("minor")) else {
                    continue;
                };
                gpus.labels.insert(label);
                if !minor.is_empty() && gpus.minors.insert(minor, label).is_some() {
                    twice.push(minor);
                }
            } else if let [label, instance, ..] = sample.labels
                && sample.metric == &gpu::INSTANCE_INFO
            {
                gpus.divided.insert(label);
                gpus.instances.insert((label, instance));
                if let Some(uuid) = sample.label("uuid").filter(|uuid| !uuid.is_empty()) {
                    gpus.uuids.insert(uuid, (label, instance));
                }
            } else if let [label, instance, _, folder] = sample.labels
                && sample.metric == &gpu::PROCESS_PLACE
                && !folder.is_empty()
            {
                gpus.processes.insert((label, instance, folder));
            }
        }
        // Two GPUs that claim one minor number cannot be distinguished.
        for minor in twice {
            gpus.minors.remove(minor);
        }
        gpus
    }

    /// `nvidia0`, `nvidia0/1/0`, or a UUID.
    pub(crate) fn find(&self, name: &str) -> Option<(&'a str, &'a str)> {
        if let Some(instance) = self.uuids.get(name) {
            return Some(*instance);
        }
        if let Some(gpu) = self.labels.get(name) {
            return (!self.divided.contains(gpu)).then_some((gpu, ""));
        }
        let (minor, instance) = device(name)?;
        let gpu = *self.minors.get(minor)?;
        if instance.is_empty() {
            // Of a divided GPU a job may open instances only.
            return (!self.divided.contains(gpu)).then_some((gpu, ""));
        }
        let known = self.instances.iter().find(|(g, i)| *g == gpu && *i == instance);
        known.copied()
    }
}

#[cfg(test)]
mod tests;
