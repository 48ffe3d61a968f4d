//! Keeps sums for the jobs that run, and closes a line when one has ended.
//!
//! Pure: it is given snapshots and what was told, and keeps sums. What a GPU's counters moved by between two snapshots is
//! its owners' of the first of them, each its share.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use collectors::slurm::cgroup::JobName;
use collectors::slurm::metrics::{
    JOB_CPU, JOB_FOLDER, JOB_INFO, JOB_MEMORY_PEAK, JOB_OOM_KILLS, JOB_PROLOG, JOB_START,
};
use serde::{Deserialize, Serialize};

use super::counters::Counters;
use super::line::{End, Line, RESULTS};
use super::view::JobsView;
use crate::core::derive::owners::{Evidence, Owner, owners};
use crate::core::ledger::Count;
use crate::core::snapshot::{DeviceState, Presence, Sample, Snapshot};

/// More jobs than these at once are not told apart.
const MOST: usize = 4096;
/// Jobs that have ended and are kept to be shown.
const SHOWN: usize = 256;
/// A job that was told of and has not been read within so many seconds is none any more.
const UNREAD: f64 = 30.0;
/// Whose a GPU was while nobody looked for longer is not known.
const BLIND: Duration = Duration::from_secs(60);
/// For how long a line waits for the epilog of a job that had a prolog, in seconds.
const EPILOG: f64 = 600.0;

/// Xids by `gpu` label and code.
type Xids = BTreeMap<String, BTreeMap<u32, Count>>;

/// A job that runs.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Running {
    line: Line,
    /// What its readings are of; another one is another job under the old number.
    subject: String,
    folder: String,
    /// When it was told of.
    told: Option<f64>,
    /// Its folder is gone.
    is_gone: bool,
    /// Its prolog's hook ran, and so its epilog's may.
    has_prolog: bool,
}

/// A job that has ended and whose epilog has not told yet.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Waiting {
    line: Line,
    until: f64,
}

/// The jobs that run now, with what they have used so far.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Book {
    running: BTreeMap<String, Running>,
    waiting: BTreeMap<String, Waiting>,
    /// What epilogs told of jobs that had not been seen to end, and when.
    told: BTreeMap<String, (End, f64)>,
    /// Of the last snapshot.
    last: Option<Last>,
    /// How many Xids each GPU had then, by code.
    xids: Option<BTreeMap<String, BTreeMap<u32, u64>>>,
    ended: VecDeque<Arc<Line>>,
    results: BTreeMap<String, u64>,
    /// Closed, and not taken away yet.
    #[serde(skip)]
    closed: Vec<Arc<Line>>,
}

/// A snapshot, as far as the next one is compared with it.
#[derive(Debug, Serialize, Deserialize)]
struct Last {
    /// When it was taken, as time since boot.
    at: Duration,
    owners: Vec<Owner>,
    counters: Counters,
}

impl Book {
    /// With what was kept of the last run: lines that were written, to be shown.
    pub fn remember(&mut self, lines: impl IntoIterator<Item = Line>) {
        if self.ended.is_empty() {
            self.ended = lines.into_iter().map(Arc::new).collect();
            self.shorten();
        }
    }

    /// The kernel tells that a folder of a job is there. Its readings come later, or never.
    pub fn began(&mut self, folder: &str, wall: f64) {
        // Of a SLUID the number is read with it.
        let Some(JobName::Id(id)) = JobName::parse(folder) else {
            return;
        };
        let job = id.to_string();
        if self.running.get(&job).is_some_and(|known| known.is_gone) {
            self.close(&job, wall);
        }
        if self.running.len() >= MOST {
            return;
        }
        self.running.entry(job.clone()).or_insert_with(|| Running {
            line: Line {
                job,
                began: wall,
                ..Line::default()
            },
            folder: folder.to_owned(),
            told: Some(wall),
            ..Running::default()
        });
    }

    /// The kernel tells that a folder of a job is gone: of which jobs. Their last reading is still to come.
    pub fn left(&mut self, folder: &str) -> Vec<String> {
        let theirs = self.running.iter_mut().filter(|(_, r)| r.folder == folder);
        let gone = theirs.map(|(job, running)| {
            running.is_gone = true;
            job.clone()
        });
        gone.collect()
    }

    /// An epilog tells how its job ended.
    pub fn told(&mut self, job: u32, end: End, wall: f64) {
        let job = job.to_string();
        if let Some(Waiting { mut line, .. }) = self.waiting.remove(&job) {
            line.end = Some(end);
            self.write(line);
            return;
        }
        self.told.retain(|_, (_, at)| wall - *at < EPILOG);
        if self.told.len() < MOST {
            self.told.insert(job, (end, wall));
        }
    }

