//! Tells what a worker's threads are blocked in. The daemon cannot look: these threads belong to another user.

use std::time::Duration;

use collectors::sys::{boot, task};

/// How often blocked threads are looked at, while there are any.
pub const PERIOD: Duration = Duration::from_secs(5);

/// The device number that stands for a collector's source (its open or scan).
pub const SOURCE: u32 = u32::MAX;
/// The device number that stands for a collector's watcher.
pub const WATCHER: u32 = u32::MAX - 1;

/// What has not come back: device, since when (nanoseconds since boot), its thread.
pub type Late = (u32, u64, Option<task::Task>);

/// A collector's watcher. It waits for ever by design; only one in uninterruptible sleep over two looks is blocked.
#[derive(Debug, Default)]
pub(super) struct Watched {
    tid: Option<i32>,
    blocked: Option<Duration>,
}

impl Watched {
    /// It runs on the calling thread.
    pub(super) fn begins(&mut self) {
        self.tid = Some(task::own_tid());
        self.blocked = None;
    }

    /// It has ended.
    pub(super) fn ends(&mut self) {
        *self = Self::default();
    }

    /// Whether the last look found it in uninterruptible sleep.
    pub(super) fn is_suspect(&self) -> bool {
        self.blocked.is_some()
    }

    pub(super) fn look(&mut self) -> Option<Late> {
        let asleep = task::read(self.tid?).filter(|t| t.state == 'D');
        let Some(task) = asleep else {
            self.blocked = None;
            return None;
        };
        let first = self.blocked.is_none();
        let since = *self.blocked.get_or_insert_with(boot::boottime);
        (!first).then(|| (WATCHER, nanos(since), Some(task)))
    }
}

/// A time since boot, on the wire.
pub fn nanos(t: Duration) -> u64 {
    u64::try_from(t.as_nanos()).unwrap_or(u64::MAX)
}
