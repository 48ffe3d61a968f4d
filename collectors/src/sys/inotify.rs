//! Changes that the kernel reports (inotify(7)): files or folders added to a folder or removed from it, files that are replaced.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, WatchDescriptor};

use crate::Error;
use crate::sys::kept::{DescriptorBudget, Permit};

/// Folders that are watched.
#[derive(Debug)]
pub(crate) struct FolderWatch {
    inotify: Inotify,
    watched: BTreeMap<PathBuf, WatchDescriptor>,
    _permit: Permit,
}

impl FolderWatch {
    /// # Errors
    /// EMFILE if the budget is used up, and the errors of inotify_init1(2).
    pub(crate) fn new(budget: &Arc<DescriptorBudget>) -> Result<Self, Error> {
        let permit = budget.take().ok_or(Errno::EMFILE).map_err(failed)?;
        Ok(Self {
            inotify: nonblocking().map_err(failed)?,
            watched: BTreeMap::new(),
            _permit: permit,
        })
    }

    /// Watches exactly these folders. One that was removed meanwhile is skipped.
    ///
    /// # Errors
    /// The errors of inotify_add_watch(2) for an existing folder: ENOSPC if the user has too many watches.
    pub(crate) fn watch(&mut self, folders: &[PathBuf]) -> Result<(), Error> {
        let left: Vec<PathBuf> = self
            .watched
            .keys()
            .filter(|known| !folders.contains(known))
            .cloned()
            .collect();
        for folder in left {
            if let Some(watch) = self.watched.remove(&folder) {
                // The kernel may have removed the watch with the folder.
                self.inotify.rm_watch(watch).ok();
            }
        }
        let flags = AddWatchFlags::IN_CREATE
            | AddWatchFlags::IN_DELETE
            | AddWatchFlags::IN_MOVE
            | AddWatchFlags::IN_ONLYDIR;
        for folder in folders {
            if self.watched.contains_key(folder) {
                continue;
            }
            match self.inotify.add_watch(folder, flags) {
                Ok(watch) => drop(self.watched.insert(folder.clone(), watch)),
                Err(Errno::ENOENT | Errno::ENOTDIR) => {}
                Err(error) => return Err(Error::io(folder, error.into())),
            }
        }
        Ok(())
    }

    /// Waits up to `limit` for any change, and discards the details: the caller lists the folders.
    ///
    /// # Errors
    /// The errors of poll(2) and read(2).
    pub(crate) fn wait(&mut self, limit: Duration) -> Result<(), Error> {
        let limit = i32::try_from(limit.as_millis()).ok();
        let limit = limit.and_then(|ms| PollTimeout::try_from(ms).ok());
        let mut fds = [PollFd::new(self.inotify.as_fd(), PollFlags::POLLIN)];
        match poll(&mut fds, limit.unwrap_or(PollTimeout::MAX)) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(failed(error)),
        }
        loop {
            match self.inotify.read_events() {
                Ok(events) => {
                    // The watch of a removed folder is gone, even if another folder has its name.
                    let gone = events
                        .iter()
                        .filter(|e| e.mask.contains(AddWatchFlags::IN_IGNORED));
                    for event in gone {
                        self.watched.retain(|_, watch| *watch != event.wd);
                    }
                }
                Err(Errno::EAGAIN) => return Ok(()),
                Err(Errno::EINTR) => {}
                Err(error) => return Err(failed(error)),
            }
        }
    }
}

/// Files of a tree on a disk that stay open: there, a descriptor does not show that its file was removed or replaced. Not for files of
/// sysfs: with any watch on a filesystem, each read of its files costs every program 0.1 us more.
#[derive(Debug)]
pub(crate) struct FileWatch(Inotify);

impl FileWatch {
    /// # Errors
    /// The errors of inotify_init1(2).
    pub(crate) fn new() -> Result<Self, Error> {
        nonblocking().map(Self).map_err(failed)
    }