    /// Takes a snapshot, and how many Xids each GPU ever had.
    pub fn take(&mut self, snapshot: &Snapshot, xids: &Xids, wall: f64) {
        self.give_up(wall);
        let Some(collector) = snapshot
            .collector("slurm")
            .filter(|c| c.presence == Presence::Open)
        else {
            // Nobody looks: nothing has ended, and what GPUs do meanwhile is still their last owners'.
            return;
        };
        let counters = Counters::of(snapshot);
        self.attribute(&counters, snapshot.at);
        let mut seen = Vec::new();
        for sample in collector.samples(snapshot.at) {
            if sample.metric == &JOB_INFO
                && let Some(job) = self.seen(&sample, wall)
            {
                seen.push(job);
            }
        }
        for sample in collector.samples(snapshot.at) {
            if let Some(running) = sample.label("jobid").and_then(|job| self.running.get_mut(job)) {
                running.read(&sample);
            }
        }
        // A job whose reading has not come back has not ended, and has what it had.
        let is_read = |d: &DeviceState| !d.is_new() && d.shown(snapshot.at, collector.max_age());
        let all_read = collector.devices.iter().all(is_read);
        let before = self.last.take().map(|last| last.owners).unwrap_or_default();
        let mut owners = owners(snapshot);
        if !all_read {
            let is_unread = |o: &&Owner| !seen.contains(&o.job) && self.running.contains_key(&o.job);
            owners.extend(before.iter().filter(is_unread).cloned());
        }
        self.name_gpus(&owners, &counters);
        self.count_xids(xids, &before, &owners);
        self.last = Some(Last {
            at: snapshot.at,
            owners,
            counters,
        });
        if !all_read {
            return;
        }
        let is_over = |(job, running): &(&String, &Running)| {
            let was_read = running.line.readings > 0 || running.is_gone;
            !seen.contains(job) && (was_read || running.told.is_none_or(|at| wall - at > UNREAD))
        };
        let over: Vec<String> = self
            .running
            .iter()
            .filter(is_over)
            .map(|(job, _)| job.clone())
            .collect();
        for job in over {
            self.close(&job, wall);
        }
    }

    /// The lines that were closed since the last call, in order.
    pub fn closed(&mut self) -> Vec<Arc<Line>> {
        std::mem::take(&mut self.closed)
    }

    /// What is shown.
    pub fn view(&self) -> JobsView {
        let running = |r: &Running| {
            let mut line = r.line.clone();
            line.sum();
            line
        };
        let waiting = self.waiting.values().map(|w| w.line.clone());
        let mut all: Vec<Line> = self.running.values().map(running).chain(waiting).collect();
        all.sort_by_key(|line| line.job.parse().unwrap_or(u64::MAX));
        let mut results: BTreeMap<String, u64> = RESULTS.iter().map(|r| ((*r).to_owned(), 0)).collect();
        results.extend(self.results.clone());
        JobsView {
            running: all,
            ended: self.ended.clone(),
            results,
        }
    }

    /// A job that is there. `None`: there are more than are told apart.
    fn seen(&mut self, sample: &Sample<'_>, wall: f64) -> Option<String> {
        let job = sample.label("jobid")?;
        let subject = sample.subject.name.as_str();
        let is_another = |known: &Running| !known.subject.is_empty() && known.subject != subject;
        if self.running.get(job).is_some_and(is_another) {
            self.close(job, wall);
        }
        if !self.running.contains_key(job) && self.running.len() >= MOST {
            return None;
        }
        let running = self.running.entry(job.to_owned()).or_insert_with(|| Running {
            line: Line {
                job: job.to_owned(),
                began: wall,
                ..Line::default()
            },
            ..Running::default()
        });
        subject.clone_into(&mut running.subject);
        let line = &mut running.line;
        line.readings += 1;
        for (to, name) in [
            (&mut line.user, "user"),
            (&mut line.account, "account"),
            (&mut line.partition, "partition"),
            (&mut line.array_job, "array_job"),
            (&mut line.array_task, "array_task"),
            (&mut line.het_job, "het_job"),
        ] {
            if let Some(told) = sample.label(name).filter(|told| !told.is_empty()) {
                told.clone_into(to);
            }
        }
        Some(job.to_owned())
    }

    /// Gives what moved since the last snapshot to those who had the GPUs then, and the node.
    fn attribute(&mut self, counters: &Counters, at: Duration) {
        let apart = |last: &&Last| at.saturating_sub(last.at);
        let Some(last) = self.last.as_ref().filter(|last| apart(last) <= BLIND) else {
            return;
        };
        let seconds = apart(&last).as_secs_f64();
        for owner in &last.owners {
            let running = self.running.get_mut(&owner.job);
            let Some(used) = running.and_then(|r| r.line.gpu(&owner.gpu, &owner.gpu_instance)) else {
                continue;
            };
            used.seconds += seconds * owner.share;
            // What the whole counts says nothing about an instance.
            if owner.gpu_instance.is_empty() {
                let moved = counters.since(&last.counters, &owner.gpu);
                add(
                    &mut used.energy_joules,
                    moved.energy_joules.map(|j| j * owner.share),
                );
                add(
                    &mut used.busy_seconds,
                    moved.busy.map(|load| load * seconds * owner.share),
                );
                for (reason, held) in moved.throttle_seconds {
                    *used.throttle_seconds.entry(reason).or_default() += held * owner.share;
                }
            }
        }
        let node = counters.node_since(&last.counters);
        let is_shared = self.running.len() > 1;
        for running in self.running.values_mut() {
            running.line.shared |= is_shared;
            for (name, by) in &node {
                *running.line.node.entry(name.clone()).or_default() += by;
            }
        }
    }

