//! Random numbers that spread what many nodes do at the same time, and for pseudonyms. None is a key.

use std::hash::{BuildHasher, RandomState};

/// A share of 0 to 1, another one each time.
pub(crate) fn share() -> f64 {
    let bits = RandomState::new().hash_one(0) >> 32;
    f64::from(u32::try_from(bits).unwrap_or(0)) / f64::from(u32::MAX)
}

/// A number from 1 to `most`, another one each time.
pub(crate) fn up_to(most: u64) -> u64 {
    RandomState::new().hash_one(0) % most.max(1) + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_differ_and_stay_within_their_limit() {
        let all: std::collections::BTreeSet<u64> = (0..1000).map(|_| up_to(10)).collect();
        assert_eq!(all, (1..=10).collect());
        assert_eq!((up_to(1), up_to(0)), (1, 1));
    }

    #[test]
    fn shares_differ_and_stay_within_one() {
        let mut all: Vec<f64> = (0..64).map(|_| share()).collect();
        assert!(all.iter().all(|s| (0.0..=1.0).contains(s)));
        all.sort_by(f64::total_cmp);
        all.dedup();
        assert!(all.len() > 60 && all[0] < 0.5 && all[all.len() - 1] > 0.5);
    }
}
