//! Runs a command for the person at the terminal, on the same terminal.

#![allow(unsafe_code, reason = "what signals do is set in two processes")]

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::signal::{SigHandler, Signal, signal};

/// What the keys of a terminal send to all that runs in its foreground.
const KEYS: [Signal; 2] = [Signal::SIGINT, Signal::SIGQUIT];

/// Runs it to its end, with a descriptor that stays open for as long as it or this process lives. Ctrl-C reaches the
/// command alone: whoever called this has something to do after it.
///
/// # Errors
/// When the program cannot be started.
pub fn run(program: &OsString, args: &[OsString], open: impl AsFd) -> io::Result<ExitStatus> {
    let kept: OwnedFd = open.as_fd().try_clone_to_owned()?;
    let mut before = [SigHandler::SigDfl; 2];
    for (key, before) in KEYS.into_iter().zip(&mut before) {
        // SAFETY: it is ignored, so no handler runs in signal context.
        *before = unsafe { signal(key, SigHandler::SigIgn) }?;
    }
    let restore = move || {
        for (key, before) in KEYS.into_iter().zip(before) {
            // SAFETY: what was there before this function is put back.
            unsafe { signal(key, before) }?;
        }
        Ok(())
    };
    let mut command = Command::new(program);
    command.args(args);
    // SAFETY: between fork and exec only fcntl(2) and sigaction(2) are called, which are async-signal-safe.
    unsafe {
        command.pre_exec(move || {
            fcntl(&kept, FcntlArg::F_SETFD(FdFlag::empty()))?;
            restore()
        });
    }
    let ended = command.status();
    restore()?;
    ended
}
