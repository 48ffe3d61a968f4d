//! A job's usage of this node, as stored in the ledger.

use std::collections::BTreeMap;

use collectors::slurm::hook::{End, RecordId};
use serde::{Deserialize, Serialize};

/// A job on this node. Values that were never read are absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Line {
    /// Its number.
    pub job: String,
    /// Its user, as the configuration shows users; empty if unknown.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub user: String,
    /// The numeric user id of its owner, if known: decides who may see the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// Its account; empty if unknown.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub account: String,
    /// Its partition; empty if unknown.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub partition: String,
    /// Job id of its array; empty if it is no array task.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub array_job: String,
    /// Its task id in the array; empty likewise.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub array_task: String,
    /// Job id of the heterogeneous job's first component; empty if it has none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub het_job: String,
    /// Start on this node, as a Unix time: from Slurm or its processes, else when it was first seen.
    pub began: f64,
    /// When it was seen to be gone; absent while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<f64>,
    /// Its result, if the epilog's hook reported it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<End>,
    /// The best evidence for its GPUs so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evidence: Option<String>,
    /// Its usage of each GPU.
    pub gpus: Vec<GpuUse>,
    /// GPU time, in seconds: two GPUs for 1 s are 2 s, half of one is 0.5 s. Absent if the job was never read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_seconds: Option<f64>,
    /// Part of it during which the GPUs were busy. Whole GPUs only, like the next two.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_busy_seconds: Option<f64>,
    /// Energy of its GPUs, in joules.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_energy_joules: Option<f64>,
    /// Time for which their clocks were throttled, in seconds, by reason.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub gpu_throttle_seconds: BTreeMap<String, f64>,
    /// Xids of its GPUs while it had them, by code.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub xids: BTreeMap<u32, u64>,
    /// CPU time, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_seconds: Option<f64>,
    /// Peak memory of the node, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_peak_bytes: Option<f64>,
    /// Processes killed by the OOM killer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oom_kills: Option<f64>,
    /// Increases of the counters of all ports and filesystems of the node, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub node: BTreeMap<String, f64>,
    /// Whether other jobs ran at the same time: the node's counters are theirs too.
    pub shared: bool,
    /// Number of readings: with few, the totals are rough.
    pub readings: u64,
    /// Why an ended job was never read, and so has no figures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unread: Option<Unread>,
    /// The record of its epilog, which is kept until the line is written.
    #[serde(skip)]
    pub record: Option<RecordId>,
}

/// Why an ended job was never read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unread {
    /// It ended before the daemon started.
    DaemonDown,
    /// No reading succeeded while it ran: most such jobs are shorter than 1 s.
    NoReading,
}

impl Unread {
    /// The word in a line.
    pub const fn word(self) -> &'static str {
        match self {
            Self::DaemonDown => "daemon_down",
            Self::NoReading => "no_reading",
        }
    }
}

/// The most GPUs and instances of a line, and reasons of a GPU: far more than a node has.
const MAX_GPUS: usize = 512;
const MAX_REASONS: usize = 64;

/// A job's usage of a GPU or of an instance; its share, if the GPU was shared.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GpuUse {
    /// The `gpu` label.
    pub gpu: String,
    /// The `gpu_instance` label; empty for the whole.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub gpu_instance: String,
    /// GPU time, in seconds. Absent if the GPU is known only by the record of an epilog.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// Time during which it was busy, in seconds. Whole GPUs only, like what follows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busy_seconds: Option<f64>,
    /// Time for which it is known whether it was busy, in seconds: less than [`GpuUse::seconds`] if it was lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watched_seconds: Option<f64>,
    /// Energy, in joules.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub energy_joules: Option<f64>,
    /// Memory in use at the last reading, in bytes. Of instances too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<f64>,
    /// Highest reading of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_peak_bytes: Option<f64>,
    /// Time for which its clocks were throttled, in seconds, by reason.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub throttle_seconds: BTreeMap<String, f64>,
}

/// Values of the `result` label. For a cancelled job or one that reached its time limit, Slurm reports the batch
/// script's exit code so far to the epilog, which is 0.
pub const RESULTS: [&str; 5] = [
    "completed_or_cancelled",
    "failed",
    "killed",
    "out_of_memory",
    "unknown",
];

