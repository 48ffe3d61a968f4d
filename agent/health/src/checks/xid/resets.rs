//! Detection of GPU resets by counters that only a reset, a driver reload or a reboot sets back. The driver counts
//! energy and volatile memory errors since it attached the GPU.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::Now;
use crate::bounded::MAX_GPUS;

/// The counters of a GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Counters {
    /// Energy since the driver attached it, in joules.
    pub energy: Option<f64>,
    /// Volatile memory errors, corrected and uncorrected.
    pub errors: Option<u64>,
}

impl Counters {
    /// Anyone may clear the counts of errors (nvmlDeviceClearEccErrorCounts, `nvidia-smi -p 0`), so they decide only
    /// where the driver shows no energy.
    fn went_back(&self, before: &Self) -> bool {
        match (before.energy, self.energy) {
            (Some(before), Some(now)) => now < before,
            (None, None) => matches!((before.errors, self.errors), (Some(before), Some(now)) if now < before),
            _ => false,
        }
    }

    /// Whether they show that no reset happened since a reading, or that one did.
    fn are_comparable(&self, before: &Self) -> bool {
        *self != Self::default() && (self.energy.is_some() || before.energy.is_none())
    }
}

/// The last reading of one GPU.
#[derive(Debug)]
struct Seen {
    counters: Counters,
    /// The time of the reading.
    read: Now,
    /// The reading in which they decreased, which the next reading must confirm.
    doubt: Option<Duration>,
    /// The first later reading in which it could not be used before a reset.
    lost: Option<Now>,
    /// The last reset: it happened after this time.
    reset: Option<Now>,
}

/// The last reading of each GPU, kept while it is unreadable. It is not stored: a reset before the first reading is
/// not detected.
#[derive(Debug, Default)]
pub(super) struct Resets {
    seen: BTreeMap<String, Seen>,
}

impl Resets {
    /// Takes a reading of a responding GPU, made at `read`. Returns the time of the last reset: findings up to then are
    /// older than it. Two consecutive readings below the earlier values are a reset.
    pub(super) fn take(&mut self, gpu: &str, now: Counters, read: Now) -> Option<Now> {
        if let Some(seen) = self.seen.get_mut(gpu) {
            let is_new = read.boottime > seen.doubt.unwrap_or(seen.read.boottime);
            if !is_new || !now.are_comparable(&seen.counters) {
                return seen.reset;
            }
            if now.went_back(&seen.counters) {
                if seen.doubt.replace(read.boottime).is_none() {
                    return seen.reset;
                }
                seen.reset = Some(seen.lost.unwrap_or(seen.read));
            }
            (seen.counters, seen.read) = (now, read);
            (seen.doubt, seen.lost) = (None, None);
            return seen.reset;
        }
        if now != Counters::default() && self.seen.len() < MAX_GPUS {
            let seen = Seen {
                counters: now,
                read,
                doubt: None,
                lost: None,
                reset: None,
            };
            self.seen.insert(gpu.to_owned(), seen);
        }
        None
    }

    /// A reading, made at `read`, in which the driver had lost the GPU or required its reset: if the counters have
    /// decreased when it responds again, the reset was later. Only the first such reading counts: later ones may repeat
    /// an answer from before the reset, and a fault after it must not end with it.
    pub(super) fn lost(&mut self, gpu: &str, read: Now) {
        if let Some(seen) = self.seen.get_mut(gpu)
            && read.boottime > seen.read.boottime
        {
            seen.lost.get_or_insert(read);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn of(energy: Option<f64>, errors: Option<u64>) -> Counters {
        Counters { energy, errors }
    }

    const fn at(seconds: u64) -> Now {
        Now {
            boottime: Duration::from_secs(seconds),
            wall: 0,
        }
    }

    #[test]
    fn two_readings_of_a_decreased_counter_are_a_reset() {
        let mut resets = Resets::default();
        let readings = [
            (of(Some(1e6), Some(3)), None),
            (of(Some(1e6), Some(3)), None),
            (of(Some(2e6), Some(4)), None),
            // Unreadable.
            (of(None, None), None),
            // A single wrong reading.
            (of(Some(0.0), Some(4)), None),
            (of(Some(3e6), Some(4)), None),
            (of(Some(10.0), Some(4)), None),
            (of(Some(20.0), None), Some(105)),
            // Without the energy that the driver shows, nothing is known: the counts of errors may have been cleared.
            (of(None, Some(7)), Some(105)),
            (of(None, Some(0)), Some(105)),
            (of(None, Some(0)), Some(105)),
            (of(Some(30.0), Some(0)), Some(105)),
            (of(Some(5.0), Some(0)), Some(105)),
            (of(Some(6.0), Some(0)), Some(111)),
        ];
        for (second, (reading, want)) in (100..).zip(readings) {
            let mut take = |gpu, reading| {
                let reset = resets.take(gpu, reading, at(second));
                reset.map(|now| now.boottime.as_secs())
            };
            assert_eq!(take("g", reading), want, "{second}: {reading:?}");
            // The same reading in another snapshot.
            assert_eq!(take("g", reading), want, "{second}: {reading:?}");
            assert_eq!(take("other", of(Some(5.0), Some(0))), None);
        }
    }

    #[test]
    fn errors_decide_where_the_driver_shows_no_energy() {
        let mut resets = Resets::default();
        for (second, (reading, want)) in (100..).zip([
            (of(None, Some(7)), None),
            (of(None, Some(9)), None),
            (of(None, Some(0)), None),
            (of(None, Some(0)), Some(101)),
            // Another driver may show it.
            (of(Some(10.0), Some(3)), Some(101)),
            (of(Some(20.0), Some(0)), Some(101)),
            (of(Some(30.0), Some(0)), Some(101)),
        ]) {
            let reset = resets.take("g", reading, at(second));
            assert_eq!(
                reset.map(|now| now.boottime.as_secs()),
                want,
                "{second}: {reading:?}"
            );
        }
    }

    #[test]
    fn a_gpu_that_was_lost_was_reset_after_the_first_reading_that_shows_it() {
        let mut resets = Resets::default();
        let energy = |joules| of(Some(joules), None);
        resets.lost("g", at(1));
        assert_eq!(resets.take("g", energy(5000.0), at(10)), None);
        for second in [10, 20, 30] {
            resets.lost("g", at(second));
        }
        assert_eq!(resets.take("g", energy(10.0), at(40)), None);
        resets.lost("g", at(45));
        assert_eq!(resets.take("g", energy(20.0), at(50)), Some(at(20)));
        // It lost nothing of its counters: no reset.
        resets.lost("g", at(60));
        assert_eq!(resets.take("g", energy(30.0), at(70)), Some(at(20)));
        assert_eq!(resets.take("g", energy(5.0), at(80)), Some(at(20)));
        assert_eq!(resets.take("g", energy(6.0), at(90)), Some(at(70)));
    }

    #[test]
    fn nothing_grows_without_bound() {
        let mut resets = Resets::default();
        for n in 0..1000 {
            resets.take(&n.to_string(), of(Some(1.0), None), at(1));
            resets.lost(&n.to_string(), at(2));
        }
        assert_eq!(resets.seen.len(), MAX_GPUS);
    }
}
