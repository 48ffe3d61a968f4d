//! Which refused orders get into the audit trail: any local user can give some, as many as they like.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::bucket::Bucket;

/// Refused orders of a uid at once, and the time in which as many more are written.
const OF_ONE: (u32, Duration) = (5, Duration::from_secs(60));
/// Those of all uids: a user may have many.
const OF_ALL: (u32, Duration) = (30, Duration::from_secs(60));
/// Limit of uids that are distinguished.
const MAX_UIDS: usize = 64;

#[derive(Debug)]
struct OfUid {
    bucket: Bucket,
    /// Suppressed since the last one that was written.
    suppressed: u64,
}

/// Refused orders by uid.
#[derive(Debug)]
pub struct RefusedOrders {
    uids: BTreeMap<u32, OfUid>,
    all: Bucket,
    suppressed: u64,
}

impl Default for RefusedOrders {
    fn default() -> Self {
        Self {
            uids: BTreeMap::new(),
            all: Bucket::new(OF_ALL.0, OF_ALL.1),
            suppressed: 0,
        }
    }
}

impl RefusedOrders {
    /// Counts a refused order. `Some`: to be written, with the number of those of this uid that were not.
    pub fn take(&mut self, uid: u32, now: Instant) -> Option<u64> {
        if self.uids.len() >= MAX_UIDS && !self.uids.contains_key(&uid) {
            self.uids.retain(|_, of| !of.bucket.is_full(now));
        }
        let is_known = self.uids.contains_key(&uid) || self.uids.len() < MAX_UIDS;
        let of = is_known.then(|| {
            self.uids.entry(uid).or_insert_with(|| OfUid {
                bucket: Bucket::new(OF_ONE.0, OF_ONE.1),
                suppressed: 0,
            })
        });
        let Some(of) = of else {
            self.suppressed = self.suppressed.saturating_add(1);
            return None;
        };
        if of.bucket.take(1, now) && self.all.take(1, now) {
            return Some(std::mem::take(&mut of.suppressed));
        }
        of.suppressed = of.suppressed.saturating_add(1);
        self.suppressed = self.suppressed.saturating_add(1);
        None
    }

    /// Those that were not written, since the start.
    pub fn suppressed(&self) -> u64 {
        self.suppressed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_user_who_floods_gets_a_few_lines_and_silences_no_other_user() {
        let start = Instant::now();
        let mut refused = RefusedOrders::default();
        let flood = (0..10_000).filter_map(|_| refused.take(1000, start)).count();
        assert_eq!(flood, 5);
        assert_eq!(refused.take(1001, start), Some(0));
        assert_eq!(refused.take(1000, start + SECOND * 12), Some(9_995));
        assert_eq!(refused.take(1000, start + SECOND * 24), Some(0));
        assert_eq!(refused.suppressed(), 9_995);
    }

    #[test]
    fn a_user_with_many_uids_is_limited_too() {
        let start = Instant::now();
        let mut refused = RefusedOrders::default();
        let mut flood = |at| (0..100_000).filter_map(|uid| refused.take(uid, at)).count();
        assert_eq!(flood(start), 30);
        assert_eq!(flood(start + SECOND * 60), 30, "idle uids are forgotten");
        assert!(refused.uids.len() <= MAX_UIDS);
        assert_eq!(refused.suppressed(), 200_000 - 60);
    }
}
