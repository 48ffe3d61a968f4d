//! Reports when a job begins and ends: many jobs are shorter than the time between two readings.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::tree::Tree;
use crate::event::{Closed, JobChange, JobEvent};
use crate::sys::boot;
use crate::sys::inotify::FolderWatch;
use crate::sys::kept::DescriptorBudget;
use crate::{BootId, Cursor, Error, Event, EventBody, Events, Watcher};

/// How often an idle node is checked, and whether the watcher must end.
const WAIT: Duration = Duration::from_secs(60);
/// How often a node without a slurmd is checked.
const LOOK: Duration = Duration::from_secs(15);

/// The watcher of the folders in which jobs come and go.
pub(super) struct JobWatcher {
    pub(super) tree: Tree,
    pub(super) budget: Arc<DescriptorBudget>,
    pub(super) boot: BootId,
    pub(super) known: SeenJobs,
}

/// The watcher's state.
#[derive(Default)]
pub(super) struct SeenJobs {
    /// The number of the last event. Starts at the time since boot, so that numbers of the next run are higher.
    seq: u64,
    /// Folders of jobs, with their inodes. `None`: not listed yet, so no job is new.
    jobs: Option<BTreeSet<(String, u64)>>,
}

impl Watcher for JobWatcher {
    fn ready(&mut self, wait: Duration) -> bool {
        let mut has_places = || self.tree.places(Instant::now()).is_ok_and(|p| !p.is_empty());
        if has_places() {
            return true;
        }
        std::thread::sleep(wait.min(LOOK));
        has_places()
    }

    fn run(&mut self, _: Option<Cursor>, out: &Events) -> Result<(), Error> {
        let mut folders = FolderWatch::new(&self.budget)?;
        let mut has_begun = false;
        while !out.is_over() {
            // Watched before they are listed: a change in between is either listed or reported.
            let places = self.tree.places(Instant::now())?;
            folders.watch(&places)?;
            if self.look(out)?.is_err() {
                return Ok(());
            }
            if !std::mem::replace(&mut has_begun, true) {
                out.listens();
            }
            folders.wait(WAIT)?;
        }
        Ok(())
    }
}

impl JobWatcher {
    fn look(&mut self, out: &Events) -> Result<Result<(), Closed>, Error> {
        let found = self.tree.jobs(Instant::now())?;
        let now: BTreeSet<(String, u64)> = found.into_iter().map(|f| (f.name, f.inode)).collect();
        let before = self.known.jobs.replace(now.clone());
        let Some(before) = before else { return Ok(Ok(())) };
        let ended = before.difference(&now).map(|job| (job, JobEvent::Ended));
        // A requeued job ended before it began again.
        let began = now.difference(&before).map(|job| (job, JobEvent::Began));
        for ((folder, _), what) in ended.chain(began) {
            if let Err(closed) = out.emit(self.event(folder, what)) {
                return Ok(Err(closed));
            }
        }
        Ok(Ok(()))
    }

    fn event(&mut self, folder: &str, what: JobEvent) -> Event {
        let now = u64::try_from(boot::boottime().as_micros()).unwrap_or(u64::MAX);
        self.known.seq = now.max(self.known.seq + 1);
        Event {
            boot: self.boot.clone(),
            seq: self.known.seq,
            at_us: u64::try_from(boot::monotonic().as_micros()).unwrap_or(u64::MAX),
            history: false,
            count: 1,
            text: format!("Slurm: {folder} {}", what.word()),
            body: EventBody::Job(JobChange {
                folder: folder.to_owned(),
                what,
            }),
        }
    }
}

#[cfg(test)]
mod tests;
