//! What one snapshot says of jobs: which are there, and which of those could not be read.

use std::collections::{BTreeMap, BTreeSet};

use collectors::slurm::metrics::{AMBIGUOUS, JOB_DEVICE, JOB_DEVICES, JOB_GRANT, JOB_INFO};

use super::running::Running;
use crate::snapshot::{CollectorState, Sample, Snapshot};

/// Jobs as a snapshot has them.
pub(super) struct Sight<'a> {
    samples: Vec<Sample<'a>>,
    /// The subjects of a number that is one job's alone.
    jobs: BTreeMap<&'a str, &'a str>,
    /// Numbers of which this host has several jobs, of several slurmds.
    ambiguous: BTreeSet<&'a str>,
    /// Subjects that are listed, and whether their last reading can be used.
    listed: BTreeMap<&'a str, bool>,
}

impl<'a> Sight<'a> {
    /// Without readings of runs that are `over`.
    pub(super) fn of(collector: &'a CollectorState, snapshot: &Snapshot, over: &BTreeSet<String>) -> Self {
        let samples: Vec<Sample<'a>> = collector.samples(snapshot.at).collect();
        let (mut jobs, mut ambiguous) = (BTreeMap::new(), BTreeSet::new());
        for sample in &samples {
            let subject = sample.subject.name.as_str();
            match sample.labels {
                [job, ..]
                    if sample.metric == &JOB_INFO
                        && jobs
                            .insert(job.as_str(), subject)
                            .is_some_and(|known| known != subject) =>
                {
                    ambiguous.insert(job.as_str());
                }
                [job, reason] if sample.metric == &JOB_DEVICES && reason == AMBIGUOUS => {
                    ambiguous.insert(job.as_str());
                }
                _ => {}
            }
        }
        jobs.retain(|job, subject| !ambiguous.contains(job) && !over.contains(*subject));
        let max_age = collector.max_age();
        let listed = collector.devices.iter();
        let listed = listed.map(|d| {
            // Of more series than a collector may have, those that say that it is there may be missing.
            let is_read = !d.is_new() && d.is_current(snapshot.at, max_age) && d.refused == 0;
            (d.subject.name.as_str(), is_read)
        });
        Self {
            samples,
            jobs,
            ambiguous,
            listed: listed.collect(),
        }
    }

    /// The series of jobs whose number is theirs alone.
    pub(super) fn samples(&self) -> impl Iterator<Item = (&'a str, &Sample<'a>)> {
        self.samples.iter().filter_map(|sample| {
            let job = sample.label("jobid")?;
            self.jobs.contains_key(job).then_some((job, sample))
        })
    }

    /// Their devices, as their rules name them, or who gave them.
    pub(super) fn devices(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.samples.iter().filter_map(|sample| match sample.labels {
            [job, device] if sample.metric == &JOB_DEVICE => Some((job.as_str(), device.as_str())),
            [job, _, device] if sample.metric == &JOB_GRANT => Some((job.as_str(), device.as_str())),
            _ => None,
        })
    }

    /// Whether no job was read.
    pub(super) fn is_empty(&self) -> bool {
        self.jobs.is_empty() && self.ambiguous.is_empty()
    }

    /// Whether a job of this number was read.
    pub(super) fn is_there(&self, job: &str) -> bool {
        self.jobs.contains_key(job)
    }

    /// Whether it is not known which job has this number.
    pub(super) fn is_ambiguous(&self, job: &str) -> bool {
        self.ambiguous.contains(job)
    }

    /// Whether a job is listed and could not be read: it may have ended, and may not.
    pub(super) fn is_late(&self, running: &Running) -> bool {
        let mut unread = self.listed.iter().filter(|(_, is_read)| !**is_read);
        unread.any(|(subject, _)| running.is_of(subject))
    }

    /// Whether a subject is listed.
    pub(super) fn lists(&self, subject: &str) -> bool {
        self.listed.contains_key(subject)
    }
}
