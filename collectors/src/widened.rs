//! Counters of 32 bits, made monotonic: such a counter starts again at 0 after 4,294,967,295.

/// The width of the counter.
const SPAN: u64 = 1 << 32;

/// One counter. It must be read at least once in 2,147,483,648 counts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Widened {
    last: u64,
    /// Multiple of [`SPAN`] that wraps have added.
    carried: u64,
}

impl Widened {
    /// The total for a reading. A value that went back by more than half the width is a wrap, and by less a reset, after
    /// which the total starts again too.
    pub(crate) fn total(&mut self, value: u64) -> u64 {
        if value < self.last {
            let has_wrapped = self.last < SPAN && self.last - value > SPAN / 2;
            self.carried = if has_wrapped {
                self.carried.saturating_add(SPAN)
            } else {
                0
            };
        }
        self.last = value;
        self.carried.saturating_add(value)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_counter_that_wraps_goes_on() {
        let mut counter = Widened::default();
        assert_eq!(counter.total(4_294_967_290), 4_294_967_290);
        assert_eq!(counter.total(3), 4_294_967_299);
        assert_eq!(counter.total(10), 4_294_967_306);
    }

    #[test]
    fn a_counter_that_was_reset_starts_again() {
        let mut counter = Widened::default();
        assert_eq!(counter.total(2_000_000), 2_000_000);
        assert_eq!(counter.total(5), 5);
    }

    #[test]
    fn a_counter_wider_than_32_bits_is_taken_as_it_is() {
        let mut counter = Widened::default();
        assert_eq!(counter.total(5_000_000_000), 5_000_000_000);
        assert_eq!(counter.total(5_000_000_001), 5_000_000_001);
        assert_eq!(counter.total(7), 7);
    }

    proptest! {
        #[test]
        fn the_total_is_the_sum_of_what_was_counted(steps in proptest::collection::vec(0_u64..SPAN / 2, 1..50)) {
            let (mut counter, mut sum) = (Widened::default(), 0);
            for step in steps {
                sum += step;
                prop_assert_eq!(counter.total(sum % SPAN), sum);
            }
        }
    }
}
