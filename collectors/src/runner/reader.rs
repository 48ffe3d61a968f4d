//! The thread that a batch runs on.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::PoisonError;
use std::time::Instant;

use super::RunnerShared;
use super::work::{CurrentItem, ListCheck, ReadResult, ReaderAction, Slot};
use crate::sys::task;
use crate::{Devices, Error};

/// Works until another reader has taken over, or the runner is gone.
pub(super) fn run(number: u64, shared: &RunnerShared) {
    let tid = task::own_tid();
    let mut work = shared.lock();
    loop {
        if work.reader != number {
            return;
        }
        let Some(job) = work.next() else {
            if std::mem::take(&mut work.running) {
                drop(work);
                shared.tell();
                work = shared.lock();
            } else {
                work = shared.wake.wait(work).unwrap_or_else(PoisonError::into_inner);
            }
            continue;
        };
        let since = Instant::now();
        work.current = Some(CurrentItem {
            what: job.what(),
            since,
            tid,
        });
        drop(work);
        let came = match job {
            ReaderAction::Look { devices, rescan } => ReaderResult::Looked(look(devices, rescan)),
            ReaderAction::Read(slot) => ReaderResult::Read(read(slot, since)),
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
