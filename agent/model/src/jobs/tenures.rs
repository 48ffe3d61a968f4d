//! Whose each GPU is, and since when: kept while a GPU or a job cannot be read for a moment.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::counters::Counters;
use super::meters::BLIND;
use super::sight::Sight;
use crate::derive::jobs::device;
use crate::derive::owners::Owner;

/// The owners of one GPU.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Tenure {
    pub(super) owners: Vec<Owner>,
    /// When they were first seen to be these, as time since boot.
    pub(super) since: Duration,
    /// When the GPU was read last, likewise.
    read: Duration,
    /// The number of its device file.
    minor: String,
}

/// Owners by GPU.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Tenures(BTreeMap<String, Tenure>);

impl Tenures {
    pub(super) fn iter(&self) -> impl Iterator<Item = (&String, &Tenure)> {
        self.0.iter()
    }

    pub(super) fn owners(&self) -> impl Iterator<Item = &Owner> {
        self.0.values().flat_map(|tenure| &tenure.owners)
    }

    /// Whether a job has a GPU, or a part of it.
    pub(super) fn has(&self, gpu: &str, job: &str) -> bool {
        let tenure = self.0.get(gpu);
        tenure.is_some_and(|tenure| tenure.owners.iter().any(|owner| owner.job == job))
    }

    /// A job has none any more.
    pub(super) fn leave(&mut self, job: &str) {
        for tenure in self.0.values_mut() {
            tenure.owners.retain(|owner| owner.job != job);
        }
    }

    /// Takes over who was `found`. Who had a GPU has it still where it, or the job's cgroup, is late.
    pub(super) fn settle(
        &mut self,
        found: impl IntoIterator<Item = Owner>,
        (sight, counters, at): (&Sight<'_>, &Counters, Duration),
        is_late: impl Fn(&str) -> bool,
    ) {
        let mut next: BTreeMap<String, Vec<Owner>> = BTreeMap::new();
        for owner in found {
            next.entry(owner.gpu.clone()).or_default().push(owner);
        }
        for (gpu, tenure) in &self.0 {
            let is_read = counters.gpus.contains_key(gpu);
            if !is_read && (at.saturating_sub(tenure.read) > BLIND || tenure.is_named_by_others(gpu, sight)) {
                continue;
            }
            for owner in &tenure.owners {
                let is_kept = sight.is_there(&owner.job) && !is_read || is_late(&owner.job);
                let owners = next.entry(gpu.clone()).or_default();
                if is_kept && !owners.iter().any(|o| place(o) == place(owner)) {
                    owners.push(owner.clone());
                }
            }
        }
        let known = std::mem::take(&mut self.0);
        self.0 = next
            .into_iter()
            .filter(|(_, owners)| !owners.is_empty())
            .map(|(gpu, owners)| {
                let tenure = Tenure::of(known.get(&gpu), owners, counters.gpus.get(&gpu), at);
                (gpu, tenure)
            })
            .collect();
    }
}

impl Tenure {
    fn of(known: Option<&Self>, mut owners: Vec<Owner>, minor: Option<&String>, at: Duration) -> Self {
        owners.sort_by(|a, b| place(a).cmp(&place(b)));
        let mut many: BTreeMap<String, f64> = BTreeMap::new();
        for owner in &owners {
            *many.entry(owner.gpu_instance.clone()).or_default() += 1.0;
        }
        for owner in &mut owners {
            owner.share = many.get(&owner.gpu_instance).map_or(1.0, |n| 1.0 / n);
        }
        let same = known.filter(|known| known.owners.iter().map(place).eq(owners.iter().map(place)));
        let read = known.filter(|_| minor.is_none()).map(|known| known.read);
        Self {
            since: same.map_or(at, |known| known.since),
            read: read.unwrap_or(at),
            minor: minor
                .or_else(|| known.map(|known| &known.minor))
                .cloned()
                .unwrap_or_default(),
            owners,
        }
    }

    /// Whether a job that is none of its owners was given it: whose it is has changed, though it is not read.
    fn is_named_by_others(&self, gpu: &str, sight: &Sight<'_>) -> bool {
        let is_it = |name: &str| name == gpu || device(name).is_some_and(|(minor, _)| minor == self.minor);
        let is_other = |job: &str| self.owners.iter().all(|owner| owner.job != job);
        sight
            .devices()
            .any(|(job, device)| is_it(device) && is_other(job))
    }
}

/// What of a GPU is whose.
fn place(owner: &Owner) -> (&str, &str) {
    (&owner.gpu_instance, &owner.job)
}
