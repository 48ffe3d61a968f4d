//! The growth of a counter within a time window, from readings at any interval.

use std::collections::VecDeque;
use std::time::Duration;

use super::bounded::{Bounded, COUNTERS};
use super::lasting::GAP;

/// The most readings of one counter: the resolution is 1/30 of the window.
const MAX_POINTS: u32 = 32;

/// The growth of a counter, and its time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Growth {
    /// The growth.
    pub by: u64,
    /// The time between the two readings; shorter than the window at first.
    pub over: Duration,
}

impl Growth {
    /// Whether the readings cover at least 15/16 of the window.
    pub fn covers(&self, window: Duration) -> bool {
        self.over >= window.saturating_sub(window / 16)
    }
}

/// The latest readings of one counter.
#[derive(Debug, Default)]
struct Trail(VecDeque<(Duration, u64)>);

impl Trail {
    /// Takes a reading made at `at`, and returns the growth within `window`. A counter reset, or more than `gap`
    /// between two readings, restarts it: growth in between has no time.
    fn take(&mut self, value: u64, at: Duration, window: Duration, gap: Duration) -> Growth {
        let points = &mut self.0;
        if let Some((last, before)) = points.back().copied() {
            if at == last {
                return self.growth();
            }
            if value < before || at < last || at.saturating_sub(last) > gap {
                points.clear();
            }
        }
        // The last point moves until it is one step after the one before it.
        let step = window / (MAX_POINTS - 2);
        let before_last = points.len().checked_sub(2).and_then(|i| points.get(i)).copied();
        match (before_last, points.back_mut()) {
            (Some((before, _)), Some(last)) if last.0.saturating_sub(before) < step => *last = (at, value),
            _ => points.push_back((at, value)),
        }
        while points
            .get(1)
            .is_some_and(|(second, _)| at.saturating_sub(*second) >= window)
        {
            points.pop_front();
        }
        self.growth()
    }

    fn growth(&self) -> Growth {
        match (self.0.front(), self.0.back()) {
            (Some((from, low)), Some((to, high))) => Growth {
                by: high.saturating_sub(*low),
                over: to.saturating_sub(*from),
            },
            _ => Growth::default(),
        }
    }
}

/// The trails of several counters.
#[derive(Debug, Default)]
pub struct Trails<K>(Bounded<K, Trail, COUNTERS>);

impl<K: Ord + Clone> Trails<K> {
    /// Takes a reading of a counter made at `at`, and returns its growth within the last `window`.
    pub fn take(&mut self, counter: K, value: u64, at: Duration, window: Duration) -> Growth {
        let trail = self.0.slot(counter);
        trail.map_or_else(Growth::default, |trail| trail.take(value, at, window, GAP))
    }

    /// Takes readings of two counters made at `at`, and returns the growth of both over the same time. Trails with
    /// different starts restart, because they would never agree.
    pub fn take_both(
        &mut self,
        [one, other]: [(K, u64); 2],
        at: Duration,
        window: Duration,
    ) -> (Growth, Growth) {
        let take = |all: &mut Self| {
            let first = all.take(one.0.clone(), one.1, at, window);
            (first, all.take(other.0.clone(), other.1, at, window))
        };
        let grown = take(self);
        if grown.0.over == grown.1.over {
            return grown;
        }
        self.forget(&one.0);
        self.forget(&other.0);
        take(self)
    }

    /// Restarts a counter: its past growth does not count.
    pub fn forget(&mut self, counter: &K) {
        self.0.remove(counter);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);
    const GAP: Duration = Duration::from_secs(120);

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn growth_is_that_of_the_window_and_no_more() {
        let mut trail = Trail::default();
        for second in (0..7200).step_by(15) {
            trail.take(second, at(second), HOUR, GAP);
        }
        let growth = trail.take(7200, at(7200), HOUR, GAP);
        assert!(growth.covers(HOUR));
        assert!((3600..=3840).contains(&growth.by), "{growth:?}");
        assert_eq!(growth.by, growth.over.as_secs());
    }

    #[test]
    fn the_first_sight_a_reset_and_a_gap_are_no_growth() {
        let mut trail = Trail::default();
        assert_eq!(trail.take(1000, at(0), HOUR, GAP), Growth::default());
        assert_eq!(trail.take(1005, at(15), HOUR, GAP).by, 5);
        assert_eq!(trail.take(3, at(30), HOUR, GAP), Growth::default(), "reset");
        assert_eq!(trail.take(4, at(45), HOUR, GAP).by, 1);
        assert_eq!(trail.take(900, at(345), HOUR, GAP), Growth::default(), "gap");
    }

    #[test]
    fn one_reading_seen_twice_is_one() {
        let mut trail = Trail::default();
        trail.take(1, at(0), HOUR, GAP);
        let once = trail.take(2, at(30), HOUR, GAP);
        assert_eq!(trail.take(2, at(30), HOUR, GAP), once);
    }

    proptest! {
        #[test]
        fn it_is_bounded_and_invents_no_growth(
            steps in prop::collection::vec((1_u64..60, 0_u64..100), 1..400),
            window in 60_u64..10_000,
        ) {
            let (mut trail, mut now, mut value) = (Trail::default(), 0, 0);
            let mut seen = Vec::new();
            for (seconds, grown) in steps {
                now += seconds;
                value += grown;
                seen.push((now, value));
                let growth = trail.take(value, at(now), at(window), GAP);
                prop_assert!(trail.0.len() <= usize::try_from(MAX_POINTS).unwrap() + 2);
                let from = now - growth.over.as_secs();
                let low = seen.iter().find(|(t, _)| *t == from).map(|(_, v)| *v);
                prop_assert_eq!(low.map(|low| value - low), Some(growth.by));
            }
        }
    }
}
