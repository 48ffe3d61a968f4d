//! Xids by the run of the job that had the GPU: which jobs a GPU fails, and whether it alone does.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use collectors::PciAddress;
use serde::{Deserialize, Serialize};

use model::derive::xid::{Inventory, gpu_label};
use model::ownership::Timeline;
use model::ownership::runs::{Allocation, Attribution, Run};

/// Older ones are forgotten (milliseconds).
const WINDOW_MS: u64 = 24 * 3600 * 1000;
/// What comes again within this time is one occasion: a program that dies tells of it many times (milliseconds).
const OCCASION_MS: u64 = 60 * 1000;
/// Occasions that are kept of each code, the latest.
const MAX_OCCASIONS: usize = 8;
/// Codes that are kept of each GPU of a run.
const MAX_CODES: usize = 16;
/// Runs that are kept.
const MAX_RUNS: usize = 128;
/// Xids that wait for the next look at the jobs.
const MAX_WAITING: usize = 256;
/// How long they do.
const PATIENCE: Duration = Duration::from_secs(600);

/// An Xid of which it is not known yet whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hit {
    pub pci: PciAddress,
    pub code: u32,
    /// The number of the GPU instance that it is about, where it names one.
    pub instance: Option<u32>,
    /// It happened no earlier, as time since boot,
    pub from: Duration,
    /// and no later.
    pub to: Duration,
    /// How often.
    pub count: u64,
}

/// One code on one GPU of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Times {
    /// How often.
    pub count: u64,
    /// When each occasion began, in milliseconds since boot, oldest first.
    pub occasions: Vec<u64>,
    /// The last time.
    last: u64,
}

/// One GPU of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Part {
    /// Whether the run was seen to use it.
    pub used: bool,
    /// Its Xids, by code.
    pub codes: BTreeMap<u32, Times>,
}

/// A run that had Xids.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Victim {
    /// The run.
    pub run: Run,
    /// The job's user as it is shown, or empty.
    pub user: String,
    /// The number that was submitted.
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

    /// Whose program it was: the same user's may be the same one.
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

/// What each run was hit by within a day, of this boot.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Hits {
    runs: Vec<Victim>,
    #[serde(skip)]
    waiting: Vec<Hit>,
}

impl Hits {
    /// An Xid came.
    pub(super) fn came(&mut self, hit: Hit) {
        if self.waiting.len() < MAX_WAITING {
            self.waiting.push(hit);
        }
    }

    /// Somebody has looked at the jobs: gives to its run what came before. Says whether anything is kept that was not.
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
        // The one that was hit last is the last.
        let surplus = self.runs.len().saturating_sub(MAX_RUNS);
        self.runs.drain(..surplus);
    }

    /// Forgets what is a day old.
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

    /// The runs that were hit, by the time of their last Xid.
    pub(super) fn runs(&self) -> &[Victim] {
        &self.runs
    }

    /// What came to a GPU until then is over. Says whether there was any.
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

    /// Another boot: times since boot mean nothing any more, and every GPU was reset.
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

/// Why a GPU is under suspicion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Suspicion<'a> {
    /// The runs that speak against it.
    pub runs: Vec<&'a Victim>,
    /// It rests on jobs of several users alone, few of which had another GPU to compare with.
    pub by_users: bool,
}

/// Jobs of one user that must have failed on a GPU, with others of theirs beside it well: they may run one program.
const OF_ONE_USER: usize = 3;
/// Users whose jobs must have failed, where one of these had another GPU to compare with;
const USERS: usize = 2;
/// and where none had. Jobs of one GPU are often all on the first, and so are all programs that fail.
const USERS_ALONE: usize = 3;
/// Runs of one job.
const RUNS: usize = 2;
/// Occasions within one run.
const OCCASIONS: usize = 3;

/// What speaks against a GPU. `is_app` says of a code whether it is the program's fault by its class: `Some(false)` is a fault
/// of the hardware, `None` says nothing.
pub(super) fn suspicion<'a>(
    hits: &'a [Victim],
    gpu: &str,
    is_app: impl Fn(u32) -> Option<bool>,
) -> Option<Suspicion<'a>> {
    let has = |part: &Part, class: bool| part.codes.keys().any(|code| is_app(*code) == Some(class));
    let is_hit = |v: &Victim, gpu: &str| v.gpus.get(gpu).is_some_and(|part| has(part, true));
    // A program that fails elsewhere too says nothing about this GPU.
    let elsewhere: BTreeSet<_> = hits
        .iter()
        .filter(|v| v.gpus.iter().any(|(label, part)| label != gpu && has(part, true)))
        .map(Victim::author)
        .collect();
    // What follows from a fault of the hardware is told with that fault.
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
    let submissions: BTreeSet<&str> = compared.iter().map(|v| v.submission.as_str()).collect();
    let again = |v: &&Victim| {
        let part = v.gpus.get(gpu).into_iter();
        let mut codes = part
            .flat_map(|part| &part.codes)
            .filter(|(code, _)| is_app(**code) == Some(true));
        let comes_again = codes.any(|(_, times)| times.occasions.len() >= OCCASIONS);
        comes_again || compared.iter().filter(|other| other.run.job == v.run.job).count() >= RUNS
    };
    let by_comparison = submissions.len() >= OF_ONE_USER || compared.iter().any(again);
    let enough = if compared.is_empty() { USERS_ALONE } else { USERS };
    (by_comparison || users.len() >= enough).then_some(Suspicion {
        runs,
        by_users: !by_comparison,
    })
}

#[cfg(test)]
mod tests;
