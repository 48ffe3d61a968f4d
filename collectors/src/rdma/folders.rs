//! Folders of a tree in place of the kernel's own: whether a file in them was replaced by another of its name.

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::sys::kept::{DescriptorBudget, Permit};

/// Two changes within this time may have the same one: ext3 counts seconds.
const SETTLES: Duration = Duration::from_secs(2);

/// One folder, kept open: stat(2) by path costs ten times as much.
struct Folder {
    file: File,
    /// When its entries last changed.
    changed: Option<Duration>,
    /// Whether a later change has another time.
    is_settled: bool,
    _permit: Permit,
}

/// The folders of a port's files, and those around them: a folder that another replaces changes the one that it is in.
pub(super) struct TreeFolders {
    budget: Arc<DescriptorBudget>,
    paths: Vec<PathBuf>,
    /// Empty before the first look, and while one may not stay open.
    open: Vec<Folder>,
}

impl TreeFolders {
    pub(super) fn new(budget: &Arc<DescriptorBudget>, paths: Vec<PathBuf>) -> Self {
        Self {
            budget: Arc::clone(budget),
            paths,
            open: Vec::new(),
        }
    }

    /// Whether an entry of one may have been created, removed or replaced since the last call. Where that cannot be known, it is true.
    pub(super) fn have_changed(&mut self) -> bool {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        self.have_changed_at(now.unwrap_or_default())
    }

    fn have_changed_at(&mut self, now: Duration) -> bool {
        let same = |folder: &Folder| folder.is_settled && folder.changed == changed(&folder.file);
        if !self.open.is_empty() && self.open.iter().all(same) {
            return false;
        }
        self.open.clear();
        self.open = self.opened(now).unwrap_or_default();
        true
    }

    /// Those that exist. `None`: one could not be opened.
    fn opened(&self, now: Duration) -> Option<Vec<Folder>> {
        let mut open = Vec::new();
        for path in &self.paths {
            let mut options = OpenOptions::new();
            let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC;
            let file = match options.read(true).custom_flags(flags).open(path) {
                Ok(file) => file,
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(_) => return None,
            };
            let changed = changed(&file);
            open.push(Folder {
                file,
                changed,
                is_settled: changed.is_some_and(|at| now > at + SETTLES),
                _permit: self.budget.take()?,
            });
        }
        Some(open)
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
    use std::path::Path;

    use super::*;

    fn of(folder: &Path, budget: u64) -> TreeFolders {
        let paths = vec![folder.to_owned(), folder.join("counters"), folder.join("absent")];
        TreeFolders::new(&DescriptorBudget::new(budget), paths)
    }

    /// Long after the last change: no other one has the same time.
    const LATER: Duration = Duration::from_secs(1 << 40);

    fn replace(folder: &Path, name: &str) {
        std::fs::write(folder.join("new"), "1\n").unwrap();
        std::fs::rename(folder.join("new"), folder.join(name)).unwrap();
    }

    #[test]
    fn a_replaced_file_shows_though_the_time_of_its_folder_is_put_back() {
        let dir = tempfile::tempdir().unwrap();
        replace(dir.path(), "state");
        let mut folders = of(dir.path(), 10);
        assert!(folders.have_changed_at(LATER), "nothing is known yet");
        assert!(!folders.have_changed_at(LATER));
        let time = std::fs::metadata(dir.path()).unwrap().modified().unwrap();
        replace(dir.path(), "state");
        File::open(dir.path()).unwrap().set_modified(time).unwrap();
        assert!(folders.have_changed_at(LATER));
        assert!(!folders.have_changed_at(LATER));
    }

    #[test]
    fn soon_after_a_change_another_one_may_have_the_same_time() {
        let dir = tempfile::tempdir().unwrap();
        let soon = changed(&File::open(dir.path()).unwrap()).unwrap() + SETTLES;
        let mut folders = of(dir.path(), 10);
        assert!(folders.have_changed_at(soon) && folders.have_changed_at(soon));
        assert!(folders.have_changed_at(LATER), "the look before was too soon");
        assert!(!folders.have_changed_at(LATER));
    }

    #[test]
    fn the_files_of_a_replaced_folder_are_looked_after() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for name in ["counters", "others"] {
            std::fs::create_dir(at(name)).unwrap();
        }
        let mut folders = of(dir.path(), 10);
        folders.have_changed_at(LATER);
        std::fs::rename(at("counters"), at("before")).unwrap();
        std::fs::rename(at("others"), at("counters")).unwrap();
        assert!(folders.have_changed_at(LATER) && !folders.have_changed_at(LATER));
        replace(&at("counters"), "link_downed");
        assert!(folders.have_changed_at(LATER));
    }

    #[test]
    fn while_a_folder_may_not_stay_open_each_look_is_a_change() {
        let dir = tempfile::tempdir().unwrap();
        let mut folders = of(dir.path(), 1);
        let other = folders.budget.take().unwrap();
        assert!(folders.have_changed_at(LATER) && folders.have_changed_at(LATER));
        drop(other);
        assert!(folders.have_changed_at(LATER) && !folders.have_changed_at(LATER));
    }
}
