//! Symbolic links and file identity, without opening anything.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Where a symbolic link points.
///
/// # Errors
/// What readlink(2) says.
pub fn target(path: &Path) -> io::Result<PathBuf> {
    fs::read_link(path)
}

/// Whether anything has this name, a link that leads nowhere included.
pub fn is_there(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

/// Whether two paths lead to the same file or folder.
///
/// # Errors
/// What stat(2) says.
pub fn same_file(one: &Path, two: &Path) -> io::Result<bool> {
    let (one, two) = (fs::metadata(one)?, fs::metadata(two)?);
    Ok((one.dev(), one.ino()) == (two.dev(), two.ino()))
}
