//! Ended jobs: their lines, and their results from epilogs.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::line::{End, Line, RESULTS};
use super::running::Running;

/// Limit of epilogs kept for jobs that have not been seen to end.
const MOST: usize = 4096;
/// Limit of ended jobs that are kept for display.
const SHOWN: usize = 256;
/// Time for which a line waits for the epilog of a job that had a prolog, in seconds.
const EPILOG: f64 = 600.0;
/// An epilog runs after the job's processes are gone: a job read this many seconds later still runs.
const AFTER: f64 = 2.0;
/// Times no further apart are equal, in seconds.
const SAME: f64 = 0.001;

/// The report of an epilog.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Epilog {
    /// How the job ended.
    pub end: End,
    /// Start of that run's prolog, as a Unix time, if its record still existed.
    pub began: Option<f64>,
    /// Time of the report, as a Unix time.
    pub at: f64,
}

impl Epilog {
    /// Whether the report belongs to this run of the job: one number may have several runs.
    fn is_of(&self, run: &Running) -> bool {
        self.is_surely(run).unwrap_or(self.at >= run.line.began)
    }

    /// The same, decided by the start of both prologs if known.
    fn is_surely(&self, run: &Running) -> Option<bool> {
        let began = self.began.filter(|_| run.has_prolog)?;
        Some((began - run.line.began).abs() < SAME)
    }
}

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
    /// Epilogs of jobs that have not been seen to end.
    told: BTreeMap<String, Epilog>,
    pub(super) results: BTreeMap<String, u64>,
    /// Closed lines that were not written when the totals were stored: a disk may hang longer than the daemon lives.
    unwritten: Vec<Arc<Line>>,
    /// The last lines, for display. They are stored in a file of their own.
    #[serde(skip)]
    pub(super) last: VecDeque<Arc<Line>>,
    /// Closed, and not taken by the caller yet.
    #[serde(skip)]
    closed: Vec<Arc<Line>>,
}

impl Ended {
    /// Loads kept lines of the last run: written ones are shown, unwritten ones are closed again.
    pub(super) fn remember(&mut self, lines: impl IntoIterator<Item = Line>) {
        let lines: Vec<Arc<Line>> = lines.into_iter().map(Arc::new).collect();
        let mut unwritten = std::mem::take(&mut self.unwritten);
        // Lines are written in order, some of them after the totals.
        let is_written = |line: &Arc<Line>| lines.iter().any(|known| is_same(known, line));
        let written = unwritten.iter().rposition(is_written).map_or(0, |at| at + 1);
        unwritten.drain(..written);
        self.last.extend(lines);
        self.last.extend(unwritten.iter().cloned());
        self.closed.extend(unwritten);
        self.shorten();
    }

    /// Takes the lines that are not written yet.
    pub(super) fn unwritten(&mut self, lines: Vec<Arc<Line>>) {
        self.unwritten = lines;
    }

    /// An epilog reports the end of its job.
    pub(super) fn told(&mut self, job: &str, epilog: Epilog) {
        if self.waiting.get(job).is_some_and(|w| epilog.is_of(&w.run)) {
            if let Some(Waiting {
                run: Running { mut line, .. },
                ..
            }) = self.waiting.remove(job)
            {
                line.end = Some(epilog.end);
                self.write(line);
            }
            return;
        }
        self.told.retain(|_, known| epilog.at - known.at < EPILOG);
        if self.told.len() < MOST {
            self.told.insert(job.to_owned(), epilog);
        }
    }

    /// A job was read at that time: an earlier epilog belongs to an earlier run, whatever it reported.
    pub(super) fn runs_on(&mut self, run: &Running, read: f64) {
        let is_earlier = |epilog: &Epilog| epilog.is_surely(run).is_none() && epilog.at + AFTER < read;
        if self.told.get(&run.line.job).is_some_and(is_earlier) {
            self.told.remove(&run.line.job);
        }
    }

    /// A run of a job is over.
    pub(super) fn end(&mut self, mut run: Running, wall: f64) {
        let job = run.line.job.clone();
        run.line.ended = Some(wall);
        run.line.sum();
        // The job was requeued before its epilog reported: the next report belongs to this run.
        if let Some(Waiting { run, .. }) = self.waiting.remove(&job) {
            self.write(run.line);
        }
        match self.told.remove(&job).filter(|epilog| epilog.is_of(&run)) {
            Some(epilog) => {
                run.line.end = Some(epilog.end);
                self.write(run.line);
            }
            None if run.has_prolog => {
                let until = wall + EPILOG;
                self.waiting.insert(job, Waiting { run, until });
            }
            None => self.write(run.line),
        }
    }

    /// Closes lines whose epilog has not reported in time.
    pub(super) fn give_up(&mut self, wall: f64) {
        let is_over = |(_, w): &(&String, &Waiting)| wall >= w.until;
        let over = self.waiting.iter().filter(is_over);
        let over: Vec<String> = over.map(|(job, _)| job.clone()).collect();
        for job in over {
            if let Some(waiting) = self.waiting.remove(&job) {
                self.write(waiting.run.line);
            }
        }
    }

    /// Lines that wait for an epilog.
    pub(super) fn waiting(&self) -> impl Iterator<Item = &Line> {
        self.waiting.values().map(|waiting| &waiting.run.line)
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

    fn write(&mut self, line: Line) {
        let count = self.results.entry(line.result().to_owned()).or_default();
        *count = count.saturating_add(1);
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
