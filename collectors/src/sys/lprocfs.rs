//! Whole files of a filesystem's client in /proc, /sys and debugfs. None stays open: an open file of debugfs would keep the
//! module loaded.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::errno::Errno;

use super::errno;
use super::kept::count;

/// Limit of a file, in bytes: a table of LNet has a line for each peer. A helper sends it as one message.
pub(crate) const LONGEST: usize = 128 * 1024;
/// Size of a read. Most files are generated in one call if it is large enough.
const CHUNK: usize = 16 * 1024;
/// Maximum number of retries of a table that changed between two reads (ESTALE), or of an interrupted read.
const RETRIES: u32 = 8;

/// Reads a file into `buffer`, whose content it replaces.
///
/// # Errors
/// Those of open(2) and read(2); `EFBIG`: longer than [`LONGEST`].
pub(crate) fn read(path: &Path, buffer: &mut Vec<u8>) -> Result<(), Errno> {
    for _ in 0..RETRIES {
        match read_once(path, buffer) {
            Err(Errno::ESTALE) => {}
            done => return done,
        }
    }
    Err(Errno::ESTALE)
}

fn read_once(path: &Path, buffer: &mut Vec<u8>) -> Result<(), Errno> {
    count::open();
    let mut file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC | libc::O_NOFOLLOW)
        .open(path)
        .map_err(errno)?;
    let mut length = 0;
    loop {
        if buffer.len() < length + CHUNK {
            buffer.resize(length + CHUNK, 0);
        }
        // A table is generated one line for each call.
        match read_some(&mut file, buffer.get_mut(length..).unwrap_or_default())? {
            0 => break,
            count => length += count,
        }
        if length > LONGEST {
            return Err(Errno::EFBIG);
        }
    }
    buffer.truncate(length);
    Ok(())
}

fn read_some(file: &mut File, buffer: &mut [u8]) -> Result<usize, Errno> {
    for _ in 0..RETRIES {
        count::read();
        match file.read(buffer).map_err(errno) {
            Err(Errno::EINTR) => {}
            done => return done,
        }
    }
    Err(Errno::EINTR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_to_its_end_and_replaces_what_the_buffer_held() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("stats");
        let mut buffer = vec![7; 3 * CHUNK];
        for length in [0, 1, CHUNK, CHUNK + 1, 5 * CHUNK] {
            std::fs::write(&path, vec![b'x'; length]).unwrap();
            read(&path, &mut buffer).unwrap();
            assert_eq!((buffer.len(), buffer.iter().all(|b| *b == b'x')), (length, true));
        }
        std::fs::write(&path, vec![b'x'; LONGEST + 1]).unwrap();
        assert_eq!(read(&path, &mut buffer), Err(Errno::EFBIG));
        assert_eq!(read(&dir.path().join("none"), &mut buffer), Err(Errno::ENOENT));
    }
}
