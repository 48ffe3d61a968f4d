//! A folder of records that hooks leave for the daemon, one file each, bounded in number.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::store;

/// Limit of the counted drops: the length of a file.
const MOST_DROPPED: u64 = 1 << 20;

/// Leaves a record, whole or not at all, and makes room: of more than `most` records, those with the lowest names are
/// dropped and counted as the length of the file `dropped`. Returns how many were dropped.
///
/// # Errors
/// When the record cannot be written, as on a full disk: the file `instead`, which needs no room, is then moved to its
/// place. When the folder cannot be listed.
pub fn leave(
    folder: &Path,
    name: &str,
    (record, instead): (&[u8], &Path),
    is_record: impl Fn(&str) -> bool,
    (most, dropped): (usize, &str),
) -> io::Result<usize> {
    if let Err(error) = store::replace(&folder.join(name), record, 0o644, false) {
        // It may not exist.
        crate::ignore(fs::rename(instead, folder.join(name)));
        return Err(error);
    }
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        names.extend(
            entry?
                .file_name()
                .into_string()
                .ok()
                .filter(|name| is_record(name)),
        );
    }
    names.sort_unstable();
    let mut many = 0;
    for name in names.iter().take(names.len().saturating_sub(most)) {
        match fs::remove_file(folder.join(name)) {
            Ok(()) => many += 1,
            // Another hook dropped and counted it, or the daemon has read it.
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) => return Err(e),
        }
    }
    count(&folder.join(dropped), many)?;
    Ok(many)
}

/// Adds to a count, which is the length of a file: several hooks run at once, and none may wait for another.
fn count(file: &Path, many: usize) -> io::Result<()> {
    if many == 0 || fs::symlink_metadata(file).is_ok_and(|found| found.len() >= MOST_DROPPED) {
        return Ok(());
    }
    let mut options = OpenOptions::new();
    options
        .append(true)
        .create(true)
        .mode(0o644)
        .custom_flags(libc::O_NOFOLLOW);
    options.open(file)?.write_all(&vec![b'.'; many])
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: (usize, &str) = (3, "dropped");

    fn names(folder: &Path) -> Vec<String> {
        let names = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> = names
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    fn leave_at(folder: &Path, name: &str) -> io::Result<usize> {
        let is_record = |name: &str| name.ends_with(".toml");
        leave(folder, name, (b"x", Path::new("/none")), is_record, LIMIT)
    }

    #[test]
    fn what_takes_the_place_of_a_record_that_cannot_be_written_needs_no_room() {
        let dir = tempfile::tempdir().unwrap();
        let instead = dir.path().join("7.toml");
        fs::write(&instead, "prolog").unwrap();
        let folder = dir.path().join("ended");
        // In the way of every write.
        for name in [".1.toml.new", ".2.toml.new"] {
            fs::create_dir_all(folder.join(name)).unwrap();
        }
        let leave = |name: &str| leave(&folder, name, (b"x", &instead), |_| true, LIMIT).unwrap_err();
        leave("1.toml");
        assert_eq!(fs::read_to_string(folder.join("1.toml")).unwrap(), "prolog");
        leave("2.toml");
        assert!(!folder.join("2.toml").exists() && !instead.exists());
    }

    #[test]
    fn of_more_records_than_fit_the_oldest_are_dropped_and_counted() {
        let dir = tempfile::tempdir().unwrap();
        let is_record = |name: &str| name.ends_with(".toml");
        let none = Path::new("/none");
        let leave = |name: &str| leave(dir.path(), name, (b"x", none), is_record, LIMIT).unwrap();
        fs::write(dir.path().join("0-other"), "").unwrap();
        assert_eq!(["2.toml", "3.toml", "4.toml"].map(leave), [0, 0, 0]);
        assert_eq!(names(dir.path()), ["0-other", "2.toml", "3.toml", "4.toml"]);
        // The oldest, even if it is the last that was left.
        assert_eq!(["5.toml", "1.toml"].map(leave), [1, 1]);
        assert_eq!(
            names(dir.path()),
            ["0-other", "3.toml", "4.toml", "5.toml", "dropped"]
        );
        assert_eq!(fs::metadata(dir.path().join("dropped")).unwrap().len(), 2);
    }

    /// The daemon and its worker may read it, and cannot have made it.
    #[test]
    fn nothing_is_counted_through_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let victim = dir.path().join("victim");
        fs::write(&victim, "").unwrap();
        std::os::unix::fs::symlink(&victim, dir.path().join("dropped")).unwrap();
        for name in ["1.toml", "2.toml", "3.toml"] {
            leave_at(dir.path(), name).unwrap();
        }
        assert!(leave_at(dir.path(), "4.toml").is_err());
        assert_eq!(fs::metadata(&victim).unwrap().len(), 0);
        assert_eq!(
            fs::read(dir.path().join("4.toml")).unwrap(),
            b"x",
            "it is there all the same"
        );
    }
}
