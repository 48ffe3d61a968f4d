//! A fact that hardly ever changes and is not worth a read at every scrape.

use std::time::{Duration, Instant};

/// How old such a fact may be: a clock step or a renamed slot shows after at most this long.
pub(super) const KEEP: Duration = Duration::from_secs(60);

/// One fact and when it was read.
pub(crate) struct Slow<T> {
    read: Option<(Instant, T)>,
    keep: Duration,
}

impl<T> Slow<T> {
    pub(super) const fn new() -> Self {
        Self::keeping(KEEP)
    }

    /// A fact that may be as old as that.
    pub(crate) const fn keeping(keep: Duration) -> Self {
        Self { read: None, keep }
    }

    /// The fact, read again where it is older than it may be or could not be read the last time.
    pub(crate) fn get(&mut self, now: Instant, read: impl FnOnce() -> Option<T>) -> Option<&T> {
        let fresh = matches!(&self.read, Some((at, _)) if now.saturating_duration_since(*at) < self.keep);
        if !fresh {
            self.read = read().map(|value| (now, value));
        }
        self.read.as_ref().map(|(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fact_is_read_again_only_after_its_time_or_a_failure() {
        let mut fact = Slow::new();
        let start = Instant::now();
        assert_eq!(fact.get(start, || None), None);
        assert_eq!(fact.get(start, || Some(1)), Some(&1));
        let nearly = start + KEEP - Duration::from_millis(1);
        assert_eq!(fact.get(nearly, || Some(2)), Some(&1));
        assert_eq!(fact.get(start + KEEP, || Some(2)), Some(&2));
        assert_eq!(
            fact.get(start + KEEP * 2, || None),
            None,
            "never older than its time"
        );
    }
}