    /// Watches the file that has this path now, until it is removed. False: absent, or the user has too many watches.
    pub(crate) fn watch(&self, file: &Path) -> bool {
        #[cfg(test)]
        if FULL.get() {
            return false;
        }
        // IN_ATTRIB: one link less, also by another file that gets its name.
        let leaves = AddWatchFlags::IN_ATTRIB | AddWatchFlags::IN_MOVE_SELF;
        self.0.add_watch(file, leaves).is_ok()
    }

    /// Whether one of them was removed or replaced since the last call. True too: new owner, mode or times, and an error.
    pub(crate) fn take(&self) -> bool {
        let mut changed = false;
        loop {
            match self.0.read_events() {
                // The end of a watch follows the end of its file, which was reported.
                Ok(events) => changed |= events.iter().any(|e| !e.mask.contains(AddWatchFlags::IN_IGNORED)),
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => return changed,
                Err(error) => {
                    tracing::debug!(%error, "inotify");
                    return true;
                }
            }
        }
    }
}

#[cfg(test)]
thread_local! {
    /// In this thread, no file can be watched: for tests.
    pub(crate) static FULL: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

fn nonblocking() -> Result<Inotify, Errno> {
    Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)
}

fn failed(error: Errno) -> Error {
    Error::io(Path::new("inotify"), error.into())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Instant;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn waits(folders: &mut FolderWatch) -> bool {
        let began = Instant::now();
        folders.wait(LONG).unwrap();
        began.elapsed() < LONG
    }

    #[test]
    fn what_comes_and_leaves_is_reported_and_a_folder_that_is_made_again_is_watched_again() {
        let dir = tempfile::tempdir().unwrap();
        let scope = dir.path().join("scope");
        fs::create_dir(&scope).unwrap();
        let both = [dir.path().to_owned(), scope.clone()];
        let mut folders = FolderWatch::new(&DescriptorBudget::new(1)).unwrap();
        folders.watch(&both).unwrap();
        fs::create_dir(scope.join("job_7")).unwrap();
        assert!(waits(&mut folders));
        fs::remove_dir(scope.join("job_7")).unwrap();
        assert!(waits(&mut folders));
        fs::remove_dir(&scope).unwrap();
        assert!(waits(&mut folders));
        folders.watch(&both).unwrap();
        fs::create_dir(&scope).unwrap();
        assert!(waits(&mut folders));
        folders.watch(&both).unwrap();
        fs::create_dir(scope.join("job_8")).unwrap();
        assert!(waits(&mut folders));
        folders.watch(&both[..1]).unwrap();
        fs::remove_dir(scope.join("job_8")).unwrap();
        folders.wait(Duration::from_millis(20)).unwrap();
        fs::remove_dir(&scope).unwrap();
        assert!(waits(&mut folders));
    }

    #[test]
    fn a_file_that_is_removed_moved_or_replaced_is_reported_once_and_new_text_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let [file, other, away] = ["file", "other", "away"].map(|name| dir.path().join(name));
        let files = FileWatch::new().unwrap();
        assert!(!files.watch(&file), "absent");
        let steps: [(&str, &dyn Fn()); 3] = [
            ("replaced", &|| fs::rename(&other, &file).unwrap()),
            ("moved", &|| fs::rename(&file, &away).unwrap()),
            ("removed", &|| fs::remove_file(&file).unwrap()),
        ];
        for (what, step) in steps {
            fs::write(&file, "1").unwrap();
            fs::write(&other, "2").unwrap();
            let open = fs::File::open(&file).unwrap();
            assert!(files.watch(&file) && !files.take(), "before it is {what}");
            fs::write(&file, "3").unwrap();
            fs::read(&file).unwrap();
            assert!(!files.take(), "only new text, before it is {what}");
            step();
            assert!(files.take() && !files.take(), "{what}");
            drop(open);
            assert!(!files.take(), "the end of a watch, after it was {what}");
        }
    }

    #[test]
    fn a_process_without_spare_descriptors_gets_an_error() {
        let error = FolderWatch::new(&DescriptorBudget::new(0)).unwrap_err();
        assert_eq!(error.reason(), "io", "{error}");
    }
}
