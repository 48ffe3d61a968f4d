//! Reads one cluster node: GPUs, RDMA ports, filesystem clients, jobs, the kernel's log. No policy, no HTTP, no async.
//!
//! A collector is a [`Spec`]: its metrics, how often it is read, and how it opens its source. A source is a list of
//! [`Device`]s (the smallest things that block alone) and perhaps a [`Watcher`] (what the kernel tells by itself).
//! To add one: a folder, a line in [`COLLECTORS`], a fixture.

pub mod block;
mod budget;
pub mod domain;
pub mod env;
pub mod error;
pub mod ethernet;
pub mod event;
pub mod fuzz;
pub mod gpu;
pub mod host;
pub mod kernel_log;
pub mod metric;
mod netlink;
pub mod nvidia;
pub mod rdma;
pub mod runner;
pub mod settings;
pub mod slurm;
pub mod subject;
pub mod sys;
pub mod tasks;

use std::time::Duration;

pub use block::{Block, Histogram, Layout, Part, Series, SeriesBudget, Value};
pub use domain::{DOMAINS, Domain};
pub use env::Env;
pub use error::Error;
pub use event::{BootId, Cursor, Event, EventBody, Events, PciAddress};
pub use metric::{Alias, Buckets, Join, Kind, Metric, Tier, Unit};
pub use settings::{Key, Settings};
pub use subject::{Subject, SubjectKind};

/// When a collector is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cadence {
    /// When somebody asks, at most once per `fresh`.
    OnDemand {
        /// A reading younger than this serves the next request too.
        fresh: Duration,
    },
    /// By its own clock.
    Every(Duration),
}

/// One collector.
#[derive(Debug)]
pub struct Spec {
    /// The name: label of its series, name of its configuration table.
    pub name: &'static str,
    /// Which worker process it runs in.
    pub domain: &'static Domain,
    /// Every metric that it may emit.
    pub metrics: &'static [&'static Metric],
    /// Whether its watcher may emit events. A worker that speaks for another's source is closed.
    pub events: bool,
    /// Whether it may leave notes ([`Devices::notes`]). A worker that leaves them for another source is closed.
    pub notes: bool,
    /// When it is read.
    pub cadence: Cadence,
    /// A device that takes longer keeps its thread; the others go on.
    pub slice: Duration,
    /// A device that takes longer counts as failed.
    pub deadline: Duration,
    /// Its configuration keys.
    pub keys: &'static [&'static Key],
    /// Opens the source. `Ok(None)`: not on this node.
    pub open: fn(&Env, &Settings) -> Result<Option<Source>, Error>,
}

/// An opened collector.
pub struct Source {
    /// What is read.
    pub devices: Box<dyn Devices>,
    /// What tells by itself.
    pub watcher: Option<Box<dyn Watcher>>,
}

/// Finds a collector's devices.
pub trait Devices: Send {
    /// Lists the devices: at open, on hot-plug and after a release.
    ///
    /// # Errors
    /// When the list itself could not be read.
    fn scan(&mut self) -> Result<Vec<Box<dyn Device>>, Error>;

    /// Whether the list of devices may differ from the last scan. Called before each reading, on the reading thread;
    /// must not touch a driver.
    fn changed(&mut self) -> bool {
        false
    }

    /// What the list would want to know after a restart of its worker, as of the last scan: names of what may not tell
    /// them any more by then. Asked after each scan, kept by the daemon. `None`: nothing.
    fn notes(&self) -> Option<String> {
        None
    }

    /// Takes back what an earlier worker has noted, before the first scan. May be of another release, and of an earlier
    /// boot; what cannot be used is left.
    fn recall(&mut self, _notes: &str) {}
}

/// A collector without devices, only with a watcher.
pub struct NoDevices;

impl Devices for NoDevices {
    fn scan(&mut self) -> Result<Vec<Box<dyn Device>>, Error> {
        Ok(Vec::new())
    }
}

/// The smallest thing that blocks alone: a GPU, a port, a filesystem.
pub trait Device: Send {
    /// What it is. Its name is unique within the collector and stable over scans: a device whose subject was there
    /// before stays the object that it was, unless its last reading failed; then the newly found one takes its place.
    fn subject(&self) -> &Subject;
    /// Reads it. What cannot be read is pushed as [`Value::Absent`].
    ///
    /// # Errors
    /// When the device as a whole is there and broken.
    fn read(&mut self, out: &mut Block) -> Result<(), Error>;
}

/// Waits for what the kernel or a driver tells by itself. Emits, keeps no counts.
pub trait Watcher: Send {
    /// Waits as long as that for something to watch. False: there is nothing yet, and until there is the collector counts
    /// as one without a watcher.
    fn ready(&mut self, _wait: Duration) -> bool {
        true
    }

    /// Runs until its source ends or nobody takes the events any more. `from` is the last event that was stored.
    ///
    /// # Errors
    /// When the source could not be opened or broke.
    fn run(&mut self, from: Option<Cursor>, out: &Events) -> Result<(), Error>;
}

/// Every collector there is. Its order is the order of the exposition.
pub static COLLECTORS: &[&Spec] = &[
    &kernel_log::SPEC,
    &host::SPEC,
    &rdma::SPEC,
    &ethernet::SPEC,
    &nvidia::SPEC,
    &slurm::SPEC,
    &tasks::SPEC,
];

/// The collector of that name.
pub fn collector(name: &str) -> Option<&'static Spec> {
    COLLECTORS.iter().copied().find(|s| s.name == name)
}

/// Every metric of every collector, in order; the position is the metric's number on the wire.
pub fn metrics() -> impl Iterator<Item = &'static Metric> {
    COLLECTORS.iter().flat_map(|s| s.metrics.iter().copied())
}
