//! Keeps totals for running jobs, and closes a line when a job ends.
//!
//! Pure: its inputs are snapshots and events. A counter's increase between two readings is divided among the owners
//! of the GPU at the first one, by their shares.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use collectors::event::JobEnd;
use collectors::slurm::cgroup::JobName;
use collectors::slurm::hook::RecordId;
use collectors::slurm::metrics::{JOB_INFO, JOB_PROLOG};
use serde::{Deserialize, Serialize};

use super::counters::Counters;
use super::ended::Ended;
use super::epilog::Epilog;
use super::line::Line;
use super::meters::{BLIND, Meters, covers};
use super::running::{Running, UNREAD};
use super::sight::Sight;
use super::view::JobsView;
use super::xids::{Candidate, Counts, New, Xids};
use crate::ownership::{Evidence, Gpus, Owner, Tenure, Timeline};
use crate::snapshot::{Presence, Sample, Snapshot};

/// Limit of concurrent jobs.
const MOST: usize = 4096;
/// A folder read this long after its removal was reported still exists, in seconds.
const AFTER: f64 = 2.0;

/// The running jobs, with their usage so far.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Book {
    running: BTreeMap<String, Running>,
    /// Closed runs whose folders are gone but that a list still contains: their readings are late.
    over: BTreeSet<String>,
    lines: Ended,
    timeline: Timeline,
    meters: Meters,
    /// Time of the last reading of jobs, since boot.
    looked: Option<Duration>,
    /// GPU counters are assigned up to this time, since boot.
    given: Option<Duration>,
    xids: Xids,
}

impl Book {
    /// Loads kept lines of the last run: written ones are shown, unwritten ones are closed again.
    /// `since`: when this daemon started, as a Unix time.
    pub fn remember(&mut self, lines: impl IntoIterator<Item = Line>, since: f64) {
        self.lines.remember(lines, since);
    }

    /// The kernel reports a job's folder. Its readings come later, or never. `start`: of its prolog, if that is known.
    pub fn began(&mut self, folder: &str, start: Option<f64>, wall: f64) {
        // A SLUID does not contain the job's number; it is read later.
        let Some(JobName::Id(id)) = JobName::parse(folder) else {
            return;
        };
        let job = id.to_string();
        if self.running.get(&job).is_some_and(|known| known.gone.is_some()) {
            self.close(&job, wall);
        }
        if !self.running.contains_key(&job) && self.is_late(&job, start, wall) {
            return;
        }
        if self.running.len() < MOST {
            let running = self.running.entry(job.clone()).or_insert_with(|| Running {
                folder: folder.to_owned(),
                ..Running::new(&job, wall)
            });
            running.told.get_or_insert(wall);
            running.prolog(start);
        }
    }

    /// Whether a report of a folder is that of a run whose end was reported before.
    fn is_late(&mut self, job: &str, start: Option<f64>, wall: f64) -> bool {
        let Some(start) = start else {
            return self.lines.takes_folder(job, wall - UNREAD, wall);
        };
        if let Some(run) = self.lines.take_back_of_prolog(job, start) {
            self.running.insert(job.to_owned(), run);
        }
        let known = Running {
            has_prolog: true,
            ..Running::new(job, start)
        };
        self.lines.is_written(&known)
    }

    /// The kernel reports that a job's folder is gone. Returns its jobs; their last reading is still to come.
    pub fn left(&mut self, folder: &str, start: Option<f64>, wall: f64) -> Vec<String> {
        let theirs = self.running.iter_mut().filter(|(_, r)| r.folder == folder);
        let gone = theirs.map(|(job, running)| {
            running.gone = Some(wall);
            // A prolog may run in the job's cgroup. A later one is that of the next run.
            let is_its = |start: &f64| running.told.is_some_and(|told| *start < told + UNREAD);
            running.prolog(start.filter(is_its));
            // The next report of a folder is that of another run.
            running.told.get_or_insert(wall);
            job.clone()
        });
        gone.collect()
    }

    /// An epilog reports the end of its job. Returns the job if it ran until now; its last reading is still to come.
    pub fn told(&mut self, report: JobEnd, wall: f64) -> Option<String> {
        let epilog = Epilog::new(report, wall);
        let job = epilog.job();
        let mut running = self.running.get_mut(&job);
        if let Some(run) = running.as_deref_mut().filter(|run| epilog.is_of(run)) {
            run.prolog(epilog.began());
        }
        let running = running.filter(|run| run.gone.is_none() && epilog.is_surely(run) == Some(true));
        let ended = running.map(|run| {
            run.gone = Some(wall);
            // Whatever Slurm has left of it is no job.
            if !run.subject.is_empty() {
                self.over.insert(run.subject.clone());
            }
            job
        });
        self.lines.told(epilog);
        ended
    }

