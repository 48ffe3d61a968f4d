//! Detection of GPU resets by counters that only a reset, a driver reload or a reboot sets back. The driver counts
//! energy and volatile memory errors since it attached the GPU.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::Now;

/// The most GPUs.
const MAX_GPUS: usize = 128;

/// The counters of a GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Counters {
    /// Energy since the driver attached it, in joules.
    pub energy: Option<f64>,
    /// Volatile memory errors, corrected and uncorrected.
    pub errors: Option<u64>,
}

impl Counters {
    fn went_back(&self, before: &Self) -> bool {
        let energy = matches!((before.energy, self.energy), (Some(before), Some(now)) if now < before);
        let errors = matches!((before.errors, self.errors), (Some(before), Some(now)) if now < before);
        energy || errors
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
            if now == Counters::default() || read.boottime <= seen.doubt.unwrap_or(seen.read.boottime) {
                return seen.reset;
            }
            if now.went_back(&seen.counters) {
                if seen.doubt.replace(read.boottime).is_none() {
                    return seen.reset;
                }
                seen.reset = Some(seen.read);
            }
            (seen.counters, seen.read, seen.doubt) = (now, read, None);
            return seen.reset;
        }
        if now != Counters::default() && self.seen.len() < MAX_GPUS {
            let seen = Seen {
                counters: now,
                read,
                doubt: None,
                reset: None,
            };
            self.seen.insert(gpu.to_owned(), seen);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_readings_of_a_decreased_counter_are_a_reset() {
        let mut resets = Resets::default();
        let of = |energy, errors| Counters { energy, errors };
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
            (of(None, Some(0)), Some(105)),
            (of(None, Some(7)), Some(105)),
            (of(None, Some(0)), Some(105)),
            (of(None, Some(0)), Some(109)),
        ];
        for (at, (reading, want)) in (100..).zip(readings) {
            let read = Now {
                boottime: Duration::from_secs(at),
                wall: 0,
            };
            let mut take =
                |gpu, reading, read| resets.take(gpu, reading, read).map(|now| now.boottime.as_secs());
            assert_eq!(take("g", reading, read), want, "{at}: {reading:?}");
            // The same reading in another snapshot.
            assert_eq!(take("g", reading, read), want, "{at}: {reading:?}");
            assert_eq!(take("other", of(Some(5.0), Some(0)), read), None);
        }
    }

    #[test]
    fn nothing_grows_without_bound() {
        let mut resets = Resets::default();
        let read = Now {
            boottime: Duration::from_secs(1),
            wall: 0,
        };
        for n in 0..1000 {
            let now = Counters {
                energy: Some(1.0),
                errors: None,
            };
            resets.take(&n.to_string(), now, read);
        }
        assert_eq!(resets.seen.len(), MAX_GPUS);
    }
}
