//! Lines from before the first start. The fault may be repaired, so they count only if the node confirms them.

use std::time::Duration;

use collectors::PciAddress;
use collectors::event::Xid;
use serde::{Deserialize, Serialize};

use crate::reads::host::Host;

/// Time until the PCI bus must have been read.
const PATIENCE: Duration = Duration::from_secs(300);
const MAX: usize = 64;

/// One line.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Line {
    pub xid: Xid,
    pub count: u64,
    pub text: String,
    #[serde(skip)]
    since: Option<Duration>,
}

/// The lines that are neither confirmed nor refuted.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Pending {
    lines: Vec<Line>,
}

impl Pending {
    /// Keeps a line, once per GPU and code.
    pub(super) fn keep(&mut self, xid: &Xid, count: u64, text: &str, now: Duration) {
        let same = |l: &&mut Line| l.xid.pci == xid.pci && l.xid.code == xid.code;
        if let Some(line) = self.lines.iter_mut().find(same) {
            line.count = line.count.saturating_add(count);
        } else if self.lines.len() < MAX {
            self.lines.push(Line {
                xid: xid.clone(),
                count,
                text: text.to_owned(),
                since: Some(now),
            });
        }
    }

    /// Drops the lines of another boot, or of a GPU that the driver declared healthy.
    pub(super) fn drop_of(&mut self, pci: Option<&PciAddress>) {
        match pci {
            Some(pci) => self.lines.retain(|l| l.xid.pci != *pci),
            None => self.lines.clear(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Returns the lines that a complete reading of the PCI bus confirms, and drops the others.
    pub(super) fn judge(&mut self, host: &Host) -> Vec<Line> {
        if !host.is_complete() {
            return Vec::new();
        }
        std::mem::take(&mut self.lines)
            .into_iter()
            .filter(|l| host.place(&l.xid.pci).is_absent())
            .collect()
    }

    /// Drops lines that were not confirmed in time. Returns whether any were. The wait restarts with the process.
    pub(super) fn expire(&mut self, now: Duration) -> bool {
        let before = self.lines.len();
        self.lines
            .retain_mut(|l| l.since.get_or_insert(now).saturating_add(PATIENCE) > now);
        before != self.lines.len()
    }

    /// The time at which the first one expires.
    pub(super) fn deadline(&self) -> Option<Duration> {
        let since = self.lines.iter().filter_map(|l| l.since).min();
        since.map(|since| since.saturating_add(PATIENCE))
    }
}
