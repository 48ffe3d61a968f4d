//! The jobs of this node and the devices that each may use, as far as they could be read.

use std::collections::{BTreeMap, BTreeSet};

use collectors::device_files::DeviceFiles;
use collectors::slurm::metrics::{JOB_DEVICE, JOB_DEVICES, JOB_FOLDER, JOB_GRANT, JOB_PARTS};

use super::Evidence;
use crate::readings::{Presence, Readings};

/// The jobs of this node, as far as they could be read.
#[derive(Clone, Debug, Default)]
pub struct Jobs {
    /// Whether every job of the node was read.
    pub listed: bool,
    /// Job numbers by cgroup name.
    pub folders: BTreeMap<String, String>,
    /// Uids of the pods whose slurmd has started a job, by job number.
    pods: BTreeMap<String, String>,
    /// Devices of each job, by number. Jobs with unknown devices are missing.
    pub devices: BTreeMap<String, Vec<String>>,
    /// Grants of the other jobs, by number, with their evidence.
    pub grants: BTreeMap<String, (Evidence, Vec<String>)>,
    /// The parts of its GPU that a job has, by number, of jobs that share one.
    pub parts: BTreeMap<String, u32>,
    /// Whether the devices of any job are reported as unknown.
    unread: bool,
    /// Numbers that two jobs of two slurmds have: facts about them cannot be assigned.
    twice: BTreeSet<String>,
}

impl Jobs {
    /// Those of a snapshot.
    pub(super) fn of(readings: &Readings) -> Self {
        let mut jobs = Self::default();
        let Some(slurm) = readings.collector("slurm") else {
            return jobs;
        };
        let max_age = slurm.max_age();
        jobs.listed = slurm.presence == Presence::Open
            && slurm.late.is_empty()
            && slurm.devices.iter().all(|d| d.is_current(readings.at, max_age));
        let mut names = BTreeMap::new();
        for sample in slurm.shown(readings.at) {
            match sample.labels {
                [job, folder, pod] if sample.metric == &JOB_FOLDER => {
                    jobs.folders.insert(folder.to_string(), job.to_string());
                    jobs.pods.insert(job.to_string(), pod.to_string());
                    if names.insert(job, folder).is_some_and(|known| known != folder) {
                        jobs.twice.insert(job.to_string());
                    }
                }
                [job, reason] if sample.metric == &JOB_DEVICES => {
                    if reason.is_empty() {
                        jobs.devices.entry(job.to_string()).or_default();
                    } else {
                        jobs.unread = true;
                    }
                }
                [job, device] if sample.metric == &JOB_DEVICE => {
                    let devices = jobs.devices.entry(job.to_string()).or_default();
                    devices.push(device.to_string());
                }
                [job, word, device] if sample.metric == &JOB_GRANT => {
                    if let Some(evidence) = Evidence::of_word(word) {
                        let grant = jobs.grants.entry(job.to_string());
                        let (_, devices) = grant.or_insert_with(|| (evidence, Vec::new()));
                        devices.push(device.to_string());
                    }
                }
                [job] if sample.metric == &JOB_PARTS => {
                    jobs.parts
                        .extend(parts(sample.as_f64()).map(|parts| (job.to_string(), parts)));
                }
                _ => {}
            }
        }
        let twice = &jobs.twice;
        jobs.folders.retain(|_, job| !twice.contains(job));
        jobs.devices.retain(|job, _| !twice.contains(job));
        // Known rules override everything else.
        let devices = &jobs.devices;
        jobs.grants
            .retain(|job, _| !devices.contains_key(job) && !twice.contains(job));
        jobs
    }

    /// Whether every job of the node was read, with its devices.
    pub fn all_known(&self) -> bool {
        self.listed
            && !self.unread
            && self.twice.is_empty()
            && self.folders.values().all(|job| self.is_read(job))
    }

    /// The job whose cgroup has that name. `None`: a job that has just begun, or of another slurmd, is not listed.
    pub fn of_folder(&self, folder: &str) -> Option<&str> {
        self.folders.get(folder).map(String::as_str)
    }

    /// Whether a job is in the pod with that uid: its slurmd runs there.
    pub fn is_in_pod(&self, job: &str, uid: &str) -> bool {
        self.pods.get(job).is_some_and(|pod| pod == uid)
    }

    /// Whether the devices of a job are known.
    pub fn is_read(&self, job: &str) -> bool {
        self.devices.contains_key(job)
    }

    /// Whether all devices of a job are known exactly, by its rules or its grants.
    pub fn is_known(&self, job: &str) -> bool {
        self.is_read(job) || self.grants.contains_key(job)
    }

    /// Whether a job is on the node.
    pub fn has(&self, job: &str) -> bool {
        self.twice.contains(job) || self.folders.values().any(|of| of == job)
    }
}

/// A plausible number of parts: none is lost as a float, and no part rounds to the whole.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "in range, checked"
)]
fn parts(value: f64) -> Option<u32> {
    (1.0..=65_536.0).contains(&value).then_some(value as u32)
}

/// The device file, its row and the instance in a device's name: `nvidia0`, `renderD128`, or `nvidia0/1/0` for instance
/// `1/0`. The instance is empty without one. `None`: no GPU's file.
pub(super) fn device(name: &str) -> Option<(&str, &'static DeviceFiles, &str)> {
    let (file, instance) = match name.split_once('/') {
        Some((_, "")) => return None,
        Some(parts) => parts,
        None => (name, ""),
    };
    Some((file, DeviceFiles::of_name(file)?, instance))
}

#[cfg(test)]
mod tests {
    use super::device;

    #[test]
    fn a_device_is_a_gpu_or_an_instance_of_one() {
        let parts = |name| device(name).map(|(file, _, instance)| (file, instance));
        assert_eq!(parts("nvidia0"), Some(("nvidia0", "")));
        assert_eq!(parts("nvidia12"), Some(("nvidia12", "")));
        assert_eq!(parts("nvidia0/1/0"), Some(("nvidia0", "1/0")));
        assert_eq!(parts("renderD128"), Some(("renderD128", "")));
        for name in [
            "",
            "nvidia",
            "nvidiactl",
            "nvidia/1/0",
            "nvidia0/",
            "renderD",
            "card0",
            "nvidia-uvm",
        ] {
            assert_eq!(parts(name), None, "{name}");
        }
    }
}
