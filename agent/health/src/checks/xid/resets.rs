//! When a GPU was reset: seen by counters that only a reset, a driver that is loaded anew or a reboot takes back. The
//! driver counts energy and volatile memory errors since it took the GPU over; both only ever grow until then.

use std::collections::BTreeMap;
use std::time::Duration;

/// GPUs that are told apart.
const MAX_GPUS: usize = 128;

/// What was read of a GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Counters {
    /// Energy since the driver took it over, in joules.
    pub energy: Option<f64>,
    /// Volatile memory errors, corrected and not.
    pub errors: Option<u64>,
}

impl Counters {
    fn went_back(&self, before: &Self) -> bool {
        let energy = matches!((before.energy, self.energy), (Some(before), Some(now)) if now < before);
        let errors = matches!((before.errors, self.errors), (Some(before), Some(now)) if now < before);
        energy || errors
    }
}

/// What is remembered of one GPU.
#[derive(Debug)]
struct Seen {
    counters: Counters,
    /// When they were read: since boot, and by the wall clock.
    read: Duration,
    wall: i64,
    /// The reading in which they had gone back, which one that follows must confirm.
    doubt: Option<Duration>,
    /// The last reset: nothing that was found after this moment is older than it.
    reset: Option<i64>,
}

/// The last reading of each GPU, over times in which it could not be read. Nothing of it outlives the process: what
/// happened while nobody looked is not seen.
#[derive(Debug, Default)]
pub(super) struct Resets {
    seen: BTreeMap<String, Seen>,
}

impl Resets {
    /// Takes a reading of a GPU that answers, made at `read`. When it was reset last, by the wall clock: what was found
    /// before then is older than the reset. One reading that has gone back is none yet: the next one must have, too.
    pub(super) fn take(&mut self, gpu: &str, now: Counters, read: Duration, wall: i64) -> Option<i64> {
        if let Some(seen) = self.seen.get_mut(gpu) {
            if now == Counters::default() || read <= seen.doubt.unwrap_or(seen.read) {
                return seen.reset;
            }
            if now.went_back(&seen.counters) {
                if seen.doubt.replace(read).is_none() {
                    return seen.reset;
                }
                seen.reset = Some(seen.wall);
            }
            (seen.counters, seen.read, seen.wall, seen.doubt) = (now, read, wall, None);
            return seen.reset;
        }
        if now != Counters::default() && self.seen.len() < MAX_GPUS {
            let seen = Seen {
                counters: now,
                read,
                wall,
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
    fn a_counter_that_went_back_is_a_reset_and_nothing_else_is() {
        let mut resets = Resets::default();
        let of = |energy, errors| Counters { energy, errors };
        let readings = [
            (of(Some(1e6), Some(3)), None),
            (of(Some(1e6), Some(3)), None),
            (of(Some(2e6), Some(4)), None),
            // Nothing was read: nothing is known.
            (of(None, None), None),
            // One reading may be garbage.
            (of(Some(0.0), Some(4)), None),
            (of(Some(3e6), Some(4)), None),
            (of(Some(10.0), Some(4)), None),
            (of(Some(20.0), None), Some(5)),
            (of(None, Some(0)), Some(5)),
            (of(None, Some(7)), Some(5)),
            (of(None, Some(0)), Some(5)),
            (of(None, Some(0)), Some(9)),
        ];
        for (at, (reading, want)) in (0..).zip(readings) {
            let read = Duration::from_secs(100 + at);
            let wall = i64::try_from(at).unwrap();
            assert_eq!(resets.take("g", reading, read, wall), want, "{at}: {reading:?}");
            // The same reading in another snapshot says nothing new.
            assert_eq!(
                resets.take("g", reading, read, wall + 1),
                want,
                "{at}: {reading:?}"
            );
            assert_eq!(resets.take("other", of(Some(5.0), Some(0)), read, wall), None);
        }
    }

    #[test]
    fn nothing_grows_without_bound() {
        let mut resets = Resets::default();
        for n in 0..1000 {
            let now = Counters {
                energy: Some(1.0),
                errors: None,
            };
            resets.take(&n.to_string(), now, Duration::from_secs(1), n);
        }
        assert_eq!(resets.seen.len(), MAX_GPUS);
    }
}
