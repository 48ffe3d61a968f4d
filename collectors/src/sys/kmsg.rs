//! The kernel's log, `/dev/kmsg`: one read(2) returns one record. See Documentation/ABI/testing/dev-kmsg.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read as _};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::{Whence, lseek};

use crate::Error;

/// The kernel's own log.
pub const DEV_KMSG: &str = "/dev/kmsg";

/// The kernel formats a record into at most 8 KiB (`PRINTK_MESSAGE_MAX`); twice that allows for a larger one.
const BUFFER: usize = 16 * 1024;
/// Maximum size of the buffer.
const MAX_BUFFER: usize = 256 * 1024;

/// The result of one read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KmsgRead {
    /// One record, in the caller's buffer.
    Record,
    /// Nothing for now (`EAGAIN`).
    Empty,
    /// Records were lost before this position (`EPIPE`); the next read continues after them.
    Overrun,
    /// The source has ended: a file or a FIFO. The kernel's log never ends.
    End,
}

/// An open kernel log.
#[derive(Debug)]
pub struct Kmsg {
    file: File,
    path: PathBuf,
    buffer: Vec<u8>,
    /// A file or a FIFO returns bytes, not records: the bytes read and not yet returned.
    lines: Option<Lines>,
}

impl Kmsg {
    /// Opens a kernel log at its oldest record. A file or a FIFO in its place holds one record per line.
    ///
    /// # Errors
    /// [`Error::Denied`] if `CAP_SYSLOG` or a container's device rule is missing, [`Error::Io`] for any other error.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
            .open(path)
            .map_err(|e| open_error(path, e))?;
        let kind = file.metadata().map_err(|e| Error::io(path, e))?.file_type();
        let lines = (!kind.is_char_device()).then(Lines::default);
        if !kind.is_fifo() {
            // A new descriptor is already at the first record; the seek ensures it for later kernels.
            lseek(&file, 0, Whence::SeekSet).map_err(|e| Error::io(path, e.into()))?;
        }
        Ok(Self {
            file,
            path: path.to_owned(),
            buffer: vec![0; BUFFER],
            lines,
        })
    }

    /// Reads one record into `record`, which is emptied first.
    ///
    /// # Errors
    /// [`Error::Io`] for errors of read(2) other than the cases of [`KmsgRead`].
    pub fn read(&mut self, record: &mut Vec<u8>) -> Result<KmsgRead, Error> {
        record.clear();
        loop {
            if let Some(lines) = &mut self.lines
                && lines.take(record)
            {
                return Ok(KmsgRead::Record);
            }
            let end = match self.file.read(&mut self.buffer) {
                Ok(0) => {
                    if self.lines.as_mut().is_some_and(Lines::finish) {
                        continue;
                    }
                    return Ok(KmsgRead::End);
                }
                Ok(end) => end,
                Err(e) => match e.raw_os_error().map(Errno::from_raw) {
                    Some(Errno::EINTR) => continue,
                    Some(Errno::EAGAIN) => return Ok(KmsgRead::Empty),
                    Some(Errno::EPIPE) => return Ok(KmsgRead::Overrun),
                    Some(Errno::EINVAL) if self.buffer.len() < MAX_BUFFER => {
                        // The kernel skips a record that does not fit, so it is lost.
                        self.buffer.resize(self.buffer.len() * 2, 0);
                        return Ok(KmsgRead::Overrun);
                    }
                    _ => return Err(Error::io(&self.path, e)),
                },
            };
            let bytes = self.buffer.get(..end).unwrap_or_default();
            match &mut self.lines {
                Some(lines) => lines.add(bytes),
                None => {
                    record.extend_from_slice(bytes);
                    return Ok(KmsgRead::Record);
                }
            }
        }
    }

    /// Goes back to the oldest record. False for a FIFO, whose records come once.
    ///
    /// # Errors
    /// [`Error::Io`] for errors of lseek(2).
    pub fn rewind(&mut self) -> Result<bool, Error> {
        match lseek(&self.file, 0, Whence::SeekSet) {
            Ok(_) => {}
            Err(Errno::ESPIPE) => return Ok(false),
            Err(e) => return Err(Error::io(&self.path, e.into())),
        }
        self.lines = self.lines.is_some().then(Lines::default);
        Ok(true)
    }

    /// Waits for the next record, at most for `timeout`. A signal ends the wait early.
    ///
    /// # Errors
    /// [`Error::Io`] for errors of poll(2).
    pub fn wait(&self, timeout: Option<Duration>) -> Result<(), Error> {
        let timeout = match timeout {
            None => PollTimeout::NONE,
            // Rounded up: a wait of 0 ms for the last part of one would spin.
            Some(time) => i32::try_from(time.as_millis().saturating_add(1))
                .ok()
                .and_then(|ms| PollTimeout::try_from(ms).ok())
                .unwrap_or(PollTimeout::MAX),
        };
        let mut fds = [PollFd::new(self.file.as_fd(), PollFlags::POLLIN)];
        match poll(&mut fds, timeout) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(e) => Err(Error::io(&self.path, e.into())),
        }
    }
}

