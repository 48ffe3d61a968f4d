//! Atomic writes of files, and logs of lines.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};

use super::files;
use super::trust::{self, Expected, OpenError};

/// Limit of a record that is read back, in bytes.
const MAX_RECORD: u64 = 64 * 1024 * 1024;

/// Replaces `path` with `content`: written to a temporary file, flushed to the disk if `durable`, then renamed.
///
/// # Errors
/// Of open, write, fsync or rename; the old file is then still whole.
pub fn replace(path: &Path, content: &[u8], mode: u32, durable: bool) -> io::Result<()> {
    let fill = |file: &mut File| {
        file.write_all(content)?;
        if durable { file.sync_all() } else { Ok(()) }
    };
    beside(path, mode, fill, |new| fs::rename(new, path))?;
    if durable {
        File::open(folder(path)?)?.sync_all()?;
    }
    Ok(())
}

/// Creates `path` with `content`: written to a temporary file of the same folder, flushed to the disk, then renamed. A process
/// that is killed leaves at most the temporary file.
///
/// # Errors
/// `AlreadyExists` if there is a file or link of that name, which is then left as it is; else of open, write, fsync or rename.
pub fn create(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let fill = |file: &mut File| {
        file.write_all(content)?;
        // A network filesystem reports a full disk only then.
        file.sync_all()
    };
    beside(path, mode, fill, |new| name_new(new, path))
}

/// Gives a file a name that must not exist.
fn name_new(from: &Path, to: &Path) -> io::Result<()> {
    match renameat2(AT_FDCWD, from, AT_FDCWD, to, RenameFlags::RENAME_NOREPLACE) {
        // Not every filesystem has it, such as NFS, which has links.
        Err(Errno::EINVAL | Errno::ENOSYS | Errno::EOPNOTSUPP) => {
            fs::hard_link(from, to)?;
            files::remove(from)
        }
        renamed => Ok(renamed?),
    }
}

fn folder(path: &Path) -> io::Result<&Path> {
    let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    Ok(if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    })
}

/// Fills a temporary file beside `path`, and then names it by `place`.
fn beside(
    path: &Path,
    mode: u32,
    fill: impl FnOnce(&mut File) -> io::Result<()>,
    place: impl FnOnce(&Path) -> io::Result<()>,
) -> io::Result<()> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let beside = folder(path)?.join(format!(".{}.new", name.to_string_lossy()));
    // Others may write into this folder: a file or link that they left under this name is never written through.
    files::remove(&beside)?;
    let mut file = OpenOptions::new()
        .create_new(true)
        .write(true)
        .mode(mode)
        .open(&beside)?;
    // The umask may have removed bits.
    let allowed = file.set_permissions(fs::Permissions::from_mode(mode));
    let written = allowed
        .and_then(|()| fill(&mut file))
        .and_then(|()| place(&beside));
    // Names may be used only once: parts would accumulate on a full disk.
    written.inspect_err(|_| crate::ignore(files::remove(&beside)))
}

/// A record of this user, or of root, up to this size.
fn ours(most: u64, owners: &[u32]) -> Expected<'_> {
    Expected {
        owners,
        most,
        private: false,
    }
}

/// Reads a record back. `Ok(None)`: it does not exist.
///
/// # Errors
/// When it exists and cannot be read, is no regular file of this user or root, or is not UTF-8.
pub fn load(path: &Path) -> Result<Option<String>, OpenError> {
    trust::read_text(path, &ours(MAX_RECORD, &trust::own()))
}

/// Reads back a record that only this user may write. `Ok(None)`: it does not exist.
///
/// # Errors
/// When it exists and cannot be read, is no regular file that only this user may write to, or is not UTF-8.
pub fn load_own(path: &Path) -> Result<Option<String>, OpenError> {
    let expected = Expected {
        owners: &[nix::unistd::geteuid().as_raw()],
        most: MAX_RECORD,
        private: true,
    };
    trust::read_text(path, &expected)
}

/// Appends a line to a file. A file that would exceed `most` bytes is renamed to `.1` first, older ones to `.2` and
/// so on; `older` of them are kept. A truncated last line is ended first. A new file has `mode`.
///
/// # Errors
/// Of open, write or rename.
pub fn append(path: &Path, line: &[u8], mode: u32, (most, older): (u64, usize)) -> io::Result<()> {
    let open = || -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true).mode(mode);
        let opened = trust::open(path, &ours(u64::MAX, &trust::own()), &mut options)?;
        // It is missing only if it was removed while it was opened.
        let file = opened.ok_or(io::ErrorKind::NotFound)?;
        let found = file.metadata()?;
        if found.len() == 0 && found.permissions().mode() & 0o7777 != mode {
            // The umask has removed bits. A file of root keeps its mode, and the line is not lost.
            crate::ignore(file.set_permissions(fs::Permissions::from_mode(mode)));
        }
        Ok(file)
    };
    let mut file = open()?;
    let mut length = file.metadata()?.len();
    if length > 0 && length.saturating_add(line.len() as u64) > most {
        let name = |n: usize| {
            let mut name = path.as_os_str().to_owned();
            if n > 0 {
                name.push(format!(".{n}"));
            }
            PathBuf::from(name)
        };
        for n in (0..older).rev() {
            match fs::rename(name(n), name(n + 1)) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                done => done?,
            }
        }
        files::remove(path)?;
        file = open()?;
        length = 0;
    }
    let mut last = [b'\n'];
    if length > 0 {
        file.read_exact_at(&mut last, length - 1)?;
    }
    let cut: &[u8] = if last == *b"\n" { b"" } else { b"\n" };
    // In one write, so that a concurrent reader sees whole lines.
    file.write_all(&[cut, line].concat())
}

