//! Xids by job run: which runs a GPU made fail, and whether only that GPU did.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use collectors::PciAddress;
use serde::{Deserialize, Serialize};

use model::derive::xid::{Inventory, gpu_label};
use model::ownership::Timeline;
use model::ownership::runs::{Allocation, Attribution, Run};

/// Older Xids are dropped (milliseconds).
const WINDOW_MS: u64 = 24 * 3600 * 1000;
/// Xids within this time are one occasion: a failing program causes many (milliseconds).
const OCCASION_MS: u64 = 60 * 1000;
/// The most occasions of each code, the latest.
const MAX_OCCASIONS: usize = 8;
/// The most codes of each GPU of a run.
const MAX_CODES: usize = 16;
/// The most runs.
const MAX_RUNS: usize = 128;
/// The most Xids that wait for the next reading of jobs.
const MAX_WAITING: usize = 256;
/// The longest such wait.
const PATIENCE: Duration = Duration::from_secs(600);

/// An Xid whose run is not known yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hit {
    pub pci: PciAddress,
    pub code: u32,
    /// The number of its GPU instance, if it names one.
    pub instance: Option<u32>,
    /// Its earliest time since boot,
    pub from: Duration,
    /// and its latest.
    pub to: Duration,
    /// The number of occurrences.
    pub count: u64,
}

/// One code on one GPU of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Times {
    /// The number of occurrences.
    pub count: u64,
    /// The start of each occasion, in milliseconds since boot, oldest first.
    pub occasions: Vec<u64>,
    /// The last time.
    last: u64,
}

/// One GPU of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Part {
    /// Whether the run used it in any reading.
    pub used: bool,
    /// Its Xids, by code.
    pub codes: BTreeMap<u32, Times>,
}

/// A run with Xids.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Victim {
    /// The run.
    pub run: Run,
    /// The job's user as shown, or empty.
    pub user: String,
    /// The id of the submission.
    pub submission: String,
    /// Its GPUs on this node, by `gpu` label.
    pub gpus: BTreeMap<String, Part>,
}

impl Victim {
    fn of(allocation: &Allocation) -> Self {
        Self {
            run: allocation.run.clone(),
            user: allocation.user.clone(),
            submission: allocation.submission.clone(),
            gpus: BTreeMap::new(),
        }
    }

    /// The author of its program: runs of one user may run the same program.
    pub(super) fn author(&self) -> (&str, &str) {
        match self.user.as_str() {
            "" => ("", &self.submission),
            user => (user, ""),
        }
    }

    fn last(&self) -> u64 {
        let codes = self.gpus.values().flat_map(|part| part.codes.values());
        codes.map(|times| times.last).max().unwrap_or(0)
    }
}

/// The Xids of each run within 24 h, of this boot.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Hits {
    runs: Vec<Victim>,
    #[serde(skip)]
    waiting: Vec<Hit>,
}

impl Hits {
    /// Takes an Xid.
    pub(super) fn came(&mut self, hit: Hit) {
        if self.waiting.len() < MAX_WAITING {
            self.waiting.push(hit);
        }
    }

    /// Attributes waiting Xids after a reading of jobs. Returns whether anything to store changed.
    pub(super) fn looked(&mut self, timeline: &Timeline, inventory: &Inventory, now: Duration) -> bool {
        let mut more = false;
        for hit in std::mem::take(&mut self.waiting) {
            let gpu = gpu_label(inventory, &hit.pci);
            match timeline.whose(&gpu, hit.instance, hit.from, hit.to) {
                Attribution::One(allocation) => {
                    self.add(allocation, &gpu, &hit);
                    more = true;
                }
                Attribution::Pending if now.saturating_sub(hit.to) <= PATIENCE => self.waiting.push(hit),
                Attribution::Pending | Attribution::Unknown => {}
            }
        }
        more
    }

    fn add(&mut self, allocation: &Allocation, gpu: &str, hit: &Hit) {
        let known = self.runs.iter().position(|v| v.run.is(&allocation.run));
        let mut victim = known.map_or_else(|| Victim::of(allocation), |at| self.runs.remove(at));
        for (label, held) in &allocation.gpus {
            victim.gpus.entry(label.clone()).or_default().used |= held.used;
        }
        let part = victim.gpus.entry(gpu.to_owned()).or_default();
        if part.codes.len() < MAX_CODES || part.codes.contains_key(&hit.code) {
            let at = u64::try_from(hit.to.as_millis()).unwrap_or(u64::MAX);
            part.codes.entry(hit.code).or_default().add(at, hit.count);
        }
        self.runs.push(victim);
        // The run with the latest Xid comes last.
        let surplus = self.runs.len().saturating_sub(MAX_RUNS);
        self.runs.drain(..surplus);
    }

