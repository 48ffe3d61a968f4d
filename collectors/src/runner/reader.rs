//! The thread that a batch runs on.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use super::RunnerShared;
use super::work::{CurrentItem, ListCheck, ReadResult, ReaderAction, Slot, WorkItem};
use crate::sys::task;
use crate::{Devices, Error};

/// Works until another reader has taken over, or the runner is gone.
pub(super) fn run(number: u64, shared: &Arc<RunnerShared>) {
    let tid = task::own_tid();
    let mut work = shared.lock();
    loop {
        if work.reader != number {
            return;
        }
        let Some(job) = work.next() else {
            if work.running {
                work.end();
                drop(work);
                shared.tell();
                work = shared.lock();
            } else {
                work = shared.wake.wait(work).unwrap_or_else(PoisonError::into_inner);
            }
            continue;
        };
        let since = Instant::now();
        let item = |what| Some(CurrentItem { what, since, tid });
        let came = match job {
            ReaderAction::StartSlow(threads) => {
                drop(work);
                start_slow(threads, shared);
                work = shared.lock();
                continue;
            }
            ReaderAction::Look { devices, rescan } => {
                work.current = item(WorkItem::List);
                drop(work);
                ReaderResult::Looked(look(devices, rescan))
            }
            ReaderAction::Read(slot) => {
                work.current = item(WorkItem::Device(slot.number));
                drop(work);
                ReaderResult::Read(read(slot, since))
            }
        };
        work = shared.lock();
        let late = work.reader != number;
        if !late {
            work.current = None;
        }
        match came {
            ReaderResult::Read(done) => work.came_back(done),
            ReaderResult::Looked(looked) => {
                let left = work.looked(looked);
                shared.disposal.take(left);
            }
        }
        if late {
            drop(work);
            shared.tell();
            return;
        }
    }
}

/// Starts a thread for each slow device, so that no requester waits for it.
fn start_slow(threads: usize, shared: &Arc<RunnerShared>) {
    for _ in 0..threads {
        let own = Arc::clone(shared);
        if let Err(error) = shared.thread(move || read_slow(&own)) {
            tracing::error!(collector = shared.collector, %error, "cannot start a reader thread");
            shared.lock().read_slow_in_turn();
            return;
        }
    }
}

/// Reads one slow device.
fn read_slow(shared: &RunnerShared) {
    let since = Instant::now();
    let Some(slot) = shared.lock().next_slow(since, task::own_tid()) else {
        return;
    };
    let done = read(slot, since);
    shared.lock().came_back(done);
    shared.tell();
}

enum ReaderResult {
    Looked(ListCheck),
    Read(ReadResult),
}

fn look(mut devices: Box<dyn Devices>, rescan: bool) -> ListCheck {
    // A collector's bug costs its own list only.
    let found = catch_unwind(AssertUnwindSafe(|| {
        if rescan || devices.changed() {
            super::scan(&mut *devices).map(Some)
        } else {
            Ok(None)
        }
    }))
    .unwrap_or_else(|_| Err(Error::Panic("list of devices".to_owned())));
    ListCheck { devices, found }
}

fn read(mut slot: Slot, since: Instant) -> ReadResult {
    slot.block.clear();
    // A collector's bug costs its own device only.
    let result = catch_unwind(AssertUnwindSafe(|| slot.device.read(&mut slot.block)))
        .unwrap_or_else(|_| Err(Error::Panic(slot.device.subject().to_string())));
    if result.is_err() {
        slot.block.clear();
    }
    slot.block.finish();
    ReadResult {
        slot,
        result,
        began: since,
        ended: Instant::now(),
    }
}
