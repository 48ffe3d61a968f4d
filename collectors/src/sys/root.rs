//! Bounded reads of files and folders. Nothing here follows a file that grows without end or blocks on a FIFO.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{DirEntryExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::Error;

/// Maximum number of bytes that [`read_text`] reads from one file. sysfs returns one page, most of procfs is
/// smaller.
pub const MAX_FILE: u64 = 64 * 1024;

/// The reason of [`open_trusted`].
pub const UNTRUSTED: &str = "untrusted";

/// Reads up to `max` bytes. `Ok(None)`: the file is absent, or what it is about is gone.
///
/// # Errors
/// Any other error of open(2) or read(2).
pub fn read_bytes(path: &Path, max: u64) -> Result<Option<Vec<u8>>, Error> {
    match open(path)? {
        Some(file) => read_open(path, file, max),
        None => Ok(None),
    }
}

/// Opens a file without waiting for a FIFO. `Ok(None)`: absent.
///
/// # Errors
/// Any other error of open(2).
pub fn open(path: &Path) -> Result<Option<File>, Error> {
    open_with(path, 0)
}

fn open_with(path: &Path, flags: i32) -> Result<Option<File>, Error> {
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC | flags)
        .open(path);
    match opened {
        Ok(file) => Ok(Some(file)),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Error::io(path, e)),
    }
}

/// Reads up to `max` bytes of an open file; `path` names it in errors. `Ok(None)`: what it is about is gone.
///
/// # Errors
/// Any other error of read(2).
pub fn read_open(path: &Path, file: File, max: u64) -> Result<Option<Vec<u8>>, Error> {
    let mut bytes = Vec::new();
    match file.take(max).read_to_end(&mut bytes) {
        Ok(_) => Ok(Some(bytes)),
        // A device that was removed, or a process that ended, between open and read.
        Err(e) if matches!(e.raw_os_error(), Some(libc::ENODEV | libc::ESRCH)) => Ok(None),
        Err(e) => Err(Error::io(path, e)),
    }
}

/// Opens a regular file that only root or our own user can have written, by owner and mode of it and of its folder. Neither may
/// be a link. `Ok(None)`: absent.
///
/// # Errors
/// [`Error::State`] with reason `untrusted`, and the errors of lstat(2), open(2) and fstat(2).
pub fn open_trusted(path: &Path) -> Result<Option<File>, Error> {
    let failed = |e| Error::io(path, e);
    let folder = path.parent().unwrap_or(path);
    let found = match fs::symlink_metadata(folder) {
        Ok(found) => found,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(Error::io(folder, e)),
    };
    trust(folder, &found, found.is_dir())?;
    let file = match open_with(path, libc::O_NOFOLLOW | libc::O_NOCTTY) {
        Err(Error::Io { source, .. }) if source.raw_os_error() == Some(libc::ELOOP) => {
            return Err(untrusted(path, &fs::symlink_metadata(path).map_err(failed)?));
        }
        opened => opened?,
    };
    if let Some(file) = &file {
        let found = file.metadata().map_err(failed)?;
        trust(path, &found, found.is_file())?;
    }
    Ok(file)
}

/// Whether only root or our own user can write it. `is_kind`: it is a file or folder, as expected.
fn trust(path: &Path, found: &Metadata, is_kind: bool) -> Result<(), Error> {
    let (uid, mode) = (found.uid(), found.mode());
    let is_own = uid == 0 || uid == nix::unistd::geteuid().as_raw();
    if is_kind && is_own && mode & 0o022 == 0 {
        return Ok(());
    }
    Err(untrusted(path, found))
}

fn untrusted(path: &Path, found: &Metadata) -> Error {
    let (path, uid, mode) = (path.display(), found.uid(), found.mode());
    let expected = "a file or folder of root, no link, and no write permission for group and others";
    Error::State {
        what: format!("{path} has owner {uid} and mode {mode:o}, expected {expected}"),
        reason: UNTRUSTED,
    }
}

/// Reads a text file, without surrounding white space. `Ok(None)`: the file is absent.
///
/// # Errors
/// Like [`read_bytes`], and [`Error::Parse`] if it is not UTF-8.
pub fn read_text(path: &Path) -> Result<Option<String>, Error> {
    read_text_within(path, MAX_FILE)
}