    /// The records of which nothing more is to be written, since the last call.
    pub fn done(&mut self) -> Vec<RecordId> {
        self.lines.done()
    }

    /// Takes a snapshot, and the counts of Xids.
    pub fn take(&mut self, snapshot: &Snapshot, xids: &Counts, wall: f64) {
        if self.lines.needs_gpus() {
            self.lines.find_gpus(&Gpus::of(snapshot));
        }
        self.take_readings(snapshot, xids, wall);
        self.lines.settle(&self.running, wall);
        self.lines.give_up(wall);
    }

    fn take_readings(&mut self, snapshot: &Snapshot, xids: &Counts, wall: f64) {
        let collector = snapshot.collector("slurm");
        let Some(collector) = collector.filter(|c| c.presence == Presence::Open) else {
            self.take_blind(snapshot, wall);
            return;
        };
        let sight = Sight::of(collector, snapshot, &self.over);
        self.over.retain(|subject| sight.lists(subject));
        if self.running.is_empty() && sight.is_empty() {
            self.rest(snapshot.at, xids);
            return;
        }
        let counters = Counters::of(snapshot);
        self.give(&counters, snapshot.at);
        let before = self.timeline.clone();
        let replaced = self.see(&sight, snapshot.at, wall);
        self.settle(snapshot, &sight, &counters);
        self.looked = Some(snapshot.at);
        let over = self.over(&sight, wall);
        self.name_gpus(&counters, &over);
        let new = self.xids.take(xids);
        let replaced = self.book(&new, replaced, &before);
        for run in replaced {
            self.lines.end(run, wall);
        }
        for job in over {
            self.close(&job, wall);
        }
    }

    /// There is no job: nothing that is counted until one begins is its own.
    fn rest(&mut self, at: Duration, xids: &Counts) {
        self.timeline = Timeline::default();
        self.meters = Meters::default();
        self.given = None;
        self.looked = Some(at);
        self.xids.take(xids);
    }

    /// The lines closed since the last call, in order.
    pub fn closed(&mut self) -> Vec<Arc<Line>> {
        self.lines.closed()
    }

    /// Takes the closed lines that are not written yet, to be kept with the totals.
    pub fn unwritten(&mut self, lines: Vec<Arc<Line>>) {
        self.lines.unwritten(lines);
    }

    /// The public view.
    pub fn view(&self) -> JobsView {
        let running = |r: &Running| {
            let mut line = r.line.clone();
            line.sum();
            line
        };
        let running = self.running.values().map(running);
        let mut all: Vec<Line> = running.chain(self.lines.waiting().cloned()).collect();
        all.sort_by_key(|line| line.job.parse().unwrap_or(u64::MAX));
        JobsView {
            running: all,
            ended: self.lines.last.clone(),
            results: self.lines.results(),
            withheld: 0,
        }
    }

    /// Without readings of jobs: only jobs whose folders are gone have ended, and GPU counters still belong to the
    /// last owners.
    fn take_blind(&mut self, snapshot: &Snapshot, wall: f64) {
        let gone = self.running.iter().filter(|(_, run)| run.gone.is_some());
        let gone: Vec<String> = gone.map(|(job, _)| job.clone()).collect();
        if !gone.is_empty() {
            self.give(&Counters::of(snapshot), snapshot.at);
        }
        for job in gone {
            self.close(&job, wall);
        }
    }

    /// Takes the readings of jobs. Returns earlier runs whose numbers now belong to other jobs.
    fn see(&mut self, sight: &Sight<'_>, at: Duration, wall: f64) -> Vec<Running> {
        let mut replaced = Vec::new();
        let (mut seen, mut recorded) = (BTreeMap::new(), BTreeSet::new());
        for (job, sample) in sight.samples() {
            if sample.metric == &JOB_PROLOG {
                recorded.insert(job);
            } else if sample.metric == &JOB_INFO
                && let Some(earlier) = self.seen(job, sample, at, wall)
            {
                replaced.extend(earlier);
                seen.insert(job, wall - sample.age.as_secs_f64());
            }
        }
        for (job, sample) in sight.samples().filter(|(job, _)| seen.contains_key(job)) {
            if let Some(running) = self.running.get_mut(job) {
                running.read(sample, recorded.contains(job));
            }
        }
        for (job, running) in &mut self.running {
            if sight.is_ambiguous(job) {
                running.since = None;
            }
        }
        // A reading that came back after the job's line was written.
        let (lines, over) = (&self.lines, &mut self.over);
        self.running.retain(|job, running| {
            let is_late = seen.contains_key(job.as_str()) && lines.is_written(running);
            if is_late {
                over.insert(running.subject.clone());
            }
            !is_late
        });
        for (job, read) in seen {
            if let Some(running) = self.running.get(job) {
                self.lines.runs_on(running, read);
            }
        }
        replaced
    }

