//! Folders whose changes the kernel reports (inotify(7)): files or folders added, removed or replaced.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, WatchDescriptor};

use crate::Error;
use crate::sys::kept::{DescriptorBudget, Permit};

/// Events of a watched folder.
const CHANGES: AddWatchFlags = AddWatchFlags::IN_CREATE
    .union(AddWatchFlags::IN_DELETE)
    .union(AddWatchFlags::IN_MOVE)
    .union(AddWatchFlags::IN_ONLYDIR);

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
        for folder in folders {
            if self.watched.contains_key(folder) {
                continue;
            }
            match self.inotify.add_watch(folder, CHANGES) {
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

/// Folders of files that stay open, in a tree on a disk: there, a descriptor does not show that its file was removed or replaced.
/// Not for sysfs: with any watch on a filesystem, each read of its files costs every program 0.05 to 0.1 us more.
#[derive(Debug)]
pub(crate) struct TreeWatch {
    inotify: Inotify,
    /// A watch was refused, and that was logged.
    is_refused: AtomicBool,
}

impl TreeWatch {
    /// # Errors
    /// The errors of inotify_init1(2).
    pub(crate) fn new() -> Result<Self, Error> {
        let inotify = nonblocking().map_err(failed)?;
        let is_refused = AtomicBool::new(false);
        Ok(Self { inotify, is_refused })
    }

    /// Watches the folder that has this path now, until it is removed. False: absent, or refused: the user has too many watches, or
    /// may not watch.
    pub(crate) fn watch(&self, folder: &Path) -> bool {
        #[cfg(test)]
        if FULL.get() {
            return false;
        }
        let own = AddWatchFlags::IN_MOVE_SELF | AddWatchFlags::IN_DELETE_SELF;
        match self.inotify.add_watch(folder, CHANGES | own) {
            Ok(_) => true,
            Err(Errno::ENOENT | Errno::ENOTDIR) => false,
            Err(error) => {
                if !self.is_refused.swap(true, Ordering::Relaxed) {
                    let folder = folder.display();
                    tracing::warn!(%folder, %error, "not watched: its files are opened for each reading");
                }
                false
            }
        }
    }

    /// Whether anything was added to these folders, or removed from them, since the last call. An error counts too.
    pub(crate) fn take(&self) -> bool {
        let mut changed = false;
        loop {
            match self.inotify.read_events() {
                // The end of a watch follows the end of its folder, which was reported.
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
    /// In this thread, no folder can be watched: for tests.
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
    fn files_that_are_added_removed_or_replaced_are_reported_once_and_new_text_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("counters");
        fs::create_dir(&folder).unwrap();
        let [file, other, away] = ["file", "other", "away"].map(|name| folder.join(name));
        let changes = TreeWatch::new().unwrap();
        assert!(changes.watch(&folder) && !changes.watch(&file) && !changes.watch(&dir.path().join("x")));
        let link = |to: &str| std::os::unix::fs::symlink(to, &other).unwrap();
        let steps: [(&str, &dyn Fn()); 8] = [
            ("added", &|| fs::write(&file, "1").unwrap()),
            ("added too", &|| fs::write(&other, "2").unwrap()),
            ("replaced", &|| fs::rename(&other, &file).unwrap()),
            ("moved", &|| fs::rename(&file, &away).unwrap()),
            ("removed", &|| fs::remove_file(&away).unwrap()),
            ("linked", &|| link("a")),
            ("linked to another", &|| {
                fs::remove_file(&other).unwrap();
                link("b");
            }),
            ("in a folder that is moved", &|| {
                fs::rename(&folder, dir.path().join("old")).unwrap();
            }),
        ];
        for (what, step) in steps {
            assert!(!changes.take(), "before it is {what}");
            step();
            assert!(changes.take(), "{what}");
            for file in [&file, &other].into_iter().filter(|file| file.is_file()) {
                fs::write(file, "new").unwrap();
                fs::read(file).unwrap();
            }
        }
        fs::remove_dir_all(dir.path()).unwrap();
        assert!(changes.take() && !changes.take());
    }

    #[test]
    fn a_process_without_spare_descriptors_gets_an_error() {
        let error = FolderWatch::new(&DescriptorBudget::new(0)).unwrap_err();
        assert_eq!(error.reason(), "io", "{error}");
    }
}
