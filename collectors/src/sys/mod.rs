//! The edge: every file, descriptor and system call of the collectors, and all of their unsafe code.

#![allow(
    clippy::disallowed_methods,
    reason = "this is the place where files are opened"
)]

pub mod boot;
pub(crate) mod bpf;
pub(crate) mod clock;
pub(crate) mod environ;
pub(crate) mod ethtool;
pub mod helper;
pub(crate) mod inotify;
pub mod kept;
pub mod kmsg;
pub(crate) mod listen;
pub(crate) mod lprocfs;
pub mod message;
pub(crate) mod mmpmon;
pub(crate) mod netlink;
pub(crate) mod numbered;
pub(crate) mod nvme;
pub mod nvml;
pub(crate) mod patience;
pub(crate) mod records;
pub mod root;
pub(crate) mod statfs;
pub mod task;

use nix::errno::Errno;

/// The kernel's number of an error; `EIO` if it is the library's own.
fn errno(error: std::io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::from_raw)
}
