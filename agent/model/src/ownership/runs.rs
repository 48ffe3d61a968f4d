//! The run of a job that had a GPU at a moment: by Slurm's own device programs only, and only while those of every
//! job on the node are known.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use collectors::gpu::metrics as gpu;
use collectors::slurm::metrics::{JOB_INFO, JOB_START};
use serde::{Deserialize, Serialize};

use super::{Evidence, Gpus, Ownership, Timeline};
use crate::readings::{Readings, Sample};

/// The resolution of a job's start.
const ROUGH: Duration = Duration::from_secs(2);
/// After a longer gap the owners are unknown.
const BLIND: Duration = Duration::from_secs(120);
/// Limit of the age of an empty list of jobs.
const FRESH: Duration = Duration::from_secs(5);
/// Ended runs are kept for this time.
const KEPT: Duration = Duration::from_secs(3600);
/// Limit of kept runs.
const MOST: usize = 512;
/// Two starts of one job no further apart are of one run (seconds).
const SAME: u64 = 5;

/// One run of a job on this node. A requeued job runs again with its old number.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Run {
    /// The job's number.
    pub job: String,
    /// Its start, as a Unix time in seconds.
    pub start: i64,
    /// The name of its cgroup, unique in this boot.
    pub cgroup: String,
}

impl Run {
    /// Whether both are one run: a restart may get its start from another source.
    pub fn is(&self, other: &Self) -> bool {
        self.job == other.job && (self.cgroup == other.cgroup || self.start.abs_diff(other.start) <= SAME)
    }
}

/// A run's part of a GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllocatedGpu {
    /// The `gpu_instance` labels of its parts; one empty label for the whole.
    pub instances: Vec<String>,
    /// Whether it was seen to use the whole GPU, unshared.
    pub used: bool,
}

/// A run, its user and its GPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allocation {
    /// The run.
    pub run: Run,
    /// The job's user as shown; empty if unknown or hidden.
    pub user: String,
    /// The submitted number: that of the array or of the heterogeneous job, if it is part of one.
    pub submission: String,
    /// By `gpu` label.
    pub gpus: BTreeMap<String, AllocatedGpu>,
}

/// The runs that had GPUs of the node at one moment.
#[derive(Clone, Debug, Default)]
pub struct Allocations {
    /// The time of the moment, since boot.
    pub at: Duration,
    /// Each with the earliest time of its start, since boot.
    pub all: Vec<(Duration, Allocation)>,
}

impl Allocations {
    /// The allocations in a snapshot. `None`: the devices or the start of some job are unknown.
    pub fn of(readings: &Readings, now: &Ownership, wall: i64) -> Option<Self> {
        let Ownership { jobs, owners } = now;
        if !jobs.all_known() {
            return None;
        }
        let slurm = readings.collector("slurm")?;
        let first = slurm.devices.iter().map(|d| d.at).min();
        // A run that is not among the readings did not exist at the time of the first one.
        let at = first.unwrap_or(readings.at.saturating_sub(FRESH));
        let mut runs: BTreeMap<String, Allocation> = BTreeMap::new();
        for sample in slurm.samples(readings.at).filter(|s| s.metric == &JOB_INFO) {
            let allocation = allocation(&sample)?;
            runs.insert(allocation.run.job.clone(), allocation);
        }
        for sample in slurm.samples(readings.at).filter(|s| s.metric == &JOB_START) {
            if let Some(allocation) = sample.label("jobid").and_then(|job| runs.get_mut(job)) {
                allocation.run.start = seconds(sample.as_f64())?;
            }
        }
        if runs.is_empty() && owners.is_empty() {
            return Some(Self { at, all: Vec::new() });
        }
        let is_use =
            |s: &Sample<'_>| [&gpu::PROCESSES, &gpu::UTILIZATION].contains(&s.metric) && s.as_f64() > 0.0;
        let of_gpus = readings.samples_of_gpus().map(|(_, sample)| sample);
        let used: BTreeSet<&str> = of_gpus.filter(is_use).filter_map(|s| s.label("gpu")).collect();
        for owner in owners.iter().filter(|o| o.evidence == Evidence::DeviceProgram) {
            let gpus = &mut runs.get_mut(&owner.job)?.gpus;
            let gpu = gpus.entry(owner.gpu.clone()).or_default();
            gpu.instances.push(owner.gpu_instance.clone());
            let is_alone = owner.gpu_instance.is_empty() && owner.share >= 1.0;
            gpu.used = is_alone && used.contains(owner.gpu.as_str());
        }
        let gpus = Gpus::of(readings);
        let mut all = Vec::new();
        for (job, allocation) in runs {
            let devices = jobs.devices.get(&job).into_iter().flatten();
            let named: BTreeSet<Option<&str>> = devices.filter_map(|name| gpus.whole(name)).collect();
            // A run keeps a GPU that no driver reports now.
            let found = allocation.gpus.keys().map(|gpu| Some(gpu.as_str()));
            let is_whole = named.iter().copied().eq(found) && allocation.run.start > 0;
            if named.is_empty() {
                continue;
            }
            if !is_whole {
                return None;
            }
            let age = u64::try_from(wall.saturating_sub(allocation.run.start)).unwrap_or(0);
            let began = readings.at.saturating_sub(Duration::from_secs(age) + ROUGH);
            all.push((began, allocation));
        }
        Some(Self { at, all })
    }
}

