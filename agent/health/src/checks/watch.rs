//! What a check does: one object for each check, with its own state. The engine calls all of them alike.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use collectors::{Event, Subject};
use model::derive::xid::Inventory;
use model::ownership::Timeline;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{CHECKS, Check};
use crate::Now;
use crate::condition::Judged;
use crate::counts::Times;
use crate::finding::{Clear, Finding, Need};
use crate::judge::Judge;
use crate::site::Site;

/// An event with its context. Events that were handled before are not delivered.
#[derive(Debug)]
pub struct Heard<'a> {
    /// The event.
    pub event: &'a Event,
    /// Occurrences that no other source has reported.
    pub new: u64,
    /// By its own time stamp it is too old to be news.
    pub stale: bool,
    /// It happened no earlier, as time since boot.
    pub from: Duration,
    /// The time.
    pub now: Now,
    /// What the site configured.
    pub site: &'a Site,
    /// Which GPU sits at which address.
    pub inventory: &'a Inventory,
}

impl Heard<'_> {
    /// How often it happened.
    pub fn count(&self) -> u64 {
        self.event.count.max(1)
    }

    /// Whether it says nothing about the present.
    pub fn is_old(&self) -> bool {
        self.event.history || self.stale
    }
}

/// A result of a check other than a condition.
#[derive(Debug)]
pub enum Said {
    /// A finding.
    Found(Finding),
    /// Further occurrences of a finding.
    Again(Finding),
    /// A finding from a time at which the job on the device is unknown.
    FoundOld(Finding),
    /// The driver reports that a GPU needs no action any more.
    Declared(Subject),
    /// A remedy was seen: it ends findings that list it, are older than `before` and need nothing beyond `met`.
    Remedied {
        /// The subject that was remedied.
        subject: Subject,
        /// The remedy.
        by: Clear,
        /// The time.
        before: Now,
        /// The needs that a reading shows to be met.
        met: Vec<Need>,
    },
}

/// A device that must be there, by configuration.
#[derive(Debug)]
pub struct Expected {
    /// The key of its condition.
    pub key: String,
    /// Its current name.
    pub subject: Subject,
    /// Why the node is not healthy while it is missing, even after a person cleared the incident.
    pub doubt: String,
}

/// The condition whose counts a person has reset.
#[derive(Debug)]
pub struct Forget<'a> {
    /// The device in the condition's key. Empty: a finding without a condition.
    pub device: &'a str,
    /// The subject of the incident.
    pub subject: &'a Subject,
    /// The conditions of the incident: check and key.
    pub conditions: &'a [(String, String)],
    /// The person declared it repaired; otherwise they only put the node back into service.
    pub repaired: bool,
}

/// What a check does, and its state.
pub trait Watch: Send + Sync {
    /// Judges the conditions of a snapshot. A condition that is not listed is unknown.
    fn look<'a>(&mut self, _judge: &Judge<'a>) -> Vec<Judged<'a>> {
        Vec::new()
    }

    /// How long its bad readings count while later ones are unknown. `None`: unknown restarts the count.
    fn bridges(&self) -> Option<Duration> {
        None
    }

    /// Whether the key of a condition that does not begin with the check's id is the check's.
    fn owns(&self, _key: &str) -> bool {
        false
    }

    /// Results of a snapshot that precede its conditions: earlier reports that it confirms.
    fn before(&mut self, _judge: &Judge<'_>) -> Vec<Said> {
        Vec::new()
    }

    /// Results of a snapshot that follow its conditions.
    fn after(&mut self, _judge: &Judge<'_>) -> Vec<Said> {
        Vec::new()
    }

    /// Takes an event.
    fn hear(&mut self, _heard: &Heard<'_>) -> Vec<Said> {
        Vec::new()
    }

    /// The kernel log has been read to its end.
    fn log_read(&mut self, _now: Now) -> Vec<Said> {
        Vec::new()
    }

    /// Takes an update of which run of a job had which GPU. Returns whether counts changed.
    fn runs(&mut self, _runs: &Timeline, _inventory: &Inventory, _now: Duration) -> bool {
        false
    }

    /// A GPU was renamed.
    fn renamed(&mut self, _from: &str, _to: &str) {}

    /// A remedy was seen: drops what happened to the subject up to `until_ms` since boot. Returns whether anything
    /// changed.
    fn remedied(&mut self, _subject: &Subject, _until_ms: u64) -> bool {
        false
    }

    /// The times that it counts per device: stored, cleared by a reboot, reset by a person.
    fn times(&mut self) -> Option<&mut Times> {
        None
    }

    /// The node was rebooted: times since boot are void.
    fn rebooted(&mut self) {
        self.times().map(Times::clear);
    }

    /// Resets the counts behind a condition. Returns whether there were any.
    fn forget(&mut self, of: &Forget<'_>) -> bool {
        self.times().is_some_and(|times| times.forget(of.device))
    }

    /// Drops what has waited too long. Returns whether anything changed.
    fn expire(&mut self, _now: Duration) -> bool {
        false
    }

    /// When [`Watch::expire`] is due.
    fn deadline(&self) -> Option<Duration> {
        None
    }

    /// The devices that must be there, by configuration.
    fn expected(&self, _site: &Site, _inventory: &Inventory) -> Vec<Expected> {
        Vec::new()
    }

    /// The part of its state that is stored.
    fn kept(&mut self) -> Option<&mut dyn Kept> {
        self.times().map(|times| times as &mut dyn Kept)
    }
}

