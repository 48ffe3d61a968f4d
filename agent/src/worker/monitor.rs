//! Reports where a worker's threads are blocked. The daemon cannot look: these threads belong to another user.

use std::time::Duration;

use collectors::sys::{boot, task};

/// Interval at which blocked threads are checked.
pub const PERIOD: Duration = Duration::from_secs(5);

/// The device number of a collector's source (its open or scan).
pub const SOURCE: u32 = u32::MAX;
/// The device number of a collector's watcher.
pub const WATCHER: u32 = u32::MAX - 1;
/// The device number of the closing of removed devices.
pub const CLOSING: u32 = u32::MAX - 2;

/// An outstanding reading: device, since when (nanoseconds since boot), its thread.
pub type LateThread = (u32, u64, Option<task::Task>);

/// A collector's watcher. It waits for ever by design; it is blocked only if two consecutive looks find it in
/// uninterruptible sleep.
#[derive(Debug, Default)]
pub(super) struct WatcherThread {
    tid: Option<i32>,
    /// Since when every look has found it asleep, and where.
    asleep: Option<(Duration, task::Task)>,
    /// More than one look has.
    again: bool,
}

impl WatcherThread {
    /// It runs on the calling thread.
    pub(super) fn begins(&mut self) {
        *self = Self {
            tid: Some(task::own_tid()),
            ..Self::default()
        };
    }

    /// It has ended.
    pub(super) fn ends(&mut self) {
        *self = Self::default();
    }

    /// Whether it is running.
    pub(super) fn runs(&self) -> bool {
        self.tid.is_some()
    }

    /// Whether the last look found it in uninterruptible sleep.
    pub(super) fn is_suspect(&self) -> bool {
        self.asleep.is_some()
    }

    /// The result of the looks so far.
    pub(super) fn blocked(&self) -> Option<LateThread> {
        let (since, task) = self.asleep.as_ref().filter(|_| self.again)?;
        Some((WATCHER, nanos(*since), Some(task.clone())))
    }

    pub(super) fn look(&mut self) -> Option<LateThread> {
        let found = self.tid.and_then(task::read);
        let asleep = found.filter(|t| task::is_uninterruptible(t.state));
        self.found(asleep, boot::boottime());
        self.blocked()
    }

    fn found(&mut self, asleep: Option<task::Task>, now: Duration) {
        let since = self.asleep.as_ref().map(|(since, _)| *since);
        self.again = asleep.is_some() && since.is_some();
        self.asleep = asleep.map(|task| (since.unwrap_or(now), task));
    }
}

/// A time since boot, on the wire.
pub fn nanos(t: Duration) -> u64 {
    u64::try_from(t.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watcher_is_blocked_from_the_second_look_on_that_finds_it_asleep_until_one_does_not() {
        let asleep = || {
            Some(task::Task {
                state: 'D',
                ..task::Task::default()
            })
        };
        let mut watched = WatcherThread::default();
        let mut since = Vec::new();
        for (at, found) in (10..).zip([
            asleep(),
            asleep(),
            asleep(),
            None,
            asleep(),
            None,
            asleep(),
            asleep(),
        ]) {
            watched.found(found, Duration::from_secs(at));
            since.push(watched.blocked().map(|(_, since, _)| since / 1_000_000_000));
        }
        let blocked = [None, Some(10), Some(10), None, None, None, None, Some(16)];
        assert_eq!(since, blocked);
        watched.ends();
        assert!(watched.blocked().is_none() && !watched.is_suspect());
    }
}
