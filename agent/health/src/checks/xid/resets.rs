//! Detection of GPU resets by counters that only a reset, a driver reload or a reboot sets back. The driver counts
//! energy and volatile memory errors since it attached the GPU.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Now;
use crate::bounded::MAX_GPUS;

/// The counters of a GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Counters {
    /// Energy since the driver attached it, in whole joules: a stored fraction might come back as a higher one.
    pub energy: Option<f64>,
    /// Volatile memory errors, corrected and uncorrected. Not stored: anyone may clear them while nodewarden does not run.
    #[serde(skip)]
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
#[derive(Debug, Serialize, Deserialize)]
struct Seen {
    counters: Counters,
    /// The time of the reading.
    read: Now,
    /// The reading in which they decreased, which the next reading must confirm.
    #[serde(skip)]
    doubt: Option<Duration>,
    /// The first later reading in which it could not be used before a reset.
    lost: Option<Now>,
    /// The last reset: it happened after this time.
    #[serde(skip)]
    reset: Option<Now>,
    /// The last fault that a reset ends: the first reading after it must be stored.
    #[serde(skip)]
    fault: Option<Duration>,
    /// Of the record: no reading since the start was compared with it.
    #[serde(skip, default = "yes")]
    is_restored: bool,
}

const fn yes() -> bool {
    true
}

/// The last reading of each GPU in this boot, kept while it is unreadable. The stored one may be older than the last: it
/// shows a reset as well, and ends less.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Resets {
    seen: BTreeMap<String, Seen>,
    /// The kernel log has been read to its end since the start.
    #[serde(skip)]
    is_log_read: bool,
    /// A reading must be stored.
    #[serde(skip)]
    is_due: bool,
}