/// State that is stored.
pub trait Kept {
    /// Its stored form. `None`: nothing to store.
    fn store(&self) -> Option<Value>;
    /// Restores it.
    ///
    /// # Errors
    /// When the stored form is not one of this type.
    fn restore(&mut self, value: Value) -> Result<(), serde_json::Error>;
}

impl<T: Default + Serialize + DeserializeOwned> Kept for T {
    fn store(&self) -> Option<Value> {
        let value = serde_json::to_value(self).ok()?;
        (serde_json::to_value(Self::default()).ok().as_ref() != Some(&value)).then_some(value)
    }

    fn restore(&mut self, value: Value) -> Result<(), serde_json::Error> {
        *self = serde_json::from_value(value)?;
        Ok(())
    }
}

/// A check that only looks at snapshots, and keeps nothing over a restart.
pub struct Looks<S> {
    state: S,
    conditions: Conditions<S>,
    bridges: Option<Duration>,
}

/// From series, and what earlier ones left, to conditions.
pub(super) type Conditions<S> = for<'a> fn(&Judge<'a>, &mut S) -> Vec<Judged<'a>>;

impl<S: Default + Send + Sync + 'static> Looks<S> {
    /// Begins with no state.
    pub fn start(conditions: Conditions<S>) -> Box<dyn Watch> {
        Box::new(Self {
            state: S::default(),
            conditions,
            bridges: None,
        })
    }

    /// As [`Self::start`], with [`Watch::bridges`].
    pub fn bridging(bridges: Duration, conditions: Conditions<S>) -> Box<dyn Watch> {
        Box::new(Self {
            state: S::default(),
            conditions,
            bridges: Some(bridges),
        })
    }
}

impl<S: Send + Sync> Watch for Looks<S> {
    fn look<'a>(&mut self, judge: &Judge<'a>) -> Vec<Judged<'a>> {
        (self.conditions)(judge, &mut self.state)
    }

    fn bridges(&self) -> Option<Duration> {
        self.bridges
    }
}

/// All checks at work, in the order of [`CHECKS`].
pub struct Watches(Vec<(&'static Check, Box<dyn Watch>)>);

impl fmt::Debug for Watches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.0.iter().map(|(check, _)| check.id))
            .finish()
    }
}

impl Default for Watches {
    fn default() -> Self {
        Self(CHECKS.iter().map(|check| (*check, (check.watch)())).collect())
    }
}

impl Watches {
    /// Restores the state of each check by its id. Returns the ids whose state is unusable, and why; those start empty.
    pub fn restore(&mut self, mut stored: BTreeMap<String, Value>) -> Vec<String> {
        let mut lost = Vec::new();
        for (check, watch) in &mut self.0 {
            if let (Some(value), Some(kept)) = (stored.remove(check.id), watch.kept())
                && let Err(e) = kept.restore(value)
            {
                lost.push(format!("{}: {e}", check.id));
            }
        }
        lost.extend(stored.into_keys().map(|id| format!("{id}: no such check")));
        lost
    }

    /// The state to store, by check id.
    pub fn store(&mut self) -> BTreeMap<String, Value> {
        let all = self.0.iter_mut();
        all.filter_map(|(check, watch)| Some((check.id.to_owned(), watch.kept()?.store()?)))
            .collect()
    }

    /// Every check.
    pub fn iter(&self) -> impl Iterator<Item = (&'static Check, &dyn Watch)> {
        self.0.iter().map(|(check, watch)| (*check, &**watch))
    }

    /// Every check, mutable.
    pub fn each(&mut self) -> impl Iterator<Item = (&'static Check, &mut Box<dyn Watch>)> {
        self.0.iter_mut().map(|(check, watch)| (*check, watch))
    }
}
