//! Check `job-blocked`: a process of a job waits in the kernel and cannot be ended.

use std::collections::BTreeMap;
use std::time::Duration;

use collectors::SubjectKind;
use collectors::tasks::metrics::{BLOCKED, THREAD};

use super::gpu_use::{ended_jobs, of_job};
use super::{Check, Looks, May, Scope, Version};
use crate::condition::{Judged, Reading};
use crate::finding::{Finding, Remedy};
use crate::judge::Judge;
use crate::lasting::Lasting;
use crate::reads::gpu_process::some;
use model::snapshot::Sample;

/// The row.
pub static CHECK: Check = Check {
    id: "job-blocked",
    subject: SubjectKind::Job,
    fires_when: "A thread of a job is in state D or I without running for 60 s after SIGKILL, or for 300 s. Slurm cannot end such a job (\"Kill task failed\").",
    lasting: "2 consecutive readings, at least 10 s",
    clears_when: "3 consecutive readings, at least 60 s, in which every such thread has run, or the job has ended.",
    ignored_when: "Threads that run between two readings, or wait for the core dump of their process; until SIGKILL also the one that writes it. Jobs that Slurm has suspended (cgroup v1: `freezer.state` FROZEN).",
    // The usual cause is a filesystem that many nodes share.
    scope: Scope::Shared,
    may: May::Comment,
    since: Version(0, 1, 0),
    watch: || Looks::start(conditions),
};

/// Slurm's UnkillableStepTimeout is 60 s.
const KILLED: Duration = Duration::from_secs(60);
/// The kernel reports a hung task after 120 s; recovery of NFS or Lustre takes minutes.
const WAITS: Duration = Duration::from_secs(300);

/// Whether a thread is killed, its tid and context switches.
type Wait = (bool, String, String);

/// A thread of a series.
struct Thread<'a> {
    pid: &'a str,
    tid: &'a str,
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
            _start,
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

    /// Unchanged while the thread does not run.
    fn name(&self) -> Wait {
        (self.killed, self.tid.to_owned(), self.switches.to_owned())
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

    /// The cause, short enough for a reason. Details are public, so it has no name that a user chose: of a mount only the
    /// kernel's name of its filesystem (`fuse` of `fuse.sshfs`), of a file only a device of the node.
    fn cause(&self) -> String {
        let filesystem = self.mount.split([' ', '.']).next().unwrap_or_default();
        let device = self.call.split_once(' ').map(|(_, file)| file);
        let device = device.filter(|file| filesystem == "devtmpfs" && file.starts_with("/dev/"));
        match () {
            () if device.is_some() => format!(" on {}", device.unwrap_or_default()),
            () if !filesystem.is_empty() => format!(" on {filesystem}"),
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
    // Above the process limit the count is absent, but threads may exist.
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
            // Every blocked thread has run since the last reading.
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
            "slurm_job_blocked_processes{{jobid={job:?}}}: {}, expected less than {} s in state D or I without running, less than {} s after SIGKILL",
            some(&words),
            WAITS.as_secs(),
            KILLED.as_secs(),
        ),
        ..Finding::of_job(CHECK.id, job)
    }
}