/// The last whole lines of a file, at most `most` bytes. `Ok(None)`: the file does not exist.
///
/// # Errors
/// When it exists and cannot be read, or is no regular file of this user or root.
pub fn tail(path: &Path, most: u64) -> io::Result<Option<String>> {
    let mut options = OpenOptions::new();
    let opened = trust::open(path, &ours(u64::MAX, &trust::own()), options.read(true))?;
    let Some(mut file) = opened else {
        return Ok(None);
    };
    let from = file.metadata()?.len().saturating_sub(most);
    file.seek(io::SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    Ok(Some(match text.split_once('\n') {
        // The first line may have lost its beginning.
        Some((_, rest)) if from > 0 => rest.to_owned(),
        _ => text,
    }))
}

/// Renames an unusable file and returns its new name, which ends in nanoseconds since 1970: no earlier one is replaced.
///
/// # Errors
/// When rename(2) fails.
pub fn set_aside(path: &Path) -> io::Result<PathBuf> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".bad-{}", now.as_nanos()));
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
        let aside = set_aside(&path).unwrap();
        assert_eq!(fs::read_to_string(&aside).unwrap(), "two");
        replace(&path, b"three", 0o600, true).unwrap();
        assert_ne!(set_aside(&path).unwrap(), aside);
        assert_eq!(fs::read_to_string(aside).unwrap(), "two", "the earlier one stays");
        assert_eq!(load(&path).unwrap(), None);
    }

    /// A kill left half a file under its name.
    #[test]
    fn a_new_file_has_its_name_only_when_it_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("b.tar.gz");
        let fill = |file: &mut File| {
            file.write_all(b"half")?;
            assert!(!path.exists());
            assert_eq!(fs::read(dir.path().join(".b.tar.gz.new"))?, b"half");
            file.write_all(b" and half")
        };
        beside(&path, 0o600, fill, |new| name_new(new, &path)).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"half and half");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_new_file_replaces_none() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        fs::write(&file, "before").unwrap();
        std::os::unix::fs::symlink(dir.path().join("target"), &link).unwrap();
        for path in [&file, &link] {
            let refused = create(path, b"x", 0o600).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        }
        assert_eq!(fs::read_to_string(&file).unwrap(), "before");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "nothing is left");
        create(&dir.path().join("new"), b"x", 0o640).unwrap();
        let mode = fs::metadata(dir.path().join("new")).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o640);
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
    fn lines_are_appended_and_long_files_make_room() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("jobs.jsonl");
        let text = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
        for n in 0..6 {
            append(&path, format!("{n} 456789\n").as_bytes(), 0o640, (20, 2)).unwrap();
        }
        assert_eq!(text("jobs.jsonl"), "4 456789\n5 456789\n");
        assert_eq!(text("jobs.jsonl.1"), "2 456789\n3 456789\n");
        assert_eq!(text("jobs.jsonl.2"), "0 456789\n1 456789\n");
        append(&path, b"6 456789\n", 0o640, (20, 2)).unwrap();
        assert_eq!(text("jobs.jsonl.2"), "2 456789\n3 456789\n");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3);
        // Longer than the limit: a file of its own.
        append(&path, &[b'x'; 100], 0o640, (20, 2)).unwrap();
        assert_eq!(text("jobs.jsonl").len(), 100);
    }

    /// The usual umask takes bits of this one too.
    #[test]
    fn a_new_file_has_its_mode_whatever_the_umask_is_and_an_older_one_keeps_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("jobs.jsonl");
        let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        append(&path, b"one\n", 0o666, (6, 1)).unwrap();
        assert_eq!(mode(), 0o666);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        append(&path, b"2\n", 0o666, (6, 1)).unwrap();
        assert_eq!(mode(), 0o600);
        append(&path, b"next\n", 0o666, (6, 1)).unwrap();
        assert_eq!(mode(), 0o666);
    }

    #[test]
    fn a_line_that_was_cut_is_ended_and_the_tail_begins_with_a_whole_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("jobs.jsonl");
        assert_eq!(tail(&path, 10).unwrap(), None);
        append(&path, b"one\ncut", 0o640, (100, 1)).unwrap();
        append(&path, b"two\n", 0o640, (100, 1)).unwrap();
        assert_eq!(tail(&path, 100).unwrap().as_deref(), Some("one\ncut\ntwo\n"));
        assert_eq!(tail(&path, 10).unwrap().as_deref(), Some("cut\ntwo\n"));
        assert_eq!(tail(&path, 9).unwrap().as_deref(), Some("cut\ntwo\n"));
        assert_eq!(tail(&path, 7).unwrap().as_deref(), Some("two\n"));
    }

    #[test]
    fn nothing_is_appended_through_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let victim = dir.path().join("victim");
        fs::write(&victim, "precious").unwrap();
        let path = dir.path().join("jobs.jsonl");
        std::os::unix::fs::symlink(&victim, &path).unwrap();
        assert!(append(&path, b"x\n", 0o640, (100, 1)).is_err());
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    }

    #[test]
    fn a_file_that_cannot_be_replaced_leaves_no_part() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("state.json")).unwrap();
        assert!(replace(&dir.path().join("state.json"), b"x", 0o600, true).is_err());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_full_or_missing_folder_is_an_error_and_leaves_the_old_file() {
        let dir = tempfile::tempdir().unwrap();
        assert!(replace(&dir.path().join("gone/state.json"), b"x", 0o600, true).is_err());
        assert!(replace(Path::new("/dev/full/x"), b"x", 0o600, false).is_err());
    }
}
