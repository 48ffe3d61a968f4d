//! A token bucket: how often something may happen.

use std::time::{Duration, Instant};

/// Tokens that come back at a constant rate.
#[derive(Debug)]
pub(crate) struct Bucket {
    /// The most tokens it holds.
    burst: f64,
    /// Tokens a second.
    rate: f64,
    left: f64,
    at: Instant,
}

impl Bucket {
    /// A full one, of `burst` tokens, all of which are back after `refill`.
    pub(crate) fn new(burst: u32, refill: Duration, now: Instant) -> Self {
        let burst = f64::from(burst);
        Self {
            burst,
            rate: burst / refill.as_secs_f64().max(0.001),
            left: burst,
            at: now,
        }
    }

    /// Takes `tokens`, or none where fewer are left.
    pub(crate) fn take(&mut self, tokens: u32, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.at = now;
        self.left = (self.left + passed * self.rate).min(self.burst);
        let tokens = f64::from(tokens);
        if tokens > self.left {
            return false;
        }
        self.left -= tokens;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_and_then_the_rate() {
        let start = Instant::now();
        let mut bucket = Bucket::new(10, Duration::from_secs(5), start);
        assert!((0..10).all(|_| bucket.take(1, start)));
        assert!(!bucket.take(1, start));
        let later = start + Duration::from_secs(1);
        assert!(bucket.take(2, later) && !bucket.take(1, later));
        let much_later = start + Duration::from_secs(1000);
        assert!(!bucket.take(11, much_later) && bucket.take(10, much_later));
    }
}
