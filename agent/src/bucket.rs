//! A token bucket: how often something may happen.

use std::time::{Duration, Instant};

/// Tokens that come back one each interval.
#[derive(Debug)]
pub(crate) struct Bucket {
    /// The time in which all tokens come back.
    refill: Duration,
    /// The most tokens it holds.
    burst: u32,
    /// When it will be full again; `None`: it was never used.
    full_at: Option<Instant>,
}

impl Bucket {
    /// A full one of `burst` tokens, all of which are back after `refill`.
    pub(crate) const fn new(burst: u32, refill: Duration) -> Self {
        Self {
            refill,
            burst,
            full_at: None,
        }
    }

    /// Takes `tokens`, or none where fewer are left: a refusal costs nothing.
    pub(crate) fn take(&mut self, tokens: u32, now: Instant) -> bool {
        let nanos = self.refill.as_nanos() * u128::from(tokens) / u128::from(self.burst.max(1));
        let cost = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        let full_at = self.full_at.map_or(now, |at| at.max(now)) + cost;
        if full_at > now + self.refill {
            return false;
        }
        self.full_at = Some(full_at);
        true
    }

    /// Whether all tokens are back.
    pub(crate) fn is_full(&self, now: Instant) -> bool {
        self.full_at.is_none_or(|at| at <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_burst_passes_and_then_one_each_interval() {
        let start = Instant::now();
        let mut bucket = Bucket::new(10, SECOND * 50);
        let taken =
            |bucket: &mut Bucket, at: Duration| (0..100).filter(|_| bucket.take(1, start + at)).count();
        assert_eq!(taken(&mut bucket, Duration::ZERO), 10);
        assert_eq!(taken(&mut bucket, SECOND * 4), 0);
        assert_eq!(taken(&mut bucket, SECOND * 5), 1);
        // Half intervals count, and a long pause gives no more than the burst.
        assert_eq!(taken(&mut bucket, SECOND * 18), 2);
        assert_eq!(taken(&mut bucket, SECOND * 20), 1);
        assert_eq!(taken(&mut bucket, SECOND * 3600), 10);
    }

    #[test]
    fn a_flood_gets_the_rate_and_no_more() {
        let start = Instant::now();
        let mut bucket = Bucket::new(10, SECOND * 10);
        let taken = (0..60_000)
            .filter(|ms| bucket.take(1, start + Duration::from_millis(*ms)))
            .count();
        assert_eq!(taken, 10 + 59);
    }

    #[test]
    fn several_tokens_are_taken_together_or_not_at_all() {
        let start = Instant::now();
        let mut bucket = Bucket::new(10, SECOND * 5);
        assert!(!bucket.take(11, start) && bucket.take(10, start));
        assert!(bucket.take(2, start + SECOND) && !bucket.take(1, start + SECOND));
    }
}
