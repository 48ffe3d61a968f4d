//! Lays the files of the list into a folder, as package tools want them.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use anyhow::{Context, Result};

use super::list::{Entry, In, Kind};

/// Writes the entries of one package below a new folder.
///
/// # Errors
/// When a file cannot be written.
pub(super) fn lay(root: &Path, list: &[Entry], package: In) -> Result<()> {
    for entry in of(list, package) {
        let path = root.join(&entry.path);
        if entry.kind == Kind::Folder {
            fs::create_dir_all(&path)?;
        } else {
            fs::create_dir_all(path.parent().context("a file without a folder")?)?;
            fs::write(&path, &entry.content).with_context(|| path.display().to_string())?;
        }
        fs::set_permissions(&path, Permissions::from_mode(entry.mode))?;
    }
    Ok(())
}

/// The entries of one package.
pub(super) fn of(list: &[Entry], package: In) -> impl Iterator<Item = &Entry> {
    let wanted = move |e: &&Entry| e.packages == In::Both || e.packages == package;
    list.iter().filter(wanted)
}

/// Every path of the tree, folders before their content, in an order independent of the disk. Links are not followed.
///
/// # Errors
/// When a folder cannot be read.
pub(super) fn walk(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            }
            paths.push(entry.path());
        }
    }
    paths.sort();
    Ok(paths)
}

/// Gives all folders one mode, whatever the umask was, and everything one time.
///
/// # Errors
/// When a file cannot be changed.
pub(super) fn settle(root: &Path, epoch: i64) -> Result<()> {
    let time = UNIX_EPOCH + Duration::from_secs(u64::try_from(epoch)?);
    for path in walk(root)?.iter().rev().chain([&root.to_owned()]) {
        if path.is_dir() {
            fs::set_permissions(path, Permissions::from_mode(0o755))?;
        }
        fs::File::open(path)?.set_modified(time)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_and_times_do_not_depend_on_who_made_the_files() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        let list = [
            Entry::file("usr/bin/nodewarden", b"x".to_vec()),
            Entry::file("usr/share/doc/nodewarden/gpus.md", b"y".to_vec()),
        ];
        lay(&root, &list, In::Rpm).unwrap();
        fs::set_permissions(root.join("usr"), Permissions::from_mode(0o700)).unwrap();
        settle(&root, 1_700_000_000).unwrap();
        let mode = |path: &str| fs::metadata(root.join(path)).unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode("usr/bin/nodewarden"), 0o755);
        assert_eq!(mode("usr/share/doc/nodewarden/gpus.md"), 0o644);
        assert_eq!(mode("usr"), 0o755);
        let time = fs::metadata(root.join("usr/bin")).unwrap().modified().unwrap();
        assert_eq!(time, UNIX_EPOCH + Duration::from_secs(1_700_000_000));
    }
}
