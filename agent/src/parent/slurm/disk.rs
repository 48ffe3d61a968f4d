//! Changes of the parent's own records, by a thread: their disk may hang, and a drain must not wait for it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// As long as the daemon waits for its record.
const PATIENCE: Duration = Duration::from_secs(2);

type Change = Box<dyn FnOnce() + Send>;

/// A thread that makes the changes, started with the first one. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct RecordDisk {
    thread: Arc<Mutex<Option<Sender<Change>>>>,
    /// Changes that are not made yet.
    waiting: Arc<AtomicUsize>,
}

impl RecordDisk {
    /// Makes a change after all earlier ones. Waits for it up to 2 s, and not at all behind one that hangs: the disk gets it
    /// when it answers again.
    pub(super) fn change(&self, change: impl FnOnce() + Send + 'static) {
        self.change_within(PATIENCE, change);
    }

    fn change_within(&self, patience: Duration, change: impl FnOnce() + Send + 'static) {
        let (to, done) = channel();
        let waiting = Arc::clone(&self.waiting);
        let is_next = self.waiting.fetch_add(1, Ordering::AcqRel) == 0;
        let sent = self.send(Box::new(move || {
            // The end of this thread would lose all later changes.
            if catch_unwind(AssertUnwindSafe(change)).is_err() {
                tracing::error!("panic while a record of the parent was changed");
            }
            waiting.fetch_sub(1, Ordering::AcqRel);
            sys::ignore(to.send(()));
        }));
        if sent && is_next && done.recv_timeout(patience).is_err() {
            tracing::error!(
                "the state directory does not answer; the record of nodewarden's drain or slurmd is changed later"
            );
        }
    }

    fn send(&self, change: Change) -> bool {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() {
            let (to, changes) = channel::<Change>();
            let builder = thread::Builder::new().name("records".to_owned());
            match builder.spawn(move || changes.into_iter().for_each(|change| change())) {
                Ok(_) => *thread = Some(to),
                Err(e) => {
                    tracing::error!(error = %e, "cannot start a thread for the parent's records");
                    self.waiting.fetch_sub(1, Ordering::AcqRel);
                    return false;
                }
            }
        }
        // The thread lives as long as its sender.
        thread.as_ref().is_some_and(|thread| thread.send(change).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    /// The thread of acts calls scontrol after it.
    #[test]
    fn a_disk_that_hangs_is_waited_for_once_and_gets_all_changes_in_their_order() {
        let disk = RecordDisk::default();
        let made = Arc::new(Mutex::new(Vec::new()));
        let make = |number: u32| {
            let made = Arc::clone(&made);
            move || made.lock().unwrap().push(number)
        };
        disk.change(make(1));
        assert_eq!(*made.lock().unwrap(), [1], "waited for");
        let (answer, hang) = channel::<()>();
        let second = make(2);
        disk.change_within(Duration::from_millis(1), move || {
            sys::ignore(hang.recv());
            second();
        });
        let long = Duration::from_secs(600);
        let start = Instant::now();
        disk.clone().change_within(long, make(3));
        assert!(start.elapsed() < long / 2, "not waited for");
        assert_eq!(*made.lock().unwrap(), [1]);
        answer.send(()).unwrap();
        while made.lock().unwrap().len() < 3 {
            thread::yield_now();
        }
        assert_eq!(*made.lock().unwrap(), [1, 2, 3]);
    }

    #[test]
    fn a_change_that_panics_loses_no_later_one() {
        let disk = RecordDisk::default();
        disk.change(|| panic!("a fault of a record"));
        let made = Arc::new(AtomicUsize::new(0));
        let later = Arc::clone(&made);
        disk.change(move || later.store(1, Ordering::Release));
        assert_eq!(made.load(Ordering::Acquire), 1, "waited for");
    }
}
