//! Jobs that have ended: their lines, and what epilogs tell of how they did.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::line::{End, Line, RESULTS};
use super::running::Running;

/// So many that epilogs told of are kept, of jobs that had not been seen to end.
const MOST: usize = 4096;
/// Jobs that have ended and are kept to be shown.
const SHOWN: usize = 256;
/// For how long a line waits for the epilog of a job that had a prolog, in seconds.
const EPILOG: f64 = 600.0;
/// An epilog runs when the job's processes are gone: a job that is read so many seconds later runs on.
const AFTER: f64 = 2.0;
/// Times that are no further apart are one and the same, in seconds.
const SAME: f64 = 0.001;

/// What an epilog told.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Epilog {
    /// How the job ended.
    pub end: End,
    /// When the prolog of that run was, as a Unix time, where its record was still there.
    pub began: Option<f64>,
    /// When it was told, likewise.
    pub at: f64,
}

impl Epilog {
    /// Whether it is of this run of the job: one number may have several.
    fn is_of(&self, run: &Running) -> bool {
        self.is_surely(run).unwrap_or(self.at >= run.line.began)
    }

    /// The same by the prologs of both, where they are known.
    fn is_surely(&self, run: &Running) -> Option<bool> {
        let began = self.began.filter(|_| run.has_prolog)?;
        Some((began - run.line.began).abs() < SAME)
    }
}

/// A job that has ended and whose epilog has not told yet.
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
    /// What epilogs told of jobs that had not been seen to end.
    told: BTreeMap<String, Epilog>,
    pub(super) results: BTreeMap<String, u64>,
    /// Closed, and not written when the sums were: a disk may hang for longer than the daemon lives.
    unwritten: Vec<Arc<Line>>,
    /// The last, to be shown. They stand in a file of their own.
    #[serde(skip)]
    pub(super) last: VecDeque<Arc<Line>>,
    /// Closed, and not taken away yet.
    #[serde(skip)]
    closed: Vec<Arc<Line>>,
}

impl Ended {
    /// With what was kept of the last run: lines that were written, to be shown. Those that were not are closed anew.
    pub(super) fn remember(&mut self, lines: impl IntoIterator<Item = Line>) {
        let lines: Vec<Arc<Line>> = lines.into_iter().map(Arc::new).collect();
        let mut unwritten = std::mem::take(&mut self.unwritten);
        // They are written in order, and some were after the sums.
        let is_written = |line: &Arc<Line>| lines.iter().any(|known| is_same(known, line));
        let written = unwritten.iter().rposition(is_written).map_or(0, |at| at + 1);
        unwritten.drain(..written);
        self.last.extend(lines);
        self.last.extend(unwritten.iter().cloned());
        self.closed.extend(unwritten);
        self.shorten();
    }

    /// Takes over which lines are not written yet.
    pub(super) fn unwritten(&mut self, lines: Vec<Arc<Line>>) {
        self.unwritten = lines;
    }

    /// An epilog tells how its job ended.
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

    /// A job was read at that time: an epilog that told before was of an earlier run, whatever it knew of it.
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
        // One that was requeued before its epilog told: the next one to tell is this run's.
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

    /// Lines whose epilog has not told in time.
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

    /// How many have ended, by result.
    pub(super) fn results(&self) -> BTreeMap<String, u64> {
        let mut all: BTreeMap<String, u64> = RESULTS.iter().map(|r| ((*r).to_owned(), 0)).collect();
        all.extend(self.results.clone());
        all
    }

    /// The lines that were closed since the last call, in order.
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