fn allocation(info: &Sample<'_>) -> Option<Allocation> {
    let label = |name: &str| info.label(name).unwrap_or_default();
    let job = info.label("jobid")?;
    let parts = [label("array_job"), label("het_job"), job];
    Some(Allocation {
        run: Run {
            job: job.to_owned(),
            start: 0,
            cgroup: info.subject.name.clone(),
        },
        user: label("user").to_owned(),
        submission: parts.into_iter().find(|number| !number.is_empty())?.to_owned(),
        gpus: BTreeMap::new(),
    })
}

/// A time as whole seconds, if it is plausible.
#[expect(clippy::cast_possible_truncation, reason = "in range, checked")]
fn seconds(time: f64) -> Option<i64> {
    (1.0..1e11).contains(&time).then_some(time as i64)
}

/// The run to which a GPU was allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attribution<'a> {
    /// This run had it or a part of it, and no other run did.
    One(&'a Allocation),
    /// Unknown: no run, or one of several.
    Unknown,
    /// Known after the next look.
    Pending,
}

/// The period in which a run had its GPUs.
#[derive(Clone, Debug)]
pub(super) struct Span {
    allocation: Allocation,
    /// It had no GPU before.
    from: Duration,
    /// It had no GPU afterwards. `None`: it still has them.
    until: Option<Duration>,
}

/// Recent runs. They are not stored: runs during a stop of the daemon are unknown.
impl Timeline {
    /// Takes the runs of a reading that shows all of them.
    pub fn allocated(&mut self, Allocations { at, all }: Allocations) {
        if self.complete_until.is_some_and(|last| at < last) {
            return;
        }
        if self
            .complete_until
            .is_none_or(|last| at.saturating_sub(last) > BLIND)
        {
            self.complete_since = Some(at);
        }
        let before = self.complete_until.replace(at).unwrap_or_default();
        for known in self.runs.values_mut() {
            let cgroup = &known.allocation.run.cgroup;
            if known.until.is_none() && !all.iter().any(|(_, a)| a.run.cgroup == *cgroup) {
                known.until = Some(at);
            }
        }
        for (began, mut allocation) in all {
            let from = before.max(began).min(at);
            match self.runs.get_mut(&allocation.run.cgroup) {
                // A reading from before it left.
                Some(known) if known.until.is_some_and(|until| at <= until) => {}
                Some(known) => {
                    for (gpu, held) in &mut allocation.gpus {
                        held.used |= known.allocation.gpus.get(gpu).is_some_and(|h| h.used);
                    }
                    allocation.run = known.allocation.run.clone();
                    (known.allocation, known.until) = (allocation, None);
                }
                None => {
                    let cgroup = allocation.run.cgroup.clone();
                    let span = Span {
                        allocation,
                        from,
                        until: None,
                    };
                    self.runs.insert(cgroup, span);
                }
            }
        }
        self.forget(at);
    }

    pub(super) fn run_left(&mut self, job: &str, at: Duration) {
        let its = self.runs.values_mut().filter(|k| k.allocation.run.job == job);
        for known in its {
            known.until.get_or_insert(at);
        }
    }

    /// The run that had a GPU, or the numbered instance of it, at some moment from `from` to `to`.
    pub fn whose(&self, gpu: &str, instance: Option<u32>, from: Duration, to: Duration) -> Attribution<'_> {
        if self.complete_since.is_some_and(|since| from < since) {
            return Attribution::Unknown;
        }
        if self.complete_until.is_none_or(|last| last < to) {
            return Attribution::Pending;
        }
        let was_there = |k: &&Span| k.from <= to && k.until.is_none_or(|until| until >= from);
        let has = |k: &&Span| k.allocation.gpus.get(gpu).is_some_and(|held| held.has(instance));
        let mut theirs = self.runs.values().filter(was_there).filter(has);
        match (theirs.next(), theirs.next()) {
            (Some(known), None) => Attribution::One(&known.allocation),
            _ => Attribution::Unknown,
        }
    }

    fn forget(&mut self, now: Duration) {
        let mut since = self.complete_since;
        let lately = |k: &Span| k.until.is_none_or(|until| now.saturating_sub(until) <= KEPT);
        let mut go = |known: &Span| since = since.max(known.until);
        self.runs.retain(|_, known| {
            let stays = lately(known);
            if !stays {
                go(known);
            }
            stays
        });
        while self.runs.len() > MOST {
            let ended = self.runs.iter();
            let ended = ended.filter_map(|(name, k)| Some((k.until?, name.clone())));
            let Some((_, oldest)) = ended.min() else { break };
            if let Some(known) = self.runs.remove(&oldest) {
                go(&known);
            }
        }
        self.complete_since = since;
    }
}

impl AllocatedGpu {
    fn has(&self, instance: Option<u32>) -> bool {
        let is_it = |label: &String| match (label.split_once('/'), instance) {
            // One of both parts is unknown.
            (None, _) | (_, None) => true,
            (Some((own, _)), Some(instance)) => own.parse() == Ok(instance),
        };
        self.instances.iter().any(is_it)
    }
}

#[cfg(test)]
mod tests;
