//! A running job.

use std::time::Duration;

use collectors::slurm::metrics::{JOB_CPU, JOB_FOLDER, JOB_MEMORY_PEAK, JOB_OOM_KILLS, JOB_OWNER, JOB_START};
use serde::{Deserialize, Serialize};

use super::line::Line;
use crate::snapshot::Sample;

/// An announced job without a reading for this time is dropped, in seconds.
pub(super) const UNREAD: f64 = 30.0;

/// A running job.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Running {
    pub(super) line: Line,
    /// The subject of its readings; another subject is another job with the same number.
    pub(super) subject: String,
    pub(super) folder: String,
    /// When it was announced, as a Unix time.
    pub(super) told: Option<f64>,
    /// When its folder was reported gone, as a Unix time.
    pub(super) gone: Option<f64>,
    /// Its prolog's hook ran, so its epilog's may too: its start is the prolog's.
    pub(super) has_prolog: bool,
    /// Since when the node's counters include it, as time since boot. `None`: not yet, or another job has the same
    /// number.
    pub(super) since: Option<Duration>,
}

impl Running {
    /// Its prolog's hook ran at that time.
    pub(super) fn prolog(&mut self, start: Option<f64>) {
        if let Some(start) = start.filter(|_| self.subject.is_empty()) {
            self.has_prolog = true;
            self.line.began = start;
        }
    }

    /// Whether nothing is known but that its folder was reported: its start is that of the report, which may have come late.
    pub(super) fn is_only_told(&self) -> bool {
        self.subject.is_empty() && !self.has_prolog
    }

    /// Start of its prolog, as a Unix time, if that is known.
    pub(super) fn known_prolog(&self) -> Option<f64> {
        self.has_prolog.then_some(self.line.began)
    }

    /// A job first seen at that time of the wall clock.
    pub(super) fn new(job: &str, wall: f64) -> Self {
        Self {
            line: Line {
                job: job.to_owned(),
                began: wall,
                ..Line::default()
            },
            ..Self::default()
        }
    }

    /// Whether that subject is this job; also if it has no reading yet.
    pub(super) fn is_of(&self, subject: &str) -> bool {
        if self.subject.is_empty() {
            let folder = subject.rsplit_once(':').map(|(folder, _)| folder);
            return folder.is_some_and(|folder| folder == self.folder);
        }
        // A worker that was started again counts the runs in a cgroup from 0.
        let run = self.subject.strip_prefix(subject);
        run.is_some_and(|run| run.is_empty() || run.starts_with('.'))
    }

    /// Takes its user, account and similar labels.
    pub(super) fn named(&mut self, sample: &Sample<'_>) {
        let line = &mut self.line;
        line.readings += 1;
        for (to, name) in [
            (&mut line.user, "user"),
            (&mut line.account, "account"),
            (&mut line.partition, "partition"),
            (&mut line.array_job, "array_job"),
            (&mut line.array_task, "array_task"),
            (&mut line.het_job, "het_job"),
        ] {
            if let Some(told) = sample.label(name).filter(|told| !told.is_empty()) {
                told.clone_into(to);
            }
        }
    }

    /// Takes the readings of its cgroup. `has_record`: they came with the record of its prolog.
    pub(super) fn read(&mut self, sample: &Sample<'_>, has_record: bool) {
        let (line, value) = (&mut self.line, sample.as_f64());
        self.has_prolog |= has_record;
        match sample.metric {
            // A reading after its epilog has another start: the record is gone.
            m if m == &JOB_START && (has_record || !self.has_prolog) => line.began = value,
            m if m == &JOB_CPU => line.cpu_seconds = Some(value),
            m if m == &JOB_MEMORY_PEAK => line.memory_peak_bytes = Some(value),
            m if m == &JOB_OOM_KILLS => line.oom_kills = Some(value),
            m if m == &JOB_OWNER => {
                line.uid = sample.label("uid").and_then(|uid| uid.parse().ok()).or(line.uid)
            }
            m if m == &JOB_FOLDER => {
                let folder = sample.label("folder").unwrap_or_default();
                folder.clone_into(&mut self.folder);
            }
            _ => {}
        }
    }
}