    /// An existing job: the run that it replaces. `None`: the job is not accepted.
    fn seen(&mut self, job: &str, sample: &Sample<'_>, at: Duration, wall: f64) -> Option<Option<Running>> {
        let subject = sample.subject.name.as_str();
        let read = wall - sample.age.as_secs_f64();
        let is_another = |known: &Running| {
            let was_gone = known.gone.is_some_and(|gone| read > gone + AFTER);
            if known.subject.is_empty() {
                was_gone
            } else {
                !known.is_of(subject)
            }
        };
        let earlier = if self.running.get(job).is_some_and(is_another) {
            self.timeline.leave(job);
            self.running.remove(job)
        } else {
            None
        };
        if !self.running.contains_key(job) && self.running.len() >= MOST {
            return None;
        }
        let lines = &mut self.lines;
        let running = self.running.entry(job.to_owned());
        let running = running.or_insert_with(|| {
            lines
                .take_back(job, subject, read)
                .unwrap_or_else(|| Running::new(job, wall))
        });
        subject.clone_into(&mut running.subject);
        running.since.get_or_insert(at);
        running.gone = running.gone.filter(|gone| read <= gone + AFTER);
        running.named(sample);
        Some(earlier)
    }

    /// The ended jobs. A job with a missing reading has not ended, unless its folder is gone.
    fn over(&self, sight: &Sight<'_>, wall: f64) -> Vec<String> {
        let is_over = |(job, run): &(&String, &Running)| {
            if sight.is_there(job) || sight.is_ambiguous(job) {
                return false;
            }
            let was_read = !run.subject.is_empty();
            let is_none = was_read || run.told.is_none_or(|at| wall - at > UNREAD);
            run.gone.is_some() || (is_none && !sight.is_late(run))
        };
        let over = self.running.iter().filter(is_over);
        over.map(|(job, _)| job.clone()).collect()
    }

    /// Assigns the increases since the last readings to the owners at that time, and to the node.
    fn give(&mut self, counters: &Counters, at: Duration) {
        let is_near = |then: Option<Duration>| then.filter(|then| at.saturating_sub(*then) <= BLIND);
        if let Some(given) = is_near(self.looked).and(is_near(self.given)) {
            self.give_gpus(counters, at.saturating_sub(given).as_secs_f64());
            self.give_node(counters);
        }
        self.given = Some(at);
        self.meters.take(counters, at);
    }

    fn give_gpus(&mut self, counters: &Counters, seconds: f64) {
        for (gpu, tenure) in self.timeline.iter() {
            let module = self.module_since(counters, gpu, tenure);
            let moved = self.meters.gpu(counters, gpu, tenure.since, module);
            for owner in &tenure.owners {
                let running = self.running.get_mut(&owner.job);
                let Some(used) = running.and_then(|r| r.line.gpu(gpu, &owner.gpu_instance)) else {
                    continue;
                };
                used.begin_watching();
                add(&mut used.seconds, Some(seconds * owner.share));
                // The counters of a whole GPU say nothing about its instances.
                if !owner.gpu_instance.is_empty() {
                    continue;
                }
                add(
                    &mut used.energy_joules,
                    moved.energy_joules.map(|j| j * owner.share),
                );
                add(
                    &mut used.busy_seconds,
                    moved.busy.map(|busy| busy.seconds * owner.share),
                );
                add(
                    &mut used.watched_seconds,
                    moved.busy.map(|busy| busy.of_seconds * owner.share),
                );
                for (reason, held) in &moved.throttle_seconds {
                    used.throttled(reason, held * owner.share);
                }
            }
        }
    }

