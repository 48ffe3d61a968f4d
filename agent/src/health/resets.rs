//! When a GPU was reset: seen by counters that only a reset, a driver that is loaded anew or a reboot takes back. The
//! driver counts energy and volatile memory errors since it took the GPU over; both only ever grow until then.

use std::collections::BTreeMap;

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

/// The last reading of each GPU, over times in which it could not be read. Nothing of it outlives the process: what
/// happened while nobody looked is not seen.
#[derive(Debug, Default)]
pub(super) struct Resets {
    last: BTreeMap<String, (Counters, i64)>,
}

impl Resets {
    /// Takes a reading of a GPU that answers. Where it was reset since the last one: when that was, by the wall clock. What
    /// was found before then is older than the reset.
    pub(super) fn take(&mut self, gpu: &str, now: Counters, wall: i64) -> Option<i64> {
        if now == Counters::default() || (self.last.len() >= MAX_GPUS && !self.last.contains_key(gpu)) {
            return None;
        }
        let (before, at) = self.last.insert(gpu.to_owned(), (now, wall))?;
        now.went_back(&before).then_some(at)
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
            (of(Some(10.0), Some(4)), Some(2)),
            (of(Some(20.0), None), None),
            (of(None, Some(0)), None),
            (of(None, Some(7)), None),
            (of(None, Some(0)), Some(7)),
        ];
        for (at, (reading, want)) in (0..).zip(readings) {
            assert_eq!(resets.take("g", reading, at), want, "{reading:?}");
            assert_eq!(resets.take("other", of(Some(5.0), Some(0)), at), None);
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
            resets.take(&n.to_string(), now, n);
        }
        assert_eq!(resets.last.len(), MAX_GPUS);
    }
}
