//! What each job has used of this node, from its first reading to its last: one line when it has ended.
//!
//! Pure: it is given snapshots and keeps sums. What a GPU's counters moved by between two snapshots is its owners' of the
//! first of them, each its share.

use std::collections::BTreeMap;

use collectors::Metric;
use collectors::gpu::metrics as gpu;
use collectors::slurm::metrics::{JOB_CPU, JOB_INFO, JOB_MEMORY_PEAK, JOB_OOM_KILLS, JOB_START};
use serde::{Deserialize, Serialize};

use super::derive::owners::{Owner, owners};
use super::snapshot::{Presence, Snapshot};

/// More jobs than these at once are not told apart.
const MOST: usize = 4096;

/// A job that has ended on this node. What was never read is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// Its number.
    pub job: String,
    /// Its user, as the configuration has users shown; empty where it is not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub user: String,
    /// Its account, likewise.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub account: String,
    /// Its partition, likewise.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub partition: String,
    /// When it began on this node, as a Unix time: as Slurm or its processes say, else when it was seen first.
    pub began: f64,
    /// When it was seen to be gone.
    pub ended: f64,
    /// Its GPUs, and instances as `GPU-.../1/0`.
    pub gpus: Vec<String>,
    /// What says whose they are, of the weakest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<String>,
    /// For how long it had them, in seconds: two GPUs for a second are two, half of one is half.
    pub gpu_seconds: f64,
    /// For how long of that they had work. Of whole GPUs alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_busy_seconds: Option<f64>,
    /// What they have used, in joules. Of whole GPUs alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_energy_joules: Option<f64>,
    /// Processor time, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_seconds: Option<f64>,
    /// The most memory of the node that it had, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_peak_bytes: Option<f64>,
    /// Processes that were killed for want of memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oom_kills: Option<f64>,
    /// How many readings there were: of a job of few the sums are rough.
    pub readings: u64,
}

/// The jobs that run now, with what they have used so far.
#[derive(Debug, Default)]
pub struct Book {
    running: BTreeMap<String, Line>,
    /// Of the last snapshot: when it was taken, whose GPUs were whose, and their counters.
    last: Option<Last>,
}

#[derive(Debug)]
struct Last {
    wall: f64,
    owners: Vec<Owner>,
    energy: BTreeMap<String, f64>,
    busy: BTreeMap<String, f64>,
}

impl Book {
    /// Takes a snapshot, and gives the jobs that have ended since the last, in order of their numbers.
    pub fn take(&mut self, snapshot: &Snapshot, wall: f64) -> Vec<Line> {
        let Some(collector) = snapshot
            .collector("slurm")
            .filter(|c| c.presence == Presence::Open)
        else {
            // Nobody looks: nothing has ended, and what GPUs do meanwhile is still their last owners'.
            return Vec::new();
        };
        self.attribute(snapshot, wall);
        let late = collector
            .devices
            .iter()
            .any(|d| d.late.is_some() || d.error.is_some());
        let mut seen = Vec::new();
        for sample in collector.samples(snapshot.at) {
            let Some(job) = sample.label("jobid") else {
                continue;
            };
            if sample.metric == &JOB_INFO && (self.running.contains_key(job) || self.running.len() < MOST) {
                seen.push(job.to_owned());
                let line = self.running.entry(job.to_owned()).or_insert_with(|| Line {
                    job: job.to_owned(),
                    began: wall,
                    ..Line::default()
                });
                line.readings += 1;
                for (to, name) in [
                    (&mut line.user, "user"),
                    (&mut line.account, "account"),
                    (&mut line.partition, "partition"),
                ] {
                    if let Some(told) = sample.label(name).filter(|told| !told.is_empty()) {
                        told.clone_into(to);
                    }
                }
            }
        }
        for sample in collector.samples(snapshot.at) {
            let line = sample.label("jobid").and_then(|job| self.running.get_mut(job));
            let Some(line) = line else { continue };
            let value = Some(sample.as_f64());
            match sample.metric {
                m if m == &JOB_START => line.began = sample.as_f64(),
                m if m == &JOB_CPU => line.cpu_seconds = value,
                m if m == &JOB_MEMORY_PEAK => line.memory_peak_bytes = value,
                m if m == &JOB_OOM_KILLS => line.oom_kills = value,
                _ => {}
            }
        }
        self.name_gpus();
        if late {
            // A job whose reading has not come back has not ended.
            return Vec::new();
        }
        let ended: Vec<String> = self
            .running
            .keys()
            .filter(|job| !seen.contains(job))
            .cloned()
            .collect();
        let mut lines: Vec<Line> = ended.iter().filter_map(|job| self.running.remove(job)).collect();
        for line in &mut lines {
            line.ended = wall;
        }
        lines
    }

    /// Gives what moved since the last snapshot to those who had the GPUs then.
    fn attribute(&mut self, snapshot: &Snapshot, wall: f64) {
        let energy = by_gpu(snapshot, &gpu::ENERGY);
        let busy = by_gpu(snapshot, &gpu::UTILIZATION);
        let now = owners(snapshot);
        if let Some(last) = &self.last {
            let seconds = (wall - last.wall).max(0.0);
            for owner in &last.owners {
                let Some(line) = self.running.get_mut(&owner.job) else {
                    continue;
                };
                line.gpu_seconds += seconds * owner.share;
                if !owner.gpu_instance.is_empty() {
                    continue;
                }
                // A counter that went down began anew.
                let moved = last.energy.get(&owner.gpu).zip(energy.get(&owner.gpu));
                let moved = moved.map(|(from, to)| to - from).filter(|moved| *moved >= 0.0);
                add(
                    &mut line.gpu_energy_joules,
                    moved.map(|joules| joules * owner.share),
                );
                let load = last.busy.get(&owner.gpu).or_else(|| busy.get(&owner.gpu));
                add(
                    &mut line.gpu_busy_seconds,
                    load.map(|load| load * seconds * owner.share),
                );
            }
        }
        self.last = Some(Last {
            wall,
            owners: now,
            energy,
            busy,
        });
    }

    fn name_gpus(&mut self) {
        for owner in self.last.iter().flat_map(|last| &last.owners) {
            let Some(line) = self.running.get_mut(&owner.job) else {
                continue;
            };
            let name = match owner.gpu_instance.as_str() {
                "" => owner.gpu.clone(),
                instance => format!("{}/{instance}", owner.gpu),
            };
            if !line.gpus.contains(&name) {
                line.gpus.push(name);
            }
            // In the order of their words, the better one comes first.
            let word = owner.evidence.word();
            if line.evidence.as_deref().is_none_or(|known| known < word) {
                line.evidence = Some(word.to_owned());
            }
        }
    }
}

fn add(sum: &mut Option<f64>, more: Option<f64>) {
    if let Some(more) = more {
        *sum = Some(sum.unwrap_or_default() + more);
    }
}

/// The values of a metric of whole GPUs.
fn by_gpu(snapshot: &Snapshot, metric: &'static Metric) -> BTreeMap<String, f64> {
    let of = |sample: super::snapshot::Sample<'_>| {
        let whole = sample.label("gpu_instance").is_none_or(str::is_empty);
        whole.then(|| Some((sample.label("gpu")?.to_owned(), sample.as_f64())))?
    };
    let nvidia = snapshot.collector("nvidia").into_iter();
    let samples = nvidia.flat_map(|c| c.samples(snapshot.at));
    samples.filter(|s| s.metric == metric).filter_map(of).collect()
}

#[cfg(test)]
mod tests;