    /// Since when the owners of a GPU have all dies of its module, as time since boot. `None`: another job has one, or none.
    fn module_since(&self, counters: &Counters, gpu: &str, tenure: &Tenure) -> Option<Duration> {
        let dies = counters.dies_without(gpu, |gpu| self.meters.counts_energy(counters, gpu));
        let of = |die| self.timeline.of(die).filter(|other| other.has_owners_of(tenure));
        dies.into_iter()
            .try_fold(tenure.since, |since, die| Some(since.max(of(die)?.since)))
    }

    fn give_node(&mut self, counters: &Counters) {
        let is_shared = self.running.len() > 1;
        for running in self.running.values_mut() {
            running.line.shared |= is_shared;
        }
        for counter in self.meters.node(counters) {
            for running in self.running.values_mut() {
                if running.since.is_some_and(|since| covers(counter.from, since)) {
                    *running.line.node.entry(counter.name.to_owned()).or_default() += counter.by;
                }
            }
        }
    }

    /// Takes the owners of GPUs. An owner stays while the GPU's or the job's reading is late.
    fn settle(&mut self, snapshot: &Snapshot, sight: &Sight<'_>, counters: &Counters) {
        let (running, read, at) = (&self.running, &counters.gpus, snapshot.at);
        let found = snapshot.ownership().owners.iter();
        let found = found.filter(|o| running.contains_key(&o.job) && sight.is_there(&o.job));
        let is_late = |job: &str| running.get(job).is_some_and(|run| sight.is_late(run));
        let stays = |gpu: &str, tenure: &Tenure, owner: &Owner| {
            if read.contains_key(gpu) {
                return is_late(&owner.job);
            }
            let is_lost = at.saturating_sub(tenure.read) > BLIND || tenure.is_anothers(gpu, sight.devices());
            !is_lost && (sight.is_there(&owner.job) || is_late(&owner.job))
        };
        self.timeline.settle(found.cloned(), read, at, stays);
    }

    /// Takes the GPUs of each job and their memory in use. Jobs in `over` keep their last GPUs.
    fn name_gpus(&mut self, counters: &Counters, over: &[String]) {
        for (job, running) in &mut self.running {
            if !over.contains(job) {
                running
                    .line
                    .gpus
                    .iter_mut()
                    .for_each(|gpu| gpu.memory_bytes = None);
            }
        }
        for owner in self.timeline.owners() {
            let Some(running) = self.running.get_mut(&owner.job) else {
                continue;
            };
            // The best evidence so far.
            let known = &mut running.line.evidence;
            let best = known.as_deref().and_then(Evidence::of_word);
            if best.is_none_or(|best| owner.evidence < best) {
                *known = Some(owner.evidence.word().to_owned());
            }
            let used = counters.memory(&owner.gpu, &owner.gpu_instance);
            let used = used.map(|bytes| bytes * owner.share);
            if let Some(gpu) = running.line.gpu(&owner.gpu, &owner.gpu_instance) {
                gpu.seconds.get_or_insert(0.0);
                gpu.memory_bytes = used;
                let most = gpu.memory_peak_bytes.into_iter().chain(used).reduce(f64::max);
                gpu.memory_peak_bytes = most;
            }
        }
    }

    /// Assigns new Xids. Returns the earlier runs, which are to be closed.
    fn book(&mut self, new: &[New], mut replaced: Vec<Running>, before: &Timeline) -> Vec<Running> {
        if new.is_empty() {
            return replaced;
        }
        let again: BTreeSet<String> = replaced.iter().map(|run| run.line.job.clone()).collect();
        let earlier = replaced.iter_mut().map(|run| Candidate {
            run,
            before: true,
            now: false,
        });
        let running = self.running.iter_mut().map(|(job, run)| Candidate {
            run,
            before: !again.contains(job),
            now: true,
        });
        let mut candidates: Vec<Candidate<'_>> = earlier.chain(running).collect();
        for new in new {
            new.book(&mut candidates, before, &self.timeline);
        }
        replaced
    }

    /// A job has ended.
    fn close(&mut self, job: &str, wall: f64) {
        let Some(run) = self.running.remove(job) else {
            return;
        };
        if run.gone.is_some() && !run.subject.is_empty() {
            self.over.insert(run.subject.clone());
        }
        // Later increases do not belong to the next run of the same number.
        self.timeline.leave(job);
        self.lines.end(run, wall);
    }
}

fn add(sum: &mut Option<f64>, more: Option<f64>) {
    if let Some(more) = more {
        *sum = Some(sum.unwrap_or_default() + more);
    }
}
