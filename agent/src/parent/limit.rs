//! What the daemon may cost the parent: a limit of requests, and of log lines about refused ones.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// A refusal of one kind is logged once in this time.
const LOG_EVERY: Duration = Duration::from_secs(60);

/// A token bucket: `burst` requests at once, and one more each `every`.
#[derive(Debug)]
pub struct Bucket {
    burst: u32,
    every: Duration,
    left: u32,
    /// When the last token was added; `None`: it was never used.
    filled: Option<Instant>,
}

impl Bucket {
    /// A full one.
    pub const fn new(burst: u32, every: Duration) -> Self {
        Self {
            burst,
            every,
            left: burst,
            filled: None,
        }
    }

    /// Whether a request is within the limit. One that is not costs nothing.
    pub fn take(&mut self, now: Instant) -> bool {
        let filled = *self.filled.get_or_insert(now);
        let tokens = now.saturating_duration_since(filled).as_nanos() / self.every.as_nanos().max(1);
        let tokens = u32::try_from(tokens).unwrap_or(u32::MAX);
        self.left = self.left.saturating_add(tokens).min(self.burst);
        // A full bucket collects nothing; the rest of an interval counts in any other.
        self.filled = Some(if self.left == self.burst {
            now
        } else {
            filled + self.every * tokens
        });
        let Some(left) = self.left.checked_sub(1) else {
            return false;
        };
        self.left = left;
        true
    }
}

/// Refusals by kind: each is logged once a minute.
#[derive(Debug, Default)]
pub struct Refusals {
    kinds: BTreeMap<&'static str, (Instant, u64)>,
}

impl Refusals {
    /// Counts a refusal. `Some`: to be logged, with the number of refusals of this kind that were not.
    pub fn add(&mut self, kind: &'static str, now: Instant) -> Option<u64> {
        match self.kinds.get_mut(kind) {
            Some((logged, silent)) if now.saturating_duration_since(*logged) < LOG_EVERY => {
                *silent = silent.saturating_add(1);
                None
            }
            known => {
                let silent = known.map_or(0, |(_, silent)| *silent);
                self.kinds.insert(kind, (now, 0));
                Some(silent)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_burst_passes_and_then_one_each_interval() {
        let start = Instant::now();
        let mut bucket = Bucket::new(10, SECOND * 5);
        let taken = |bucket: &mut Bucket, at: Duration| (0..100).filter(|_| bucket.take(start + at)).count();
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
        let mut bucket = Bucket::new(10, SECOND);
        let taken = (0..60_000)
            .filter(|ms| bucket.take(start + Duration::from_millis(*ms)))
            .count();
        assert_eq!(taken, 10 + 59);
    }

    #[test]
    fn a_kind_is_logged_once_a_minute_with_what_was_not_logged() {
        let start = Instant::now();
        let mut refusals = Refusals::default();
        assert_eq!(refusals.add("looks", start), Some(0));
        for n in 0..59 {
            assert_eq!(refusals.add("looks", start + SECOND * n), None);
        }
        assert_eq!(refusals.add("acts", start + SECOND), Some(0), "another kind");
        assert_eq!(refusals.add("looks", start + SECOND * 60), Some(59));
        assert_eq!(refusals.add("looks", start + SECOND * 61), None);
    }
}