/// Whether `path` exists.
pub fn exists(path: &Path) -> bool {
    path.exists()
}

/// `/dev/kmsg` is readable by mode for all users, but returns EPERM under `kernel.dmesg_restrict`.
fn open_error(path: &Path, e: std::io::Error) -> Error {
    let denied = e.raw_os_error() == Some(libc::EPERM)
        || (path == Path::new(DEV_KMSG) && e.kind() == ErrorKind::PermissionDenied);
    if denied {
        Error::Denied {
            what: format!("open {}", path.display()),
            missing: missing(has_syslog()),
        }
    } else {
        Error::io(path, e)
    }
}

/// The right without which the kernel refuses. It asks for one capability in the first user namespace; with it, the refusal is
/// mostly a device rule's.
const fn missing(has_capability: bool) -> &'static str {
    if has_capability {
        "device rule of the container for /dev/kmsg (podman: --device=/dev/kmsg:/dev/kmsg:r, Kubernetes: privileged: true), \
         or a user namespace or security module refuses"
    } else {
        "CAP_SYSLOG"
    }
}

/// Whether this process has CAP_SYSLOG. An answer that is refused counts as no.
#[allow(unsafe_code, reason = "neither std nor nix has capget(2)")]
fn has_syslog() -> bool {
    const VERSION_3: u32 = 0x2008_0522;
    const CAP_SYSLOG: u32 = 34;
    let header = [VERSION_3, 0];
    // Effective, permitted and inheritable of the capabilities 0 to 31, then of 32 to 63.
    let mut data = [0_u32; 6];
    // SAFETY: header and data have the size and layout of linux/capability.h for version 3 and live over the call.
    let result = unsafe { libc::syscall(libc::SYS_capget, header.as_ptr(), data.as_mut_ptr()) };
    result == 0 && data[3] & (1 << (CAP_SYSLOG - 32)) != 0
}

/// Splits bytes into records: one per line. Continuation lines, which begin with a space, carry the record's
/// dictionary, which is unused and skipped.
#[derive(Debug, Default)]
struct Lines {
    bytes: Vec<u8>,
    /// The start of the next line in `bytes`.
    at: usize,
    /// The rest of a line that is too long for a record is being skipped.
    skip: bool,
}

impl Lines {
    fn add(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.at);
        self.at = 0;
        self.bytes.extend_from_slice(bytes);
    }

    fn take(&mut self, record: &mut Vec<u8>) -> bool {
        loop {
            let rest = self.bytes.get(self.at..).unwrap_or_default();
            let Some(end) = rest.iter().position(|b| *b == b'\n') else {
                if rest.len() <= MAX_BUFFER {
                    return false;
                }
                if !self.skip {
                    record.extend_from_slice(rest.get(..BUFFER).unwrap_or_default());
                }
                self.at = self.bytes.len();
                return !std::mem::replace(&mut self.skip, true);
            };
            let line = rest.get(..=end).unwrap_or_default();
            let wanted = !std::mem::take(&mut self.skip) && line.len() > 1 && line.first() != Some(&b' ');
            if wanted {
                record.extend_from_slice(line);
            }
            self.at += end + 1;
            if wanted {
                return true;
            }
        }
    }

    /// At the end of the file: ends a last line without a newline. False: no such line.
    fn finish(&mut self) -> bool {
        let open = self.at < self.bytes.len();
        if open {
            self.bytes.push(b'\n');
        }
        open
    }
}

#[cfg(test)]
mod tests;
