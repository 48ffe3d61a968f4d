//! Which jobs own each GPU: now, from the best evidence in a snapshot ([`Ownership`]), and over time ([`Timeline`]).

mod jobs;
pub mod runs;
mod timeline;

use std::collections::{BTreeMap, BTreeSet};

use collectors::device_files::{self, DeviceFiles};
use collectors::gpu::metrics as gpu;
use collectors::slurm::metrics::evidence;
use collectors::{Subject, SubjectKind};

use crate::readings::{Readings, Sample};

pub use jobs::Jobs;
use jobs::device;
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
    found.retain(|(gpu, ..), _| !gpus.may_have_others(gpu, jobs));
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
pub struct Gpus<'a> {
    /// Labels by device file: of the GPU, and of partitions that have files of their own.
    files: BTreeMap<String, &'a str>,
    /// Collectors that list a GPU, by the name of their device files.
    listed: BTreeSet<&'static str>,
    /// GPUs that are divided.
    divided: BTreeSet<&'a str>,
    instances: BTreeSet<(&'a str, &'a str)>,
    /// Their GPUs and numbers by UUID, or by the device file of a partition.
    uuids: BTreeMap<&'a str, (&'a str, &'a str)>,
    /// All GPU labels, which are UUIDs if the driver reports them.
    labels: BTreeSet<&'a str>,
    /// GPU, instance, and the cgroup of a process on it.
    processes: BTreeSet<(&'a str, &'a str, &'a str)>,
    /// Device files that two GPUs claim: they cannot be distinguished.
    twice: BTreeSet<String>,
}

impl<'a> Gpus<'a> {
    /// Those of a snapshot.
    pub fn of(readings: &'a Readings) -> Self {
        let mut gpus = Self::default();
        for files in device_files::ALL {
            for sample in readings.shown_of(files.collector) {
                gpus.take(files, &sample);
            }
        }
        for file in std::mem::take(&mut gpus.twice) {
            gpus.files.remove(&file);
            gpus.uuids.remove(file.as_str());
        }
        gpus
    }

    fn take(&mut self, files: &'static DeviceFiles, sample: &Sample<'a>) {
        if sample.metric == &gpu::INFO {
            let (Some(label), Some(minor)) = (sample.label("gpu"), sample.label("minor")) else {
                return;
            };
            self.labels.insert(label);
            self.listed.insert(files.prefix);
            if !minor.is_empty() {
                self.file(files.name(minor), label);
            }
        } else if let [label, instance, ..] = sample.labels
            && sample.metric == &gpu::INSTANCE_INFO
        {
            self.divided.insert(label);
            self.instances.insert((label, instance));
            if let Some(uuid) = sample.label("uuid").filter(|uuid| !uuid.is_empty()) {
                self.uuids.insert(uuid, (label, instance));
                if device(uuid).is_some() {
                    self.file(uuid.to_owned(), label);
                }
            }
        } else if let [label, instance, _, folder] = sample.labels
            && sample.metric == &gpu::PROCESS_PLACE
            && !folder.is_empty()
        {
            self.processes.insert((label, instance, folder));
        }
    }

    fn file(&mut self, file: String, label: &'a str) {
        if self.files.get(&file).is_some_and(|known| *known != label) {
            self.twice.insert(file.clone());
        }
        self.files.insert(file, label);
    }

    /// `nvidia0`, `nvidia0/1/0`, `renderD128`, or a UUID.
    pub(crate) fn find(&self, name: &str) -> Option<(&'a str, &'a str)> {
        if let Some(instance) = self.uuids.get(name) {
            return Some(*instance);
        }
        if let Some(gpu) = self.labels.get(name) {
            return (!self.divided.contains(gpu)).then_some((gpu, ""));
        }
        let (file, _, instance) = device(name)?;
        let gpu = *self.files.get(file)?;
        if instance.is_empty() {
            // Of a divided GPU a job may open instances only.
            return (!self.divided.contains(gpu)).then_some((gpu, ""));
        }
        let known = self.instances.iter().find(|(g, i)| *g == gpu && *i == instance);
        known.copied()
    }

    /// The GPU to which a device of a job belongs: `Some(None)` if no driver lists it now. `None`: no GPU's device.
    pub(crate) fn whole(&self, name: &str) -> Option<Option<&'a str>> {
        let (file, row, _) = device(name)?;
        let known = self.files.get(file).copied();
        // Without GPUs of this driver, the file is that of another device, such as a display.
        let is_gpu = known.is_some() || !row.of_partitions || self.listed.contains(row.prefix);
        is_gpu.then_some(known)
    }

    /// Whether every device of jobs that may be this GPU or a part of it is known, and the GPU has a device file of its own.
    pub fn is_resolved(&self, gpu: &str, jobs: &Jobs) -> bool {
        if self.row(gpu).is_none() || self.may_have_others(gpu, jobs) {
            return false;
        }
        let mut all = jobs.devices.values().flatten();
        all.all(|name| match self.whole(name) {
            Some(Some(label)) if label == gpu => self.find(name).is_some_and(|(found, _)| found == gpu),
            _ => true,
        })
    }

    fn row(&self, gpu: &str) -> Option<&'static DeviceFiles> {
        let (file, _) = self.files.iter().find(|(_, label)| **label == gpu)?;
        Some(device(file)?.1)
    }

    /// Whether a job has a partition that no driver lists now, which may be one of this GPU.
    fn may_have_others(&self, gpu: &str, jobs: &Jobs) -> bool {
        let Some(row) = self.row(gpu).filter(|row| row.of_partitions) else {
            return false;
        };
        let mut all = jobs.devices.values().flatten();
        all.any(|name| name.starts_with(row.prefix) && self.whole(name) == Some(None))
    }
}

#[cfg(test)]
mod tests;
