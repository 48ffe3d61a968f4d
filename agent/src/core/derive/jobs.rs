//! The jobs of this node and the devices that each may use, as far as they could be read.

use std::collections::{BTreeMap, BTreeSet};

use collectors::slurm::metrics::{JOB_DEVICE, JOB_DEVICES, JOB_FOLDER, JOB_GRANT};

use super::owners::Evidence;
use crate::core::snapshot::{Presence, Snapshot};

/// The jobs of this node, as far as they could be read.
#[derive(Debug, Default)]
pub struct Jobs<'a> {
    /// Whether every job there is was read.
    pub listed: bool,
    /// Numbers by the name of the cgroup.
    pub folders: BTreeMap<&'a str, &'a str>,
    /// What each may use, by number. One whose devices are not known is missing.
    pub devices: BTreeMap<&'a str, Vec<&'a str>>,
    /// What the others were given, by number, and what says so.
    pub grants: BTreeMap<&'a str, (Evidence, Vec<&'a str>)>,
    /// Whether the devices of any job are said not to be known.
    unread: bool,
    /// Numbers of two jobs, of two slurmds: which of them anything is about cannot be told.
    twice: BTreeSet<&'a str>,
}

impl<'a> Jobs<'a> {
    /// Those of a snapshot.
    pub fn of(snapshot: &'a Snapshot) -> Self {
        let mut jobs = Self::default();
        let Some(slurm) = snapshot.collector("slurm") else {
            return jobs;
        };
        let max_age = slurm.max_age();
        jobs.listed = slurm.presence == Presence::Open
            && slurm.late.is_empty()
            && slurm.devices.iter().all(|d| d.shown(snapshot.at, max_age));
        let mut names = BTreeMap::new();
        for sample in slurm.samples(snapshot.at) {
            match sample.labels {
                [job, folder] if sample.metric == &JOB_FOLDER => {
                    jobs.folders.insert(folder, job);
                    if names.insert(job, folder).is_some_and(|known| known != folder) {
                        jobs.twice.insert(job);
                    }
                }
                [job, reason] if sample.metric == &JOB_DEVICES => {
                    if reason.is_empty() {
                        jobs.devices.entry(job).or_default();
                    } else {
                        jobs.unread = true;
                    }
                }
                [job, device] if sample.metric == &JOB_DEVICE => {
                    jobs.devices.entry(job).or_default().push(device);
                }
                [job, word, device] if sample.metric == &JOB_GRANT => {
                    if let Some(evidence) = Evidence::of_word(word) {
                        let grant = jobs.grants.entry(job).or_insert_with(|| (evidence, Vec::new()));
                        grant.1.push(device);
                    }
                }
                _ => {}
            }
        }
        let twice = &jobs.twice;
        jobs.folders.retain(|_, job| !twice.contains(job));
        jobs.devices.retain(|job, _| !twice.contains(job));
        // Where the rules are known nothing else counts.
        let devices = &jobs.devices;
        jobs.grants
            .retain(|job, _| !devices.contains_key(job) && !twice.contains(job));
        jobs
    }

    /// Whether every job there is was read, and the devices of each.
    pub fn all_known(&self) -> bool {
        self.listed
            && !self.unread
            && self.twice.is_empty()
            && self.folders.values().all(|job| self.is_read(job))
    }

    /// The job whose cgroup bears that name. `None`: one that has just begun, or of another slurmd, is not listed.
    pub fn of_folder(&self, folder: &str) -> Option<&'a str> {
        self.folders.get(folder).copied()
    }

    /// Whether the devices of a job are known.
    pub fn is_read(&self, job: &str) -> bool {
        self.devices.contains_key(job)
    }

    /// Whether all that a job has is told exactly, by its rules or by who gave it.
    pub fn is_known(&self, job: &str) -> bool {
        self.is_read(job) || self.grants.contains_key(job)
    }

    /// Whether a job is on the node.
    pub fn has(&self, job: &str) -> bool {
        self.twice.contains(job) || self.folders.values().any(|of| *of == job)
    }
}

/// The minor number and the instance that a device's name says: `nvidia0`, or `nvidia0/1/0` for instance `1/0`. The instance
/// of a whole GPU is empty. `None`: no device of NVIDIA's.
pub fn device(name: &str) -> Option<(&str, &str)> {
    let rest = name.strip_prefix("nvidia")?;
    let (minor, instance) = match rest.split_once('/') {
        Some((_, "")) => return None,
        Some(parts) => parts,
        None => (rest, ""),
    };
    let is_number = !minor.is_empty() && minor.bytes().all(|b| b.is_ascii_digit());
    is_number.then_some((minor, instance))
}

#[cfg(test)]
mod tests {
    use super::device;

    #[test]
    fn a_device_is_a_gpu_or_an_instance_of_one() {
        assert_eq!(device("nvidia0"), Some(("0", "")));
        assert_eq!(device("nvidia12"), Some(("12", "")));
        assert_eq!(device("nvidia0/1/0"), Some(("0", "1/0")));
        for name in [
            "",
            "nvidia",
            "nvidiactl",
            "nvidia/1/0",
            "nvidia0/",
            "renderD128",
            "nvidia-uvm",
        ] {
            assert_eq!(device(name), None, "{name}");
        }
    }
}
