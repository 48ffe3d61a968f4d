//! Reports when a job begins and ends: many jobs are shorter than the time between two readings.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::cgroup::JobName;
use super::spool::Spool;
use super::tree::Tree;
use crate::event::{Closed, JobChange, JobEvent};
use crate::sys::inotify::FolderWatch;
use crate::sys::numbered::Numbered;
use crate::{BootId, Cursor, Error, EventBody, Events, Watcher};

/// How often an idle node is checked, and whether the watcher must end.
const WAIT: Duration = Duration::from_secs(60);
/// How often a node without a slurmd is checked.
const LOOK: Duration = Duration::from_secs(15);
/// How often a record that waits for gres.conf is tried again.
const AGAIN: Duration = Duration::from_millis(200);

/// The watcher of the folders in which jobs come and go.
pub(super) struct JobWatcher {
    pub(super) tree: Tree,
    pub(super) boot: BootId,
    pub(super) known: SeenJobs,
    /// The records of jobs that are over.
    pub(super) spool: Spool,
}

/// The watcher's state.
#[derive(Default)]
pub(super) struct SeenJobs {
    numbers: Numbered,
    /// Folders of jobs, with their inodes. `None`: not listed yet, so no job is new.
    jobs: Option<BTreeSet<(String, u64)>>,
}

impl Watcher for JobWatcher {
    fn ready(&mut self, wait: Duration) -> bool {
        if self.has_work() {
            return true;
        }
        std::thread::sleep(wait.min(LOOK));
        self.has_work()
    }

    fn run(&mut self, _: Option<Cursor>, out: &Events) -> Result<(), Error> {
        let mut folders = FolderWatch::new(&self.spool.common().budget)?;
        let mut has_begun = false;
        while !out.is_over() {
            // Watched before they are listed: a change in between is either listed or reported.
            let mut places = self.tree.places(Instant::now())?;
            let wait = if places.is_empty() { LOOK } else { WAIT };
            places.extend(self.spool.folder());
            folders.watch(&places)?;
            if self.look(out)?.and_then(|()| self.take_records(out)).is_err() {
                return Ok(());
            }
            if !std::mem::replace(&mut has_begun, true) {
                out.listens();
            }
            folders.wait(if self.spool.is_waiting() { AGAIN } else { wait })?;
        }
        Ok(())
    }
}

impl JobWatcher {
    /// Whether there is a slurmd, or one has left records.
    fn has_work(&mut self) -> bool {
        let has_places = self.tree.places(Instant::now()).is_ok_and(|p| !p.is_empty());
        has_places || self.spool.has_news()
    }

    fn look(&mut self, out: &Events) -> Result<Result<(), Closed>, Error> {
        let found = self.tree.jobs(Instant::now())?;
        let now: BTreeSet<(String, u64)> = found.into_iter().map(|f| (f.name, f.inode)).collect();
        let before = self.known.jobs.replace(now.clone());
        let Some(before) = before else { return Ok(Ok(())) };
        let ended = before.difference(&now).map(|job| (job, JobEvent::Ended));
        // A requeued job ended before it began again.
        let began = now.difference(&before).map(|job| (job, JobEvent::Began));
        for ((folder, _), what) in ended.chain(began) {
            let change = JobChange {
                folder: folder.clone(),
                what,
                start_us: self.start_us(folder),
            };
            let text = format!("Slurm: {folder} {}", what.word());
            if let Err(closed) = out.emit(self.known.numbers.event(
                &self.boot,
                1,
                text,
                EventBody::Job(change),
            )) {
                return Ok(Err(closed));
            }
        }
        Ok(Ok(()))
    }

    /// When the prolog of a job ran. The record's errors are reported with the job's reading.
    fn start_us(&self, folder: &str) -> Option<u64> {
        let JobName::Id(job) = JobName::parse(folder)? else {
            return None;
        };
        self.spool.common().hooks.of(job).ok().flatten()?.start_us()
    }

    fn take_records(&mut self, out: &Events) -> Result<(), Closed> {
        let Self {
            spool, known, boot, ..
        } = self;
        spool.take(Instant::now(), |end| {
            let text = format!("Slurm: record of job {}", end.record.job);
            out.emit(
                known
                    .numbers
                    .event(boot, 1, text, EventBody::JobEnd(Box::new(end))),
            )
        })
    }
}

#[cfg(test)]
mod tests;
