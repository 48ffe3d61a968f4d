//! Folders of a tree in place of the kernel's own: whether a file in them was replaced by another of its name.

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::sys::kept::{DescriptorBudget, Permit};

/// Two changes within this time may have the same one: ext3 counts seconds.
const SETTLES: Duration = Duration::from_secs(2);

/// One folder, kept open: stat(2) by path costs ten times as much.
struct Folder {
    path: PathBuf,
    file: File,
    /// When its entries last changed.
    changed: Option<Duration>,
    /// Whether a later change has another time.
    is_settled: bool,
    _permit: Permit,
}

/// The folders of a port's files. A folder that another replaces is that of another port, which [`crate::Devices::changed`] detects; that
/// of an interface is not looked for.
pub(super) struct TreeFolders {
    budget: Arc<DescriptorBudget>,
    folders: Vec<Folder>,
    /// Whether one could not be opened: then each reading opens every file.
    is_blind: bool,
}

impl TreeFolders {
    pub(super) fn new(budget: &Arc<DescriptorBudget>) -> Self {
        Self {
            budget: Arc::clone(budget),
            folders: Vec::new(),
            is_blind: false,
        }
    }

    /// Adds a folder, if it exists.
    pub(super) fn add(&mut self, path: &Path) {
        if self.folders.iter().any(|folder| folder.path == path) {
            return;
        }
        let mut options = OpenOptions::new();
        let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC;
        let file = match options.read(true).custom_flags(flags).open(path) {
            Ok(file) => file,
            Err(error) => {
                self.is_blind |= error.kind() != ErrorKind::NotFound;
                return;
            }
        };
        let Some(permit) = self.budget.take() else {
            self.is_blind = true;
            return;
        };
        self.folders.push(Folder {
            path: path.to_owned(),
            file,
            changed: None,
            is_settled: false,
            _permit: permit,
        });
    }

    /// Whether an entry of one may have been created, removed or replaced since the last call.
    pub(super) fn have_changed(&mut self) -> bool {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let now = now.unwrap_or_default();
        let mut any = self.is_blind;
        for folder in &mut self.folders {
            let changed = changed(&folder.file);
            any |= folder.changed != changed || !folder.is_settled;
            folder.is_settled = changed.is_some_and(|at| now > at + SETTLES);
            folder.changed = changed;
        }
        any
    }
}

/// That of the inode: unlike the time of modification, no program can set it.
fn changed(folder: &File) -> Option<Duration> {
    let found = folder.metadata().ok()?;
    let seconds = u64::try_from(found.ctime()).ok()?;
    let nanoseconds = u32::try_from(found.ctime_nsec()).ok()?;
    Some(Duration::new(seconds, nanoseconds))
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests make the files that they read")]
mod tests {
    use super::*;

    fn settled(folders: &mut TreeFolders) {
        std::thread::sleep(SETTLES + Duration::from_millis(100));
        assert!(folders.have_changed(), "it was not settled before");
        assert!(!folders.have_changed());
    }

    #[test]
    fn a_replaced_file_shows_though_the_time_of_its_folder_is_put_back() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str| dir.path().join(name);
        std::fs::write(file("state"), "4: ACTIVE\n").unwrap();
        let mut folders = TreeFolders::new(&DescriptorBudget::new(10));
        folders.add(dir.path());
        folders.add(&file("absent"));
        settled(&mut folders);

        let time = std::fs::metadata(dir.path()).unwrap().modified().unwrap();
        std::fs::write(file("state.new"), "1: DOWN\n").unwrap();
        std::fs::rename(file("state.new"), file("state")).unwrap();
        File::open(dir.path()).unwrap().set_modified(time).unwrap();
        assert!(folders.have_changed());
        assert!(folders.have_changed(), "another change may have the same time");
        settled(&mut folders);
    }

    #[test]
    fn a_folder_that_may_not_stay_open_counts_as_changed_each_time() {
        let dir = tempfile::tempdir().unwrap();
        let mut folders = TreeFolders::new(&DescriptorBudget::new(0));
        folders.add(dir.path());
        assert!(folders.have_changed() && folders.have_changed());
    }
}
