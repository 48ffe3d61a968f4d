//! What has become of a child. Only pids that we started and have not reaped are asked about, each by its number, so
//! that no two parts of the program take each other's children.

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill as send};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

/// Whether a child has ended: its exit status, or `Some(None)` where a signal ended it.
pub fn ended(pid: Pid) -> Option<Option<i32>> {
    match waitpid(pid, Some(WaitPidFlag::WNOHANG)) {
        Ok(WaitStatus::Exited(_, status)) => Some(Some(status)),
        Ok(WaitStatus::Signaled(..)) | Err(Errno::ECHILD) => Some(None),
        _ => None,
    }
}

/// Kills a child that has not been reaped, and so still has its number.
pub fn kill(pid: Pid) {
    crate::ignore(send(pid, Signal::SIGKILL));
}
