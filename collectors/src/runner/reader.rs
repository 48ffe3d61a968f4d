//! The thread that a batch runs on.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::PoisonError;
use std::time::Instant;

use super::Shared;
use super::work::{Current, Done, Job, Looked, Slot};
use crate::sys::task;
use crate::{Devices, Error};

/// Works until another reader has taken over, or the runner is gone.
pub(super) fn run(number: u64, shared: &Shared) {
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
        work.current = Some(Current {
            what: job.what(),
            since,
            tid,
        });
        drop(work);
        let came = match job {
            Job::Look { devices, rescan } => Came::Looked(look(devices, rescan)),
            Job::Read(slot) => Came::Read(read(slot, since)),
        };
        work = shared.lock();
        let late = work.reader != number;
        if !late {
            work.current = None;
        }
        match came {
            Came::Read(done) => work.came_back(done),
            Came::Looked(looked) => {
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

enum Came {
    Looked(Looked),
    Read(Done),
}

fn look(mut devices: Box<dyn Devices>, rescan: bool) -> Looked {
    // A collector's bug costs its own list only.
    let found = catch_unwind(AssertUnwindSafe(|| {
        if rescan || devices.changed() {
            super::scan(&mut *devices).map(Some)
        } else {
            Ok(None)
        }
    }))
    .unwrap_or_else(|_| Err(Error::Panic("list of devices".to_owned())));
    Looked { devices, found }
}

fn read(mut slot: Slot, since: Instant) -> Done {
    slot.block.clear();
    // A collector's bug costs its own device only.
    let result = catch_unwind(AssertUnwindSafe(|| slot.device.read(&mut slot.block)))
        .unwrap_or_else(|_| Err(Error::Panic(slot.device.subject().to_string())));
    if result.is_err() {
        slot.block.clear();
    }
    slot.block.finish();
    Done {
        slot,
        result,
        began: since,
        ended: Instant::now(),
    }
}
