//! Ended jobs: their lines, and their results from epilogs.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use collectors::slurm::hook::RecordId;
use serde::{Deserialize, Serialize};

use super::epilog::{Epilog, SAME};
use super::line::{Line, RESULTS, Unread};
use super::running::{Running, UNREAD};
use super::written::{Known, Written};
use crate::ownership::Gpus;

/// Limit of epilogs kept for jobs that have not been seen to end.
const MOST: usize = 4096;
/// Limit of ended jobs whose lines wait for an epilog: all of them are stored with the totals, at each reading.
const WAITING: usize = 1024;
/// Limit of ended jobs that are kept for display.
const SHOWN: usize = 256;
/// Time for which a line waits for the epilog of a job that had a prolog, and an epilog for its job, in seconds. One of which only
/// the folder was reported waits for [`UNREAD`]: its prolog's record may have been gone by then.
const EPILOG: f64 = 600.0;
/// An epilog runs after the job's processes are gone: a job read this many seconds later still runs.
const AFTER: f64 = 2.0;
/// A job that was not seen this many seconds after its epilog reported is not seen any more: readings that were under
/// way have come back.
const UNSEEN: f64 = 0.2;

/// An ended job without a report of its epilog yet.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Waiting {
    run: Running,
    until: f64,
}

/// The jobs that have ended.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Ended {
    waiting: BTreeMap<String, Waiting>,
    /// Epilogs that have completed no line yet, in order. The worker reports them again to a restarted daemon.
    #[serde(skip)]
    epilogs: Vec<Epilog>,
    pub(super) results: BTreeMap<String, u64>,
    /// Closed lines that were not written when the totals were stored: a disk may hang longer than the daemon lives.
    unwritten: Vec<Arc<Line>>,
    /// The last lines, for display. They are stored in a file of their own.
    #[serde(skip)]
    pub(super) last: VecDeque<Arc<Line>>,
    /// Closed, and not taken by the caller yet.
    #[serde(skip)]
    closed: Vec<Arc<Line>>,
    #[serde(skip)]
    written: Written,
    /// Records of which nothing more is to be written.
    #[serde(skip)]
    done: Vec<RecordId>,
    /// When the daemon started, as a Unix time.
    #[serde(skip)]
    since: f64,
}

impl Ended {
    /// Loads kept lines of the last run: written ones are shown, unwritten ones are closed again.
    pub(super) fn remember(&mut self, lines: impl IntoIterator<Item = Line>, since: f64) {
        self.since = since;
        let lines: Vec<Arc<Line>> = lines.into_iter().map(Arc::new).collect();
        let mut unwritten = std::mem::take(&mut self.unwritten);
        // Lines are written in order, some of them after the totals.
        let is_written = |line: &Arc<Line>| lines.iter().any(|known| is_same(known, line));
        let written = unwritten.iter().rposition(is_written).map_or(0, |at| at + 1);
        unwritten.drain(..written);
        self.last.extend(lines);
        self.last.extend(unwritten.iter().cloned());
        self.last.iter().for_each(|line| self.written.remember(line));
        self.closed.extend(unwritten);
        self.shorten();
    }

    /// Takes the lines that are not written yet.
    pub(super) fn unwritten(&mut self, lines: Vec<Arc<Line>>) {
        self.unwritten = lines;
    }

    /// An epilog reports the end of its job.
    pub(super) fn told(&mut self, epilog: Epilog) {
        let record = epilog.report.record;
        let run = epilog.began().map(|began| (began, epilog.at()));
        if run.is_some_and(|run| self.written.report(&epilog.job(), run)) {
            self.done.push(record);
        } else if self.epilogs.len() < MOST && self.epilogs.iter().all(|known| known.report.record != record)
        {
            self.epilogs.push(epilog);
        }
    }

    /// Finds the GPUs of epilogs among those of the driver.
    pub(super) fn find_gpus(&mut self, gpus: &Gpus<'_>) {
        for epilog in &mut self.epilogs {
            if let Some(names) = epilog.unfound() {
                let label = |(gpu, instance): (&str, &str)| (gpu.to_owned(), instance.to_owned());
                let found = names.iter().map(|name| gpus.find(name).map(label)).collect();
                epilog.gpus = found;
            }
        }
    }

    /// Whether an epilog waits for the driver's list of GPUs.
    pub(super) fn needs_gpus(&self) -> bool {
        self.epilogs.iter().any(|epilog| epilog.unfound().is_some())
    }