/// Like [`read_text`], for a file of up to `max` bytes.
///
/// # Errors
/// Like [`read_text`].
pub fn read_text_within(path: &Path, max: u64) -> Result<Option<String>, Error> {
    let Some(bytes) = read_whole(path, max)? else {
        return Ok(None);
    };
    match std::str::from_utf8(&bytes) {
        Ok(text) => Ok(Some(text.trim().to_owned())),
        Err(_) => Err(Error::parse(
            path.display().to_string(),
            &String::from_utf8_lossy(&bytes),
            "UTF-8 text",
        )),
    }
}

/// Like [`read_text_within`], for a file with text that users choose, such as a thread's name. Bytes that are not UTF-8 are
/// replaced: they must not hide the rest of the file.
///
/// # Errors
/// Like [`read_bytes`], and when the file is longer.
pub fn read_lossy_within(path: &Path, max: u64) -> Result<Option<String>, Error> {
    let bytes = read_whole(path, max)?;
    Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).trim().to_owned()))
}

/// Like [`read_lossy_within`], for a short file.
///
/// # Errors
/// Like [`read_lossy_within`].
pub fn read_lossy(path: &Path) -> Result<Option<String>, Error> {
    read_lossy_within(path, MAX_FILE)
}

fn read_whole(path: &Path, max: u64) -> Result<Option<Vec<u8>>, Error> {
    let bytes = read_bytes(path, max.saturating_add(1))?;
    if bytes.as_ref().is_some_and(|bytes| bytes.len() as u64 > max) {
        return Err(Error::parse(
            path.display().to_string(),
            &format!("more than {} KiB", max / 1024),
            "a short text",
        ));
    }
    Ok(bytes)
}

/// One name in a folder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// The name.
    pub name: String,
    /// The inode number. sysfs assigns a new one when a name is reused, so it distinguishes a device from its
    /// successor.
    pub inode: u64,
}

/// The content of a folder, sorted by name. `Ok(None)`: the folder is absent.
///
/// # Errors
/// Any other error of opendir(3) or readdir(3).
pub fn entries(path: &Path) -> Result<Option<Vec<Entry>>, Error> {
    // A name that is not UTF-8 is left out: no device or job has one.
    let entry = |entry: fs::DirEntry| {
        let inode = entry.ino();
        let name = entry.file_name().into_string().ok()?;
        Some(Entry { name, inode })
    };
    opened(path)?.map(|found| listed(path, found, entry)).transpose()
}

fn opened(path: &Path) -> Result<Option<fs::ReadDir>, Error> {
    match fs::read_dir(path) {
        Ok(found) => Ok(Some(found)),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Error::io(path, e)),
    }
}

/// A folder that was removed after it was opened is empty.
fn listed<T: Ord>(
    path: &Path,
    found: fs::ReadDir,
    take: impl Fn(fs::DirEntry) -> Option<T>,
) -> Result<Vec<T>, Error> {
    let mut all = Vec::new();
    for entry in found {
        all.extend(take(entry.map_err(|e| Error::io(path, e))?));
    }
    all.sort_unstable();
    Ok(all)
}

/// Names in a folder, sorted. `Ok(None)`: the folder is absent.
///
/// # Errors
/// Like [`entries`].
pub fn list(path: &Path) -> Result<Option<Vec<String>>, Error> {
    let names = |found: Vec<Entry>| found.into_iter().map(|entry| entry.name).collect();
    Ok(entries(path)?.map(names))
}

/// The folders in a folder, sorted, whatever their names: users name cgroups. `Ok(None)`: the folder is absent.
///
/// # Errors
/// Like [`entries`].
pub fn folders(path: &Path) -> Result<Option<Vec<PathBuf>>, Error> {
    let folder = |entry: fs::DirEntry| {
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        is_folder.then(|| entry.path())
    };
    opened(path)?.map(|found| listed(path, found, folder)).transpose()
}

/// The target of a link. `None`: absent. Bytes that are not UTF-8 are replaced.
///
/// # Errors
/// When it cannot be read, or is no link.
pub fn link_text(path: &Path) -> Result<Option<String>, Error> {
    match fs::read_link(path) {
        Ok(target) => Ok(Some(target.to_string_lossy().into_owned())),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Error::io(path, e)),
    }
}

/// The last part of a symbolic link's target, such as the driver behind `.../driver`. `Ok(None)`: no such link.
///
/// # Errors
/// Any other error of readlink(2).
pub fn link_name(path: &Path) -> Result<Option<String>, Error> {
    let target = link_text(path)?;
    let name = target.as_deref().and_then(|t| Path::new(t).file_name()?.to_str());
    Ok(name.map(str::to_owned))
}

