//! The report of an epilog: how a job ended, and what prolog and epilog knew of it.

use collectors::event::JobEnd;

use super::line::{GpuUse, Line};
use super::running::{Running, UNREAD};
use crate::ownership::Evidence;

/// Times no further apart are equal, in seconds.
pub(super) const SAME: f64 = 0.001;
/// How long a report waits until the driver lists the job's GPUs, in seconds.
const PATIENCE: f64 = 60.0;

/// The report of an epilog.
#[derive(Clone, Debug)]
pub(super) struct Epilog {
    pub(super) report: JobEnd,
    /// When it arrived, as a Unix time.
    pub(super) told: f64,
    /// The GPUs and instances of the job, once the driver has listed them.
    pub(super) gpus: Option<Vec<(String, String)>>,
    /// When the folder of a job that was never seen was reported, as a Unix time.
    pub(super) folder: Option<f64>,
}

impl Epilog {
    pub(super) fn new(report: JobEnd, told: f64) -> Self {
        Self {
            report,
            told,
            gpus: None,
            folder: None,
        }
    }

    pub(super) fn job(&self) -> String {
        self.report.record.job.to_string()
    }

    /// When it ran, as a Unix time.
    pub(super) fn at(&self) -> f64 {
        seconds(self.report.record.ended_us)
    }

    /// Start of that run's prolog, as a Unix time, if its record still existed.
    pub(super) fn began(&self) -> Option<f64> {
        self.report.start_us.map(seconds)
    }

    /// Whether the report belongs to this run of the job: one number may have several runs.
    pub(super) fn is_of(&self, run: &Running) -> bool {
        self.is_surely(run).unwrap_or_else(|| {
            // An epilog removes the record of its prolog, and the report of the folder may come later.
            let is_late = run.is_only_told() && self.folder.is_none();
            let late = if is_late { UNREAD } else { 0.0 };
            let ended = run.gone.or(run.line.ended);
            let begins_later = self
                .began()
                .zip(ended)
                .is_some_and(|(began, ended)| began > ended);
            self.at() + late >= run.line.began && !begins_later
        })
    }

    /// The same, decided by the start of both prologs if known.
    pub(super) fn is_surely(&self, run: &Running) -> Option<bool> {
        let began = self.began().filter(|_| run.has_prolog)?;
        Some((began - run.line.began).abs() < SAME)
    }

    /// Names of GPUs that were not found among those of the driver.
    pub(super) fn unfound(&self) -> Option<&[String]> {
        self.report.devices.as_deref().filter(|_| self.gpus.is_none())
    }

    /// Whether it can complete a line now.
    pub(super) fn is_ready(&self, line: &Line, wall: f64) -> bool {
        !line.gpus.is_empty() || self.unfound().is_none() || wall - self.told >= PATIENCE
    }

    /// The run of a job that was never seen. `None`: its start is unknown.
    pub(super) fn run(&self) -> Option<Running> {
        Some(Running {
            has_prolog: true,
            told: self.folder,
            ..Running::new(&self.job(), self.began()?)
        })
    }

    /// Fills in what a line lacks. `since`: when the daemon started.
    pub(super) fn complete(&self, mut line: Line, since: f64) -> Line {
        let report = &self.report;
        for (to, from) in [
            (&mut line.user, &report.user),
            (&mut line.account, &report.account),
            (&mut line.partition, &report.partition),
            (&mut line.array_job, &report.array_job),
            (&mut line.array_task, &report.array_task),
            (&mut line.het_job, &report.het_job),
        ] {
            if to.is_empty() {
                to.clone_from(from);
            }
        }
        line.uid = line.uid.or(report.uid);
        line.end = report.end;
        if line.is_out_of_memory_by_slurm() {
            // A count of 0 is from before the kill.
            line.oom_kills = line.oom_kills.filter(|kills| *kills > 0.0);
        }
        line.record = Some(report.record);
        if let Some(began) = self.began().filter(|_| line.readings == 0) {
            line.began = began;
        }
        // Figures reach to the end that was seen, unless the daemon was down by then.
        let at = self.at().max(line.began);
        let seen = line.ended.filter(|_| line.readings > 0 && at >= since);
        line.ended = Some(seen.unwrap_or_else(|| line.ended.map_or(at, |seen| seen.min(at))));
        if line.gpus.is_empty() {
            let gpu = |(gpu, gpu_instance): &(String, String)| GpuUse {
                gpu: gpu.clone(),
                gpu_instance: gpu_instance.clone(),
                ..GpuUse::default()
            };
            line.gpus = self.gpus.iter().flatten().map(gpu).collect();
            if !line.gpus.is_empty() {
                line.evidence = Some(Evidence::Hook.word().to_owned());
            }
        }
        line.sum();
        line
    }
}

#[expect(clippy::cast_precision_loss, reason = "microseconds since the epoch fit")]
fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}
