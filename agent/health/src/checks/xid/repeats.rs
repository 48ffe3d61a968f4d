//! Errors that count only when repeated: the times of each kind on each GPU within 24 h.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Errors that are enough.
const ENOUGH: usize = 3;
/// Within this time (seconds).
const WINDOW: u64 = 24 * 3600;
/// A program that writes to the kernel log could name any number of GPUs.
const MAX_GPUS: usize = 128;

/// The last times, by GPU and kind.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Repeats {
    gpus: BTreeMap<String, BTreeMap<String, Vec<i64>>>,
}

impl Repeats {
    /// Adds `count` errors of a kind. Returns whether they are enough with earlier ones.
    pub(super) fn add(&mut self, gpu: &str, kind: &str, count: u64, wall: i64) -> bool {
        if self.gpus.len() >= MAX_GPUS && !self.gpus.contains_key(gpu) {
            return false;
        }
        let times = self
            .gpus
            .entry(gpu.to_owned())
            .or_default()
            .entry(kind.to_owned())
            .or_default();
        times.retain(|at| wall.abs_diff(*at) <= WINDOW);
        let count = usize::try_from(count).unwrap_or(ENOUGH).min(ENOUGH);
        times.extend(std::iter::repeat_n(wall, count));
        times.drain(..times.len().saturating_sub(ENOUGH));
        times.len() >= ENOUGH
    }

    /// A GPU was renamed.
    pub(super) fn rename(&mut self, from: &str, to: &str) {
        if let Some(kinds) = self.gpus.remove(from) {
            self.gpus.entry(to.to_owned()).or_insert(kinds);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Repeats;

    const DAY: i64 = 24 * 3600;

    #[test]
    fn the_third_within_a_day_counts() {
        let mut repeats = Repeats::default();
        assert!(!repeats.add("a", "k", 1, 0));
        assert!(!repeats.add("a", "k", 1, 10));
        assert!(!repeats.add("a", "other", 1, 20));
        assert!(!repeats.add("b", "k", 1, 20));
        assert!(!repeats.add("a", "k", 1, DAY + 5), "the first is too long ago");
        assert!(repeats.add("a", "k", 1, DAY + 6));
        assert!(repeats.add("b", "other", u64::MAX, 0), "a flood");
        repeats.rename("b", "c");
        assert!(!repeats.add("b", "k", 1, 20));
        assert!(repeats.add("c", "other", 1, 20));
    }
}
