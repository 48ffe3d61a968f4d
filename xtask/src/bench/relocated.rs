//! Size of the program's data with relocated addresses. The loader writes all of it, so every process has its own copy.

use std::path::Path;

use anyhow::{Context, Result};

/// Limit in KiB. The release build has 323.
const LIMIT: u64 = 336;

/// `PT_GNU_RELRO`: the segment that is read-only after the loader wrote it.
const RELRO: u32 = 0x6474_e552;

/// The error where a program has more than the limit.
///
/// # Errors
/// When the program cannot be read or is not a 64-bit little-endian ELF file with such data.
pub(super) fn over_limit(program: &Path) -> Result<Option<String>> {
    let file = std::fs::read(program).with_context(|| program.display().to_string())?;
    let size =
        size(&file).with_context(|| format!("{}: no data with relocated addresses", program.display()))?;
    let size = size.div_ceil(1024);
    println!("{size} KiB of data with relocated addresses in each process");
    Ok((size > LIMIT).then(|| {
        format!("{size} KiB of data with relocated addresses in each process, limit {LIMIT} KiB: tables of texts belong in collectors::inline")
    }))
}

/// Bytes of data with relocated addresses of a 64-bit little-endian ELF file.
fn size(file: &[u8]) -> Option<u64> {
    file.starts_with(b"\x7fELF\x02\x01").then_some(())?;
    let start = usize::try_from(u64::from_le_bytes(at(file, 0x20)?)).ok()?;
    let (entry, count) = (
        u16::from_le_bytes(at(file, 0x36)?),
        u16::from_le_bytes(at(file, 0x38)?),
    );
    let mut headers = (0..usize::from(count)).map(|n| file.get(start + n * usize::from(entry)..));
    let header = headers.find_map(|header| {
        let header = header?;
        (u32::from_le_bytes(at(header, 0)?) == RELRO).then_some(header)
    })?;
    Some(u64::from_le_bytes(at(header, 0x28)?))
}

/// The bytes at a place.
fn at<const N: usize>(bytes: &[u8], place: usize) -> Option<[u8; N]> {
    bytes.get(place..)?.first_chunk().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_is_that_of_the_segment() {
        let own = std::fs::read("/proc/self/exe").unwrap();
        let found = size(&own).unwrap();
        assert!((4096..own.len() as u64).contains(&found), "{found}");
        // A file with two headers: another segment, and one of 4660 bytes.
        let mut file = vec![0; 64 + 2 * 56];
        file[..6].copy_from_slice(b"\x7fELF\x02\x01");
        file[0x20] = 64;
        file[0x36] = 56;
        file[0x38] = 2;
        file[64 + 56..][..4].copy_from_slice(&RELRO.to_le_bytes());
        file[64 + 56 + 0x28..][..2].copy_from_slice(&0x1234_u16.to_le_bytes());
        assert_eq!(size(&file), Some(0x1234));
        assert_eq!(size(&file[..100]), None, "cut short");
        assert_eq!(size(b"#!/bin/sh"), None);
    }

    #[test]
    fn a_program_above_the_limit_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("program");
        let mut file = vec![0; 64 + 56];
        file[..6].copy_from_slice(b"\x7fELF\x02\x01");
        file[0x20] = 64;
        file[0x36] = 56;
        file[0x38] = 1;
        file[64..][..4].copy_from_slice(&RELRO.to_le_bytes());
        for (bytes, is_over) in [(LIMIT * 1024, false), (LIMIT * 1024 + 1, true)] {
            file[64 + 0x28..][..8].copy_from_slice(&bytes.to_le_bytes());
            std::fs::write(&program, &file).unwrap();
            assert_eq!(over_limit(&program).unwrap().is_some(), is_over, "{bytes}");
        }
    }
}
