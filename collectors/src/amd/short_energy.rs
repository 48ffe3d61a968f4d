//! A counter of energy that may have 32 bits: it starts again at 0 after 4,294,967,295, every few minutes. It is counted on, as a reset
//! each time would lose the energy until the next scrape.

/// The width of the counter.
const SPAN: u64 = 1 << 32;

/// The counter, in its own unit. It must be read at least once in 2,147,483,648 counts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ShortEnergy {
    /// `None`: not read yet.
    last: Option<u64>,
    total: u64,
}

impl ShortEnergy {
    /// The total for a reading. It begins at 0, so that another worker is a counter reset that adds nothing; a value of more
    /// than 32 bits is the driver's own total. A value that went back by more than half the width is a wrap, and by less a reset of
    /// the driver's counter, which has counted it since.
    pub(super) fn total(&mut self, value: u64) -> u64 {
        let growth = match self.last.replace(value) {
            None if value < SPAN => 0,
            None => value,
            Some(last) if value >= last => value - last,
            Some(last) if last >= SPAN => {
                self.total = 0;
                value
            }
            Some(last) if last - value > SPAN / 2 => value + SPAN - last,
            Some(_) => value,
        };
        self.total = self.total.saturating_add(growth);
        self.total
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The total after these readings.
    fn counted(values: &[u64]) -> u64 {
        let mut counter = ShortEnergy::default();
        values.iter().fold(0, |_, value| counter.total(*value))
    }

    #[test]
    fn the_total_begins_at_0_and_goes_on_over_a_wrap() {
        assert_eq!(counted(&[4_294_967_290]), 0);
        assert_eq!(counted(&[4_294_967_290, 3]), 9);
        assert_eq!(counted(&[4_294_967_290, 3, 10]), 16);
    }

    #[test]
    fn a_counter_that_was_reset_adds_what_it_has_counted_since() {
        assert_eq!(counted(&[2_000_000, 2_000_100, 5]), 105);
    }

    #[test]
    fn a_counter_wider_than_32_bits_is_taken_as_it_is() {
        assert_eq!(counted(&[5_000_000_000]), 5_000_000_000);
        assert_eq!(counted(&[5_000_000_000, 5_000_000_001]), 5_000_000_001);
        assert_eq!(counted(&[5_000_000_000, 5_000_000_001, 7]), 7);
    }

    proptest! {
        #[test]
        fn the_total_is_the_sum_of_what_was_counted(steps in proptest::collection::vec(0_u64..SPAN / 2, 1..50)) {
            let (mut counter, mut sum) = (ShortEnergy::default(), 0);
            counter.total(0);
            for step in steps {
                sum += step;
                prop_assert_eq!(counter.total(sum % SPAN), sum);
            }
        }
    }
}
