//! Files and sockets of the agent.

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::send;

/// Removes a file. A missing file is no error.
///
/// # Errors
/// Of unlink(2).
pub fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// Removes files of a folder whose name passes `is_one`: at most `most` that were not written for `age`, and the oldest of more than
/// `kept`. Returns the number removed.
///
/// # Errors
/// When the folder cannot be listed, or of unlink(2).
pub fn remove_old(
    folder: &Path,
    is_one: impl Fn(&str) -> bool,
    (age, most): (Duration, usize),
    kept: usize,
) -> io::Result<usize> {
    let now = SystemTime::now();
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        // A file that another process removes meanwhile is gone anyway.
        if entry.file_name().to_str().is_some_and(&is_one)
            && let Ok(written) = entry.metadata().and_then(|m| m.modified())
        {
            files.push((written, entry.path()));
        }
    }
    files.sort_unstable();
    let is_old = |at: &SystemTime| now.duration_since(*at).is_ok_and(|since| since > age);
    let old = files.iter().take(most).take_while(|(at, _)| is_old(at)).count();
    let removed = old.max(files.len().saturating_sub(kept));
    for (_, path) in files.iter().take(removed) {
        remove(path)?;
    }
    Ok(removed)
}

/// Creates a folder, and those above it. An existing one is no error.
///
/// # Errors
/// Of mkdir(2).
pub fn folder(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)
}

/// Listens on a unix socket with these permissions and replaces an old socket, which an earlier stuck process may
/// still hold. The caller holds the lock on the folder.
///
/// # Errors
/// Of unlink(2), bind(2) or chmod(2).
pub fn listen_unix(path: &Path, mode: u32) -> io::Result<UnixListener> {
    remove(path)?;
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, Permissions::from_mode(mode))?;
    Ok(listener)
}

/// Whether only root or our own user can have written this file: owner and mode of the file and of its folder.
///
/// # Errors
/// The wrong owner or mode, or of stat(2).
pub fn is_trusted(path: &Path) -> io::Result<()> {
    trust(path, 0o022, "group and others")
}

/// Whether only root or our own user can have made this link, or replace it. True of a path that is no link. In a sticky folder,
/// such as a volume of Kubernetes, its owner alone decides.
///
/// # Errors
/// The wrong owner or mode, or of lstat(2).
pub fn is_trusted_link(path: &Path) -> io::Result<()> {
    let link = fs::symlink_metadata(path)?;
    if !link.is_symlink() {
        return Ok(());
    }
    let own = nix::unistd::geteuid().as_raw();
    if link.uid() != 0 && link.uid() != own {
        let (path, uid) = (path.display(), link.uid());
        return Err(io::Error::other(format!(
            "{path} is a link with owner {uid}, expected owner 0"
        )));
    }
    let Some(folder) = path.parent().filter(|p| !p.as_os_str().is_empty()) else {
        return Ok(());
    };
    let mode = fs::metadata(folder)?.mode();
    if mode & 0o022 != 0 && mode & 0o1000 == 0 {
        return Err(io::Error::other(format!(
            "{} has a link and mode {:o}, expected no write permission for group and others",
            folder.display(),
            mode & 0o7777
        )));
    }
    Ok(())
}

/// Like [`is_trusted`] for a program. Its folder may be writable for its group: /usr/local/sbin of Debian can belong to the group staff,
/// whose members are as good as root.
///
/// # Errors
/// The wrong owner or mode, or of stat(2).
pub fn is_trusted_program(path: &Path) -> io::Result<()> {
    trust(path, 0o002, "others")
}

/// Whether it is a file that may be executed.
///
/// # Errors
/// What it is instead, or of stat(2).
pub fn is_program(path: &Path) -> io::Result<()> {
    let found = fs::metadata(path)?;
    if found.is_file() && found.mode() & 0o111 != 0 {
        return Ok(());
    }
    let what = if found.is_dir() { "a folder" } else { "a file" };
    let mode = found.mode() & 0o7777;
    Err(io::Error::other(format!(
        "found {what} with mode {mode:o}, expected a file that may be executed"
    )))
}

/// `open`: the bits that a folder must not have.
fn trust(path: &Path, open: u32, whose: &str) -> io::Result<()> {
    let own = nix::unistd::geteuid().as_raw();
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty());
    for part in [Some(path), folder].into_iter().flatten() {
        let found = fs::metadata(part)?;
        let (uid, mode) = (found.uid(), found.mode());
        let (open, whose) = if found.is_dir() {
            (open, whose)
        } else {
            (0o022, "group and others")
        };
        // In a folder with the sticky bit others cannot replace the file.
        let is_open = mode & open != 0 && !(found.is_dir() && mode & 0o1000 != 0);
        if (uid != 0 && uid != own) || is_open {
            let part = part.display();
            return Err(io::Error::other(format!(
                "{part} has owner {uid} and mode {:o}, expected owner 0 and no write permission for {whose}",
                mode & 0o7777
            )));
        }
    }
    Ok(())
}

/// Whether a process listens on a socket of root there: the file stays when the process has ended. It gets a connection
/// that is closed at once. Never waits.
pub fn listens(path: &Path) -> bool {
    let is_roots = fs::symlink_metadata(path).is_ok_and(|m| m.file_type().is_socket() && m.uid() == 0);
    // A full queue is that of a listener.
    is_roots && send::connected(path).map_or_else(|e| e.kind() == ErrorKind::WouldBlock, |_| true)
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

    #[test]
    fn a_socket_that_nobody_listens_on_is_only_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        assert!(!listens(&path));
        let listener = listen_unix(&path, 0o600).unwrap();
        let is_root = nix::unistd::geteuid().is_root();
        assert_eq!(listens(&path), is_root);
        drop(listener);
        assert!(path.exists() && !listens(&path));
    }
}
