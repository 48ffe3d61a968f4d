//! Tells what a worker's threads are blocked in. The daemon cannot look: these threads belong to another user.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use collectors::sys::{boot, task};

use super::proto::FromWorker;

/// How often blocked threads are looked at.
pub const PERIOD: Duration = Duration::from_secs(5);

/// The device number that stands for a collector's source (its open or scan).
pub const SOURCE: u16 = u16::MAX;
/// The device number that stands for a collector's watcher.
pub const WATCHER: u16 = u16::MAX - 1;

#[derive(Debug, Default)]
struct Table {
    /// What is in flight: (collector, device) -> since when, thread.
    busy: BTreeMap<(u16, u16), (Duration, i32)>,
    /// Watchers wait for ever by design; only one in uninterruptible sleep over two looks is blocked.
    watchers: BTreeMap<u16, (i32, Option<Duration>)>,
    /// Collectors for which something was reported last time.
    reported: BTreeMap<u16, usize>,
}

/// What the threads of this worker are doing.
#[derive(Debug, Default)]
pub struct Monitor {
    table: Mutex<Table>,
}

impl Monitor {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A collector's thread begins to open its source.
    pub fn begin(&self, collector: u16, device: u16) {
        self.lock()
            .busy
            .insert((collector, device), (boot::boottime(), task::own_tid()));
    }

    /// It is done.
    pub fn end(&self, collector: u16, device: u16) {
        self.lock().busy.remove(&(collector, device));
    }

    /// The readings of a collector that have not come back, as its runner knows them.
    pub fn set_busy(&self, collector: u16, busy: impl Iterator<Item = (u16, Duration, i32)>) {
        let mut table = self.lock();
        table.busy.retain(|(c, d), _| *c != collector || *d >= WATCHER);
        table
            .busy
            .extend(busy.map(|(device, since, tid)| ((collector, device), (since, tid))));
    }

    /// A collector's watcher runs on the calling thread.
    pub fn watcher(&self, collector: u16) {
        self.lock().watchers.insert(collector, (task::own_tid(), None));
    }

    /// It has ended.
    pub fn watcher_ended(&self, collector: u16) {
        self.lock().watchers.remove(&collector);
    }

    /// Whether any reading is in flight: then a worker that must not be interrupted may not leave yet.
    pub fn in_flight(&self) -> bool {
        !self.lock().busy.is_empty()
    }

    /// Looks at every thread in question: one frame per collector that has, or just had, something late.
    pub fn look(&self) -> Vec<FromWorker> {
        let mut table = self.lock();
        let now = boot::boottime();
        let mut late: BTreeMap<u16, Vec<(u16, u64, Option<task::Task>)>> = BTreeMap::new();
        for ((collector, device), (since, tid)) in &table.busy {
            if now.saturating_sub(*since) >= PERIOD {
                late.entry(*collector)
                    .or_default()
                    .push((*device, nanos(*since), task::read(*tid)));
            }
        }
        for (collector, (tid, blocked)) in &mut table.watchers {
            match task::read(*tid) {
                Some(task) if task.state == 'D' => {
                    let first = blocked.is_none();
                    let since = *blocked.get_or_insert(now);
                    if !first {
                        late.entry(*collector)
                            .or_default()
                            .push((WATCHER, nanos(since), Some(task)));
                    }
                }
                _ => *blocked = None,
            }
        }
        let before = std::mem::take(&mut table.reported);
        table.reported = late.iter().map(|(c, l)| (*c, l.len())).collect();
        let over = before
            .into_keys()
            .filter(|c| !late.contains_key(c))
            .map(|c| FromWorker::Late(c, Vec::new()));
        let over: Vec<FromWorker> = over.collect();
        late.into_iter()
            .map(|(c, l)| FromWorker::Late(c, l))
            .chain(over)
            .collect()
    }
}

/// A time since boot, on the wire.
pub fn nanos(t: Duration) -> u64 {
    u64::try_from(t.as_nanos()).unwrap_or(u64::MAX)
}
