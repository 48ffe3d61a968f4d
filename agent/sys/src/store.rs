//! Files that are there whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
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

/// Appends to a file of lines. One that would be longer than `most` bytes is renamed to `.1` first, and those before it to
/// `.2` and so on, of which `older` are kept. A last line that was cut is ended first.
///
/// # Errors
/// Whatever open, write or rename say.
pub fn append(path: &Path, line: &[u8], mode: u32, (most, older): (u64, usize)) -> io::Result<()> {
    let open = || {
        OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .mode(mode)
            .custom_flags(libc::O_NOFOLLOW)
            .open(path)
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
    // In one write: what somebody reads meanwhile has whole lines.
    file.write_all(&[cut, line].concat())
}

/// The last whole lines of a file, no more than `most` bytes of them. `Ok(None)`: there is none.
///
/// # Errors
/// When it is there and cannot be read.
pub fn tail(path: &Path, most: u64) -> io::Result<Option<String>> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e),
    };
    let from = file.metadata()?.len().saturating_sub(most);
    file.seek(io::SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    Ok(Some(match text.split_once('\n') {
        // The first may have lost its beginning.
        Some((_, rest)) if from > 0 => rest.to_owned(),
        _ => text,
    }))
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
        // Longer than all that fits: a file of its own.
        append(&path, &[b'x'; 100], 0o640, (20, 2)).unwrap();
        assert_eq!(text("jobs.jsonl").len(), 100);
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
    fn a_full_or_missing_folder_is_an_error_and_leaves_the_old_file() {
        let dir = tempfile::tempdir().unwrap();
        assert!(replace(&dir.path().join("gone/state.json"), b"x", 0o600, true).is_err());
        assert!(replace(Path::new("/dev/full/x"), b"x", 0o600, false).is_err());
    }
}
