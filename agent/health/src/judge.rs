//! The input of a check: one snapshot and its context.

use std::cell::Cell;
use std::time::Duration;

use super::Now;
use super::reads::gpu::Gpu;
use super::reads::gpu_part::Part;
use super::reads::group::Group;
use super::reads::host::Host;
use super::reads::known::Known;
use super::reads::port::Port;
use super::site::Site;
use model::derive::xid::Inventory;
use model::snapshot::{Sample, Snapshot};

/// One snapshot and its context.
#[derive(Debug)]
pub struct Judge<'a> {
    /// The current snapshot.
    pub snapshot: &'a Snapshot,
    /// The host's series, parsed once for all checks.
    pub host: &'a Host,
    /// The RDMA ports of physical functions, parsed once for all checks.
    pub ports: &'a [Port<'a>],
    /// Those of them that were ever in use, by what they have in common, made once for all checks.
    pub groups: &'a [Group<'a>],
    /// Ports and adapters of this snapshot and of earlier ones.
    pub known: &'a Known,
    /// The GPUs that a driver reports, parsed once for all checks.
    pub gpus: &'a [Gpu<'a>],
    /// Those that are up, or their instances, with their jobs and processes, found once for all checks.
    pub parts: &'a [Part<'a>],
    /// The site's configuration.
    pub site: &'a Site,
    /// The GPU at each PCI address.
    pub inventory: &'a Inventory,
    /// Slurm's Gres, of the last reading of the node.
    pub gres: Option<&'a str>,
    /// The time.
    pub now: Now,
    /// Time since this program started.
    pub since_start: Duration,
    /// The kernel log has been read to its end, or the wait for it has timed out.
    pub log_is_read: bool,
    /// The readings come from a recording: their times are not of this machine's clock.
    pub is_replayed: bool,
    /// `health.rdma.ports` names none of the node's ports.
    pub names_no_port: bool,
    /// The reading of the PCI bus is new: two snapshots may hold the same.
    pub bus_is_new: bool,
    /// The conditions of the check that are bad.
    pub bad: Vec<String>,
    /// How soon the state of checks must be stored.
    pub keep: &'a Cell<Keep>,
}

/// How soon a record must be stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Keep {
    /// Unchanged.
    #[default]
    Same,
    /// With the next record, or in a few seconds: only counts differ.
    Soon,
    /// Immediately.
    Now,
}

/// Drivers load, links train, services start and filesystems are mounted for minutes after boot.
pub const BOOT_GRACE: Duration = Duration::from_secs(600);

impl Judge<'_> {
    /// Time since boot.
    pub const fn since_boot(&self) -> Duration {
        self.now.boottime
    }

    /// Whether [`BOOT_GRACE`] is over.
    pub fn is_booted(&self) -> bool {
        self.since_boot() >= BOOT_GRACE
    }

    /// Time since boot in milliseconds.
    pub fn now_ms(&self) -> u64 {
        u64::try_from(self.since_boot().as_millis()).unwrap_or(u64::MAX)
    }

    /// When a sample was read, as time since boot.
    pub fn read_at(&self, sample: &Sample<'_>) -> Duration {
        self.snapshot.at.saturating_sub(sample.age)
    }

    /// The check's stored counts changed.
    pub fn counted(&self) {
        self.keep.set(self.keep.get().max(Keep::Soon));
    }

    /// The check's stored state changed, if `differs`.
    pub fn changed(&self, differs: bool) {
        if differs {
            self.keep.set(Keep::Now);
        }
    }
}

/// Evidence in the form of a query: `metric{labels} value`, with its age.
pub fn evidence(sample: &Sample<'_>, expected: &str) -> String {
    let labels: Vec<String> = sample
        .metric
        .labels
        .iter()
        .zip(sample.labels)
        .map(|(name, value)| format!("{name}={value:?}"))
        .collect();
    let labels = labels.join(",");
    format!(
        "{}{{{labels}}} {}, expected {expected}, {:.1} s old",
        sample.metric.name,
        sample.as_f64(),
        sample.age.as_secs_f64()
    )
}
