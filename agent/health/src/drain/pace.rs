//! The time between two looks at the node. Many nodes start and fail at the same moment, and one controller answers all
//! of them: each time is spread by a value of the node.

use std::time::Duration;

/// While a drain is required and does not stand.
const WANTED: Duration = Duration::from_secs(2);
/// The same after [`PATIENCE`].
const WANTED_LONG: Duration = Duration::from_secs(10);
const PATIENCE: Duration = Duration::from_secs(600);
/// Looks that did not prove the node, after which the time doubles with each further one: each costs the whole node table.
const UNPROVEN: u32 = 3;
const UNPROVEN_MAX: Duration = Duration::from_secs(120);
/// Failures after which the time doubles with each further one.
const FAILURES: u32 = 3;
const MAX: Duration = Duration::from_secs(300);
/// Without a Slurm node, a look starts no command, but reads every process. The start of slurmd is seen after this time: while a
/// drain is required, and while none is.
const ABSENT_WANTED: Duration = Duration::from_secs(1);
const ABSENT: Duration = Duration::from_secs(30);
/// The parent refuses more than two looks each second.
const LEAST: Duration = Duration::from_millis(500);
/// The controller saves a change within seconds.
const SAVED: Duration = Duration::from_secs(10);
/// The first looks of nodes that start together are spread over this time.
const START: Duration = Duration::from_secs(30);

/// The pace of one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// How long a drain has been required without standing, or evidence has come one after the other.
    pub waited: Duration,
    /// Consecutive failures to read the node.
    pub failures: u32,
    /// Consecutive looks that said nothing about the node.
    pub blind: u32,
    /// Consecutive looks that did not prove the node.
    pub unproven: u32,
    /// From 0 to 1, by node and number of the look.
    pub spread: f64,
}

impl Pace {
    /// At most `time`, and at least three quarters of it.
    fn within(self, time: Duration) -> Duration {
        time.mul_f64(1.0 - self.spread / 4.0)
    }

    /// After an act of unknown outcome.
    pub(super) fn unsure(self) -> Duration {
        if self.blind > 0 {
            self.wanted()
        } else {
            Duration::ZERO
        }
    }

    /// While a drain is required and does not stand.
    pub(super) fn wanted(self) -> Duration {
        let every = if self.waited < PATIENCE {
            WANTED
        } else {
            WANTED_LONG
        };
        self.within(self.slower(every))
    }

    /// Without a Slurm node.
    pub(super) fn absent(self, wanted: bool) -> Duration {
        self.within(if wanted { ABSENT_WANTED } else { ABSENT })
    }

    /// To prove the node, with nothing to do: slurmctld sends the whole node table for it.
    pub(super) fn unproven(self) -> Duration {
        ABSENT
            .saturating_mul(1 << self.blind.min(6))
            .mul_f64(1.0 + self.spread)
    }

    /// To see that a person lifted the drain, or that it may be written or lifted now: from `every` to twice that.
    pub(super) fn watch(self, every: Duration) -> Duration {
        self.slower(every.max(LEAST).mul_f64(1.0 + self.spread))
    }

    /// To see whether a new drain outlived a crash.
    pub(super) fn saved(self, watch: Duration) -> Duration {
        self.slower(SAVED.min(watch).max(LEAST).mul_f64(1.0 + self.spread / 4.0))
    }

    /// The first look after a start with nothing to do.
    pub(super) fn start(self, watch: Duration) -> Duration {
        START.min(watch).mul_f64(self.spread)
    }

    fn slower(self, every: Duration) -> Duration {
        let doubled = self.failures.saturating_sub(FAILURES - 1).min(10);
        let every = every.saturating_mul(1 << doubled).min(MAX.max(every));
        let doubled = self.unproven.saturating_sub(UNPROVEN - 1).min(10);
        every.saturating_mul(1 << doubled).min(UNPROVEN_MAX.max(every))
    }
}

/// A value from 0 to 1 that differs between nodes and numbers.
pub(in super::super) fn spread(seed: u64, number: u64) -> f64 {
    // The finalizer of MurmurHash3: each bit of the input changes half of the bits of the output.
    let mut x = seed ^ number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    x = (x ^ x >> 33).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    x = (x ^ x >> 33).wrapping_mul(0xC4CE_B9FE_1A85_EC53);
    ((x ^ x >> 33) >> 40) as f64 / f64::from(1 << 24)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(waited: u64, failures: u32, spread: f64) -> Pace {
        Pace {
            waited: Duration::from_secs(waited),
            failures,
            blind: failures,
            unproven: 0,
            spread,
        }
    }

    #[test]
    fn a_required_drain_is_looked_for_every_2_s_then_every_10() {
        assert_eq!(pace(0, 0, 0.0).wanted(), Duration::from_secs(2));
        assert_eq!(pace(599, 2, 1.0).wanted(), Duration::from_millis(1500));
        assert_eq!(pace(600, 0, 0.0).wanted(), Duration::from_secs(10));
    }

    #[test]
    fn the_third_look_that_proves_nothing_doubles_the_time_and_each_further_one_again() {
        for (unproven, seconds) in [(2, 2), (3, 4), (4, 8), (8, 120), (30, 120)] {
            let pace = Pace {
                unproven,
                ..pace(0, 0, 0.0)
            };
            assert_eq!(pace.wanted(), Duration::from_secs(seconds), "{unproven}");
            assert_eq!(
                pace.watch(Duration::from_secs(300)),
                Duration::from_secs(300),
                "never sooner than configured"
            );
        }
    }

    #[test]
    fn the_start_of_slurmd_is_seen_after_a_second_or_after_30_where_nothing_is_required() {
        assert_eq!(pace(0, 0, 0.0).absent(true), Duration::from_secs(1));
        assert_eq!(pace(0, 0, 0.0).absent(false), Duration::from_secs(30));
        assert_eq!(pace(0, 0, 1.0).absent(false), Duration::from_millis(22_500));
    }

    #[test]
    fn a_node_is_proven_after_a_minute_then_ever_more_rarely() {
        for (looks, minutes) in [(1, 1), (2, 2), (6, 32), (30, 32)] {
            assert_eq!(pace(0, looks, 0.0).unproven(), Duration::from_secs(minutes * 60));
            assert_eq!(pace(0, looks, 1.0).unproven(), Duration::from_secs(minutes * 120));
        }
    }

    #[test]
    fn the_third_failure_doubles_the_time_and_each_further_one_again() {
        for (failures, seconds) in [(2, 2), (3, 4), (4, 8), (5, 16), (30, 300)] {
            assert_eq!(
                pace(0, failures, 0.0).wanted(),
                Duration::from_secs(seconds),
                "{failures}"
            );
        }
        assert_eq!(
            pace(0, 30, 0.0).watch(Duration::from_secs(3600)),
            Duration::from_secs(3600),
            "never sooner than configured"
        );
    }
}
