//! Starts this program again, as daemon or worker.
//!
//! Not with `std::process`: its spawn waits for the exec, and an exec from a hung mount never happens.

#![allow(unsafe_code, reason = "fork and exec")]

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use nix::unistd::{ForkResult, Pid, fork};

use crate::child::{Closing, default_signals};

/// Forks and executes `/proc/self/exe` with `args`. The child gets `stdin` as descriptor 0 and `lock` as descriptor 3,
/// keeps stdout and stderr and nothing else, and has its own process group, so that a terminal's Ctrl-C reaches the
/// parent only.
///
/// # Errors
/// When fork(2) fails or an argument holds a NUL byte. A failed exec is seen as the child's exit status 127.
pub fn start_self(args: &[&str], stdin: BorrowedFd<'_>, lock: Option<BorrowedFd<'_>>) -> io::Result<Pid> {
    let path = c"/proc/self/exe";
    let mut argv = vec![CString::from(c"nodewarden")];
    for arg in args {
        argv.push(CString::new(*arg)?);
    }
    let mut pointers: Vec<*const libc::c_char> = argv.iter().map(|a| a.as_ptr()).collect();
    pointers.push(std::ptr::null());
    // Of the environment only the variables for backtraces, time zone and log filter are passed on.
    let env: Vec<CString> = ["RUST_BACKTRACE", "TZ", "NODEWARDEN_LOG"]
        .iter()
        .filter_map(|key| {
            std::env::var(key)
                .ok()
                .and_then(|value| CString::new(format!("{key}={value}")).ok())
        })
        .collect();
    let mut envp: Vec<*const libc::c_char> = env.iter().map(|e| e.as_ptr()).collect();
    envp.push(std::ptr::null());
    let (stdin, lock) = (stdin.as_raw_fd(), lock.map(|l| l.as_raw_fd()));
    let closing = Closing::prepare();

    // SAFETY: between fork and exec the child makes async-signal-safe system calls only, on memory allocated before.
    match unsafe { fork() }.map_err(io::Error::from)? {
        ForkResult::Parent { child } => Ok(child),
        ForkResult::Child => {
            // SAFETY: raw system calls on descriptors that the parent holds open; the pointers end in null and point
            // into vectors that live until exec replaces the process.
            unsafe {
                libc::setpgid(0, 0);
                // The lock first: descriptor 0 may be overwritten by `lock`, never the other way round, because
                // descriptors 0 to 2 are open in every parent.
                let stdin = if stdin == 3 { libc::dup(stdin) } else { stdin };
                match lock {
                    Some(3) => {
                        libc::fcntl(3, libc::F_SETFD, 0);
                    }
                    Some(lock) => {
                        libc::dup2(lock, 3);
                    }
                    None => {}
                }
                libc::dup2(stdin, 0);
                // The launcher of the parent may have left descriptors open on exec.
                closing.close_from(if lock.is_some() { 4 } else { 3 });
                default_signals();
                libc::execve(path.as_ptr(), pointers.as_ptr(), envp.as_ptr());
                libc::_exit(127)
            }
        }
    }
}
