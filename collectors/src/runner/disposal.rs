//! Closes devices that are no longer needed. Closing may take long or never return, so it uses a separate thread
//! while there is something to close. Behind a stuck one the others wait; beyond a limit they are left open.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::Device;
use crate::sys::task;

/// Maximum length of the queue behind a stuck device.
const MAX_WAITING: usize = 1024;

/// Closes the devices of one collector.
pub(super) struct Disposal {
    collector: &'static str,
    /// A longer closing is stuck. Others end soon, so that no device is left open because of them.
    slice: Duration,
    state: Mutex<DisposalQueue>,
}

#[derive(Default)]
struct DisposalQueue {
    waiting: VecDeque<Box<dyn Device>>,
    /// The current closing: its start and its thread.
    closing: Option<(Instant, i32)>,
    /// The thread exists.
    runs: bool,
    leaked: u64,
}

impl Disposal {
    pub(super) fn new(collector: &'static str, slice: Duration) -> Arc<Self> {
        Arc::new(Self {
            collector,
            slice,
            state: Mutex::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, DisposalQueue> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues devices to close; never waits.
    pub(super) fn take(self: &Arc<Self>, left: impl IntoIterator<Item = Box<dyn Device>>) {
        let mut state = self.lock();
        let is_stuck = state
            .closing
            .is_some_and(|(since, _)| since.elapsed() >= self.slice);
        for device in left {
            if !is_stuck || state.waiting.len() < MAX_WAITING {
                state.waiting.push_back(device);
            } else {
                self.leak(&mut state, device);
            }
        }
        if state.runs || state.waiting.is_empty() {
            return;
        }
        let disposal = Arc::clone(self);
        let name: String = format!("d:{}", self.collector).chars().take(15).collect();
        state.runs = true;
        let started = thread::Builder::new().name(name).spawn(move || disposal.run());
        if let Err(error) = started {
            tracing::error!(collector = self.collector, %error, "cannot start a thread to close devices");
            state.runs = false;
            while let Some(device) = state.waiting.pop_front() {
                self.leak(&mut state, device);
            }
        }
    }

    /// Leaves it open until the process ends: that costs a handle, waiting would cost the collector.
    fn leak(&self, state: &mut DisposalQueue, device: Box<dyn Device>) {
        let subject = device.subject();
        tracing::warn!(collector = self.collector, device = %subject, "left open: closing queue full");
        std::mem::forget(device);
        state.leaked += 1;
    }

    fn run(&self) {
        let tid = task::own_tid();
        let mut state = self.lock();
        while let Some(device) = state.waiting.pop_front() {
            state.closing = Some((Instant::now(), tid));
            drop(state);
            if catch_unwind(AssertUnwindSafe(|| drop(device))).is_err() {
                tracing::error!(collector = self.collector, "panic while a device was closed");
            }
            state = self.lock();
            state.closing = None;
        }
        state.runs = false;
    }

    /// The current closing: its start and its thread.
    pub(super) fn closing(&self) -> Option<(Instant, i32)> {
        self.lock().closing
    }

    /// Whether a device is being closed, or queued for it.
    pub(super) fn is_busy(&self) -> bool {
        self.lock().runs
    }

    /// The number of devices left open.
    #[cfg(test)]
    pub(super) fn leaked(&self) -> u64 {
        self.lock().leaked
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};

    use super::*;
    use crate::{Block, Error, Subject};

    /// Its closing ends when the other end of the channel is dropped.
    struct Held {
        subject: Subject,
        until: Option<Receiver<()>>,
    }

    impl Device for Held {
        fn subject(&self) -> &Subject {
            &self.subject
        }

        fn read(&mut self, _out: &mut Block) -> Result<(), Error> {
            Ok(())
        }
    }

    impl Drop for Held {
        fn drop(&mut self) {
            if let Some(until) = &self.until {
                until.recv().ok();
            }
        }
    }

    fn device(until: Option<Receiver<()>>) -> Box<dyn Device> {
        Box::new(Held {
            subject: Subject::gpu("0"),
            until,
        })
    }

    #[test]
    fn devices_are_left_open_only_behind_one_that_is_stuck() {
        let slice = Duration::from_secs(1);
        let disposal = Disposal::new("test", slice);
        let (end, until) = channel();
        disposal.take([device(Some(until))]);
        disposal.take((0..MAX_WAITING * 2).map(|_| device(None)));
        assert_eq!(disposal.leaked(), 0, "the first one has just begun");
        while disposal
            .closing()
            .is_none_or(|(since, _)| since.elapsed() < slice)
        {
            thread::yield_now();
        }
        disposal.take([device(None)]);
        assert_eq!(disposal.leaked(), 1);
        drop(end);
        while disposal.is_busy() {
            thread::yield_now();
        }
        disposal.take((0..MAX_WAITING * 2).map(|_| device(None)));
        assert_eq!(disposal.leaked(), 1);
    }
}
