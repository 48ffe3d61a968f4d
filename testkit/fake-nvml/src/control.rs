//! The control file: what a test changes while the library is in use.
//!
//! A generation, on which blocked calls wait, then a text in TOML. The library reads the text only after the
//! generation has changed.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::map::Map;

/// The current control data.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Control {
    /// Steps since the start.
    pub step: u64,
    /// Number of driver reloads.
    pub reloads: u64,
    /// The step of the last reload.
    pub loaded_at: u64,
    /// Nanoseconds of CLOCK_MONOTONIC when it was loaded.
    pub loaded_ns: u64,
    /// Return code of calls after a reload until the library is initialised again. 0: UNINITIALIZED.
    pub stale_code: u32,
    /// GPUs that the driver does not list.
    pub gone: Vec<u32>,
    /// GPUs whose work has ended: they have the values of `[idle]`.
    pub idle: Vec<u32>,
    /// MIG layouts that differ from the scenario, by GPU; an empty name disables MIG.
    pub layouts: BTreeMap<String, String>,
    /// Events so far, oldest first.
    pub events: Vec<Event>,
    /// Faults.
    pub rules: Vec<Rule>,
}

/// An event from the driver.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// Counts events from 1.
    pub seq: u64,
    /// Which GPU.
    pub gpu: u32,
    /// nvmlEventType; 8 is an Xid.
    pub kind: u64,
    /// Its data: the Xid.
    pub data: u64,
    /// GPU instance.
    pub gi: Option<u32>,
    /// Compute instance.
    pub ci: Option<u32>,
}

/// A fault.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// On that GPU; absent for all GPUs and for calls without a GPU.
    pub gpu: Option<u32>,
    /// In that function, in any version; absent for all functions.
    pub call: Option<String>,
    /// In that field of nvmlDeviceGetFieldValues only; with `call`, in every call of the function that has the field.
    pub field: Option<String>,
    /// What happens.
    pub fault: Fault,
}

/// What happens instead of an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// That return code, known or not.
    Code(u32),
    /// It sleeps (state S) and returns after the fault was lifted.
    Blocks,
    /// It runs (state R) and returns after the fault was lifted.
    Spins,
    /// It takes that many milliseconds longer.
    Slow(u64),
    /// It succeeds, with all bits of the value set.
    Garbage,
    /// It ends the process with SIGSEGV.
    Segv,
}

const MAGIC: u64 = u64::from_le_bytes(*b"FAKENVML");
const GENERATION: usize = 8;
const LENGTH: usize = 12;
const TEXT: usize = 16;
/// Size of the file.
const SIZE: usize = 1 << 18;

/// The control file, opened by either side.
#[derive(Debug)]
pub struct ControlFile {
    map: Map,
}

impl ControlFile {
    /// Creates the file, for the test.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn create(path: &Path) -> Result<Self> {
        let file = std::fs::File::create(path).with_context(|| path.display().to_string())?;
        file.set_len(SIZE as u64)?;
        let map = Map::open(path, SIZE, true)?;
        map.u64(0).store(MAGIC, Ordering::Release);
        Ok(Self { map })
    }

    /// Opens the file, for the library.
    ///
    /// # Errors
    /// When it is not a control file.
    pub fn open(path: &Path) -> Result<Self> {
        let map = Map::open(path, SIZE, false)?;
        ensure!(
            map.u64(0).load(Ordering::Acquire) == MAGIC,
            "{}: no control file",
            path.display()
        );
        Ok(Self { map })
    }

    /// The current generation. Odd during a write.
    #[must_use]
    pub fn generation(&self) -> u32 {
        self.map.u32(GENERATION).load(Ordering::Acquire)
    }

    /// Reads the control data and its generation.
    ///
    /// # Errors
    /// When the file is invalid.
    pub fn read(&self) -> Result<(u32, Control)> {
        loop {
            let before = self.generation();
            if before % 2 == 1 {
                self.wait(before, Some(Duration::from_millis(10)));
                continue;
            }
            let length = self.map.u32(LENGTH).load(Ordering::Acquire) as usize;
            let bytes = self.map.read(TEXT, length);
            std::sync::atomic::fence(Ordering::Acquire);
            if self.generation() != before {
                continue;
            }
            return Ok((before, toml::from_str(std::str::from_utf8(&bytes)?)?));
        }
    }

    /// Replaces it, and wakes every call that waits for a change. One writer at a time.
    ///
    /// # Errors
    /// When it is too long.
    pub fn write(&self, control: &Control) -> Result<()> {
        let text = toml::to_string(control)?;
        ensure!(
            text.len() <= SIZE - TEXT,
            "too many faults and events: {} bytes",
            text.len()
        );
        let generation = self.map.u32(GENERATION);
        generation.fetch_add(1, Ordering::AcqRel);
        self.map.write(TEXT, text.as_bytes());
        #[expect(clippy::cast_possible_truncation, reason = "below SIZE")]
        self.map.u32(LENGTH).store(text.len() as u32, Ordering::Release);
        generation.fetch_add(1, Ordering::AcqRel);
        futex(generation, libc::FUTEX_WAKE, i32::MAX as u32, None);
        Ok(())
    }

    /// Sleeps in the kernel until the generation differs from `seen`, at most for `limit`.
    pub fn wait(&self, seen: u32, limit: Option<Duration>) {
        futex(self.map.u32(GENERATION), libc::FUTEX_WAIT, seen, limit);
    }
}

/// Between processes, so without FUTEX_PRIVATE_FLAG.
fn futex(word: &AtomicU32, operation: i32, value: u32, limit: Option<Duration>) {
    let limit = limit.map(|l| libc::timespec {
        tv_sec: libc::time_t::try_from(l.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: libc::c_long::from(l.subsec_nanos()),
    });
    let limit = limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the word and the time outlive the call. The result does not matter: the caller checks the word.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, value, limit) };
}

/// CLOCK_MONOTONIC: the same in every process.
#[must_use]
pub fn now_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the time outlives the call.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_reaches_and_wakes_the_other_side() {
        let dir = std::env::temp_dir().join(format!("fake-nvml-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join("control");
        let writer = ControlFile::create(&path).unwrap();
        let reader = ControlFile::open(&path).unwrap();
        let (seen, empty) = reader.read().unwrap();
        assert_eq!(empty, Control::default());
        let control = Control {
            step: 3,
            layouts: BTreeMap::from([("0".to_owned(), "two".to_owned())]),
            rules: vec![Rule {
                gpu: Some(2),
                call: None,
                field: None,
                fault: Fault::Code(15),
            }],
            events: vec![Event {
                seq: 1,
                gpu: 0,
                kind: 8,
                data: 79,
                gi: None,
                ci: Some(1),
            }],
            ..Control::default()
        };
        std::thread::scope(|scope| {
            let woken = scope.spawn(|| {
                while reader.generation() == seen {
                    reader.wait(seen, None);
                }
            });
            writer.write(&control).unwrap();
            woken.join().unwrap();
        });
        assert_eq!(reader.read().unwrap().1, control);
        std::fs::remove_dir_all(&dir).unwrap();
        assert!(ControlFile::open(&path).is_err());
    }
}