    /// Takes over which GPUs each job has now, and what is used of their memory.
    fn name_gpus(&mut self, owners: &[Owner], counters: &Counters) {
        for owner in owners {
            let Some(running) = self.running.get_mut(&owner.job) else {
                continue;
            };
            // The best that there ever was.
            let known = &mut running.line.evidence;
            let best = known.as_deref().and_then(Evidence::of_word);
            if best.is_none_or(|best| owner.evidence < best) {
                *known = Some(owner.evidence.word().to_owned());
            }
            let used = counters.memory(&owner.gpu, &owner.gpu_instance);
            let used = used.map(|bytes| bytes * owner.share);
            if let Some(gpu) = running.line.gpu(&owner.gpu, &owner.gpu_instance) {
                gpu.memory_bytes = used;
                let most = gpu.memory_peak_bytes.into_iter().chain(used).reduce(f64::max);
                gpu.memory_peak_bytes = most;
            }
        }
    }

    /// New Xids of a GPU are of those who had it `before`, since many a job ends by one, else of those who have it now.
    fn count_xids(&mut self, xids: &Xids, before: &[Owner], now: &[Owner]) {
        let counts: BTreeMap<String, BTreeMap<u32, u64>> = xids
            .iter()
            .map(|(gpu, codes)| {
                (
                    gpu.clone(),
                    codes.iter().map(|(code, n)| (*code, n.count)).collect(),
                )
            })
            .collect();
        // What was counted before the first look is older than it.
        let Some(known) = self.xids.replace(counts.clone()) else {
            return;
        };
        for (gpu, codes) in &counts {
            let of = |owners: &[Owner]| -> Vec<String> {
                let all = owners.iter().filter(|owner| owner.gpu == *gpu);
                all.map(|owner| owner.job.clone()).collect()
            };
            let mut jobs = of(before);
            if jobs.is_empty() {
                jobs = of(now);
            }
            for (code, n) in codes {
                let known = known.get(gpu).and_then(|codes| codes.get(code)).copied();
                let new = n.saturating_sub(known.unwrap_or_default());
                for job in jobs.iter().filter(|_| new > 0) {
                    if let Some(running) = self.running.get_mut(job) {
                        let all = running.line.xids.entry(*code).or_default();
                        *all = all.saturating_add(new);
                    }
                }
            }
        }
    }

    /// A job has ended.
    fn close(&mut self, job: &str, wall: f64) {
        let Some(Running {
            mut line, has_prolog, ..
        }) = self.running.remove(job)
        else {
            return;
        };
        line.ended = Some(wall);
        line.sum();
        // What moves from now on is not the next run's of the same number.
        if let Some(last) = &mut self.last {
            last.owners.retain(|owner| owner.job != job);
        }
        // One that was requeued before its epilog told: the epilog was that run's.
        if let Some(Waiting { line, .. }) = self.waiting.remove(job) {
            self.write(line);
        }
        match self.told.remove(job) {
            Some((end, _)) => {
                line.end = Some(end);
                self.write(line);
            }
            None if has_prolog => {
                let until = wall + EPILOG;
                self.waiting.insert(job.to_owned(), Waiting { line, until });
            }
            None => self.write(line),
        }
    }

    /// Lines whose epilog has not told in time.
    fn give_up(&mut self, wall: f64) {
        let is_over = |(_, w): &(&String, &Waiting)| wall >= w.until;
        let over: Vec<String> = self
            .waiting
            .iter()
            .filter(is_over)
            .map(|(job, _)| job.clone())
            .collect();
        for job in over {
            if let Some(waiting) = self.waiting.remove(&job) {
                self.write(waiting.line);
            }
        }
    }

    fn write(&mut self, line: Line) {
        let count = self.results.entry(line.result().to_owned()).or_default();
        *count = count.saturating_add(1);
        let line = Arc::new(line);
        self.closed.push(Arc::clone(&line));
        self.ended.push_back(line);
        self.shorten();
    }

    fn shorten(&mut self) {
        let more = self.ended.len().saturating_sub(SHOWN);
        self.ended.drain(..more);
    }
}

impl Running {
    fn read(&mut self, sample: &Sample<'_>) {
        let (line, value) = (&mut self.line, sample.as_f64());
        match sample.metric {
            m if m == &JOB_START => line.began = value,
            m if m == &JOB_CPU => line.cpu_seconds = Some(value),
            m if m == &JOB_MEMORY_PEAK => line.memory_peak_bytes = Some(value),
            m if m == &JOB_OOM_KILLS => line.oom_kills = Some(value),
            m if m == &JOB_PROLOG => self.has_prolog = true,
            m if m == &JOB_FOLDER => {
                sample
                    .label("folder")
                    .unwrap_or_default()
                    .clone_into(&mut self.folder);
            }
            _ => {}
        }
    }
}

fn add(sum: &mut Option<f64>, more: Option<f64>) {
    if let Some(more) = more {
        *sum = Some(sum.unwrap_or_default() + more);
    }
}
