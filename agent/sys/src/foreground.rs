//! Runs a command in the foreground of the user's terminal.

#![allow(unsafe_code, reason = "sets signal dispositions in two processes")]

use std::ffi::{OsStr, OsString};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::{env, io};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::signal::{SigHandler, Signal, signal};
use nix::sys::stat::{SFlag, stat};
use nix::unistd::{AccessFlags, access};

/// Signals that the terminal's keys send to its foreground processes.
const KEYS: [Signal; 2] = [Signal::SIGINT, Signal::SIGQUIT];

/// Finds out early that a program cannot be started, with execvp(3)'s search.
///
/// # Errors
/// `NotFound`, or why the program cannot be executed.
pub fn find(program: &OsStr) -> io::Result<()> {
    if program.as_encoded_bytes().contains(&b'/') {
        return is_program(Path::new(program));
    }
    let path = env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    let mut best = io::Error::new(io::ErrorKind::NotFound, "not found in the folders of PATH");
    for dir in env::split_paths(&path) {
        match is_program(&dir.join(program)) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => best = error,
            Err(_) => {}
        }
    }
    Err(best)
}

fn is_program(path: &Path) -> io::Result<()> {
    access(path, AccessFlags::X_OK)?;
    // A folder has execute bits too.
    let mode = stat(path)?.st_mode;
    let is_file = SFlag::from_bits_truncate(mode) & SFlag::S_IFMT == SFlag::S_IFREG;
    is_file
        .then_some(())
        .ok_or_else(|| io::Error::new(io::ErrorKind::PermissionDenied, "not a regular file"))
}

/// Runs a command to its end, with this variable in its environment. `open`, if there is one, stays open as long as the command or this process lives. Ctrl-C reaches the
/// command only: the caller continues after it.
///
/// # Errors
/// When the program cannot be started.
pub fn run(
    program: &OsString,
    args: &[OsString],
    (name, value): (&str, &str),
    open: Option<impl AsFd>,
) -> io::Result<ExitStatus> {
    let kept = open.map(|open| open.as_fd().try_clone_to_owned()).transpose()?;
    let mut before = [SigHandler::SigDfl; 2];
    for (key, before) in KEYS.into_iter().zip(&mut before) {
        // SAFETY: the signal is ignored, so no handler runs in signal context.
        *before = unsafe { signal(key, SigHandler::SigIgn) }?;
    }
    let restore = move || {
        for (key, before) in KEYS.into_iter().zip(before) {
            // SAFETY: restores the disposition from before this function.
            unsafe { signal(key, before) }?;
        }
        Ok(())
    };
    let mut command = Command::new(program);
    command.args(args).env(name, value);
    // SAFETY: between fork and exec only fcntl(2) and sigaction(2) are called, which are async-signal-safe.
    unsafe {
        command.pre_exec(move || {
            if let Some(kept) = &kept {
                fcntl(kept, FcntlArg::F_SETFD(FdFlag::empty()))?;
            }
            restore()
        });
    }
    let ended = command.status();
    restore()?;
    ended
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_by_its_name_or_place_before_anything_is_done_for_it() {
        let kind = |name: &str| find(OsStr::new(name)).map_err(|e| e.kind());
        assert_eq!(kind("sh"), Ok(()));
        assert_eq!(kind("/bin/sh"), Ok(()));
        assert_eq!(kind("no-such-program"), Err(io::ErrorKind::NotFound));
        assert_eq!(kind("/no/such/program"), Err(io::ErrorKind::NotFound));
        assert_eq!(kind("/usr"), Err(io::ErrorKind::PermissionDenied), "a folder");
        assert_eq!(kind("/etc/passwd"), Err(io::ErrorKind::PermissionDenied));
    }
}
