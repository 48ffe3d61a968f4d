//! Findings about what is seen at every reading, not told once: how many readings make one, and how many end it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Readings running that make a finding. One alone may fall into a reset or a rescan of the bus.
const BAD_READINGS: u32 = 2;
/// How long they must span: right after a start readings come within seconds.
const BAD_SPAN: Duration = Duration::from_secs(10);
/// Readings running that end it.
const GOOD_READINGS: u32 = 3;
/// How long they must span.
const HOLD: Duration = Duration::from_secs(60);

/// What one reading says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// Well.
    Good,
    /// Not well.
    Bad,
    /// Nothing: it could not be seen.
    Unknown,
}

/// What a reading changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// It has become bad: new evidence.
    Bad,
    /// It is well again.
    Well,
}

#[derive(Clone, Copy, Debug)]
struct Streak {
    readings: u32,
    since: Duration,
}

/// Readings running against the state that holds.
#[derive(Debug, Default)]
pub(super) struct Streaks {
    running: BTreeMap<String, Streak>,
}

impl Streaks {
    /// Whether the latest readings of the condition `key` go against the state that holds.
    pub(super) fn runs(&self, key: &str) -> bool {
        self.running.contains_key(key)
    }

    /// Begins anew with the condition `key`.
    pub(super) fn forget(&mut self, key: &str) {
        self.running.remove(key);
    }

    /// Takes one reading of the condition `key`. `bad` holds the conditions that are bad now.
    pub(super) fn take(
        &mut self,
        bad: &mut BTreeSet<String>,
        key: &str,
        reading: Reading,
        at: Duration,
    ) -> Option<Turn> {
        let is_bad = bad.contains(key);
        let against = match reading {
            Reading::Bad => !is_bad,
            Reading::Good => is_bad,
            Reading::Unknown => false,
        };
        if !against {
            self.running.remove(key);
            return None;
        }
        let streak = self.running.entry(key.to_owned()).or_insert(Streak {
            readings: 0,
            since: at,
        });
        streak.readings += 1;
        let (readings, span) = (streak.readings, at.saturating_sub(streak.since));
        let turn = if is_bad {
            (readings >= GOOD_READINGS && span >= HOLD).then_some(Turn::Well)
        } else {
            (readings >= BAD_READINGS && span >= BAD_SPAN).then_some(Turn::Bad)
        };
        if let Some(turn) = turn {
            self.running.remove(key);
            match turn {
                Turn::Bad => bad.insert(key.to_owned()),
                Turn::Well => bad.remove(key),
            };
        }
        turn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(readings: &[(u64, Reading)]) -> Vec<(u64, Turn)> {
        let (mut streaks, mut bad) = (Streaks::default(), BTreeSet::new());
        readings
            .iter()
            .filter_map(|(s, r)| {
                let turn = streaks.take(&mut bad, "k", *r, Duration::from_secs(*s))?;
                Some((*s, turn))
            })
            .collect()
    }

    #[test]
    fn two_bad_readings_running_make_a_finding_once() {
        use Reading::{Bad, Good, Unknown};
        assert_eq!(
            run(&[(0, Bad), (15, Bad), (30, Bad), (45, Bad)]),
            [(15, Turn::Bad)]
        );
        assert_eq!(
            run(&[(0, Bad), (15, Good), (30, Bad), (45, Unknown), (60, Bad)]),
            []
        );
        // The early readings after a start.
        assert_eq!(
            run(&[(0, Bad), (1, Bad), (3, Bad), (7, Bad), (15, Bad)]),
            [(15, Turn::Bad)]
        );
        assert_eq!(run(&[(0, Bad), (1, Bad), (3, Bad), (7, Good), (15, Bad)]), []);
    }

    #[test]
    fn it_ends_after_three_good_readings_over_a_minute() {
        use Reading::{Bad, Good, Unknown};
        let mut readings = vec![(0, Bad), (15, Bad)];
        readings.extend([(30, Good), (45, Good), (60, Good), (75, Good), (90, Good)]);
        assert_eq!(run(&readings), [(15, Turn::Bad), (90, Turn::Well)]);
        let interrupted = [
            (0, Bad),
            (15, Bad),
            (30, Good),
            (80, Unknown),
            (95, Good),
            (110, Good),
            (125, Good),
        ];
        assert_eq!(run(&interrupted), [(15, Turn::Bad)]);
    }
}
