//! What a check that looks at conditions is given: one snapshot and what goes with it.

use std::time::Duration;

use super::checks::host::Host;
use super::checks::rdma_port::Port;
use super::memory::Memory;
use super::site::Site;
use model::derive::owners::Owner;
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
    /// Whose the GPUs are.
    pub owners: &'a [Owner],
    /// What the site configured.
    pub site: &'a Site,
    /// Which GPU sits at which address.
    pub inventory: &'a Inventory,
    /// Gres as configured in Slurm, of the last look at the node.
    pub gres: Option<&'a str>,
    /// Time since boot.
    pub since_boot: Duration,
    /// Time since this program started.
    pub since_start: Duration,
    /// The conditions of the check that are bad now.
    pub bad: Vec<String>,
    /// What was remembered of earlier snapshots.
    pub memory: &'a mut Memory,
}

impl Judge<'_> {
    /// Time since boot in milliseconds.
    pub fn now_ms(&self) -> u64 {
        u64::try_from(self.since_boot.as_millis()).unwrap_or(u64::MAX)
    }

    /// When a sample was read, as time since boot.
    pub fn read_at(&self, sample: &Sample<'_>) -> Duration {
        self.snapshot.at.saturating_sub(sample.age)
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
