//! Lock slots: at most two processes per worker domain, over restarts and kill -9.
//!
//! The lock belongs to the open file, and only the worker keeps it open. So a slot is free exactly when its process
//! has ended; a process that is stuck in a driver keeps it, even across a restart of the parent.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::trust::{self, Expected};

/// A lock that this process holds until it is dropped, or ends.
#[derive(Debug)]
pub struct Lock {
    file: File,
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing is not enough: a process that is being started has a copy of the descriptor until its exec.
        super::ignore(self.file.unlock());
    }
}

/// Takes the lock of that file, in a folder of ours. `None`: another holder has it.
///
/// # Errors
/// When the file cannot be opened or locked.
pub fn lock(path: &Path) -> io::Result<Option<Lock>> {
    let file = open(path)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(Lock { file })),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(e)) => Err(e),
    }
}

/// Takes the lock of that file, in a folder of ours, and waits for its holder: for locks that are held for a moment.
///
/// # Errors
/// When the file cannot be opened or locked.
pub fn wait(path: &Path) -> io::Result<Lock> {
    let file = open(path)?;
    file.lock()?;
    Ok(Lock { file })
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)
}

/// The result of [`take`].
#[derive(Debug)]
pub struct WorkerSlots {
    /// The slot that this process now holds, if one was free: its number and its lock.
    pub free: Option<(usize, File)>,
    /// The slots that other processes hold.
    pub held: [bool; 2],
}

/// Checks both slots of `name` below `dir` and locks the first free one.
///
/// # Errors
/// When a slot file cannot be opened or locked.
pub fn take(dir: &Path, name: &str) -> io::Result<WorkerSlots> {
    let mut slots = WorkerSlots {
        free: None,
        held: [false; 2],
    };
    for (number, held) in slots.held.iter_mut().enumerate() {
        let path = dir.join(format!("{name}.{number}"));
        let expected = Expected {
            owners: &trust::own(),
            most: 0,
            private: true,
        };
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).write(true).mode(0o600);
        let opened = trust::open(&path, &expected, &mut options)?;
        let file = opened.ok_or(io::ErrorKind::NotFound)?;
        match file.try_lock() {
            Ok(()) if slots.free.is_none() => slots.free = Some((number, file)),
            // Closing the file frees the slot.
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => *held = true,
            Err(TryLockError::Error(e)) => return Err(e),
        }
    }
    Ok(slots)
}

#[cfg(test)]
mod tests {
    use testkit::wait::{PATIENCE, until_true};

    use super::*;

    #[test]
    fn a_dropped_lock_is_free_also_if_a_copy_of_its_descriptor_is_open() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lane");
        let first = lock(&path).unwrap().unwrap();
        let _copy = first.file.try_clone().unwrap();
        assert!(lock(&path).unwrap().is_none());
        drop(first);
        assert!(lock(&path).unwrap().is_some());
    }

    #[test]
    fn two_processes_at_most_and_a_slot_is_free_when_its_holder_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let first = take(dir.path(), "kernel").unwrap();
        assert_eq!((first.free.is_some(), first.held), (true, [false, false]));
        let second = take(dir.path(), "kernel").unwrap();
        assert_eq!((second.free.is_some(), second.held), (true, [true, false]));
        let third = take(dir.path(), "kernel").unwrap();
        assert_eq!((third.free.is_some(), third.held), (false, [true, true]));
        assert_eq!(take(dir.path(), "host").unwrap().held, [false, false]);
        drop(first);
        // A child that another test has just forked has a copy of its descriptor, until it begins its program.
        until_true("the first slot is free", PATIENCE, || {
            let fourth = take(dir.path(), "kernel").unwrap();
            fourth.free.map(|(number, _)| number) == Some(0) && fourth.held == [false, true]
        })
        .unwrap();
    }
}