/// Slurm's own signal for a job that ran out of memory (`SIG_OOM`, 253) as the epilog gets it: without the flag 0x80.
const SIG_OOM: u8 = 253 & 0x7f;

impl Line {
    /// Whether Slurm reported that it ran out of memory, as for most of such jobs.
    pub(super) fn is_out_of_memory_by_slurm(&self) -> bool {
        self.end.is_some_and(|end| end.signal == SIG_OOM)
    }

    /// Its result, one of [`RESULTS`].
    pub fn result(&self) -> &'static str {
        let [well, failed, killed, out_of_memory, unknown] = RESULTS;
        match self.end {
            None => unknown,
            Some(End {
                signal: 0,
                exit_code: 0,
                ..
            }) => well,
            Some(_) if self.is_out_of_memory_by_slurm() => out_of_memory,
            // The killed process is unknown; a job that continued without it has completed.
            Some(_) if self.oom_kills.is_some_and(|n| n > 0.0) => out_of_memory,
            Some(End { signal: 0, .. }) => failed,
            Some(_) => killed,
        }
    }

    /// Time for which it is known whether its GPUs were busy, in seconds: [`Line::gpu_busy_seconds`] is a part of it.
    pub fn gpu_watched_seconds(&self) -> f64 {
        total(self.gpus.iter().filter_map(GpuUse::watched))
    }

    /// Updates the totals over its GPUs.
    pub(super) fn sum(&mut self) {
        let all = &self.gpus;
        let sum = |of: fn(&GpuUse) -> Option<f64>| all.iter().filter_map(of).reduce(|a, b| a + b);
        self.gpu_busy_seconds = sum(|g| g.busy_seconds);
        self.gpu_energy_joules = sum(|g| g.energy_joules);
        let is_read = self.readings > 0 && (all.is_empty() || all.iter().any(|g| g.seconds.is_some()));
        self.gpu_seconds = is_read.then(|| total(all.iter().filter_map(|g| g.seconds)));
        let mut throttled = BTreeMap::new();
        for (reason, seconds) in all.iter().flat_map(|g| &g.throttle_seconds) {
            *throttled.entry(reason.clone()).or_default() += seconds;
        }
        self.gpu_throttle_seconds = throttled;
    }

    /// Its usage of this GPU.
    pub(super) fn gpu(&mut self, gpu: &str, instance: &str) -> Option<&mut GpuUse> {
        let is_it = |g: &GpuUse| g.gpu == gpu && g.gpu_instance == instance;
        if !self.gpus.iter().any(is_it) {
            if self.gpus.len() >= MAX_GPUS {
                return None;
            }
            self.gpus.push(GpuUse {
                gpu: gpu.to_owned(),
                gpu_instance: instance.to_owned(),
                ..GpuUse::default()
            });
        }
        self.gpus.iter_mut().find(|g| is_it(g))
    }
}

impl GpuUse {
    /// Time for which it is known whether it was busy, in seconds. In lines of earlier builds that is the whole time.
    pub fn watched(&self) -> Option<f64> {
        self.busy_seconds?;
        self.watched_seconds.or(self.seconds)
    }

    /// A line that an earlier build began counts that time from here on.
    pub(super) fn begin_watching(&mut self) {
        if self.watched_seconds.is_none() {
            self.watched_seconds = self.watched();
        }
    }

    /// Adds to the time for which its clocks were throttled, in seconds. Reasons beyond the limit are left out.
    pub(super) fn throttled(&mut self, reason: &str, seconds: f64) {
        let kept = &mut self.throttle_seconds;
        if kept.len() < MAX_REASONS || kept.contains_key(reason) {
            *kept.entry(reason.to_owned()).or_default() += seconds;
        }
    }
}

