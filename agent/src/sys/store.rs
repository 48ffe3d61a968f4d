//! Files that are there whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::files;

/// The largest record that is read back, in bytes.
const MAX_RECORD: u64 = 64 * 1024 * 1024;

/// Replaces `path` by `content`: written beside it, flushed to the disk if `durable`, then renamed.
///
/// # Errors
/// Whatever open, write, fsync or rename say; the old file is then still whole.
pub fn replace(path: &Path, content: &[u8], mode: u32, durable: bool) -> io::Result<()> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let dir = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    let beside = dir.join(format!(".{}.new", name.to_string_lossy()));
    // Others may write into the same folder: what they left under this name, a link perhaps, is never written through.
    files::remove(&beside)?;
    let mut file = OpenOptions::new()
        .create_new(true)
        .write(true)
        .mode(mode)
        .open(&beside)?;
    // The umask may have taken bits away.
    file.set_permissions(fs::Permissions::from_mode(mode))?;
    file.write_all(content)?;
    if durable {
        file.sync_all()?;
    }
    fs::rename(&beside, path)?;
    if durable {
        File::open(dir)?.sync_all()?;
    }
    Ok(())
}

/// Reads a record back. `Ok(None)`: there is none.
///
/// # Errors
/// When it is there and cannot be read, or is not UTF-8.
pub fn load(path: &Path) -> io::Result<Option<String>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e),
    };
    let mut text = String::new();
    file.take(MAX_RECORD).read_to_string(&mut text)?;
    Ok(Some(text))
}

/// Moves a file that cannot be used aside and returns its new name.
///
/// # Errors
/// When rename(2) fails.
pub fn set_aside(path: &Path, stamp: i64) -> io::Result<PathBuf> {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".bad-{stamp}"));
    let aside = PathBuf::from(name);
    fs::rename(path, &aside)?;
    Ok(aside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_replaced_whole_and_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state.json");
        assert_eq!(load(&path).unwrap(), None);
        replace(&path, b"one", 0o600, true).unwrap();
        replace(&path, b"two", 0o600, true).unwrap();
        assert_eq!(load(&path).unwrap().as_deref(), Some("two"));
        let aside = set_aside(&path, 7).unwrap();
        assert_eq!(fs::read_to_string(aside).unwrap(), "two");
        assert_eq!(load(&path).unwrap(), None);
    }

    #[test]
    fn a_link_that_lies_in_wait_is_not_written_through() {
        let dir = tempfile::tempdir().unwrap();
        let victim = dir.path().join("victim");
        fs::write(&victim, "precious").unwrap();
        std::os::unix::fs::symlink(&victim, dir.path().join(".verdict.new")).unwrap();
        replace(&dir.path().join("verdict"), b"x", 0o644, false).unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    }

    #[test]
    fn a_full_or_missing_folder_is_an_error_and_leaves_the_old_file() {
        let dir = tempfile::tempdir().unwrap();
        assert!(replace(&dir.path().join("gone/state.json"), b"x", 0o600, true).is_err());
        assert!(replace(Path::new("/dev/full/x"), b"x", 0o600, false).is_err());
    }
}
