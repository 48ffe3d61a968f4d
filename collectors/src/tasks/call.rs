//! The system call of a thread, and what it is about. A separate thread asks: the kernel takes a lock for it that a process
//! holds while it begins a program, and may hold for ever.

use std::path::Path;

use super::mount;
use crate::sys::patience::OneAway;
use crate::sys::statfs::is_procfs;
use crate::sys::task::Thread;

/// A call, and the mount of the file that it is about; empty where it is not known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct BlockedCall {
    pub(super) text: String,
    pub(super) mount: String,
}

/// Asks, one question at a time.
#[derive(Clone, Debug, Default)]
pub(super) struct CallReader(OneAway);

impl CallReader {
    /// The call of that thread, of the process with that folder.
    pub(super) fn call(&self, process: &Path, thread: Thread) -> BlockedCall {
        // A copy of /proc has no locks.
        if !is_procfs(process) {
            return read(process, &thread);
        }
        let process = process.to_owned();
        self.0.ask(move || read(&process, &thread)).unwrap_or_default()
    }
}

fn read(process: &Path, thread: &Thread) -> BlockedCall {
    let Some(call) = thread.call() else {
        return BlockedCall::default();
    };
    BlockedCall {
        text: thread.text(call),
        mount: mount::of(process, thread, call).unwrap_or_default(),
    }
}
