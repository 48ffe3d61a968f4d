//! What a job has used of this node, as the ledger has it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A job on this node. What was never read is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Line {
    /// Its number.
    pub job: String,
    /// Its user, as the configuration has users shown; empty where it is not known.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub user: String,
    /// Its account, likewise.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub account: String,
    /// Its partition, likewise.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub partition: String,
    /// The job of the array that it is a task of, likewise.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub array_job: String,
    /// Its place in the array, likewise.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub array_task: String,
    /// The first job of a heterogeneous one, likewise.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub het_job: String,
    /// When it began on this node, as a Unix time: as Slurm or its processes say, else when it was seen first.
    pub began: f64,
    /// When it was seen to be gone; absent while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<f64>,
    /// How it ended, where the epilog's hook told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<End>,
    /// What says whose its GPUs are, of the weakest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evidence: Option<String>,
    /// What it used of each GPU.
    pub gpus: Vec<GpuUse>,
    /// For how long it had GPUs, in seconds: two for a second are two, half of one is half.
    pub gpu_seconds: f64,
    /// For how long of that they had work. Of whole GPUs alone, as the next two.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_busy_seconds: Option<f64>,
    /// What they have used, in joules.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_energy_joules: Option<f64>,
    /// For how long their clocks were held down, in seconds, by reason.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub gpu_throttle_seconds: BTreeMap<String, f64>,
    /// Xids of its GPUs while it had them: how many, by code.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub xids: BTreeMap<u32, u64>,
    /// Processor time, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_seconds: Option<f64>,
    /// The most memory of the node that it had, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_peak_bytes: Option<f64>,
    /// Processes that were killed for want of memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oom_kills: Option<f64>,
    /// What all ports of the node counted meanwhile, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub node: BTreeMap<String, f64>,
    /// Other jobs ran beside it: what the node counted is theirs too.
    pub shared: bool,
    /// How many readings there were: of a job of few the sums are rough.
    pub readings: u64,
}

/// What a job used of a GPU, or of an instance of one: its part, where others had it too.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GpuUse {
    /// The `gpu` label.
    pub gpu: String,
    /// The `gpu_instance` label; empty for the whole.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub gpu_instance: String,
    /// For how long it had it, in seconds.
    pub seconds: f64,
    /// For how long it had work. Of whole GPUs alone, as what follows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busy_seconds: Option<f64>,
    /// What it used, in joules.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub energy_joules: Option<f64>,
    /// Memory in use, in bytes, when it was read last. Of instances too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<f64>,
    /// The most that was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_peak_bytes: Option<f64>,
    /// For how long its clocks were held down, in seconds, by reason.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub throttle_seconds: BTreeMap<String, f64>,
}

/// How a job ended, as its batch script did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// SLURM_JOB_EXIT_CODE2, before the colon.
    pub exit_code: u8,
    /// And behind it: 0 for none.
    pub signal: u8,
    /// SLURM_JOB_DERIVED_EC: the highest exit code of its steps, as wait(2) has it.
    #[serde(default)]
    pub derived: u32,
}

/// Words for how jobs end: the `result` label. Of a job that was cancelled or had no time left Slurm tells the epilog the
/// exit code that its batch script had by then, which is 0.
pub const RESULTS: [&str; 5] = [
    "completed_or_cancelled",
    "failed",
    "killed",
    "out_of_memory",
    "unknown",
];

impl Line {
    /// How it ended, in a word of [`RESULTS`].
    pub fn result(&self) -> &'static str {
        let [well, failed, killed, out_of_memory, unknown] = RESULTS;
        match self.end {
            None => unknown,
            Some(End {
                signal: 0,
                exit_code: 0,
                ..
            }) => well,
            // Which process was killed nobody says; a job that went on without it has completed.
            Some(_) if self.oom_kills.is_some_and(|n| n > 0.0) => out_of_memory,
            Some(End { signal: 0, .. }) => failed,
            Some(_) => killed,
        }
    }

    /// For how long it had GPUs that say whether they have work, in seconds: what [`Line::gpu_busy_seconds`] is a part of.
    pub fn gpu_watched_seconds(&self) -> f64 {
        let watched = self.gpus.iter().filter(|gpu| gpu.busy_seconds.is_some());
        watched.map(|gpu| gpu.seconds).sum()
    }

    /// Sums of what it used of its GPUs.
    pub(super) fn sum(&mut self) {
        let all = &self.gpus;
        let sum = |of: fn(&GpuUse) -> Option<f64>| all.iter().filter_map(of).reduce(|a, b| a + b);
        self.gpu_busy_seconds = sum(|g| g.busy_seconds);
        self.gpu_energy_joules = sum(|g| g.energy_joules);
        self.gpu_seconds = all.iter().map(|g| g.seconds).sum();
        let mut throttled = BTreeMap::new();
        for (reason, seconds) in all.iter().flat_map(|g| &g.throttle_seconds) {
            *throttled.entry(reason.clone()).or_default() += seconds;
        }
        self.gpu_throttle_seconds = throttled;
    }

    /// What it uses of this GPU.
    pub(super) fn gpu(&mut self, gpu: &str, instance: &str) -> Option<&mut GpuUse> {
        let is_it = |g: &GpuUse| g.gpu == gpu && g.gpu_instance == instance;
        if !self.gpus.iter().any(is_it) {
            self.gpus.push(GpuUse {
                gpu: gpu.to_owned(),
                gpu_instance: instance.to_owned(),
                ..GpuUse::default()
            });
        }
        self.gpus.iter_mut().find(|g| is_it(g))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            r#"{"job":"7","began":1.5,"gpus":[],"gpu_seconds":0.0,"shared":false,"readings":0}"#
        );
        let later = text.replace("{\"job\"", "{\"later\":[1],\"job\"");
        assert_eq!(serde_json::from_str::<Line>(&later).unwrap(), line);
    }
}
