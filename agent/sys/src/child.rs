//! What every child does between fork and exec, so that nothing of ours reaches the next program.

#![allow(unsafe_code, reason = "system calls between fork and exec")]

use std::os::fd::RawFd;

use nix::sys::resource::{Resource, getrlimit};

/// Limit of the descriptors that are closed one by one.
const MANY: u64 = 1 << 20;

/// How descriptors are closed. Prepared before the fork: afterwards nothing may be allocated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Closing {
    /// A number above every open descriptor, where the kernel has no close_range(2).
    pub(crate) end: RawFd,
    /// Use close_range(2), which exists since Linux 5.9.
    pub(crate) by_range: bool,
}

impl Closing {
    pub(crate) fn prepare() -> Self {
        let soft = getrlimit(Resource::RLIMIT_NOFILE).map_or(1024, |(soft, _)| soft);
        let limit = RawFd::try_from(soft.min(MANY)).unwrap_or(RawFd::MAX);
        // The limit may have been lowered after a descriptor above it was opened.
        let open = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
        let highest = open
            .filter_map(|e| e.file_name().to_str()?.parse::<RawFd>().ok())
            .max();
        Self {
            end: limit.max(highest.map_or(0, |fd| fd.saturating_add(1))),
            by_range: true,
        }
    }

    /// Closes every descriptor from `first` on.
    ///
    /// # Safety
    /// Only in a fresh child of fork, which uses none of them any more.
    pub(crate) unsafe fn close_from(self, first: RawFd) {
        // SAFETY: system calls that touch no memory; the caller uses none of these descriptors.
        unsafe {
            if self.by_range && libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, 0) == 0 {
                return;
            }
            for fd in first..self.end {
                libc::close(fd);
            }
        }
    }
}

/// Gives every signal its default action and unblocks it. Ignored signals and the mask would outlive the exec.
///
/// # Safety
/// Only in a fresh child of fork.
pub(crate) unsafe fn default_signals() {
    const SIGSET: usize = 8;
    // SAFETY: plain system calls on memory that outlives them.
    unsafe {
        // The raw system call: libc refuses its two internal signals, which may be ignored.
        let default = [0_u64; 4];
        for signal in 1..=64 {
            let none = std::ptr::null_mut::<u64>();
            libc::syscall(libc::SYS_rt_sigaction, signal, default.as_ptr(), none, SIGSET);
        }
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
}