    /// Completes lines by the reports of their epilogs, and makes those of jobs that were never seen.
    pub(super) fn settle(&mut self, running: &BTreeMap<String, Running>, wall: f64) {
        for epilog in std::mem::take(&mut self.epilogs) {
            let job = epilog.job();
            let is_surely = |run: &Running| epilog.is_surely(run) == Some(true);
            let goes_on = running.get(&job).is_some_and(is_surely);
            let waits = self.waiting.get(&job);
            let waits = waits.filter(|waiting| !goes_on && epilog.is_of(&waiting.run));
            if let Some(waiting) = waits {
                if epilog.is_ready(&waiting.run.line, wall) {
                    let run = waiting.run.clone();
                    self.waiting.remove(&job);
                    self.write(run, Some(&epilog));
                } else {
                    self.epilogs.push(epilog);
                }
                continue;
            }
            let waited = wall - epilog.told;
            let runs = running.get(&job).is_some_and(|run| epilog.is_of(run));
            match epilog.run().filter(|_| !runs) {
                Some(run) if waited >= UNSEEN && epilog.is_ready(&run.line, wall) => {
                    self.write(run, Some(&epilog));
                }
                None if !runs && waited >= EPILOG => self.done.push(epilog.report.record),
                _ => self.epilogs.push(epilog),
            }
        }
    }

    /// A job was read at that time: an earlier epilog belongs to an earlier run, whatever it reported.
    pub(super) fn runs_on(&mut self, run: &Running, read: f64) {
        let (job, done) = (&run.line.job, &mut self.done);
        self.epilogs.retain(|epilog| {
            // One that has a start makes a line of its own.
            let is_earlier = epilog.job() == *job && epilog.began().is_none() && epilog.at() + AFTER < read;
            if is_earlier {
                done.push(epilog.report.record);
            }
            !is_earlier
        });
    }

    /// A run of a job is over.
    pub(super) fn end(&mut self, mut run: Running, wall: f64) {
        let job = run.line.job.clone();
        run.line.ended = Some(wall);
        run.line.sum();
        // The job was requeued before its epilog reported: the next report belongs to this run.
        if let Some(Waiting { run, .. }) = self.waiting.remove(&job) {
            self.finish(run);
        }
        let has_report = self.epilogs.iter().any(|e| e.job() == job && e.is_of(&run));
        let waits = if self.is_written(&run) {
            None
        } else if has_report || run.has_prolog {
            Some(EPILOG)
        } else {
            run.is_only_told().then_some(UNREAD)
        };
        if let Some(waits) = waits {
            let until = wall + waits;
            self.waiting.insert(job, Waiting { run, until });
            self.finish_first_of_too_many();
        } else {
            self.write(run, None);
        }
    }

    /// Takes a run back that seemed to be over: a reading of this subject came back, which was made at that time.
    pub(super) fn take_back(&mut self, job: &str, subject: &str, read: f64) -> Option<Running> {
        self.take_back_if(job, |run| {
            (run.subject.is_empty() || run.is_of(subject)) && run.gone.is_none_or(|gone| read <= gone + AFTER)
        })
    }

    /// The same, where its folder is reported only now: the run of the prolog that began then.
    pub(super) fn take_back_of_prolog(&mut self, job: &str, began: f64) -> Option<Running> {
        let run = self.take_back_if(job, |run| {
            run.known_prolog()
                .is_some_and(|known| (known - began).abs() < SAME)
        });
        run.map(|run| Running { gone: None, ..run })
    }

    fn take_back_if(&mut self, job: &str, is_it: impl Fn(&Running) -> bool) -> Option<Running> {
        self.waiting.get(job).filter(|waiting| is_it(&waiting.run))?;
        let mut run = self.waiting.remove(job)?.run;
        run.line.ended = None;
        Some(run)
    }

    /// Closes lines whose epilog has not reported in time.
    pub(super) fn give_up(&mut self, wall: f64) {
        let is_over = |(_, w): &(&String, &Waiting)| wall >= w.until;
        let over = self.waiting.iter().filter(is_over);
        let over: Vec<String> = over.map(|(job, _)| job.clone()).collect();
        for job in over {
            if let Some(waiting) = self.waiting.remove(&job) {
                self.finish(waiting.run);
            }
        }
    }

    /// At the limit the line that has waited longest is closed.
    fn finish_first_of_too_many(&mut self) {
        if self.waiting.len() <= WAITING {
            return;
        }
        let by_end = |(_, a): &(&String, &Waiting), (_, b): &(&String, &Waiting)| a.until.total_cmp(&b.until);
        let first = self.waiting.iter().min_by(by_end).map(|(job, _)| job.clone());
        if let Some(waiting) = first.and_then(|job| self.waiting.remove(&job)) {
            self.finish(waiting.run);
        }
    }

