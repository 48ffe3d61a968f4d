//! Files and sockets that the agent makes.

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Removes a file. That it is not there is no error.
///
/// # Errors
/// What unlink(2) says.
pub fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// Removes files of a folder that nobody has written to for `age` and whose name `is_one` knows: at most `most` of them, and
/// a hundred times as many are looked at. The number of those removed.
///
/// # Errors
/// When the folder cannot be listed, or what unlink(2) says.
pub fn remove_old(
    folder: &Path,
    is_one: impl Fn(&str) -> bool,
    age: Duration,
    most: usize,
) -> io::Result<usize> {
    let now = SystemTime::now();
    let mut removed = 0;
    for entry in fs::read_dir(folder)?.take(most.saturating_mul(100)) {
        let entry = entry?;
        // One that somebody else removes meanwhile is gone anyway.
        let written = entry.metadata().and_then(|m| m.modified());
        let is_old = written.is_ok_and(|at| now.duration_since(at).is_ok_and(|since| since > age));
        if is_old && entry.file_name().to_str().is_some_and(&is_one) {
            remove(&entry.path())?;
            removed += 1;
        }
        if removed >= most {
            break;
        }
    }
    Ok(removed)
}

/// Makes a folder, and those above it. That it is there is no error.
///
/// # Errors
/// What mkdir(2) says.
pub fn folder(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)
}

/// Listens on a unix socket with these permissions, in the place of whatever socket was there: an earlier process that
/// cannot end may hold it for ever. Whoever calls this holds the lock on the folder.
///
/// # Errors
/// What unlink(2), bind(2) or chmod(2) say.
pub fn listen_unix(path: &Path, mode: u32) -> io::Result<UnixListener> {
    remove(path)?;
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, Permissions::from_mode(mode))?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_socket_that_an_earlier_process_still_holds_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let first = listen_unix(&path, 0o666).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o666);
        let second = listen_unix(&path, 0o666).unwrap();
        let _client = UnixStream::connect(&path).unwrap();
        second.accept().unwrap();
        first.set_nonblocking(true).unwrap();
        assert!(first.accept().is_err());
    }
}
