//! Lock slots: at most two processes per worker domain, over restarts and kill -9.
//!
//! The lock belongs to the open file, and only the worker keeps it open. So a slot is free exactly when its process
//! has really ended; one that is stuck in a driver keeps it, whoever started it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// What [`take`] found.
#[derive(Debug)]
pub struct WorkerSlots {
    /// The slot that is now ours, where one was free.
    pub free: Option<File>,
    /// How many are held by other processes.
    pub held: u8,
}

/// Looks at both slots of `name` below `dir` and locks the first free one.
///
/// # Errors
/// When a slot file cannot be opened or locked.
pub fn take(dir: &Path, name: &str) -> io::Result<WorkerSlots> {
    let mut slots = WorkerSlots { free: None, held: 0 };
    for number in 0..2 {
        let path = dir.join(format!("{name}.{number}"));
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(path)?;
        match file.try_lock() {
            Ok(()) if slots.free.is_none() => slots.free = Some(file),
            // Closing it gives it back.
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => slots.held += 1,
            Err(TryLockError::Error(e)) => return Err(e),
        }
    }
    Ok(slots)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_processes_at_most_and_a_slot_is_free_when_its_holder_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let first = take(dir.path(), "kernel").unwrap();
        assert_eq!((first.free.is_some(), first.held), (true, 0));
        let second = take(dir.path(), "kernel").unwrap();
        assert_eq!((second.free.is_some(), second.held), (true, 1));
        let third = take(dir.path(), "kernel").unwrap();
        assert_eq!((third.free.is_some(), third.held), (false, 2));
        assert_eq!(take(dir.path(), "host").unwrap().held, 0);
        drop(first);
        let fourth = take(dir.path(), "kernel").unwrap();
        assert_eq!((fourth.free.is_some(), fourth.held), (true, 1));
    }
}
