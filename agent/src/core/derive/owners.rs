//! Whose each GPU is: which job of Slurm's may use it, from the best evidence that there is.

use std::collections::{BTreeMap, BTreeSet};

use collectors::gpu::metrics as gpu;
use collectors::slurm::metrics::evidence;
use collectors::{Subject, SubjectKind};

use super::jobs::{self, Jobs};
use crate::core::snapshot::{Sample, Snapshot};

/// What an answer rests on, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub enum Evidence {
    /// The program that Slurm attached to the job's cgroup names the device: exact, used or not.
    DeviceProgram,
    /// The prolog was told: exact, by positions in gres.conf or UUIDs.
    Hook,
    /// A prolog of somebody else's has written files.
    MappingFile,
    /// A process in the job's cgroup computes on it: exact for what is in use, and silent about the rest.
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

/// A GPU, or an instance of one, and a job that has it.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Owner {
    /// The `gpu` label.
    pub gpu: String,
    /// The `gpu_instance` label, empty for the whole.
    pub gpu_instance: String,
    /// The job's number.
    pub job: String,
    /// What says so.
    pub evidence: Evidence,
    /// Its part, from 0 to 1: of several owners each has as much.
    pub share: f64,
}

/// The owners of all GPUs, by GPU, instance and job. A GPU that nothing is known of has none.
pub fn owners(snapshot: &Snapshot) -> Vec<Owner> {
    let jobs = Jobs::of(snapshot);
    if jobs.folders.is_empty() {
        return Vec::new();
    }
    let gpus = Gpus::of(snapshot);
    let mut found = Found::new();
    for (job, devices) in &jobs.devices {
        // A device that no driver shows, such as a GPU that was lost: its label is not known.
        for (gpu, instance) in devices.iter().filter_map(|device| gpus.device(device)) {
            found.insert((gpu, instance, *job), Evidence::DeviceProgram);
        }
    }
    for (job, (evidence, devices)) in &jobs.grants {
        for (gpu, instance) in devices.iter().filter_map(|device| gpus.device(device)) {
            found.insert((gpu, instance, *job), *evidence);
        }
    }
    let exact: BTreeSet<(&str, &str)> = found.keys().map(|(gpu, instance, _)| (*gpu, *instance)).collect();
    found.extend(used(&jobs, &gpus, &exact).map(|key| (key, Evidence::Process)));
    let mut many: BTreeMap<(&str, &str), f64> = BTreeMap::new();
    for (gpu, instance, _) in found.keys() {
        *many.entry((gpu, instance)).or_default() += 1.0;
    }
    let share = |gpu: &str, instance: &str| many.get(&(gpu, instance)).map_or(1.0, |n| 1.0 / n);
    found
        .into_iter()
        .map(|((gpu, instance, job), evidence)| Owner {
            gpu: gpu.to_owned(),
            gpu_instance: instance.to_owned(),
            job: job.to_owned(),
            evidence,
            share: share(gpu, instance),
        })
        .collect()
}

/// By GPU, instance and job.
type Found<'a> = BTreeMap<(&'a str, &'a str, &'a str), Evidence>;

/// What jobs compute on whose GPUs are not known otherwise.
fn used<'a>(
    jobs: &Jobs<'a>,
    gpus: &Gpus<'a>,
    exact: &BTreeSet<(&str, &str)>,
) -> impl Iterator<Item = (&'a str, &'a str, &'a str)> {
    gpus.processes.iter().filter_map(|(gpu, instance, folder)| {
        let job = *jobs.folders.get(folder)?;
        // The process does not say which instance of a divided GPU it uses.
        let is_part = instance.is_empty() && gpus.divided.contains(gpu);
        // A job whose GPUs are known has no others, and a GPU that is known to be another job's is not its own.
        let is_known = jobs.is_known(job) || exact.contains(&(*gpu, *instance));
        (!is_part && !is_known).then_some((*gpu, *instance, job))
    })
}

/// The jobs that had a device, by number: those of a GPU, and of anything else all that have GPUs here.
pub fn jobs_on(owners: &[Owner], subject: &Subject) -> Vec<String> {
    let is_on = |owner: &&Owner| subject.kind != SubjectKind::Gpu || owner.gpu == subject.name;
    let jobs: BTreeSet<&str> = owners.iter().filter(is_on).map(|o| o.job.as_str()).collect();
    jobs.into_iter().map(str::to_owned).collect()
}

/// What is known of GPUs.
#[derive(Default)]
struct Gpus<'a> {
    /// Labels by the minor number of the device file.
    minors: BTreeMap<&'a str, &'a str>,
    /// GPUs that are divided.
    divided: BTreeSet<&'a str>,
    instances: BTreeSet<(&'a str, &'a str)>,
    /// Their GPUs and numbers by UUID.
    uuids: BTreeMap<&'a str, (&'a str, &'a str)>,
    /// All labels of GPUs, which are UUIDs where the driver tells them.
    labels: BTreeSet<&'a str>,
    /// GPU, instance, and the cgroup of a process on it.
    processes: BTreeSet<(&'a str, &'a str, &'a str)>,
}

impl<'a> Gpus<'a> {
    fn of(snapshot: &'a Snapshot) -> Self {
        let mut gpus = Self::default();
        let mut twice = Vec::new();
        for sample in samples(snapshot, "nvidia") {
            if sample.metric == &gpu::INFO {
                let (Some(label), Some(minor)) = (text(&sample, "gpu"), text(&sample, "minor")) else {
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
                if let Some(uuid) = text(&sample, "uuid").filter(|uuid| !uuid.is_empty()) {
                    gpus.uuids.insert(uuid, (label, instance));
                }
            } else if let [label, instance, _, folder] = sample.labels
                && sample.metric == &gpu::PROCESS_PLACE
                && !folder.is_empty()
            {
                gpus.processes.insert((label, instance, folder));
            }
        }
        // Two that claim one number are told apart by nobody.
        for minor in twice {
            gpus.minors.remove(minor);
        }
        gpus
    }

    /// `nvidia0`, `nvidia0/1/0`, or a UUID.
    fn device(&self, device: &str) -> Option<(&'a str, &'a str)> {
        if let Some(instance) = self.uuids.get(device) {
            return Some(*instance);
        }
        if let Some(gpu) = self.labels.get(device) {
            return (!self.divided.contains(gpu)).then_some((gpu, ""));
        }
        let (minor, instance) = jobs::device(device)?;
        let gpu = *self.minors.get(minor)?;
        if instance.is_empty() {
            // What a job may open of a divided GPU are its instances.
            return (!self.divided.contains(gpu)).then_some((gpu, ""));
        }
        let known = self.instances.iter().find(|(g, i)| *g == gpu && *i == instance);
        known.copied()
    }
}

fn text<'a>(sample: &Sample<'a>, name: &str) -> Option<&'a str> {
    let at = sample.metric.labels.iter().position(|l| *l == name)?;
    sample.labels.get(at).map(String::as_str)
}

/// The series of one collector.
fn samples<'a>(snapshot: &'a Snapshot, collector: &str) -> impl Iterator<Item = Sample<'a>> {
    let state = snapshot.collector(collector);
    state.into_iter().flat_map(move |c| c.samples(snapshot.at))
}

#[cfg(test)]
mod tests;
