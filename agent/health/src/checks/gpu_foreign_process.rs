//! Check `gpu-foreign-process`: a process of nobody's uses a GPU that is a job's.

use std::collections::BTreeMap;
use std::time::Duration;

use collectors::SubjectKind;

use super::gpu_process::{Place, Process, is_foreign, some};
use super::gpu_use::{Jobs, Owned, Part, ended_parts, parts};
use super::{Check, May, Scope, Version, Watch};
use crate::condition::{Judged, Pace, Reading};
use crate::finding::Finding;
use crate::judge::Judge;
use crate::lasting::Lasting;

/// The row.
pub static CHECK: Check = Check {
    id: "gpu-foreign-process",
    subject: SubjectKind::Gpu,
    condition: "A GPU, or an instance of one, that is a job's by Slurm's own rules is computed on by a process outside of the cgroups of all jobs that have it, the same in two readings running, over ten seconds or more. Services such as DCGM and MPS do not count, nor a process in a pod (gpu-double-booked), nor one of a job whose devices are not known.",
    scope: Scope::Node,
    // Somebody's job is slowed down and nothing is broken: a drain would help nobody, and a word in the node's comment tells who
    // asks why.
    may: May::Comment,
    since: Version(0, 1, 0),
    clears: "By itself: three readings running, over a minute or more, show no such process, or no job that has the GPU.",
    runbook: "docs/runbooks/gpu-foreign-process.md",
    watch: || Looking::start(&ROW),
};

/// How long the same process must be there: one that is being moved into its cgroup is not.
const LASTS: Duration = Duration::from_secs(10);

/// A process that lasts is one finding at once.
pub(super) static PACE: Pace = Pace {
    bad: 1,
    bad_span: Duration::ZERO,
    good: 3,
    hold: Duration::from_secs(60),
};

/// Which processes a check is about: `None` where that cannot be told.
pub(super) type Which = fn(&Process<'_>, &[String], &Jobs) -> Option<bool>;

/// What a check says of processes that are on a part of a job's and not the job's.
pub(super) struct Intruders {
    pub(super) check: &'static Check,
    pub(super) which: Which,
    pub(super) detail: &'static str,
}

static ROW: Intruders = Intruders {
    check: &CHECK,
    which: |process, owners, jobs| match process.place {
        Place::Pod(_) => Some(false),
        _ => is_foreign(process, owners, jobs),
    },
    detail: "used by a process outside of its jobs",
};

/// Part, process and where it is.
type Name = (String, String, String);

/// Looks for processes on each part that last.
pub(super) struct Looking {
    row: &'static Intruders,
    lasting: Lasting<Name>,
}

impl Looking {
    /// Begins to look.
    pub(super) fn start(row: &'static Intruders) -> Box<dyn Watch> {
        Box::new(Self {
            row,
            lasting: Lasting::default(),
        })
    }
}

impl Watch for Looking {
    fn look<'a>(&mut self, judge: &Judge<'a>) -> Vec<Judged<'a>> {
        intruders(judge, self.row, &mut self.lasting)
    }
}

/// Judges each part by the processes on it that last.
fn intruders<'a>(judge: &Judge<'a>, row: &'static Intruders, lasting: &mut Lasting<Name>) -> Vec<Judged<'a>> {
    let jobs = &judge.snapshot.ownership().jobs;
    let parts = parts(judge);
    let of = |part: &Part<'a>| -> Vec<Process<'a>> {
        let is_one = |p: &&Process<'a>| (row.which)(p, part.jobs(), jobs) == Some(true);
        match part.owned {
            Owned::By(_) => part.processes.iter().filter(is_one).copied().collect(),
            Owned::Nobody | Owned::Unknown => Vec::new(),
        }
    };
    let name = |part: &Part<'_>, process: &Process<'_>| {
        (
            part.key(row.check.id),
            process.id(),
            format!("{:?}", process.place),
        )
    };
    let mut now = BTreeMap::new();
    for part in &parts {
        now.extend(of(part).iter().map(|p| (name(part, p), part.gpu.at)));
    }
    lasting.take(now);
    let mut judged = Vec::new();
    for part in &parts {
        let found = of(part);
        let lasts: Vec<Process<'_>> = found
            .iter()
            .filter(|p| {
                lasting
                    .of(&name(part, p))
                    .is_some_and(|l| l.readings >= 2 && l.span() >= LASTS)
            })
            .copied()
            .collect();
        let all_told = || {
            part.processes
                .iter()
                .all(|p| (row.which)(p, part.jobs(), jobs).is_some())
        };
        let reading = match part.owned {
            Owned::By(_) if !lasts.is_empty() => Reading::Bad,
            Owned::By(_) if found.is_empty() && part.complete && all_told() => Reading::Good,
            Owned::Nobody => Reading::Good,
            Owned::By(_) | Owned::Unknown => Reading::Unknown,
        };
        let finding = finding(part, row, &lasts);
        judged.push(Judged {
            key: part.key(row.check.id),
            subject: part.gpu.subject(),
            reading,
            at: part.gpu.at,
            pace: &PACE,
            finding: Box::new(move |_| finding),
        });
    }
    let gone = ended_parts(judge, row.check, &parts, &judged);
    judged.extend(gone);
    judged
}

fn finding(part: &Part<'_>, row: &Intruders, processes: &[Process<'_>]) -> Finding {
    let words: Vec<String> = processes.iter().map(words).collect();
    Finding {
        detail: format!("{}{}", row.detail, part.at_instance()),
        jobs: part.jobs().to_vec(),
        evidence: format!(
            "gpu_process_cgroup_info{{gpu={:?},gpu_instance={:?}}}: {}, expected only processes of job {} (slurm_job_gpu_share_ratio, evidence device_program), seen for {} s or more",
            part.gpu.label,
            part.instance,
            some(&words),
            part.jobs().join(", "),
            LASTS.as_secs(),
        ),
        ..part.finding(row.check.id)
    }
}

/// `python3 (pid 500) in no job`, for people.
fn words(process: &Process<'_>) -> String {
    let place = match process.place {
        Place::Job(folder) => format!("in {folder}"),
        Place::Pod(uid) => format!("in pod {uid}"),
        Place::Outside => "in no job".to_owned(),
        Place::Unknown => String::new(),
    };
    format!("{} {place}", process.words())
}
