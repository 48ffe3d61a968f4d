//! The state directory at the start. Its disk may hang, so a thread takes it, and after a time limit the start goes on
//! without it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

use crate::parent::slurm::memory::DrainMemory;
use crate::parent::slurm::seen::SeenSlurmd;
use sys::dirs::{self, DirError};
use sys::users::Ids;

/// Time limit for the disk to answer: with that of the daemon it is less than the unit's `TimeoutStartSec`.
const PATIENCE: Duration = Duration::from_secs(20);

/// The directory, and its lock as long as this exists.
#[derive(Debug, Default)]
pub struct StateDir {
    /// `None`: it must not be used. Nothing is recorded, and drains are left to operators.
    pub path: Option<PathBuf>,
    /// The parent's own records. Read once: the disk may hang later.
    pub records: Records,
    _lock: Option<File>,
}

/// The parent's own records. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Records {
    /// Its drain.
    pub drain: DrainMemory,
    /// The proven slurmd.
    pub slurmd: SeenSlurmd,
}

impl Records {
    /// May block with their disk.
    pub fn of(state_dir: &Path) -> Self {
        Self {
            drain: DrainMemory::of(state_dir),
            slurmd: SeenSlurmd::of(state_dir),
        }
    }
}

/// Creates and locks the state directory. Without it the daemon loses its memory, but the node keeps its health checks.
///
/// # Errors
/// When another instance holds it.
pub fn take(dir: &Path, ids: &Ids) -> Result<StateDir, DirError> {
    let (path, uid, gid) = (dir.to_owned(), ids.uid, ids.gid);
    take_within(PATIENCE, dir, move || {
        let lock = dirs::take_state(&path, uid, gid)?;
        Ok((lock, Records::of(&path)))
    })
}

fn take_within(
    patience: Duration,
    dir: &Path,
    take: impl FnOnce() -> Result<(Option<File>, Records), DirError> + Send + 'static,
) -> Result<StateDir, DirError> {
    let (to, from) = sync_channel(1);
    let spawned = thread::Builder::new().name("state".to_owned()).spawn(move || {
        if to.send(take()).is_err() {
            tracing::warn!("the state directory answers again; restart nodewarden to use it");
        }
    });
    let why = match spawned.map(|_| from.recv_timeout(patience)) {
        Ok(Ok(Ok((lock, records)))) => {
            return Ok(StateDir {
                path: Some(dir.to_owned()),
                records,
                _lock: lock,
            });
        }
        // It writes no more. A node whose disk hangs is watched all the same.
        Ok(Ok(Err(e @ DirError::Held { is_zombie: false, .. }))) => return Err(e),
        Ok(Ok(Err(e))) => e.to_string(),
        Ok(Err(_)) => format!("{}: no answer within {patience:?}", dir.display()),
        Err(e) => format!("cannot start a thread: {e}"),
    };
    tracing::error!("the state directory is not used, drains will be unrecorded: {why}");
    Ok(StateDir::default())
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::mpsc::channel;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn the_start_goes_on_without_a_disk_that_hangs() {
        let (release, hang) = channel::<()>();
        let state = take_within(Duration::from_millis(1), Path::new("/state"), move || {
            sys::ignore(hang.recv());
            Ok((None, Records::default()))
        });
        assert_eq!(state.unwrap().path, None);
        drop(release);
    }

    #[test]
    fn a_refused_folder_is_not_used_and_one_of_another_instance_ends_the_start() {
        let dir = Path::new("/state");
        let refused = || DirError::Io {
            path: dir.to_owned(),
            source: io::ErrorKind::AlreadyExists.into(),
        };
        let held = |is_zombie| DirError::Held {
            path: dir.to_owned(),
            holder: "pid 7".to_owned(),
            is_zombie,
        };
        assert_eq!(take_within(LONG, dir, move || Err(refused())).unwrap().path, None);
        take_within(LONG, dir, move || Err(held(false))).unwrap_err();
        assert_eq!(
            take_within(LONG, dir, move || Err(held(true))).unwrap().path,
            None
        );
        let taken = take_within(LONG, dir, || Ok((None, Records::default()))).unwrap();
        assert_eq!(taken.path.as_deref(), Some(dir));
    }
}
