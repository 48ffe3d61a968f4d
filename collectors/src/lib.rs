//! Reads one cluster node: GPUs, RDMA and Ethernet ports, memory, jobs, the kernel's log. No policy, no HTTP, no async.
//!
//! A collector is a [`Spec`]: its metrics, how often it is read, and how it opens its source. A source is a list of
//! [`Device`]s (the smallest units that block independently) and optionally a [`Watcher`] for events. To add one: a
//! folder, a line in [`COLLECTORS`], a fixture.

pub mod amd;
pub mod block;
mod budget;
pub mod device_files;
pub mod domain;
pub mod env;
pub mod error;
pub mod ethernet;
pub mod event;
pub mod fuzz;
pub mod gpfs;
pub mod gpu;
pub mod host;
pub mod inline;
pub mod kernel_log;
mod label;
pub mod lustre;
pub mod metric;
mod mountinfo;
pub mod mounts;
mod netlink;
pub mod nvidia;
pub mod nvme;
pub mod rdma;
pub mod runner;
pub mod settings;
pub mod slurm;
pub mod subject;
pub mod sys;
pub mod tasks;
pub mod text;

use std::time::Duration;

pub use block::{Block, Fault, Histogram, Layout, Part, Series, SeriesBudget, Value};
pub use domain::{DOMAINS, Domain};
pub use env::Env;
pub use error::Error;
pub use event::{BootId, Cursor, Event, EventBody, EventKind, Events, PciAddress};
pub use label::{Label, Labels};
pub use metric::{Alias, Buckets, Join, Joined, Kind, Metric, Tier, Unit};
pub use settings::{Key, Settings};
pub use subject::{Subject, SubjectKind};

/// When a collector is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cadence {
    /// On request, at most once per `fresh`.
    OnDemand {
        /// A younger reading also serves the next request.
        fresh: Duration,
    },
    /// At its own interval.
    Every(Duration),
}

/// One collector.
#[derive(Debug)]
pub struct Spec {
    /// The name: label of its series, name of its configuration table.
    pub name: &'static str,
    /// The worker process in which it runs.
    pub domain: &'static Domain,
    /// All metrics that it may emit.
    pub metrics: &'static [&'static Metric],
    /// The kinds of events that its watcher may emit. A worker that sends another kind is closed.
    pub events: &'static [EventKind],
    /// Whether it may keep notes ([`Devices::notes`]). A worker that sends notes for another source is closed.
    pub notes: bool,
    /// When it is read.
    pub cadence: Cadence,
    /// After this time the reading continues with the other devices; a slower device keeps its thread.
    pub slice: Duration,
    /// A slower device counts as failed.
    pub deadline: Duration,
    /// Its configuration keys.
    pub keys: &'static [&'static Key],
    /// Opens the source. `Ok(None)`: absent on this node.
    pub open: fn(&Env, &Settings) -> Result<Option<Source>, Error>,
}

/// An opened collector.
pub struct Source {
    /// The devices to read.
    pub devices: Box<dyn Devices>,
    /// The source of events.
    pub watcher: Option<Box<dyn Watcher>>,
}

/// Limit of the devices of one collector. Slurm's has the most: a job is one, and 1,024 jobs are shown.
pub const MAX_DEVICES: usize = 2048;

/// Finds a collector's devices.
pub trait Devices: Send {
    /// Lists the devices: at open, on hot-plug and after a release of the driver.
    ///
    /// # Errors
    /// When the list itself could not be read.
    fn scan(&mut self) -> Result<Vec<Box<dyn Device>>, Error>;

    /// Whether the list of devices may differ from the last scan. Called before each reading, on the reading thread;
    /// must not touch a driver.
    fn changed(&mut self) -> bool {
        false
    }

    /// The batch of readings is over, except those that are late. Must not block.
    fn over(&mut self) {}

