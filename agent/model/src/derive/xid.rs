//! Xids come from two sources, the kernel log and the driver's library: one fault counts once. Also the `gpu` label
//! of a kernel-log line, which names a PCI address only.

use std::collections::BTreeMap;

use collectors::PciAddress;
use collectors::event::{Xid, XidSource};
use serde::{Deserialize, Serialize};

/// The GPU at each PCI address, by UUID, as reported by a driver. Kept over restarts: a GPU that has fallen off the
/// bus does not answer any more.
pub type Inventory = BTreeMap<PciAddress, String>;

/// The `gpu` label: the UUID, or `pci:<address>` for a GPU that no driver ever reported.
pub fn gpu_label(inventory: &Inventory, pci: &PciAddress) -> String {
    inventory
        .get(pci)
        .cloned()
        .unwrap_or_else(|| format!("pci:{pci}"))
}

/// Reports of one GPU and code within this time are of one fault (microseconds). The library reports seconds late,
/// and a folded flood of lines has the time of its last line.
const WINDOW_US: u64 = 60_000_000;
/// Reports are kept this long (microseconds), for lines that a worker reads late after its restart.
const KEPT_US: u64 = 3_600_000_000;
/// Limit of reports for each GPU and code, and of GPU and code pairs.
const MAX_REPORTS: usize = 32;
const MAX_KEYS: usize = 1024;

/// Reports without a match from the other source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Report {
    at_us: u64,
    source: XidSource,
    count: u64,
}

/// Reports of each source without a match from the other, by GPU and code. Each report of one source matches one of
/// the other: so the number of faults is that of the source with more reports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Faults {
    alone: BTreeMap<String, Vec<Report>>,
}

impl Faults {
    /// Takes `count` reports and returns the number of new faults.
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
