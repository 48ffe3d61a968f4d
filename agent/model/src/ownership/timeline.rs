//! Owners of GPUs over time.
//!
//! There are two, since they have different inputs. The health engine's depends on the engine's inputs only, so that
//! a replay decides the same. That of the ledger of jobs is stored, and keeps owners while a reading is late.

use std::collections::BTreeMap;
use std::time::Duration;

use collectors::Subject;
use serde::{Deserialize, Serialize};

use super::jobs::device;
use super::runs::{Allocations, Span};
use super::{Owner, Ownership, jobs_on, share};
use crate::readings::Readings;

/// The time of an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum When {
    /// At this time of the wall clock, in seconds since the epoch.
    At(i64),
    /// At some time between the last health tick and this one.
    SinceTick,
    /// Before the first reading.
    #[default]
    Long,
}

/// The owners of one GPU.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Tenure {
    pub(crate) owners: Vec<Owner>,
    /// When these owners were first seen, as time since boot.
    pub(crate) since: Duration,
    /// When the GPU was last read, as time since boot.
    pub(crate) read: Duration,
    /// The names of its device files, and the UUIDs of its instances.
    #[serde(default)]
    files: Vec<String>,
}

/// Owners of GPUs over time.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timeline {
    gpus: BTreeMap<String, Tenure>,
    /// Number of readings.
    #[serde(skip)]
    readings: u64,
    /// The reading of the last health tick.
    #[serde(skip)]
    ticked: Option<u64>,
    /// The first of the consecutive readings that show a GPU, an instance and a job, and its wall clock in seconds.
    #[serde(skip)]
    seen: BTreeMap<[String; 3], (u64, i64)>,
    /// Recent runs that had GPUs, by cgroup: see [`super::runs`].
    #[serde(skip)]
    pub(super) runs: BTreeMap<String, Span>,
    /// When the complete period began.
    #[serde(skip)]
    pub(super) complete_since: Option<Duration>,
    /// The last reading that showed every run.
    #[serde(skip)]
    pub(super) complete_until: Option<Duration>,
}

impl Timeline {
    /// Takes a reading, made at `wall` seconds since the epoch.
    pub fn look(&mut self, readings: &Readings, now: &Ownership, wall: i64) {
        if let Some(allocations) = Allocations::of(readings, now, wall) {
            self.allocated(allocations);
        }
        self.see(now.owners.iter().cloned(), readings.at, wall);
    }

    fn see(&mut self, owners: impl Iterator<Item = Owner>, at: Duration, wall: i64) {
        self.settle(owners, &BTreeMap::new(), at, |_, _, _| false);
        self.readings += 1;
        let first = (self.readings, wall);
        let seen = self.owners().map(|owner| {
            let key = key(owner);
            let since = self.seen.get(&key).copied();
            (key, since.unwrap_or(first))
        });
        self.seen = seen.collect();
    }

    /// The findings of a health tick are complete.
    pub fn ticked(&mut self) {
        self.ticked = Some(self.readings);
    }

    /// A job has left, as time since boot.
    pub fn left(&mut self, job: &str, at: Duration) {
        self.leave(job);
        self.run_left(job, at);
    }

    /// The jobs that had a device, as far as that is certain: jobs come and go between two readings.
    pub fn on(&self, subject: &Subject, when: When) -> Vec<String> {
        let was_there = |owner: &&Owner| {
            let seen = self.seen.get(&key(owner));
            seen.is_some_and(|(reading, wall)| match when {
                // An event that is read late may precede them.
                When::At(at) => *wall <= at,
                When::SinceTick => self.ticked.is_none_or(|tick| *reading <= tick),
                When::Long => false,
            })
        };
        jobs_on(self.owners().filter(was_there), subject)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&String, &Tenure)> {
        self.gpus.iter()
    }

    /// The owners of a GPU.
    pub(crate) fn of(&self, gpu: &str) -> Option<&Tenure> {
        self.gpus.get(gpu)
    }

