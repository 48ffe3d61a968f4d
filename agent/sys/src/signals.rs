//! The parent's signals, as a descriptor.

#![allow(unsafe_code, reason = "sets signals to their default or to be ignored")]

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use nix::sys::signal::{SigHandler, SigSet, Signal as Number, signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

/// A signal that means something to the parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// A child has ended.
    Child,
    /// SIGHUP: read the configuration again.
    Reload,
    /// SIGTERM or SIGINT.
    Stop,
    /// SIGABRT: systemd has waited too long for a heartbeat.
    Watchdog,
}

/// Where they arrive.
#[derive(Debug)]
pub struct SignalReader(SignalFd);

impl SignalReader {
    /// Blocks them for this thread and all that it starts from now on.
    ///
    /// # Errors
    /// When the mask or the descriptor is refused.
    pub fn block() -> io::Result<Self> {
        let mut set = SigSet::empty();
        for number in [
            Number::SIGCHLD,
            Number::SIGHUP,
            Number::SIGTERM,
            Number::SIGINT,
            Number::SIGABRT,
        ] {
            set.add(number);
        }
        set.thread_block()?;
        // Some launchers leave SIGCHLD ignored, and then no exit status can be read.
        // SAFETY: the default action is no handler, so nothing runs in signal context.
        unsafe { signal(Number::SIGCHLD, SigHandler::SigDfl) }?;
        Ok(Self(SignalFd::with_flags(
            &set,
            SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC,
        )?))
    }

    /// The next one that has arrived.
    ///
    /// # Errors
    /// When the descriptor cannot be read.
    pub fn next(&self) -> io::Result<Option<Signal>> {
        let Some(info) = self.0.read_signal()? else {
            return Ok(None);
        };
        Ok(Some(match i32::try_from(info.ssi_signo).map(Number::try_from) {
            Ok(Ok(Number::SIGHUP)) => Signal::Reload,
            Ok(Ok(Number::SIGTERM | Number::SIGINT)) => Signal::Stop,
            Ok(Ok(Number::SIGABRT)) => Signal::Watchdog,
            _ => Signal::Child,
        }))
    }
}

/// Writes past RLIMIT_FSIZE fail with EFBIG from now on, and can be reported. SIGXFSZ would end the process silently.
///
/// # Errors
/// Of sigaction(2).
pub fn survive_file_limit() -> io::Result<()> {
    // SAFETY: an ignored signal has no handler, so nothing runs in signal context.
    unsafe { signal(Number::SIGXFSZ, SigHandler::SigIgn) }?;
    Ok(())
}

impl AsFd for SignalReader {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