/// A path with all symbolic links resolved.
///
/// # Errors
/// The errors of realpath(3), including an absent file.
pub fn resolve(path: &Path) -> Result<PathBuf, Error> {
    fs::canonicalize(path).map_err(|e| Error::io(path, e))
}

/// The length of a file, in bytes. `Ok(None)`: absent.
///
/// # Errors
/// Any other error of stat(2).
pub fn length(path: &Path) -> Result<Option<u64>, Error> {
    match fs::metadata(path) {
        Ok(found) => Ok(Some(found.len())),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Error::io(path, e)),
    }
}

/// The inode number of a path. `Ok(None)`: absent.
///
/// # Errors
/// Any other error of stat(2).
pub fn inode(path: &Path) -> Result<Option<u64>, Error> {
    match fs::metadata(path) {
        Ok(found) => Ok(Some(found.ino())),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Error::io(path, e)),
    }
}

/// The owner of a file. `Ok(None)`: absent.
///
/// # Errors
/// Any other error of stat(2).
pub fn owner(path: &Path) -> Result<Option<u32>, Error> {
    match fs::metadata(path) {
        Ok(found) => Ok(Some(found.uid())),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Error::io(path, e)),
    }
}

/// When a file's content or permissions last changed, as Unix time. `Ok(None)`: absent.
///
/// # Errors
/// Any other error of stat(2).
pub fn changed(path: &Path) -> Result<Option<f64>, Error> {
    match fs::metadata(path) {
        Ok(found) => Ok(Some(found.ctime() as f64 + found.ctime_nsec() as f64 / 1e9)),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Error::io(path, e)),
    }
}

/// Major and minor number of a character device. `Ok(None)`: absent, or no character device.
///
/// # Errors
/// Any other error of stat(2).
pub fn device(path: &Path) -> Result<Option<(u32, u32)>, Error> {
    match fs::metadata(path) {
        Ok(found) if found.file_type().is_char_device() => {
            let rdev = found.rdev();
            let (major, minor) = (nix::sys::stat::major(rdev), nix::sys::stat::minor(rdev));
            Ok(u32::try_from(major).ok().zip(u32::try_from(minor).ok()))
        }
        Ok(_) => Ok(None),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Error::io(path, e)),
    }
}

/// The name of the folder that contains a symbolic link's target. `Ok(None)`: no link, or no folder in its target.
///
/// # Errors
/// Any other error of readlink(2).
pub fn link_parent(path: &Path) -> Result<Option<String>, Error> {
    match fs::read_link(path) {
        Ok(target) => {
            let parent = target.parent().and_then(Path::file_name);
            Ok(parent.and_then(|n| n.to_str()).map(str::to_owned))
        }
        Err(e) if e.kind() == ErrorKind::NotFound || e.raw_os_error() == Some(libc::EINVAL) => Ok(None),
        Err(e) => Err(Error::io(path, e)),
    }
}

/// Whether a node has a source that one of these folders shows. None: every node may have it. One that cannot be read does
/// not count.
pub fn has_source(env: &crate::Env, folders: &[&str]) -> bool {
    let exists = |path: &&str| matches!(inode(&env.path(path)), Ok(Some(_)));
    folders.is_empty() || folders.iter().any(exists)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel returns ENOENT then, which the C library turns into the end of the folder.
    #[test]
    fn a_folder_that_is_removed_while_it_is_listed_holds_nothing_and_is_no_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("job_7");
        fs::create_dir(&path).unwrap();
        let found = fs::read_dir(&path).unwrap();
        fs::remove_dir(&path).unwrap();
        let inode = |entry: fs::DirEntry| Some(entry.ino());
        assert_eq!(listed(&path, found, inode).unwrap(), [0; 0]);
        assert_eq!(entries(&path).unwrap(), None);
    }

    #[test]
    fn a_text_may_be_as_long_as_its_limit_and_no_longer() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("text");
        fs::write(&path, "x".repeat(1 << 16)).unwrap();
        assert_eq!(read_text(&path).unwrap().map(|t| t.len()), Some(1 << 16));
        fs::write(&path, "x".repeat(1 + (1 << 16))).unwrap();
        let error = read_text(&path).unwrap_err().to_string();
        assert!(error.contains("found \"more than 64 KiB\""), "{error}");
        let text = read_text_within(&path, 1 << 17).unwrap();
        assert_eq!(text.map(|t| t.len()), Some(1 + (1 << 16)));
    }
}