    /// Drops Xids older than 24 h.
    pub(super) fn age(&mut self, now_ms: u64) {
        let is_recent = |at: u64| now_ms.saturating_sub(at) <= WINDOW_MS;
        self.runs.retain(|v| is_recent(v.last()));
        for part in self.runs.iter_mut().flat_map(|v| v.gpus.values_mut()) {
            part.codes.retain(|_, times| is_recent(times.last));
            for times in part.codes.values_mut() {
                times.occasions.retain(|at| is_recent(*at));
            }
        }
    }

    /// The runs with Xids, by the time of their last Xid.
    pub(super) fn runs(&self) -> &[Victim] {
        &self.runs
    }

    /// Drops the Xids of a GPU up to this time. Returns whether there were any.
    pub(super) fn forget(&mut self, gpu: &str, until_ms: u64) -> bool {
        let mut any = false;
        for part in self.runs.iter_mut().filter_map(|v| v.gpus.get_mut(gpu)) {
            let before = part.codes.len();
            part.codes.retain(|_, times| times.last > until_ms);
            any |= part.codes.len() != before;
        }
        self.runs
            .retain(|v| v.gpus.values().any(|part| !part.codes.is_empty()));
        any
    }

    /// Drops all after a reboot: times since boot are void, and every GPU was reset.
    pub(super) fn rebooted(&mut self) {
        *self = Self::default();
    }
}

impl Times {
    fn add(&mut self, at: u64, count: u64) {
        self.count = self.count.saturating_add(count);
        if self.occasions.is_empty() || at.saturating_sub(self.last) >= OCCASION_MS {
            self.occasions.push(at);
            let surplus = self.occasions.len().saturating_sub(MAX_OCCASIONS);
            self.occasions.drain(..surplus);
        }
        self.last = self.last.max(at);
    }
}

/// The evidence against a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Suspicion<'a> {
    /// The runs that implicate it.
    pub runs: Vec<&'a Victim>,
    /// The only evidence is jobs of several users, few of which used another GPU for comparison.
    pub by_users: bool,
}

/// Users whose jobs failed that are enough if one job used another GPU for comparison;
const USERS: usize = 2;
/// and if none did. Jobs with one GPU often all run on the first, and so do all failing programs.
const USERS_ALONE: usize = 3;
/// Runs of one job that are enough.
const RUNS: usize = 2;
/// Occasions within one run that are enough.
const OCCASIONS: usize = 3;

/// The evidence against a GPU. `is_app` classifies a code: application error, hardware error (`Some(false)`), or
/// neither.
pub(super) fn suspicion<'a>(
    hits: &'a [Victim],
    gpu: &str,
    is_app: impl Fn(u32) -> Option<bool>,
) -> Option<Suspicion<'a>> {
    let has = |part: &Part, class: bool| part.codes.keys().any(|code| is_app(*code) == Some(class));
    let is_hit = |v: &Victim, gpu: &str| v.gpus.get(gpu).is_some_and(|part| has(part, true));
    // A program that also fails on other GPUs does not implicate this one.
    let elsewhere: BTreeSet<_> = hits
        .iter()
        .filter(|v| v.gpus.iter().any(|(label, part)| label != gpu && has(part, true)))
        .map(Victim::author)
        .collect();
    // Errors that follow from a hardware fault are reported with that fault.
    let is_explained = |v: &Victim| v.gpus.values().any(|part| has(part, false));
    let runs: Vec<&Victim> = hits
        .iter()
        .filter(|v| is_hit(v, gpu) && !elsewhere.contains(&v.author()) && !is_explained(v))
        .collect();
    let users: BTreeSet<&str> = runs
        .iter()
        .map(|v| v.user.as_str())
        .filter(|u| !u.is_empty())
        .collect();
    let beside = |v: &Victim| v.gpus.iter().any(|(label, part)| label != gpu && part.used);
    let compared: Vec<&Victim> = runs.iter().copied().filter(|v| beside(v)).collect();
    let again = |v: &&Victim| {
        let part = v.gpus.get(gpu).into_iter();
        let mut codes = part
            .flat_map(|part| &part.codes)
            .filter(|(code, _)| is_app(**code) == Some(true));
        let comes_again = codes.any(|(_, times)| times.occasions.len() >= OCCASIONS);
        comes_again || compared.iter().filter(|other| other.run.job == v.run.job).count() >= RUNS
    };
    // Several jobs of one user do not suffice: they may run one program, and Slurm's prologs do not know the tasks of an array.
    let by_comparison = compared.iter().any(again);
    let enough = if compared.is_empty() { USERS_ALONE } else { USERS };
    (by_comparison || users.len() >= enough).then_some(Suspicion {
        runs,
        by_users: !by_comparison,
    })
}

#[cfg(test)]
mod tests;
