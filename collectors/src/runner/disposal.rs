//! Closes devices that are no longer needed. Closing may take long or never return, so it uses a separate thread
//! while there is something to close. Behind a stuck one the others wait; beyond a limit they are left open.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use crate::Device;
use crate::sys::task;

/// Maximum length of the queue behind a stuck device: longer than the results of many scans, so that no device is
/// left open only because the thread has not run yet.
const MAX_WAITING: usize = 1024;

/// Closes the devices of one collector.
pub(super) struct Disposal {
    collector: &'static str,
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
    pub(super) fn new(collector: &'static str) -> Arc<Self> {
        Arc::new(Self {
            collector,
            state: Mutex::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, DisposalQueue> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues devices to close; never waits.
    pub(super) fn take(self: &Arc<Self>, left: impl IntoIterator<Item = Box<dyn Device>>) {
        let mut state = self.lock();
        for device in left {
            if state.waiting.len() < MAX_WAITING {
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
    pub(super) fn leaked(&self) -> u64 {
        self.lock().leaked
    }
}
