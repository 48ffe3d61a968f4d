//! What refusals may cost: log lines.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// A refusal of one kind is logged once in this time.
const LOG_EVERY: Duration = Duration::from_secs(60);

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