    pub(crate) fn owners(&self) -> impl Iterator<Item = &Owner> {
        self.gpus.values().flat_map(|tenure| &tenure.owners)
    }

    /// Whether a job has a GPU, or a part of it.
    pub(crate) fn has(&self, gpu: &str, job: &str) -> bool {
        let tenure = self.gpus.get(gpu);
        tenure.is_some_and(|tenure| tenure.owners.iter().any(|owner| owner.job == job))
    }

    /// A job has no GPUs any more.
    pub(crate) fn leave(&mut self, job: &str) {
        for tenure in self.gpus.values_mut() {
            tenure.owners.retain(|owner| owner.job != job);
        }
    }

    /// Takes the owners that were `found`, and the earlier ones that `stays` keeps. `read`: the GPUs that were read,
    /// and their device files.
    pub(crate) fn settle(
        &mut self,
        found: impl Iterator<Item = Owner>,
        read: &BTreeMap<String, Vec<String>>,
        at: Duration,
        stays: impl Fn(&str, &Tenure, &Owner) -> bool,
    ) {
        let mut next: BTreeMap<String, Vec<Owner>> = BTreeMap::new();
        for owner in found {
            next.entry(owner.gpu.clone()).or_default().push(owner);
        }
        let known = std::mem::take(&mut self.gpus);
        for (gpu, tenure) in &known {
            for owner in tenure.owners.iter().filter(|owner| stays(gpu, tenure, owner)) {
                let owners = next.entry(gpu.clone()).or_default();
                if !owners.iter().any(|o| place(o) == place(owner)) {
                    owners.push(owner.clone());
                }
            }
        }
        let tenure = |(gpu, owners): (String, _)| {
            let tenure = Tenure::of(known.get(&gpu), owners, read.get(&gpu), at);
            (gpu, tenure)
        };
        self.gpus = next.into_iter().map(tenure).collect();
    }
}

impl Tenure {
    fn of(known: Option<&Self>, mut owners: Vec<Owner>, files: Option<&Vec<String>>, at: Duration) -> Self {
        owners.sort_by(|a, b| place(a).cmp(&place(b)));
        share(&mut owners);
        let same = known.filter(|known| known.owners.iter().map(place).eq(owners.iter().map(place)));
        let read = known.filter(|_| files.is_none()).map(|known| known.read);
        Self {
            since: same.map_or(at, |known| known.since),
            read: read.unwrap_or(at),
            files: files
                .or_else(|| known.map(|known| &known.files))
                .cloned()
                .unwrap_or_default(),
            owners,
        }
    }

    /// Whether another GPU has the same owners, in the same shares.
    pub(crate) fn has_owners_of(&self, other: &Self) -> bool {
        shares(&self.owners).eq(shares(&other.owners))
    }

    /// Whether one of these jobs, with their devices, has the GPU and is no owner: it has changed hands without a
    /// reading.
    pub(crate) fn is_anothers<'a>(
        &self,
        gpu: &str,
        mut devices: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> bool {
        let has = |name: &str| self.files.iter().any(|own| own == name);
        let is_it = |name: &str| name == gpu || has(name) || device(name).is_some_and(|(file, ..)| has(file));
        let is_other = |job: &str| self.owners.iter().all(|owner| owner.job != job);
        devices.any(|(job, device)| is_it(device) && is_other(job))
    }
}

/// The part of its GPU that each job has, and its share.
fn shares(owners: &[Owner]) -> impl Iterator<Item = ((&str, &str), f64)> {
    owners.iter().map(|owner| (place(owner), owner.share))
}

fn key(owner: &Owner) -> [String; 3] {
    [&owner.gpu, &owner.gpu_instance, &owner.job].map(String::clone)
}

/// The part of its GPU that a job has.
fn place(owner: &Owner) -> (&str, &str) {
    (&owner.gpu_instance, &owner.job)
}

#[cfg(test)]
mod tests;
