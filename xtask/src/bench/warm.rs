//! Keeps the memory of measured programs mapped by the host of a virtual machine.
//!
//! Some hosts unmap what a guest has not used for a second, and map it again at the next use, at up to 0.15 ms of the guest's
//! CPU for each block. How much that costs depends on the host's load, not on the programs.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle, sleep};
use std::time::Duration;

use anyhow::{Context, Result};
use nix::unistd::{SysconfVar, sysconf};

/// A tenth of the shortest time after which a host was seen to unmap.
const EVERY: Duration = Duration::from_millis(100);

/// Bit 63 of an entry of `/proc/PID/pagemap`: the page is in memory (Documentation/admin-guide/mm/pagemap.rst).
const PRESENT: u64 = 1 << 63;

/// A thread that reads a byte of each page that the processes have in memory, until it is dropped. It uses the core of its creator.
pub(super) struct Warm {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Warm {
    /// Starts with processes that run.
    ///
    /// # Errors
    /// When one of them is not readable.
    pub(super) fn keep(pids: Vec<u32>) -> Result<Self> {
        let page = sysconf(SysconfVar::PAGE_SIZE)?.context("no page size")?;
        let page = u64::try_from(page)?;
        for pid in &pids {
            touch(*pid, page).with_context(|| format!("memory of {pid}"))?;
        }
        let ends = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&ends);
        let run = move || {
            while !told.load(Ordering::Relaxed) {
                for pid in &pids {
                    // A process that has ended is a fault of the measurement, which says so itself.
                    touch(*pid, page).ok();
                    look(*pid);
                }
                sleep(EVERY);
            }
        };
        let thread = thread::Builder::new().name("warm".to_owned()).spawn(run)?;
        Ok(Self {
            ends,
            thread: Some(thread),
        })
    }
}

impl Drop for Warm {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

/// Reads a byte of each page of a process that is in memory. Gives how many there are.
fn touch(pid: u32, page: u64) -> Result<usize> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps"))?;
    touch_ranges(pid, page, maps.lines().filter_map(readable))
}

/// Of these ranges of its addresses.
fn touch_ranges(pid: u32, page: u64, ranges: impl Iterator<Item = (u64, u64)>) -> Result<usize> {
    let pagemap = File::open(format!("/proc/{pid}/pagemap"))?;
    let memory = File::open(format!("/proc/{pid}/mem"))?;
    let mut count = 0;
    let mut entries = Vec::new();
    for range in ranges {
        let pages = usize::try_from((range.1 - range.0) / page)?;
        entries.resize(pages * 8, 0);
        // Special mappings of the kernel have no entries.
        let read = pagemap.read_at(&mut entries, range.0 / page * 8).unwrap_or(0);
        for (at, entry) in (range.0..)
            .step_by(usize::try_from(page)?)
            .zip(entries[..read].chunks_exact(8))
        {
            let entry = u64::from_le_bytes(entry.try_into()?);
            if entry & PRESENT != 0 && memory.read_at(&mut [0], at).is_ok() {
                count += 1;
            }
        }
    }
    Ok(count)
}

/// Makes the kernel read what it keeps for a process: its threads, their kernel stacks, its open files.
fn look(pid: u32) {
    let read = |file: &Path| drop(fs::read(file));
    let folder = |name: &str| fs::read_dir(format!("/proc/{pid}/{name}"));
    for thread in folder("task").into_iter().flatten().flatten() {
        for file in ["stat", "status", "stack"] {
            read(&thread.path().join(file));
        }
    }
    for file in folder("fdinfo").into_iter().flatten().flatten() {
        read(&file.path());
    }
}

/// The first and the last address of a mapping that may be read.
fn readable(line: &str) -> Option<(u64, u64)> {
    let (range, rest) = line.split_once(' ')?;
    let (from, to) = range.split_once('-')?;
    let address = |text| u64::from_str_radix(text, 16).ok();
    rest.starts_with('r').then_some((address(from)?, address(to)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_in_memory_are_touched_and_no_others() {
        let (page, own) = (4096, std::process::id());
        assert!(touch(own, page).unwrap() > 100);
        let mut large = vec![0_u8; 64 << 20];
        // Whole pages of it alone: other tests use memory of this process at the same time.
        let begin = (large.as_ptr() as u64).next_multiple_of(page);
        let range = (begin, begin + (63 << 20));
        let touched = || touch_ranges(own, page, std::iter::once(range)).unwrap();
        let reserved = touched();
        for at in (0..large.len()).step_by(4096) {
            large[at] = 1;
        }
        assert_eq!((reserved, touched()), (0, (63 << 20) / 4096));
    }

    #[test]
    fn what_may_not_be_read_is_left_out() {
        assert_eq!(
            readable("1000-3000 r--p 00000000 08:01 12  /a"),
            Some((0x1000, 0x3000))
        );
        assert_eq!(readable("1000-3000 ---p 00000000 00:00 0"), None);
    }
}
