//! A file mapped into several processes.

use std::fs::OpenOptions;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};

use anyhow::{Context, Result, ensure};

/// A mapped file. It stays mapped until the end of the process: a blocked call may read it at any time.
#[derive(Debug)]
pub struct Map {
    base: NonNull<u8>,
    length: usize,
}

// SAFETY: all access is through atomics, or by copies that a generation validates.
unsafe impl Send for Map {}
// SAFETY: as above.
unsafe impl Sync for Map {}

impl Map {
    /// Maps an existing file.
    ///
    /// # Errors
    /// When it cannot be opened or is shorter than `length`.
    pub fn open(path: &Path, length: usize, write: bool) -> Result<Self> {
        let file = OpenOptions::new().read(true).write(write).open(path);
        let file = file.with_context(|| path.display().to_string())?;
        let has = file.metadata()?.len();
        ensure!(
            has >= length as u64,
            "{}: expected {length} bytes, found {has}",
            path.display()
        );
        let protection = if write {
            libc::PROT_READ | libc::PROT_WRITE
        } else {
            libc::PROT_READ
        };
        // SAFETY: a new mapping, of a file that has that length, overlaps nothing.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                protection,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error()).with_context(|| path.display().to_string());
        }
        let base = NonNull::new(base.cast()).context("mapped at zero")?;
        Ok(Self { base, length })
    }

    /// A number of 32 bits in it.
    #[must_use]
    pub fn u32(&self, at: usize) -> &AtomicU32 {
        assert!(at.is_multiple_of(4) && at + 4 <= self.length);
        // SAFETY: inside the mapping, aligned, and only ever used as an atomic.
        unsafe { &*self.base.as_ptr().add(at).cast() }
    }

    /// A number of 64 bits in it.
    #[must_use]
    pub fn u64(&self, at: usize) -> &AtomicU64 {
        assert!(at.is_multiple_of(8) && at + 8 <= self.length);
        // SAFETY: inside the mapping, aligned, and only ever used as an atomic.
        unsafe { &*self.base.as_ptr().add(at).cast() }
    }

    /// Copies bytes out.
    #[must_use]
    pub fn read(&self, at: usize, length: usize) -> Vec<u8> {
        let length = length.min(self.length.saturating_sub(at));
        let mut bytes = vec![0; length];
        // SAFETY: the source is inside the mapping. Another process may write to it; the reader detects this by the
        // generation and discards the copy.
        unsafe { std::ptr::copy_nonoverlapping(self.base.as_ptr().add(at), bytes.as_mut_ptr(), length) };
        bytes
    }

    /// Copies bytes in.
    pub fn write(&self, at: usize, bytes: &[u8]) {
        assert!(at + bytes.len() <= self.length);
        // SAFETY: the target is inside the mapping; the caller opened it for writing.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.base.as_ptr().add(at), bytes.len()) };
    }
}
