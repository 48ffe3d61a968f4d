//! The node at one moment: its readings, its worker processes, and the owners of its GPUs.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use collectors::COLLECTORS;

use crate::commands::CommandState;
use crate::figures::Figures;
use crate::ownership::Ownership;

pub use crate::readings::{CollectorState, DeviceState, Late, Prepared, Presence, Readings, Sample};

/// A driver that is released for a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The requester: user and process.
    pub by: String,
    /// The end of the release, as time since boot. `None`: the driver is not released yet.
    pub until: Option<Duration>,
}

/// One worker process.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerState {
    /// The domain.
    pub domain: &'static str,
    /// Its process, where one runs.
    pub pid: Option<i32>,
    /// Starts since the daemon's start.
    pub starts: u64,
    /// The reason why none runs: `backoff`, `stuck` (both lock slots are held by processes that cannot end), `start`,
    /// `absent` or `released`.
    pub down: Option<&'static str>,
    /// The release of its driver.
    pub lease: Option<Lease>,
    /// The number of lock slots, of two, that earlier processes hold.
    pub stuck_slots: u8,
    /// The cost of its process, at most a minute and a health tick old.
    pub figures: Option<Figures>,
    /// The cost of its helpers by name, without memory shares: another user cannot read them.
    pub helpers: BTreeMap<&'static str, Figures>,
}

/// The node at one moment. Immutable once built.
#[derive(Clone, Debug)]
pub struct Snapshot {
    readings: Readings,
    /// Workers, in the order of [`collectors::DOMAINS`].
    pub workers: Vec<WorkerState>,
    /// The site's commands, in the order of the configuration.
    pub commands: Arc<[CommandState]>,
    ownership: OnceLock<Arc<Ownership>>,
}

impl Deref for Snapshot {
    type Target = Readings;

    fn deref(&self) -> &Readings {
        &self.readings
    }
}

impl DerefMut for Snapshot {
    fn deref_mut(&mut self) -> &mut Readings {
        &mut self.readings
    }
}

impl Snapshot {
    /// The same at the time of a scrape: series that have become stale since are left out.
    #[must_use]
    pub fn as_of(&self, now: Duration) -> Self {
        self.ownership();
        let mut later = self.clone();
        later.at = now.max(self.at);
        let shown = |at| {
            let all = self.collectors.iter();
            all.flat_map(move |c| c.devices.iter().map(move |d| d.shown(at, c.max_age())))
        };
        if !shown(self.at).eq(shown(later.at)) {
            later.ownership = OnceLock::new();
        }
        later
    }

    /// Which jobs own each GPU. Computed once.
    pub fn ownership(&self) -> &Ownership {
        self.ownership
            .get_or_init(|| Arc::new(Ownership::of(&self.readings)))
    }

    /// A snapshot of these collectors and workers.
    pub fn new(at: Duration, collectors: Vec<CollectorState>, workers: Vec<WorkerState>) -> Self {
        Self {
            readings: Readings {
                at,
                collectors: collectors.into_iter().map(Arc::new).collect(),
            },
            workers,
            commands: Arc::default(),
            ownership: OnceLock::new(),
        }
    }

    /// A snapshot from before the first worker has answered.
    pub fn empty(at: Duration) -> Self {
        let collectors = COLLECTORS
            .iter()
            .map(|spec| CollectorState {
                spec,
                presence: Presence::Unknown,
                watcher: None,
                devices: Vec::new(),
                late: Vec::new(),
            })
            .collect();
        let workers = collectors::DOMAINS
            .iter()
            .map(|d| WorkerState {
                domain: d.name,
                pid: None,
                starts: 0,
                down: None,
                lease: None,
                stuck_slots: 0,
                figures: None,
                helpers: BTreeMap::new(),
            })
            .collect();
        Self::new(at, collectors, workers)
    }
}
