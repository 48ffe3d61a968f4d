//! What a check is given to look at: one snapshot and what goes with it.

use std::cell::Cell;
use std::time::Duration;

use super::Now;
use super::reads::gpu::Gpu;
use super::reads::host::Host;
use super::reads::known::Known;
use super::reads::port::Port;
use super::site::Site;
use model::derive::xid::Inventory;
use model::snapshot::{Sample, Snapshot};

/// One snapshot and what goes with it.
#[derive(Debug)]
pub struct Judge<'a> {
    /// The node as it looks now.
    pub snapshot: &'a Snapshot,
    /// What the host's series say, read once for all checks.
    pub host: &'a Host,
    /// The RDMA ports of physical functions, read once for all checks.
    pub ports: &'a [Port<'a>],
    /// Ports and adapters of this snapshot and of earlier ones.
    pub known: &'a Known,
    /// The GPUs of which a driver tells, read once for all checks.
    pub gpus: &'a [Gpu<'a>],
    /// What the site configured.
    pub site: &'a Site,
    /// Which GPU sits at which address.
    pub inventory: &'a Inventory,
    /// Gres as configured in Slurm, of the last look at the node.
    pub gres: Option<&'a str>,
    /// The time.
    pub now: Now,
    /// Time since this program started.
    pub since_start: Duration,
    /// The kernel's log has been read to its end, or is not waited for any more.
    pub log_is_read: bool,
    /// The reading of the PCI bus is a new one: two snapshots may hold the same.
    pub bus_is_new: bool,
    /// The conditions of the check that are bad now.
    pub bad: Vec<String>,
    /// How soon what checks keep is to be stored.
    pub keep: &'a Cell<Keep>,
}

/// How soon a record is to be stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Keep {
    /// Nothing is other than it was.
    #[default]
    Same,
    /// With the next record, or in a few seconds: only counts differ.
    Soon,
    /// At once.
    Now,
}

impl Judge<'_> {
    /// Time since boot.
    pub const fn since_boot(&self) -> Duration {
        self.now.boottime
    }

    /// Time since boot in milliseconds.
    pub fn now_ms(&self) -> u64 {
        u64::try_from(self.since_boot().as_millis()).unwrap_or(u64::MAX)
    }

    /// When a sample was read, as time since boot.
    pub fn read_at(&self, sample: &Sample<'_>) -> Duration {
        self.snapshot.at.saturating_sub(sample.age)
    }

    /// What the check keeps differs in counts.
    pub fn counted(&self) {
        self.keep.set(self.keep.get().max(Keep::Soon));
    }

    /// What the check keeps differs: it is to be stored where `differs`.
    pub fn changed(&self, differs: bool) {
        if differs {
            self.keep.set(Keep::Now);
        }
    }
}

/// Evidence in the form in which it can be looked up: `metric{labels} value`, and how old it is.
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
