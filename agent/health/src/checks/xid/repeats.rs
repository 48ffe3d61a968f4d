//! Errors that count only when repeated: the times of each kind on each GPU within 24 h.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Now;
use crate::bounded::MAX_GPUS;

/// Errors that are enough.
const ENOUGH: usize = 3;
/// Within this time (seconds).
const WINDOW: u64 = 24 * 3600;
/// The most kinds, with links: a GPU with Xid 74 has at most 18, with 3 kinds each and 3 of its own.
const MAX_KINDS: usize = 64;

/// When an error occurred.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Time {
    /// In seconds since the epoch.
    wall: i64,
    /// In milliseconds since boot. `None`: in an earlier boot.
    ms: Option<u64>,
}

/// The last times, by GPU and kind.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Repeats {
    gpus: BTreeMap<String, BTreeMap<String, Vec<Time>>>,
}

impl Repeats {
    /// Adds `count` errors of a kind. `rebooted`: a reboot remedies it, so that those of earlier boots are over. Returns
    /// whether they are enough with earlier ones.
    pub(super) fn add(&mut self, gpu: &str, kind: &str, count: u64, now: Now, rebooted: bool) -> bool {
        self.retain(|of, its, time| {
            let is_over = rebooted && time.ms.is_none() && (of, its) == (gpu, kind);
            !is_over && now.wall.abs_diff(time.wall) <= WINDOW
        });
        if self.gpus.len() >= MAX_GPUS && !self.gpus.contains_key(gpu) {
            return false;
        }
        let kinds = self.gpus.entry(gpu.to_owned()).or_default();
        if kinds.len() >= MAX_KINDS && !kinds.contains_key(kind) {
            return false;
        }
        let times = kinds.entry(kind.to_owned()).or_default();
        let time = Time {
            wall: now.wall,
            ms: Some(millis(now)),
        };
        let count = usize::try_from(count).unwrap_or(ENOUGH).min(ENOUGH);
        times.extend(std::iter::repeat_n(time, count));
        times.drain(..times.len().saturating_sub(ENOUGH));
        times.len() >= ENOUGH
    }

    /// A remedy of a GPU was seen: drops its errors up to `until_ms` since boot. Returns whether there were any.
    pub(super) fn forget(&mut self, gpu: &str, until_ms: u64) -> bool {
        self.retain(|of, _, time| of != gpu || time.ms.is_some_and(|ms| ms > until_ms))
    }

    /// The node was rebooted.
    pub(super) fn rebooted(&mut self) {
        let kinds = self.gpus.values_mut().flat_map(BTreeMap::values_mut);
        for time in kinds.flatten() {
            time.ms = None;
        }
    }

    /// A GPU was renamed.
    pub(super) fn rename(&mut self, from: &str, to: &str) {
        if let Some(kinds) = self.gpus.remove(from) {
            self.gpus.entry(to.to_owned()).or_insert(kinds);
        }
    }

    /// Drops all other times. Returns whether any were.
    fn retain(&mut self, keep: impl Fn(&str, &str, &Time) -> bool) -> bool {
        let mut dropped = false;
        self.gpus.retain(|gpu, kinds| {
            kinds.retain(|kind, times| {
                let before = times.len();
                times.retain(|time| keep(gpu, kind, time));
                dropped |= times.len() < before;
                !times.is_empty()
            });
            !kinds.is_empty()
        });
        dropped
    }
}

fn millis(now: Now) -> u64 {
    u64::try_from(now.boottime.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{MAX_GPUS, MAX_KINDS, Repeats};
    use crate::Now;

    const DAY: i64 = 24 * 3600;

    fn at(wall: i64) -> Now {
        Now {
            boottime: Duration::from_secs(wall.unsigned_abs()),
            wall,
        }
    }

    #[test]
    fn the_third_within_a_day_counts() {
        let mut repeats = Repeats::default();
        let mut add = |gpu, kind, count, wall| repeats.add(gpu, kind, count, at(wall), true);
        assert!(!add("a", "k", 1, 0));
        assert!(!add("a", "k", 1, 10));
        assert!(!add("a", "other", 1, 20));
        assert!(!add("b", "k", 1, 20));
        assert!(!add("a", "k", 1, DAY + 5), "the first is too long ago");
        assert!(add("a", "k", 1, DAY + 6));
        assert!(add("b", "other", u64::MAX, DAY + 6), "a flood");
        repeats.rename("b", "c");
        assert!(!repeats.add("b", "k", 1, at(DAY + 6), true));
        assert!(repeats.add("c", "other", 1, at(DAY + 6), true));
    }

    #[test]
    fn a_remedy_forgets_what_came_before_it_by_the_time_since_boot() {
        let mut repeats = Repeats::default();
        let now = |seconds, wall| Now {
            boottime: Duration::from_secs(seconds),
            wall,
        };
        // The clock is set back.
        for (seconds, wall) in [(100, 5000), (200, 1000)] {
            assert!(!repeats.add("a", "k", 1, now(seconds, wall), true));
        }
        assert!(!repeats.forget("b", u64::MAX));
        assert!(repeats.forget("a", 150_000));
        assert!(!repeats.forget("a", 150_000), "once");
        assert!(!repeats.add("a", "k", 1, now(300, 1100), true));
        assert!(repeats.add("a", "k", 1, now(400, 1200), true));
        repeats.rebooted();
        assert!(
            repeats.add("a", "k", 1, now(10, 1300), false),
            "a reboot repairs nothing"
        );
        repeats.rebooted();
        assert!(!repeats.add("a", "k", 2, now(20, 1400), true));
        repeats.rebooted();
        assert!(
            repeats.forget("a", 0),
            "earlier boots were before any remedy in this one"
        );
    }

    #[test]
    fn nothing_grows_without_bound() {
        let mut repeats = Repeats::default();
        for n in 0..1000 {
            repeats.add("a", &n.to_string(), u64::MAX, at(0), true);
            repeats.add(&n.to_string(), "k", u64::MAX, at(0), true);
        }
        assert_eq!(
            (repeats.gpus.len(), repeats.gpus["a"].len()),
            (MAX_GPUS, MAX_KINDS)
        );
        assert!(!repeats.add("new", "k", 3, at(DAY), true));
        assert!(
            repeats.add("new", "k", 3, at(DAY + 1), true),
            "old ones make room"
        );
        assert_eq!(repeats.gpus.len(), 1);
    }
}
