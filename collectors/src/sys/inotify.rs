//! Folders whose changes the kernel reports: files or folders added or removed.

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

/// Folders that are watched (inotify(7)).
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
        let flags = InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK;
        Ok(Self {
            inotify: Inotify::init(flags).map_err(failed)?,
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
    fn a_process_without_spare_descriptors_gets_an_error() {
        let error = FolderWatch::new(&DescriptorBudget::new(0)).unwrap_err();
        assert_eq!(error.reason(), "io", "{error}");
    }
}
