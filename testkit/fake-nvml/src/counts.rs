//! The counts: calls of each function by GPU and selector.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::Ordering;

use anyhow::{Context, Result};

use crate::functions::{Function, NAMES};
use crate::map::Map;

/// Slots of 16 bytes: a key and its count. A node with 16 GPUs needs far fewer.
const SLOTS: usize = 1 << 15;
/// After them: what the library holds of the process's heap, in bytes.
const HELD: usize = SLOTS * 16;
const SIZE: usize = HELD + 8;

/// No GPU, or no MIG device.
const NONE: u8 = u8::MAX;

/// A call, for the counts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Call {
    /// The function's name.
    pub function: &'static str,
    /// The GPU; `None` for a call without a GPU or with an invalid handle.
    pub gpu: Option<u8>,
    /// The MIG device on it.
    pub mig: Option<u8>,
    /// What distinguishes calls of one function: the clock, the link, the location.
    pub selector: u32,
}

/// The counts, opened by either side.
#[derive(Debug)]
pub struct Counts {
    map: Map,
}

impl Counts {
    /// Makes the file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn create(path: &Path) -> Result<Self> {
        let file = std::fs::File::create(path).with_context(|| path.display().to_string())?;
        file.set_len(SIZE as u64)?;
        // Workers run as other users and count too.
        file.set_permissions(std::fs::Permissions::from_mode(0o666))?;
        Self::open(path)
    }

    /// Opens it.
    ///
    /// # Errors
    /// When it does not exist or is not writable.
    pub fn open(path: &Path) -> Result<Self> {
        Ok(Self {
            map: Map::open(path, SIZE, true)?,
        })
    }

    pub(crate) fn add(&self, function: Function, gpu: Option<u8>, mig: Option<u8>, selector: u32) {
        let key = ((function as u64 + 1) << 48)
            | (u64::from(gpu.unwrap_or(NONE)) << 40)
            | (u64::from(mig.unwrap_or(NONE)) << 32)
            | u64::from(selector);
        let first = usize::try_from(key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 49).unwrap_or(0);
        for i in 0..SLOTS {
            let at = ((first + i) % SLOTS) * 16;
            let slot = self.map.u64(at);
            let found = match slot.load(Ordering::Acquire) {
                0 => slot
                    .compare_exchange(0, key, Ordering::AcqRel, Ordering::Acquire)
                    .map_or_else(|other| other, |_| key),
                other => other,
            };
            if found == key {
                self.map.u64(at + 8).fetch_add(1, Ordering::Relaxed);
                return;
            }
        }
    }

    pub(crate) fn hold(&self, bytes: u64) {
        self.map.u64(HELD).store(bytes, Ordering::Relaxed);
    }

    /// About how many bytes of the heap the library took in the process that loaded it last: what other threads took meanwhile counts too.
    /// 0 before that.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.map.u64(HELD).load(Ordering::Relaxed)
    }

    /// All of them.
    #[must_use]
    pub fn read(&self) -> Vec<(Call, u64)> {
        let mut all = Vec::new();
        for at in (0..HELD).step_by(16) {
            let key = self.map.u64(at).load(Ordering::Acquire);
            if key == 0 {
                continue;
            }
            let byte = |shift: u32| Some((key >> shift) as u8).filter(|b| *b != NONE);
            let function = usize::try_from((key >> 48) - 1).unwrap_or(usize::MAX);
            #[expect(clippy::cast_possible_truncation, reason = "the lower half is the selector")]
            let call = Call {
                function: NAMES.get(function).copied().unwrap_or("?"),
                gpu: byte(40),
                mig: byte(32),
                selector: key as u32,
            };
            all.push((call, self.map.u64(at + 8).load(Ordering::Relaxed)));
        }
        all.sort();
        all
    }
}
