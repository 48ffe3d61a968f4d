//! Who may run: one command of a name at a time, and none once [`MAX_HUNG`] commands have resisted SIGKILL. The state is locks of
//! files in root's folder, so it holds across instances, processes and restarts: a lock is free exactly when its holder has ended.

use std::path::{Path, PathBuf};

use sys::slots::{self, Lock};

/// Limit of commands that cannot be killed. Its own, apart from that of scontrol.
pub(super) const MAX_HUNG: usize = 3;

/// Why a command is not started.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum LaneError {
    #[error("an earlier run of {0} has not ended")]
    Busy(String),
    #[error("{MAX_HUNG} earlier commands resist SIGKILL; none is started until one ends")]
    Hung,
    #[error("{0}")]
    Io(String),
}

/// The right to run one command.
#[derive(Debug)]
pub(super) struct Lane {
    folder: PathBuf,
    _own: Lock,
    hung: Option<Lock>,
}

impl Lane {
    /// Enters the lane of that name.
    pub(super) fn enter(folder: &Path, name: &str) -> Result<Self, LaneError> {
        let own = lock(folder, &format!("{name}.run"))?.ok_or_else(|| LaneError::Busy(name.to_owned()))?;
        let searching = search(folder)?;
        // Freed at once: it shows that a slot is free.
        drop(free_slot(folder)?.ok_or(LaneError::Hung)?);
        drop(searching);
        Ok(Self {
            folder: folder.to_owned(),
            _own: own,
            hung: None,
        })
    }

    /// The command resists SIGKILL: it takes one of the slots until the lane is left.
    pub(super) fn hangs(&mut self) {
        if self.hung.is_none() {
            // Without a free slot others hang already, and nothing is started.
            let _searching = search(&self.folder);
            self.hung = free_slot(&self.folder).ok().flatten();
        }
    }
}

/// One search for a slot at a time, until this is dropped: it holds a free slot for a moment.
fn search(folder: &Path) -> Result<Lock, LaneError> {
    let path = folder.join("hung.search");
    slots::wait(&path).map_err(|e| LaneError::Io(format!("{}: {e}", path.display())))
}

fn free_slot(folder: &Path) -> Result<Option<Lock>, LaneError> {
    for number in 0..MAX_HUNG {
        if let Some(slot) = lock(folder, &format!("hung.{number}"))? {
            return Ok(Some(slot));
        }
    }
    Ok(None)
}

fn lock(folder: &Path, name: &str) -> Result<Option<Lock>, LaneError> {
    let path = folder.join(name);
    slots::lock(&path).map_err(|e| LaneError::Io(format!("{}: {e}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_a_name_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let enter = |name| Lane::enter(dir.path(), name);
        let first = enter("notify").unwrap();
        assert_eq!(enter("notify").unwrap_err(), LaneError::Busy("notify".to_owned()));
        let other = enter("nhc").unwrap();
        drop(first);
        enter("notify").unwrap();
        drop(other);
    }

    #[test]
    fn three_hung_ones_stop_all_until_one_ends() {
        let dir = tempfile::tempdir().unwrap();
        let enter = |name: &str| Lane::enter(dir.path(), name);
        let mut hung: Vec<Lane> = ["a", "b", "c"].map(|name| enter(name).unwrap()).into();
        for (n, lane) in hung.iter_mut().enumerate() {
            enter("d").unwrap_or_else(|e| panic!("{n} hang: {e}"));
            lane.hangs();
            lane.hangs();
        }
        assert_eq!(enter("d").unwrap_err(), LaneError::Hung);
        assert_eq!(enter("a").unwrap_err(), LaneError::Busy("a".to_owned()));
        hung.pop();
        enter("d").unwrap();
        enter("c").unwrap();
    }

    /// Each holds a free slot for a moment while it looks.
    #[test]
    fn requests_at_the_same_time_do_not_take_each_other_for_hung_ones() {
        let dir = tempfile::tempdir().unwrap();
        let entered: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|thread| {
                    let (dir, name) = (dir.path(), format!("c{thread}"));
                    let enter = move || Lane::enter(dir, &name).map(drop).unwrap();
                    scope.spawn(move || (0..200).map(|_| enter()).count())
                })
                .collect();
            threads.into_iter().map(|t| t.join().unwrap()).sum()
        });
        assert_eq!(entered, 1600);
    }

    #[test]
    fn without_its_folder_nothing_runs() {
        let gone = Lane::enter(Path::new("/nonexistent/act"), "a").unwrap_err();
        assert!(matches!(gone, LaneError::Io(_)));
    }
}