impl Resets {
    /// Takes a reading of a responding GPU, made at `read`. Returns the time of the last reset: findings up to then are
    /// older than it. Two consecutive readings below the earlier values are a reset.
    pub(super) fn take(&mut self, gpu: &str, now: Counters, read: Now) -> Option<Now> {
        if let Some(seen) = self.seen.get_mut(gpu) {
            let is_new = read.boottime > seen.doubt.unwrap_or(seen.read.boottime);
            // A line of the time before the start may name a later fault.
            let waits = seen.is_restored && !self.is_log_read;
            if waits || !is_new || !now.are_comparable(&seen.counters) {
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
            let is_after = seen.fault.is_some_and(|fault| read.boottime >= fault);
            if is_after || seen.is_restored {
                self.is_due = true;
                (seen.fault, seen.is_restored) = (None, false);
            }
            return seen.reset;
        }
        if now != Counters::default() && self.seen.len() < MAX_GPUS {
            let seen = Seen {
                counters: now,
                read,
                doubt: None,
                lost: None,
                reset: None,
                fault: None,
                is_restored: false,
            };
            self.seen.insert(gpu.to_owned(), seen);
            self.is_due = true;
        }
        None
    }

    /// A reading, made at `read`, in which the driver had lost the GPU or required its reset: if the counters have
    /// decreased when it responds again, the reset was later. Only the first such reading counts: later ones may repeat
    /// an answer from before the reset, and a fault after it must not end with it. After a start, the reset may have been
    /// before it.
    pub(super) fn lost(&mut self, gpu: &str, read: Now) {
        if let Some(seen) = self.seen.get_mut(gpu)
            && read.boottime > seen.read.boottime
            && !seen.is_restored
        {
            self.is_due |= seen.lost.is_none();
            seen.lost.get_or_insert(read);
        }
    }

    /// A fault that a reset ends.
    pub(super) fn fault(&mut self, gpu: &str, now: Duration) {
        if let Some(seen) = self.seen.get_mut(gpu) {
            seen.fault = Some(now);
        }
    }

    /// Whether a reading must be stored that was not before.
    pub(super) fn take_due(&mut self) -> bool {
        std::mem::take(&mut self.is_due)
    }

    /// The kernel log has been read to its end: what it said about the time before the start is known.
    pub(super) fn log_read(&mut self) {
        self.is_log_read = true;
    }

    /// Drops the restored reading of this GPU, or of all: a fault may have come after a reset that it would show.
    pub(super) fn drop_restored(&mut self, gpu: Option<&str>) {
        let is_of = |name: &str| gpu.is_none_or(|gpu| gpu == name);
        self.seen.retain(|name, seen| !(seen.is_restored && is_of(name)));
    }

    /// The wait for the kernel log is over.
    pub(super) fn log_timed_out(&mut self) {
        if !self.is_log_read {
            self.drop_restored(None);
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

    /// These readings as a later start finds them.
    fn restored(resets: &Resets) -> Resets {
        serde_json::from_str(&serde_json::to_string(resets).unwrap()).unwrap()
    }

    #[test]
    fn a_stored_reading_shows_a_reset_once_the_kernel_log_was_read() {
        let energy = |joules| of(Some(joules), Some(0));
        let mut first = Resets::default();
        first.take("g", of(Some(5000.0), Some(7)), at(100));
        first.take("h", of(None, Some(7)), at(100));
        first.lost("h", at(105));
        let mut resets = restored(&first);
        // Whether a line of the time before the start names a fault after the reset is not known yet.
        for second in [200, 210, 220] {
            assert_eq!(resets.take("g", energy(10.0), at(second)), None);
        }
        resets.log_read();
        resets.log_timed_out();
        assert_eq!(resets.take("g", energy(20.0), at(230)), None);
        resets.lost("g", at(235));
        assert_eq!(resets.take("g", energy(30.0), at(240)), Some(at(100)));
        // Cleared counts of errors are no proof.
        for second in [230, 240] {
            assert_eq!(resets.take("h", of(None, Some(0)), at(second)), None);
        }

        // A reset after it is seen as ever.
        resets.lost("g", at(245));
        assert_eq!(resets.take("g", energy(1.0), at(250)), Some(at(100)));
        assert_eq!(resets.take("g", energy(2.0), at(260)), Some(at(245)));
    }

    #[test]
    fn the_first_lost_reading_is_stored_with_it() {
        let mut resets = Resets::default();
        let energy = |joules| of(Some(joules), None);
        resets.take("g", energy(5000.0), at(100));
        assert!(resets.take_due() && !resets.take_due());
        resets.lost("g", at(110));
        assert!(resets.take_due());
        resets.lost("g", at(120));
        assert!(!resets.take_due());
        let mut resets = restored(&resets);
        resets.log_read();
        assert_eq!(resets.take("g", energy(10.0), at(200)), None);
        assert_eq!(resets.take("g", energy(20.0), at(210)), Some(at(110)));
        assert!(resets.take_due());
    }

    #[test]
    fn only_the_first_reading_after_a_fault_is_stored() {
        let mut resets = Resets::default();
        let mut take = |second: u64, fault: bool| {
            if fault {
                resets.fault("g", Duration::from_secs(second) + Duration::from_millis(1));
            }
            resets.take("g", of(Some(5000.0), None), at(second));
            resets.take_due()
        };
        let stored = [(10, false), (20, true), (30, false), (40, false)].map(|(s, fault)| take(s, fault));
        assert_eq!(stored, [true, false, true, false]);
    }

    #[test]
    fn a_restored_reading_is_dropped_without_what_happened_before_the_start() {
        let mut first = Resets::default();
        for gpu in ["g", "h"] {
            first.take(gpu, of(Some(5000.0), None), at(100));
        }
        for (of_gpu, is_dropped) in [(None, true), (Some("g"), true), (Some("h"), false)] {
            let mut resets = restored(&first);
            resets.drop_restored(of_gpu);
            resets.log_read();
            resets.take("g", of(Some(10.0), None), at(200));
            let reset = resets.take("g", of(Some(20.0), None), at(210));
            assert_eq!(reset.is_none(), is_dropped);
        }
        let mut resets = restored(&first);
        resets.log_timed_out();
        resets.log_read();
        resets.take("g", of(Some(10.0), None), at(200));
        assert!(resets.take("g", of(Some(20.0), None), at(210)).is_none());
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
