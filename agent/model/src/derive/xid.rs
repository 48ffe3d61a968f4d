//! Xids come from two sources, the kernel's log and the driver's library: one fault counts once. And the `gpu` label of a
//! kernel-log line, which names a PCI address only.

use std::collections::BTreeMap;

use collectors::PciAddress;
use collectors::event::{Xid, XidSource};
use serde::{Deserialize, Serialize};

/// The GPU at each PCI address, by UUID, as a driver named it. Kept over restarts: a GPU that has fallen off the bus
/// can no longer be asked.
pub type Inventory = BTreeMap<PciAddress, String>;

/// The `gpu` label: the UUID, or `pci:<address>` for a GPU that no driver ever named.
pub fn gpu_label(inventory: &Inventory, pci: &PciAddress) -> String {
    inventory
        .get(pci)
        .cloned()
        .unwrap_or_else(|| format!("pci:{pci}"))
}

/// Two reports of one GPU and code that are no further apart are of one fault (microseconds). The library tells seconds
/// late, and a folded flood of lines has the time of its last.
const WINDOW_US: u64 = 60_000_000;
/// Reports are kept for so long, for one that is read late: the lines that a worker finds after its restart.
const KEPT_US: u64 = 3_600_000_000;
/// Reports that are kept for each GPU and code, and GPUs with a code.
const MAX_REPORTS: usize = 32;
const MAX_KEYS: usize = 1024;

/// Reports that the other source has not told of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Report {
    at_us: u64,
    source: XidSource,
    count: u64,
}

/// What each source has told of and the other has not, by GPU and code. Each report of one source answers for one of the
/// other: so both together count as many faults as the one that told of more.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Faults {
    alone: BTreeMap<String, Vec<Report>>,
}

impl Faults {
    /// Takes `count` reports in. How many faults nobody has told of before.
    pub fn take(&mut self, xid: &Xid, at_us: u64, count: u64) -> u64 {
        let key = format!("{} {}", xid.pci, xid.code);
        if self.alone.len() >= MAX_KEYS && !self.alone.contains_key(&key) {
            self.alone
                .retain(|_, reports| reports.iter().any(|r| r.at_us.abs_diff(at_us) <= KEPT_US));
            if self.alone.len() >= MAX_KEYS {
                return count;
            }
        }
        let reports = self.alone.entry(key.clone()).or_default();
        let mut new = count;
        for report in reports.iter_mut() {
            let same = report.source != xid.source && report.at_us.abs_diff(at_us) <= WINDOW_US;
            let answered = if same { new.min(report.count) } else { 0 };
            report.count -= answered;
            new -= answered;
        }
        if new > 0 {
            reports.push(Report {
                at_us,
                source: xid.source,
                count: new,
            });
        }
        reports.retain(|r| r.count > 0 && r.at_us.abs_diff(at_us) <= KEPT_US);
        let surplus = reports.len().saturating_sub(MAX_REPORTS);
        reports.drain(..surplus);
        if reports.is_empty() {
            self.alone.remove(&key);
        }
        new
    }
}

#[cfg(test)]
mod tests;