    /// Whether a call of an earlier scan has not returned: until then, the process of a driver that must not be signalled
    /// does not end.
    fn is_asking(&self) -> bool {
        false
    }

    /// State that the next worker's list needs and that the devices may no longer provide by then, as of the last
    /// scan. Read after each scan, kept by the daemon. `None`: no state.
    fn notes(&self) -> Option<String> {
        None
    }

    /// Takes back the notes of an earlier worker, before the first scan. They may be from another release or an
    /// earlier boot; unusable notes are ignored.
    fn recall(&mut self, _notes: &str) {}
}

/// A collector without devices, only with a watcher.
pub struct NoDevices;

impl Devices for NoDevices {
    fn scan(&mut self) -> Result<Vec<Box<dyn Device>>, Error> {
        Ok(Vec::new())
    }
}

/// The smallest unit that blocks independently: a GPU, a port, a filesystem.
pub trait Device: Send {
    /// Its subject. The name is unique within the collector and stable over scans. A newly found device replaces the
    /// known one of its subject: state that must outlast a scan belongs to the list of devices.
    fn subject(&self) -> &Subject;
    /// Distinguishes devices that have the same name one after the other, as filesystems at a mount point. A device with another
    /// identity does not wait for the reading of its predecessor, which leaves the list also if that never returns.
    fn identity(&self) -> &str {
        ""
    }
    /// Whether the next batch reads it. False: the last reading stands, with its time. It must not block.
    fn is_due(&self) -> bool {
        true
    }
    /// Reads it. Unreadable values are pushed as [`Value::Absent`].
    ///
    /// # Errors
    /// When the device exists and cannot be read as a whole.
    fn read(&mut self, out: &mut Block) -> Result<(), Error>;
}

/// Waits for events of the kernel or a driver. Emits them, keeps no counts.
pub trait Watcher: Send {
    /// Waits up to `_wait` for a source of events. False: none exists yet; until then the collector counts as one
    /// without a watcher.
    fn ready(&mut self, _wait: Duration) -> bool {
        true
    }

    /// Runs until its source ends or the receiver of the events is gone. `from` is the last stored event.
    ///
    /// # Errors
    /// When the source could not be opened or failed.
    fn run(&mut self, from: Option<Cursor>, out: &Events) -> Result<(), Error>;
}

/// All collectors, in the order of the exposition.
pub static COLLECTORS: &[&Spec] = &[
    &kernel_log::SPEC,
    &host::SPEC,
    &rdma::SPEC,
    &ethernet::SPEC,
    &nvidia::SPEC,
    &amd::SPEC,
    &slurm::SPEC,
    &tasks::SPEC,
    &lustre::SPEC,
    &gpfs::SPEC,
    &mounts::SPEC,
    &nvme::SPEC,
];

/// The collector with this name.
pub fn collector(name: &str) -> Option<&'static Spec> {
    COLLECTORS.iter().copied().find(|s| s.name == name)
}

/// Whether a node needs a helper now. Elsewhere its memory is saved.
pub fn needs(helper: &domain::Helper, env: &Env, settings: &Settings) -> bool {
    !std::ptr::eq(helper, &domain::NVME) || nvme::wants_helper(env, settings)
}

/// All metrics of all collectors, in order; the position is the metric's number in frames. One that several collectors
/// have, such as those of GPUs, is there once.
pub fn metrics() -> impl Iterator<Item = &'static Metric> {
    let is_new = |at: usize, metric: &Metric| {
        let mut earlier = COLLECTORS.iter().take(at).flat_map(|s| s.metrics);
        !earlier.any(|other| std::ptr::eq(*other, metric))
    };
    let of = |(at, s): (usize, &&'static Spec)| s.metrics.iter().map(move |m| (at, *m));
    let all = COLLECTORS.iter().enumerate().flat_map(of);
    all.filter(move |(at, metric)| is_new(*at, metric))
        .map(|(_, metric)| metric)
}
