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

/// An event, and what goes with it. Events whose consequences are known already do not come here.
#[derive(Debug)]
pub struct Heard<'a> {
    /// The event.
    pub event: &'a Event,
    /// How often it happened, without what another source has told of already.
    pub new: u64,
    /// It is long past, by its own clock.
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

    /// Whether it says nothing about now.
    pub fn is_old(&self) -> bool {
        self.event.history || self.stale
    }
}

/// What a check says beside conditions.
#[derive(Debug)]
pub enum Said {
    /// It has found something.
    Found(Finding),
    /// The same, of a time of which it is not known who had the device.
    FoundOld(Finding),
    /// Its driver declares that a GPU needs nothing any more.
    Declared(Subject),
    /// A remedy was seen. What it ends and was found before then, by the wall clock, is over, where what must be known of it
    /// is among `met`.
    Remedied {
        /// Of what.
        subject: Subject,
        /// Which.
        by: Clear,
        /// When.
        before: i64,
        /// What is known to be well.
        met: Vec<Need>,
    },
}

/// A device that must be there, by configuration.
#[derive(Debug)]
pub struct Expected {
    /// The condition about it.
    pub key: String,
    /// What it is called now.
    pub subject: Subject,
    /// Why the node is not healthy while it is missing, whatever a person says.
    pub doubt: String,
}

/// What a person has looked at: the counts behind a condition begin anew.
#[derive(Debug)]
pub struct Forget<'a> {
    /// The device, as the condition's key names it.
    pub device: &'a str,
    /// What it is called.
    pub subject: &'a Subject,
    /// The person declares it repaired, and does not merely put the node back.
    pub repaired: bool,
}

/// What a check does, and its state.
pub trait Watch: Send {
    /// From series to what is well, what is not, and what cannot be seen. A condition that is not mentioned is unknown.
    fn look<'a>(&mut self, _judge: &Judge<'a>) -> Vec<Judged<'a>> {
        Vec::new()
    }

    /// What a snapshot confirms, before conditions are judged.
    fn before(&mut self, _judge: &Judge<'_>) -> Vec<Said> {
        Vec::new()
    }

    /// What else a snapshot shows, after conditions were judged.
    fn after(&mut self, _judge: &Judge<'_>) -> Vec<Said> {
        Vec::new()
    }

    /// Something happened.
    fn hear(&mut self, _heard: &Heard<'_>) -> Vec<Said> {
        Vec::new()
    }

    /// All that the kernel's log held has been told.
    fn log_read(&mut self, _now: Now) -> Vec<Said> {
        Vec::new()
    }

    /// It is known anew which run of a job had which GPU. Says whether anything is counted that was not.
    fn runs(&mut self, _runs: &Timeline, _inventory: &Inventory, _now: Duration) -> bool {
        false
    }

    /// A GPU goes by another name from now on.
    fn renamed(&mut self, _from: &str, _to: &str) {}

    /// A remedy of a device was seen: what happened to it until then, in milliseconds since boot, is over. Says whether
    /// there was anything.
    fn remedied(&mut self, _subject: &Subject, _until_ms: u64) -> bool {
        false
    }

    /// When things happened to its devices: this is kept, and ends with the boot and by a person.
    fn times(&mut self) -> Option<&mut Times> {
        None
    }

    /// Another boot: times since boot mean nothing any more.
    fn rebooted(&mut self) {
        self.times().map(Times::clear);
    }

    /// What was counted begins anew. Says whether there was anything.
    fn forget(&mut self, of: &Forget<'_>) -> bool {
        self.times().is_some_and(|times| times.forget(of.device))
    }

    /// Ends what has waited for too long. Says whether there was anything.
    fn expire(&mut self, _now: Duration) -> bool {
        false
    }

    /// When [`Watch::expire`] has something to do.
    fn deadline(&self) -> Option<Duration> {
        None
    }

    /// The devices that must be there.
    fn expected(&self, _site: &Site, _inventory: &Inventory) -> Vec<Expected> {
        Vec::new()
    }

    /// The part of its state that outlives this program.
    fn kept(&mut self) -> Option<&mut dyn Kept> {
        self.times().map(|times| times as &mut dyn Kept)
    }
}

/// State that is stored.
pub trait Kept {
    /// As it is stored. `None`: there is nothing.
    fn store(&self) -> Option<Value>;
    /// Takes what was stored in its place.
    ///
    /// # Errors
    /// When it is something else.
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
}

/// From series, and what earlier ones left, to conditions.
pub(super) type Conditions<S> = for<'a> fn(&Judge<'a>, &mut S) -> Vec<Judged<'a>>;

impl<S: Default + Send + 'static> Looks<S> {
    /// Begins with no state.
    pub fn start(conditions: Conditions<S>) -> Box<dyn Watch> {
        let state = S::default();
        Box::new(Self { state, conditions })
    }
}

impl<S: Send> Watch for Looks<S> {
    fn look<'a>(&mut self, judge: &Judge<'a>) -> Vec<Judged<'a>> {
        (self.conditions)(judge, &mut self.state)
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
    /// Takes over what was stored, by the id of each check. Gives the checks whose state could not be read, and why: they
    /// begin anew.
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

    /// What is to be stored, by the id of each check.
    pub fn store(&mut self) -> BTreeMap<String, Value> {
        let all = self.0.iter_mut();
        all.filter_map(|(check, watch)| Some((check.id.to_owned(), watch.kept()?.store()?)))
            .collect()
    }

    /// Each check with what it does.
    pub fn iter(&self) -> impl Iterator<Item = (&'static Check, &dyn Watch)> {
        self.0.iter().map(|(check, watch)| (*check, &**watch))
    }

    /// Each of them, to be changed.
    pub fn each(&mut self) -> impl Iterator<Item = (&'static Check, &mut Box<dyn Watch>)> {
        self.0.iter_mut().map(|(check, watch)| (*check, watch))
    }
}
