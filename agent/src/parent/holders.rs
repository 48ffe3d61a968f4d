//! The processes that hold the lock slots of a domain: which of them cannot end.

use std::time::{Duration, Instant};

/// A process that has not ended after this time counts as stuck. One that waits for events of a driver ends within 5 s.
pub(super) const GRACE: Duration = Duration::from_secs(10);

/// Since when earlier processes hold each slot.
#[derive(Debug, Default)]
pub(super) struct SlotHolders([Option<Instant>; 2]);

impl SlotHolders {
    /// Takes the slots that other processes than the running worker, which has the slot `own`, hold now.
    pub(super) fn look(&mut self, held: [bool; 2], own: Option<usize>, now: Instant) {
        for (slot, (since, is_held)) in self.0.iter_mut().zip(held).enumerate() {
            *since = (is_held && own != Some(slot)).then(|| since.unwrap_or(now));
        }
    }

    /// Whether any slot is held.
    pub(super) fn any(&self) -> bool {
        self.0.iter().any(Option::is_some)
    }

    /// The number of slots whose process has not ended within [`GRACE`].
    pub(super) fn stuck(&self, now: Instant) -> u8 {
        let since = self.0.iter().flatten();
        let stuck = since.filter(|since| now.saturating_duration_since(**since) >= GRACE);
        u8::try_from(stuck.count()).unwrap_or(u8::MAX)
    }

    /// When the grace of the first process that is still within it ends.
    pub(super) fn grace_ends(&self, now: Instant) -> Option<Instant> {
        let ends = self.0.iter().flatten().map(|since| *since + GRACE);
        ends.filter(|at| *at > now).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_stuck_after_the_grace_and_not_after_it_has_ended() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut holders = SlotHolders::default();
        holders.look([true, false], None, at(0));
        assert_eq!(
            (holders.stuck(at(9)), holders.grace_ends(at(9))),
            (0, Some(at(10)))
        );
        assert_eq!((holders.stuck(at(10)), holders.grace_ends(at(10))), (1, None));
        holders.look([false, false], None, at(20));
        assert_eq!((holders.stuck(at(60)), holders.any()), (0, false));
    }

    #[test]
    fn each_slot_has_its_own_grace_and_the_running_worker_is_none_of_them() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut holders = SlotHolders::default();
        holders.look([true, true], Some(1), at(0));
        assert_eq!(holders.stuck(at(3600)), 1, "the worker itself runs");
        // The worker leaves now.
        holders.look([true, true], None, at(3600));
        assert_eq!((holders.stuck(at(3605)), holders.stuck(at(3610))), (1, 2));
        // The first process ends, and the second slot is still held.
        holders.look([false, true], None, at(3620));
        assert_eq!(holders.stuck(at(3620)), 1);
    }
}