/// The sum; 0 for no values, of which the standard library's sum is -0.
fn total(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(0.0, |sum, value| sum + value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_without_gpus_has_0_gpu_seconds_and_not_minus_0() {
        let mut line = Line {
            readings: 1,
            ..Line::default()
        };
        line.sum();
        assert_eq!(serde_json::to_value(line.gpu_seconds).unwrap().to_string(), "0.0");
        assert!(line.gpu_watched_seconds().is_sign_positive());
    }

    #[test]
    fn figures_that_were_never_read_are_absent() {
        let of = |readings: u64, seconds: &[Option<f64>]| {
            let gpu = |seconds: &Option<f64>| GpuUse {
                seconds: *seconds,
                ..GpuUse::default()
            };
            let mut line = Line {
                readings,
                gpus: seconds.iter().map(gpu).collect(),
                ..Line::default()
            };
            line.sum();
            line.gpu_seconds
        };
        assert_eq!([of(0, &[]), of(0, &[None]), of(1, &[None, None])], [None; 3]);
        assert_eq!([of(1, &[]), of(1, &[Some(1.5), None])], [Some(0.0), Some(1.5)]);
    }

    #[test]
    fn a_line_that_an_earlier_build_began_was_watched_from_its_start() {
        let mut used: GpuUse =
            serde_json::from_str(r#"{"gpu":"GPU-1","seconds":200.0,"busy_seconds":100.0}"#).unwrap();
        assert_eq!(used.watched(), Some(200.0));
        for _ in 0..2 {
            used.begin_watching();
            used.seconds = used.seconds.map(|s| s + 15.0);
            used.watched_seconds = Some(used.watched_seconds.unwrap_or_default() + 15.0);
        }
        assert_eq!(used.watched(), Some(230.0));
        let mut lost = GpuUse::default();
        lost.begin_watching();
        assert_eq!(lost.watched_seconds, None, "never known");
    }

    #[test]
    fn reasons_beyond_the_limit_of_a_gpu_are_not_added() {
        let mut used = GpuUse::default();
        for n in 0..2 * MAX_REASONS {
            used.throttled(&format!("reason-{n}"), 1.0);
        }
        used.throttled("reason-0", 1.0);
        assert_eq!(used.throttle_seconds.len(), MAX_REASONS);
        assert_eq!(used.throttle_seconds["reason-0"], 2.0);
    }

    #[test]
    fn devices_beyond_the_limit_of_a_line_are_not_added() {
        let mut line = Line::default();
        for n in 0..2 * MAX_GPUS {
            assert_eq!(line.gpu(&format!("GPU-{n}"), "").is_some(), n < MAX_GPUS);
        }
        assert!(line.gpu("GPU-0", "").is_some());
    }

    #[test]
    fn a_job_ends_as_its_batch_script_did_and_for_want_of_memory_where_it_failed_too() {
        let line = |exit_code, signal, oom_kills: f64| Line {
            end: Some(End {
                exit_code,
                signal,
                derived: 0,
            }),
            oom_kills: Some(oom_kills),
            ..Line::default()
        };
        assert_eq!(Line::default().result(), "unknown");
        assert_eq!(line(0, 0, 0.0).result(), "completed_or_cancelled");
        assert_eq!(line(0, 0, 1.0).result(), "completed_or_cancelled");
        assert_eq!(line(3, 0, 0.0).result(), "failed");
        assert_eq!(line(0, 15, 0.0).result(), "killed");
        assert_eq!(line(137, 0, 1.0).result(), "out_of_memory");
        // The last reading is from before the kill, and cgroup v1 counts none for a job.
        assert_eq!(line(0, 125, 0.0).result(), "out_of_memory");
        let unread = Line {
            oom_kills: None,
            ..line(0, 125, 0.0)
        };
        assert_eq!(unread.result(), "out_of_memory");
    }

    #[test]
    fn a_line_is_read_back_and_what_is_not_known_does_not_stand_there() {
        let line = Line {
            job: "7".to_owned(),
            began: 1.5,
            ..Line::default()
        };
        let text = serde_json::to_string(&line).unwrap();
        assert_eq!(
            text,
            r#"{"job":"7","began":1.5,"gpus":[],"shared":false,"readings":0}"#
        );
        let later = text.replace("{\"job\"", "{\"later\":[1],\"job\"");
        assert_eq!(serde_json::from_str::<Line>(&later).unwrap(), line);
    }
}
