//! Check `job-blocked`: a process of a job waits in the kernel, and nothing can end it.

use std::collections::BTreeMap;
use std::time::Duration;

use collectors::SubjectKind;
use collectors::tasks::metrics::{BLOCKED, THREAD};

use super::gpu_process::some;
use super::gpu_use::{ended_jobs, of_job};
use super::{Check, Looks, May, Scope, Version};
use crate::condition::{Judged, Reading};
use crate::finding::{Finding, Remedy};
use crate::judge::Judge;
use crate::lasting::Lasting;
use model::snapshot::Sample;

/// The row.
pub static CHECK: Check = Check {
    id: "job-blocked",
    subject: SubjectKind::Job,
    condition: "A thread of a job's process has been in state D without running for a minute after it was sent SIGKILL, or for five minutes: a job that Slurm cannot end (\"Kill task failed\"). The finding names what it waits for: kernel function, file and mount, or device.",
    // What it waits for is mostly a filesystem that many nodes share.
    scope: Scope::Shared,
    may: May::Comment,
    since: Version(0, 1, 0),
    clears: "By itself: three readings running, over a minute or more, show no thread that has not run since the reading before, or the job is gone.",
    runbook: "docs/runbooks/job-blocked.md",
    watch: || Looks::start(conditions),
};

/// A process that is killed and does not end for so long is what Slurm's UnkillableStepTimeout (60 s) is about.
const KILLED: Duration = Duration::from_secs(60);
/// The kernel calls a task hung after 120 s; recovery of NFS or Lustre takes its minutes.
const WAITS: Duration = Duration::from_secs(300);

/// Whether a thread is killed, its number, when it began and how often it has run.
type Wait = (bool, String, String, String);

/// A thread as its series tells.
struct Thread<'a> {
    pid: &'a str,
    tid: &'a str,
    start: &'a str,
    switches: &'a str,
    program: &'a str,
    killed: bool,
    wchan: &'a str,
    call: &'a str,
    mount: &'a str,
    at: Duration,
}

impl<'a> Thread<'a> {
    fn of(sample: &Sample<'a>, at: Duration) -> Option<(&'a str, Self)> {
        let [
            job,
            pid,
            tid,
            start,
            switches,
            program,
            killed,
            wchan,
            call,
            mount,
        ] = sample.labels
        else {
            return None;
        };
        let thread = Self {
            pid,
            tid,
            start,
            switches,
            program,
            killed: !killed.is_empty(),
            wchan,
            call,
            mount,
            at,
        };
        Some((job, thread))
    }

    /// It has not run as long as this is the same.
    fn name(&self) -> Wait {
        let [tid, start, switches] = [self.tid, self.start, self.switches].map(str::to_owned);
        (self.killed, tid, start, switches)
    }

    fn limit(&self) -> Duration {
        if self.killed { KILLED } else { WAITS }
    }

    /// `python3 (pid 500) in read /home/data (nfs4 /home), rpc_wait_bit_killable, for 90 s after SIGKILL`.
    fn words(&self, span: Duration) -> String {
        let mut text = format!("{} (pid {})", self.program, self.pid);
        for (before, what, after) in [
            (" in ", self.call, ""),
            (" (", self.mount, ")"),
            (", ", self.wchan, ""),
        ] {
            if !what.is_empty() {
                text.push_str(before);
                text.push_str(what);
                text.push_str(after);
            }
        }
        let since = if self.killed { " after SIGKILL" } else { "" };
        text.push_str(&format!(", for {} s{since}", span.as_secs()));
        text
    }

    /// What it waits for, in a few words: a reason is short.
    fn cause(&self) -> String {
        let device = self.call.split_once(' ').map(|(_, file)| file);
        let device = device.filter(|file| file.starts_with("/dev/"));
        match () {
            () if device.is_some() => format!(" on {}", device.unwrap_or_default()),
            () if !self.mount.is_empty() => format!(" on {}", self.mount),
            () if !self.wchan.is_empty() => format!(" in {}", self.wchan),
            () => String::new(),
        }
    }
}

fn conditions<'a>(judge: &Judge<'a>, lasting: &mut Lasting<Wait>) -> Vec<Judged<'a>> {
    let mut threads: BTreeMap<&'a str, Vec<Thread<'a>>> = BTreeMap::new();
    let mut read: BTreeMap<&'a str, Duration> = BTreeMap::new();
    let tasks = judge.snapshot.collector("tasks");
    for sample in tasks.iter().flat_map(|c| c.samples(judge.snapshot.at)) {
        let at = judge.read_at(&sample);
        if let ([job], true) = (sample.labels, sample.metric == &BLOCKED) {
            read.insert(job, at);
        } else if sample.metric == &THREAD
            && let Some((job, thread)) = Thread::of(&sample, at)
        {
            threads.entry(job).or_default().push(thread);
        }
    }
    let all = threads.values().flatten();
    lasting.take(all.map(|thread| (thread.name(), thread.at)).collect());
    let mut judged = Vec::new();
    // With more processes than are looked at there is no number, and there may be threads.
    let jobs: BTreeMap<&str, Duration> = threads
        .iter()
        .filter_map(|(job, all)| Some((*job, all.first()?.at)))
        .chain(read.iter().map(|(job, at)| (*job, *at)))
        .collect();
    for (job, at) in jobs {
        let waiting = threads.get(job).map(Vec::as_slice).unwrap_or_default();
        let span = |thread: &Thread<'_>| lasting.of(&thread.name()).map(|l| l.span()).unwrap_or_default();
        let long: Vec<(&Thread<'_>, Duration)> = waiting
            .iter()
            .map(|thread| (thread, span(thread)))
            .filter(|(thread, span)| *span >= thread.limit())
            .collect();
        let reading = match () {
            () if !long.is_empty() => Reading::Bad,
            // Those that wait have all run since the last reading.
            () if read.contains_key(job) && waiting.iter().all(|t| span(t).is_zero()) => Reading::Good,
            () => Reading::Unknown,
        };
        judged.push(of_job(job, reading, at, finding(job, &long)));
    }
    let gone = ended_jobs(judge, &CHECK, &judged);
    judged.extend(gone);
    judged
}

fn finding(job: &str, threads: &[(&Thread<'_>, Duration)]) -> Finding {
    let words: Vec<String> = threads.iter().map(|(thread, span)| thread.words(*span)).collect();
    let first = threads.first().map(|(thread, _)| *thread);
    let kind = match first {
        Some(thread) if thread.killed => "cannot be killed",
        _ => "does not go on, waits",
    };
    Finding {
        detail: format!("{kind}{}", first.map(Thread::cause).unwrap_or_default()),
        remedy: Remedy::Inspect,
        drains: true,
        evidence: format!(
            "slurm_job_blocked_processes{{jobid={job:?}}}: {}, expected less than {} s in state D without running, less than {} s after SIGKILL",
            some(&words),
            WAITS.as_secs(),
            KILLED.as_secs(),
        ),
        ..Finding::of_job(CHECK.id, job)
    }
}
