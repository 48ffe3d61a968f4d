//! The counters of a filesystem: sums over its mounts and targets, also over those that are gone.

use std::collections::BTreeMap;

use super::io_latency::LatencyRow;
use super::rpc_stats::{Direction, Table};
use super::state::{Change, ImportState};
use super::totals::{Counts, Totals};

/// The counters of one target, summed over all mounts.
#[derive(Debug, Default)]
pub(super) struct TargetSums {
    pub(super) rpcs: Totals,
    /// `None`: none has been read.
    pub(super) timeouts: Option<u64>,
}

/// The sums.
#[derive(Debug, Default)]
pub(super) struct Sums {
    pub(super) llite: Totals,
    pub(super) read_ahead: Totals,
    pub(super) statahead: Counts<String>,
    /// `reclaim_count` of the page cache.
    pub(super) reclaims: Counts<()>,
    pub(super) md: Totals,
    /// The same where no MDT has its own.
    pub(super) lmv: Totals,
    pub(super) rpcs: Totals,
    pub(super) tables: Counts<(Table, Direction, u32)>,
    pub(super) latencies: Counts<LatencyRow>,
    /// `None`: no history has been read.
    pub(super) evictions: Option<u64>,
    pub(super) disconnects: Option<u64>,
    pub(super) last_eviction: Option<u64>,
    pub(super) attempts: Option<u64>,
    pub(super) timeouts: Option<u64>,
    /// By the name of a target. `None`: not shown.
    pub(super) targets: Option<BTreeMap<String, TargetSums>>,
}

fn add(sum: &mut Option<u64>, growth: Option<u64>) {
    if let Some(growth) = growth {
        *sum = Some(sum.unwrap_or_default().wrapping_add(growth));
    }
}

impl Sums {
    /// The counters of one target, where they are shown.
    pub(super) fn target(&mut self, name: &str) -> Option<&mut TargetSums> {
        let targets = self.targets.as_mut()?;
        if !targets.contains_key(name) {
            targets.insert(name.to_owned(), TargetSums::default());
        }
        targets.get_mut(name)
    }

    /// Counts the last `news` changes of a connection.
    pub(super) fn count_changes(&mut self, history: &[Change], news: usize) {
        let seen = history.len().saturating_sub(news);
        let (mut evictions, mut disconnects) = (0, 0);
        for (at, change) in history.iter().enumerate().skip(seen) {
            let before = at.checked_sub(1).and_then(|at| history.get(at)).map(|c| c.to);
            match change.to {
                ImportState::Evicted => evictions += 1,
                // A connect request that failed returns to this state: the connection was lost before.
                ImportState::Disconnected if before.is_some_and(|b| b != ImportState::Connecting) => {
                    disconnects += 1;
                }
                _ => {}
            }
        }
        *self.evictions.get_or_insert(0) += evictions;
        *self.disconnects.get_or_insert(0) += disconnects;
    }

    /// Takes the history of a connection.
    pub(super) fn see_history(&mut self, history: &[Change]) {
        self.count_changes(history, 0);
        let evictions = history.iter().filter(|change| change.to == ImportState::Evicted);
        self.last_eviction = self.last_eviction.max(evictions.map(|change| change.at).max());
    }

    /// Adds the growth of the counters of a connection to a target.
    pub(super) fn add_import(&mut self, target: &str, attempts: Option<u64>, timeouts: Option<u64>) {
        add(&mut self.attempts, attempts);
        add(&mut self.timeouts, timeouts);
        if let Some(target) = self.target(target) {
            add(&mut target.timeouts, timeouts);
        }
    }
}