    /// Closes a line with what is known by now.
    fn finish(&mut self, run: Running) {
        let report = self
            .epilogs
            .iter()
            .position(|e| e.job() == run.line.job && e.is_of(&run));
        let report = report.map(|at| self.epilogs.remove(at));
        self.write(run, report.as_ref());
    }

    /// Lines that wait for an epilog.
    pub(super) fn waiting(&self) -> impl Iterator<Item = &Line> {
        self.waiting.values().map(|waiting| &waiting.run.line)
    }

    /// Whether a run has its line already.
    pub(super) fn is_written(&self, run: &Running) -> bool {
        self.written.find(run, run.known_prolog()).is_some()
    }

    /// Whether the report of a folder that comes now, and nothing of a prolog, is that of a run of this job that ended after
    /// that time: no report of its folder has come yet.
    pub(super) fn takes_folder(&mut self, job: &str, time: f64, wall: f64) -> bool {
        if let Some(known) = self.written.untold_after(job, time) {
            known.was_told = true;
            return true;
        }
        let mut waiting = self.waiting.get_mut(job).map(|waiting| &mut waiting.run);
        if let Some(run) = waiting.as_deref_mut().filter(|run| run.told.is_none())
            && run.line.ended.is_some_and(|ended| ended > time)
        {
            run.told = Some(wall);
            return true;
        }
        let is_its = |epilog: &Epilog| waiting.as_deref().is_some_and(|run| epilog.is_of(run));
        let mut epilogs = self
            .epilogs
            .iter_mut()
            .filter(|e| e.job() == job && e.at() > time);
        let epilog = epilogs.find(|epilog| epilog.folder.is_none() && !is_its(epilog));
        epilog.map(|epilog| epilog.folder = Some(wall)).is_some()
    }

    /// Number of ended jobs, by result.
    pub(super) fn results(&self) -> BTreeMap<String, u64> {
        let mut all: BTreeMap<String, u64> = RESULTS.iter().map(|r| ((*r).to_owned(), 0)).collect();
        all.extend(self.results.clone());
        all
    }

    /// The lines closed since the last call, in order.
    pub(super) fn closed(&mut self) -> Vec<Arc<Line>> {
        std::mem::take(&mut self.closed)
    }

    /// The records of which nothing more is to be written, since the last call.
    pub(super) fn done(&mut self) -> Vec<RecordId> {
        std::mem::take(&mut self.done)
    }

    /// Writes the line of a run, completed by the report of its epilog, unless it has one.
    fn write(&mut self, run: Running, epilog: Option<&Epilog>) {
        let prolog = epilog.and_then(Epilog::began).or(run.known_prolog());
        let known = self.written.find(&run, prolog);
        let (was_told, gone) = (run.told.is_some(), run.gone);
        let mut line = match epilog {
            Some(epilog) => epilog.complete(run.line, self.since),
            None => run.line,
        };
        let known = known.and_then(|at| self.written.get_mut(at));
        // The totals from before a crash may still have a run whose line was written, and lack its result.
        if known.as_ref().is_none_or(|known| !known.is_counted) {
            let count = self.results.entry(line.result().to_owned()).or_default();
            *count = count.saturating_add(1);
        }
        if let Some(known) = known {
            known.is_counted = true;
            self.done.extend(line.record);
            return;
        }
        if line.readings == 0 {
            let is_before = line.ended.is_some_and(|ended| ended < self.since);
            line.unread = Some(if is_before {
                Unread::DaemonDown
            } else {
                Unread::NoReading
            });
        }
        let mut known = Known::of(&line);
        (known.prolog, known.was_told) = (prolog, was_told);
        known.ended = gone.unwrap_or(known.ended);
        self.written.add(known);
        let line = Arc::new(line);
        self.closed.push(Arc::clone(&line));
        self.last.push_back(line);
        self.shorten();
    }

    fn shorten(&mut self) {
        let more = self.last.len().saturating_sub(SHOWN);
        self.last.drain(..more);
    }
}

/// Whether both are of one run.
fn is_same(a: &Line, b: &Line) -> bool {
    let is_near = |a: f64, b: f64| (a - b).abs() < SAME;
    let ended = a.ended.zip(b.ended).is_some_and(|(a, b)| is_near(a, b));
    a.job == b.job && is_near(a.began, b.began) && ended
}
