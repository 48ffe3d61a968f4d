//! Files whose driver returns whole records only.
//!
//! A read that offers less room than one record returns 0 there, like the end of the file. Reads into a growing buffer, as of
//! `read_to_end`, soon offer only a few bytes.

use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::root;
use crate::Error;

/// The room that each read offers: sysfs hands at most one page to a driver.
const ROOM: usize = 4096;

/// Reads such a file. Ends behind the read that reaches `max` bytes. `Ok(None)`: the file is absent, or what it is about is gone.
///
/// # Errors
/// Any other error of open(2) or pread(2).
pub(crate) fn read(path: &Path, max: usize) -> Result<Option<Vec<u8>>, Error> {
    let Some(file) = root::open(path)? else {
        return Ok(None);
    };
    match all(max, |room, at| file.read_at(room, at)) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(e) if e.raw_os_error() == Some(libc::ENODEV) => Ok(None),
        Err(e) => Err(Error::io(path, e)),
    }
}

/// The content, by a function that fills the room from an offset on.
fn all(max: usize, mut read: impl FnMut(&mut [u8], u64) -> io::Result<usize>) -> io::Result<Vec<u8>> {
    let (mut bytes, mut room) = (Vec::new(), vec![0; ROOM]);
    while bytes.len() < max {
        match read(&mut room, bytes.len() as u64) {
            Ok(0) => break,
            Ok(count) => bytes.extend(room.iter().take(count)),
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `amdgpu_ras_sysfs_badpages_read` computes which lines fit; the kernel hands it one page at most.
    fn bad_pages(pages: usize) -> impl FnMut(&mut [u8], u64) -> io::Result<usize> {
        const LINE: usize = 28;
        move |room, at| {
            let (at, count) = (usize::try_from(at).unwrap(), room.len().min(4096));
            let (start, end) = (at.div_ceil(LINE), (at + count - 1) / LINE);
            let lines: String = (start..end.min(pages))
                .map(|page| format!("0x{page:08x} : 0x00001000 : R\n"))
                .collect();
            room[..lines.len()].copy_from_slice(lines.as_bytes());
            Ok(lines.len())
        }
    }

    #[test]
    fn every_line_of_a_list_of_bad_pages_is_read() {
        for pages in [0, 1, 2, 3, 146, 147, 1000] {
            let text = String::from_utf8(all(1 << 20, bad_pages(pages)).unwrap()).unwrap();
            assert_eq!(text.lines().count(), pages);
            let last = text
                .lines()
                .last()
                .map(|line| line.split(' ').next().unwrap().to_owned());
            assert_eq!(last, pages.checked_sub(1).map(|page| format!("0x{page:08x}")));
        }
    }

    #[test]
    fn a_file_that_never_ends_is_cut_and_an_error_is_passed_on() {
        let endless = |room: &mut [u8], _| Ok(room.len());
        assert_eq!(all(10_000, endless).unwrap().len(), 3 * ROOM);
        let mut calls = 0;
        let interrupted = |_: &mut [u8], _| {
            calls += 1;
            Err(io::Error::from_raw_os_error(
                [libc::EINTR, libc::EIO][usize::from(calls > 1)],
            ))
        };
        assert_eq!(all(1, interrupted).unwrap_err().raw_os_error(), Some(libc::EIO));
    }

    #[test]
    fn an_absent_file_is_none_and_one_on_disk_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("list");
        assert_eq!(read(&path, 1).unwrap(), None);
        std::fs::write(&path, "x".repeat(10_000)).unwrap();
        assert_eq!(
            read(&path, 1 << 20).unwrap().map(|bytes| bytes.len()),
            Some(10_000)
        );
    }
}
