//! Starts this program again, as daemon or worker.
//!
//! Not with `std::process`: its spawn waits for the exec, and an exec from a hung mount never happens.

#![allow(unsafe_code, reason = "fork and exec")]

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

use nix::unistd::{ForkResult, Pid, fork};

use crate::child::{Closing, default_signals};

/// The first number of passed descriptors.
pub(crate) const FIRST_PASSED: RawFd = 3;
/// Above all places.
const FIRST_COPY: RawFd = 16;
/// Limit of passed descriptors.
pub const MAX_PASSED: usize = 4;

/// Forks and executes `/proc/self/exe` with `args`. The child gets `stdin` as descriptor 0 and `passed` as descriptors 3, 4
/// and so on, keeps stdout and stderr and nothing else, and has its own process group, so that a terminal's Ctrl-C reaches the
/// parent only.
///
/// # Errors
/// When fork(2) fails, an argument holds a NUL byte, or more than [`MAX_PASSED`] descriptors are passed. A failed exec is seen as the child's exit status 127.
pub fn start_self(args: &[&str], stdin: BorrowedFd<'_>, passed: &[BorrowedFd<'_>]) -> io::Result<Pid> {
    if passed.len() > MAX_PASSED {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
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
    let (stdin, count) = (stdin.as_raw_fd(), passed.len());
    let mut raw = [-1; MAX_PASSED];
    for (to, fd) in raw.iter_mut().zip(passed) {
        *to = fd.as_raw_fd();
    }
    let passed = raw;
    let closing = Closing::prepare();

    // SAFETY: between fork and exec the child makes async-signal-safe system calls only, on memory allocated before.
    match unsafe { fork() }.map_err(io::Error::from)? {
        ForkResult::Parent { child } => Ok(child),
        ForkResult::Child => {
            // SAFETY: raw system calls on descriptors that the parent holds open; the pointers end in null and point
            // into vectors that live until exec replaces the process.
            unsafe {
                libc::setpgid(0, 0);
                // Copies above all places first: a descriptor may have the number of another one's place.
                let copy = |fd| libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, FIRST_COPY);
                let (stdin, passed) = (copy(stdin), passed.map(|fd| if fd < 0 { fd } else { copy(fd) }));
                let mut is_placed = libc::dup2(stdin, 0) == 0;
                let mut next = FIRST_PASSED;
                for fd in passed.iter().take(count) {
                    is_placed &= libc::dup2(*fd, next) == next;
                    next += 1;
                }
                if !is_placed {
                    libc::_exit(126)
                }
                // The launcher of the parent may have left descriptors open on exec.
                closing.close_from(next);
                default_signals();
                libc::execve(path.as_ptr(), pointers.as_ptr(), envp.as_ptr());
                libc::_exit(127)
            }
        }
    }
}
