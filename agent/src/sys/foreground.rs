//! Runs a command for the person at the terminal, on the same terminal.

#![allow(unsafe_code, reason = "what signals do is set in two processes")]

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus};

use nix::sys::signal::{SigHandler, Signal, signal};

/// What the keys of a terminal send to all that runs in its foreground.
const KEYS: [Signal; 2] = [Signal::SIGINT, Signal::SIGQUIT];

/// Runs it to its end. Ctrl-C reaches the command alone: whoever called this has something to do after it.
///
/// # Errors
/// When the program cannot be started.
pub fn run(program: &OsString, args: &[OsString]) -> io::Result<ExitStatus> {
    let set = |to| {
        for key in KEYS {
            // SAFETY: neither of the two is a handler of ours, so nothing runs in signal context.
            unsafe { signal(key, to) }?;
        }
        Ok(())
    };
    let mut command = Command::new(program);
    command.args(args);
    // SAFETY: between fork and exec only sigaction(2) is called, which is async-signal-safe.
    unsafe {
        command.pre_exec(move || set(SigHandler::SigDfl));
    }
    set(SigHandler::SigIgn)?;
    let ended = command.status();
    set(SigHandler::SigDfl)?;
    ended
}
