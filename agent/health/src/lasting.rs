//! States seen in consecutive readings, and since when.

use std::collections::BTreeMap;
use std::time::Duration;

use super::bounded::{Bounded, COUNTERS};

/// The most names of one check: more than a node has processes on its GPUs.
const MAX: usize = 4096;

/// The longest time between two readings without a gap.
pub const GAP: Duration = Duration::from_secs(120);

/// The consecutive readings of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lasts {
    /// The first reading, as time since boot.
    pub since: Duration,
    /// The last one.
    pub last: Duration,
    /// Their number.
    pub readings: u32,
}

impl Lasts {
    /// The time from the first to the last.
    pub fn span(&self) -> Duration {
        self.last.saturating_sub(self.since)
    }
}

/// The states that one check sees.
#[derive(Debug, Default)]
pub struct Lasting<K>(BTreeMap<K, Lasts>);

impl<K: Ord> Lasting<K> {
    /// Takes all current states, each with the time of its reading. A state that is missing, or after a gap, starts
    /// again.
    pub fn take(&mut self, now: BTreeMap<K, Duration>) {
        let before = std::mem::take(&mut self.0);
        let lasts = |name: &K, at: Duration| match before.get(name) {
            // The same reading in two snapshots counts once.
            Some(lasts) if lasts.last == at => *lasts,
            Some(lasts) if at > lasts.last && at.saturating_sub(lasts.last) <= GAP => Lasts {
                last: at,
                readings: lasts.readings.saturating_add(1),
                ..*lasts
            },
            _ => Lasts {
                since: at,
                last: at,
                readings: 1,
            },
        };
        for (name, at) in now.into_iter().take(MAX) {
            let lasts = lasts(&name, at);
            self.0.insert(name, lasts);
        }
    }

    /// The consecutive readings of a state. `None`: not seen.
    pub fn of(&self, name: &K) -> Option<Lasts> {
        self.0.get(name).copied()
    }
}

/// A value that has stayed within a band.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Steady {
    /// The lowest value.
    pub low: f64,
    /// The highest.
    pub high: f64,
    since: Duration,
    last: Duration,
}

impl Steady {
    /// The time from the first reading to the last.
    pub fn span(&self) -> Duration {
        self.last.saturating_sub(self.since)
    }

    /// The state after one more reading.
    fn after(before: Option<Self>, value: f64, at: Duration, band: f64) -> Self {
        let restarted = Self {
            low: value,
            high: value,
            since: at,
            last: at,
        };
        let Some(before) = before else { return restarted };
        let wider = Self {
            low: before.low.min(value),
            high: before.high.max(value),
            last: at,
            ..before
        };
        let is_next = at >= before.last && at.saturating_sub(before.last) <= GAP;
        if is_next && wider.high - wider.low <= band {
            wider
        } else {
            restarted
        }
    }
}

/// Several such values.
#[derive(Debug, Default)]
pub struct Steadies<K>(Bounded<K, Steady, COUNTERS>);

impl<K: Ord> Steadies<K> {
    /// Takes a reading made at `at`. Returns the readings that differ by at most `band`.
    pub fn take(&mut self, name: K, value: f64, at: Duration, band: f64) -> Steady {
        let steady = Steady::after(self.0.get(&name).copied(), value, at, band);
        self.0.put(name, steady);
        steady
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// Span and number of readings of `name` after each reading.
    fn lasts_after(readings: &[(u64, &[&str])], name: &str) -> Vec<Option<(u64, u32)>> {
        let mut lasting = Lasting::default();
        let each = readings.iter().map(|(second, names)| {
            let now = names.iter().map(|n| ((*n).to_owned(), at(*second))).collect();
            lasting.take(now);
            lasting
                .of(&name.to_owned())
                .map(|l| (l.span().as_secs(), l.readings))
        });
        each.collect()
    }

    #[test]
    fn a_missing_state_or_a_gap_starts_again() {
        let readings: [(u64, &[&str]); 7] = [
            (0, &["a", "b"]),
            (15, &["a"]),
            (15, &["a"]),
            (30, &["a", "b"]),
            (45, &["b"]),
            (60, &["a", "b"]),
            (500, &["a", "b"]),
        ];
        let a = [
            Some((0, 1)),
            Some((15, 2)),
            Some((15, 2)),
            Some((30, 3)),
            None,
            Some((0, 1)),
            Some((0, 1)),
        ];
        assert_eq!(lasts_after(&readings, "a"), a);
        let b = [
            Some((0, 1)),
            None,
            None,
            Some((0, 1)),
            Some((15, 2)),
            Some((30, 3)),
            Some((0, 1)),
        ];
        assert_eq!(lasts_after(&readings, "b"), b);
    }

    #[test]
    fn it_is_bounded() {
        let mut lasting = Lasting::default();
        let all = (0..2 * MAX).map(|n| (n.to_string(), at(1))).collect();
        lasting.take(all);
        assert_eq!(lasting.0.len(), MAX);
    }

    #[test]
    fn a_value_is_steady_for_as_long_as_all_readings_are_within_the_band() {
        let mut steady = None;
        let readings = [
            (0, 100.0),
            (15, 104.0),
            (30, 99.0),
            (45, 105.0),
            (60, 105.0),
            (600, 105.0),
        ];
        let spans: Vec<u64> = readings
            .into_iter()
            .map(|(second, value)| {
                let now = Steady::after(steady, value, at(second), 5.0);
                steady = Some(now);
                now.span().as_secs()
            })
            .collect();
        assert_eq!(spans, [0, 15, 30, 0, 15, 0]);
    }
}
