//! Closes what is not needed any more. Closing may take a driver's time, or for ever, so it has a thread of its own while
//! there is something to close. Behind one that is stuck the rest waits; beyond a bound it is left open.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use crate::Device;
use crate::sys::task;

/// What waits behind one that is stuck: more than many scans find, so that nothing is left open only because the thread
/// has not run yet.
const MAX_WAITING: usize = 1024;

/// Closes the devices of one collector.
pub(super) struct Disposal {
    collector: &'static str,
    state: Mutex<DisposalQueue>,
}

#[derive(Default)]
struct DisposalQueue {
    waiting: VecDeque<Box<dyn Device>>,
    /// What the thread closes: since when, and the thread.
    closing: Option<(Instant, i32)>,
    /// There is a thread.
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

    /// Takes what is to be closed; never waits for it.
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
            tracing::error!(collector = self.collector, %error, "no thread to close devices with");
            state.runs = false;
            while let Some(device) = state.waiting.pop_front() {
                self.leak(&mut state, device);
            }
        }
    }

    /// Left open for as long as the process lives: that costs a handle, to wait costs the collector.
    fn leak(&self, state: &mut DisposalQueue, device: Box<dyn Device>) {
        let subject = device.subject();
        tracing::warn!(collector = self.collector, device = %subject, "left open: too much waits to be closed");
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

    /// What is being closed: since when, and by which thread.
    pub(super) fn closing(&self) -> Option<(Instant, i32)> {
        self.lock().closing
    }

    /// Whether anything is being closed or waits for it.
    pub(super) fn is_busy(&self) -> bool {
        self.lock().runs
    }

    /// How many devices were left open.
    pub(super) fn leaked(&self) -> u64 {
        self.lock().leaked
    }
}
