//! A stand-in for /dev/kmsg, after Documentation/ABI/testing/dev-kmsg.
//!
//! Supported, as on the device:
//!
//! * one record per read; without a record EAGAIN if the file is non-blocking, otherwise a blocking read that a signal
//!   ends with EINTR
//! * EPIPE once after an overrun
//! * EINVAL if the buffer is too small (the record is then lost, as on Linux 5.10 and later)
//! * SEEK_SET, SEEK_DATA and SEEK_END with offset 0; poll(2) and epoll(7), with wake-up
//!
//! Differences from the device:
//!
//! * it is a regular file to stat(2)
//! * SEEK_DATA and SEEK_END return a position other than 0
//! * SEEK_SET reaches this filesystem only with the next read: a poll in between uses the old position, and a SEEK_SET
//!   before the first read does not move a reader that was overrun since its open

mod fs;
mod ring;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use anyhow::Result;
use nix::time::{ClockId, clock_gettime};

pub use ring::Limit;

use crate::mount::Mount;

/// A mounted stand-in. Dropping it ends every waiting call and unmounts.
#[derive(Debug)]
pub struct Kmsg {
    mount: Mount,
    shared: Arc<fs::Shared>,
    signals: Option<JoinHandle<()>>,
}

impl Kmsg {
    /// Mounts it on `dir`, as `dir/kmsg`.
    pub fn mount(dir: impl AsRef<Path>) -> Result<Self> {
        let shared = fs::Shared::new();
        let mount = Mount::new(fs::Files(Arc::clone(&shared)), dir.as_ref(), "kmsg")?;
        let watcher = Arc::clone(&shared);
        let signals = std::thread::Builder::new().name("kmsg-signals".into());
        let signals = signals.spawn(move || watcher.watch_signals())?;
        Ok(Self {
            mount,
            shared,
            signals: Some(signals),
        })
    }

    /// The file.
    pub fn path(&self) -> PathBuf {
        self.mount.dir().join("kmsg")
    }

    /// Adds a record with the current time. `prio` is facility * 8 + level. Returns the sequence number.
    pub fn push(&self, prio: u32, text: &str) -> u64 {
        self.push_at(now_usec(), prio, text)
    }

    /// Adds a record with another time, in microseconds since boot.
    pub fn push_at(&self, usec: u64, prio: u32, text: &str) -> u64 {
        self.push_with(usec, prio, text, &[])
    }

    /// Adds a record with properties such as `SUBSYSTEM` and `DEVICE`.
    pub fn push_with(&self, usec: u64, prio: u32, text: &str, properties: &[(&str, &str)]) -> u64 {
        self.shared
            .change(|ring| ring.push(ring::print(prio, ring.next(), usec, text, properties)))
    }

    /// Adds `count` records with the current time, kernel facility, level 6. Returns the first sequence number.
    pub fn flood(&self, count: u64, text: impl Fn(u64) -> String) -> u64 {
        let first = self.shared.ring(ring::Ring::next);
        // In batches, so that readers run in parallel.
        for from in (0..count).step_by(1000) {
            let now = now_usec();
            self.shared.change(|ring| {
                for i in from..count.min(from + 1000) {
                    ring.push(ring::print(6, ring.next(), now, &text(i), &[]));
                }
            });
        }
        first
    }

    /// Sets the size of the ring. Initially unlimited: no reader is overrun.
    pub fn set_ring(&self, limit: Limit) {
        self.shared.change(|ring| ring.set_limit(limit));
    }

    /// As `dmesg --clear`: SEEK_DATA then moves behind the last record.
    pub fn clear(&self) {
        self.shared.change(ring::Ring::clear);
    }

    /// Number of open files. A closed file leaves the count after a short delay.
    pub fn readers(&self) -> usize {
        self.shared.readers()
    }

    /// Number of calls that wait for an answer. Wait for your call before you send SIGKILL: until the server has
    /// accepted a call, its task can still be killed.
    pub fn waiting(&self) -> usize {
        self.shared.waiting()
    }

    /// With `true`: reads and opens block from now on; their callers wait in state D and survive SIGKILL.
    /// With `false`: these calls fail with EIO and later ones work.
    pub fn hang_reads(&self, on: bool) -> Result<()> {
        if on {
            let shared = &self.shared;
            self.mount
                .teach_no_interrupts(|| shared.hung_file_is_read(), || shared.release_hung_file())?;
        }
        self.shared.hang(on);
        Ok(())
    }

    /// The mount below.
    pub fn mounted(&self) -> &Mount {
        &self.mount
    }
}

impl Drop for Kmsg {
    fn drop(&mut self) {
        self.shared.close();
        if let Some(thread) = self.signals.take() {
            thread.join().ok();
        }
    }
}

/// Microseconds on the clock that the kernel's records use.
pub fn now_usec() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap_or(nix::sys::time::TimeSpec::new(0, 0));
    u64::try_from(now.tv_sec()).unwrap_or(0) * 1_000_000 + u64::try_from(now.tv_nsec()).unwrap_or(0) / 1000
}

/// Parses a line from a process: `<prio>text`. The default facility is user; one final newline is removed.
fn written(data: &str) -> (u32, &str) {
    const USER: u32 = 1 << 3;
    let parsed = data.strip_prefix('<').and_then(|rest| rest.split_once('>'));
    let parsed = parsed.and_then(|(prio, text)| Some((prio.parse::<u32>().ok()?, text)));
    let (prio, text) = parsed.unwrap_or((USER | 4, data));
    // Only the kernel itself may use facility 0.
    let prio = if prio >> 3 == 0 { USER | prio } else { prio };
    (prio, text.strip_suffix('\n').unwrap_or(text))
}
