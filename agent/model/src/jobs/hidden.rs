//! Jobs without series of their own, because the page's limit is reached.

use std::collections::{BTreeMap, BTreeSet};

use collectors::slurm::metrics::{JOB_INFO, JOB_START};
use collectors::slurm::{self, MAX_JOBS};
use collectors::{Settings, Subject, tasks};

use super::line::Line;
use crate::snapshot::Snapshot;

/// `slurm.jobs.max_jobs`: limit of jobs with series of their own on a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaxJobs(pub usize);

impl Default for MaxJobs {
    fn default() -> Self {
        Self(MAX_JOBS)
    }
}

impl MaxJobs {
    /// From the table of its collector, which has validated it.
    pub fn of(settings: &Settings) -> Self {
        slurm::max_jobs(settings).map_or_else(|_| Self::default(), Self)
    }
}

/// The youngest jobs, those above the limit.
#[derive(Debug, Default)]
pub struct Hidden {
    jobs: BTreeSet<String>,
    subjects: BTreeSet<String>,
}

impl Hidden {
    /// From the jobs of a snapshot and of the ledger.
    pub fn of(snapshot: &Snapshot, lines: &[Line], MaxJobs(max): MaxJobs) -> Self {
        let Some(collector) = snapshot.collector(slurm::SPEC.name) else {
            return Self::default();
        };
        if collector.devices.len().saturating_add(lines.len()) <= max {
            return Self::default();
        }
        let lines = lines.iter().filter(|line| line.ended.is_none());
        let mut began: BTreeMap<&str, f64> = lines.map(|line| (line.job.as_str(), line.began)).collect();
        let mut subjects = Vec::new();
        for sample in collector.shown(snapshot.at) {
            let [job, ..] = sample.labels else { continue };
            let job = job.as_str();
            if sample.metric == &JOB_INFO {
                subjects.push((job, sample.subject));
                began.entry(job).or_insert(f64::INFINITY);
            } else if sample.metric == &JOB_START {
                began.insert(job, sample.as_f64());
            }
        }
        let mut all: Vec<(f64, u64, &str)> = began
            .into_iter()
            .map(|(job, began)| (began, job.parse().unwrap_or(u64::MAX), job))
            .collect();
        all.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)).then(a.2.cmp(b.2)));
        let jobs: BTreeSet<String> = all.iter().skip(max).map(|(.., job)| (*job).to_owned()).collect();
        if jobs.is_empty() {
            return Self::default();
        }
        // This collector has its own list, which may contain unknown jobs.
        let blocked = snapshot.shown_of(tasks::SPEC.name).filter_map(|sample| {
            let [job, ..] = sample.labels else { return None };
            Some((job.as_str(), sample.subject))
        });
        let shown: BTreeSet<&str> = all.iter().take(max).map(|(.., job)| *job).collect();
        let subjects = subjects.into_iter().filter(|(job, _)| jobs.contains(*job));
        let subjects = subjects.chain(blocked.filter(|(job, _)| !shown.contains(job)));
        let subjects = subjects.map(|(_, subject)| subject.name.clone()).collect();
        Self { jobs, subjects }
    }

    /// Whether a job has no series of its own.
    pub fn job(&self, job: &str) -> bool {
        self.jobs.contains(job)
    }

    /// Whether a device of that collector is a hidden job.
    pub fn device(&self, collector: &str, subject: &Subject) -> bool {
        let is_of_jobs = [slurm::SPEC.name, tasks::SPEC.name].contains(&collector);
        is_of_jobs && self.subjects.contains(&subject.name)
    }

    /// Number of hidden jobs.
    pub fn count(&self) -> u64 {
        self.jobs.len() as u64
    }
}
