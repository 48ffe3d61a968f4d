//! Check `gpu-foreign-process`: a process outside its jobs uses an allocated GPU.

use std::collections::BTreeMap;
use std::time::Duration;

use collectors::SubjectKind;

use super::gpu_use::ended_parts;
use super::{Check, May, Scope, Version, Watch};
use crate::condition::{Judged, Pace, Reading};
use crate::finding::Finding;
use crate::judge::Judge;
use crate::lasting::Lasting;
use crate::reads::gpu_part::{Owned, Part};
use crate::reads::gpu_process::{Place, Process, is_foreign, some};
use model::ownership::Jobs;

/// The row.
pub static CHECK: Check = Check {
    id: "gpu-foreign-process",
    subject: SubjectKind::Gpu,
    fires_when: "A process outside the cgroups of all jobs to which Slurm allocated a GPU or MIG instance uses it.",
    lasting: "2 consecutive readings of the same process, at least 10 s",
    clears_when: "3 consecutive readings, at least 60 s, without such a process or with the GPU unallocated.",
    ignored_when: "Services such as DCGM and MPS, by name, outside jobs and user.slice. Processes in pods (`gpu-double-booked`), and of jobs whose devices are unknown.",
    scope: Scope::Node,
    // The job runs slower, but no hardware failed: a drain would not help. The node's Comment explains the slow job.
    may: May::Comment,
    since: Version(0, 1, 0),
    watch: || Looking::start(&ROW),
};

/// How long the same process must last: longer than Slurm needs to move it into its cgroup.
const LASTS: Duration = Duration::from_secs(10);

/// Immediate: the process has lasted already.
pub(super) static PACE: Pace = Pace {
    bad: 1,
    bad_span: Duration::ZERO,
    good: 3,
    hold: Duration::from_secs(60),
};

/// Whether a check covers a process. `None`: unknown.
pub(super) type Which = fn(&Process<'_>, &[String], &Jobs) -> Option<bool>;

/// How a check reports processes on an allocated part that do not belong to its jobs.
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

/// Part, process and its place.
type Name = (String, String, String);

/// Finds lasting processes on each part.
pub(super) struct Looking {
    row: &'static Intruders,
    lasting: Lasting<Name>,
}

impl Looking {
    /// Starts with no state.
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

/// Judges each part by its lasting processes.
fn intruders<'a>(judge: &Judge<'a>, row: &'static Intruders, lasting: &mut Lasting<Name>) -> Vec<Judged<'a>> {
    let jobs = &judge.snapshot.ownership().jobs;
    let parts = judge.parts;
    let of = |part: &Part<'a>| -> Vec<Process<'a>> {
        let is_one = |p: &&Process<'a>| (row.which)(p, part.jobs(), jobs) == Some(true);
        match part.owned {
            Owned::By(_) => part.processes.iter().filter(is_one).copied().collect(),
            Owned::Unallocated | Owned::Unknown => Vec::new(),
        }
    };
    let name = |part: &Part<'_>, process: &Process<'_>| {
        (
            part.key(row.check.id),
            // Not its name, which it may change. The number of an ended process comes back much later than the next reading.
            process.pid.to_owned(),
            format!("{:?}", process.place),
        )
    };
    let mut now = BTreeMap::new();
    for part in parts {
        now.extend(of(part).iter().map(|p| (name(part, p), part.gpu.at)));
    }
    lasting.take(now);
    let mut judged = Vec::new();
    for part in parts {
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
        let all_known = || {
            part.processes
                .iter()
                .all(|p| (row.which)(p, part.jobs(), jobs).is_some())
        };
        let reading = match part.owned {
            Owned::By(_) if !lasts.is_empty() => Reading::Bad,
            Owned::By(_) if found.is_empty() && part.complete && all_known() => Reading::Good,
            Owned::Unallocated => Reading::Good,
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
    let gone = ended_parts(judge, row.check, &judged);
    judged.extend(gone);
    judged
}

fn finding(part: &Part<'_>, row: &Intruders, processes: &[Process<'_>]) -> Finding {
    let words: Vec<String> = processes.iter().map(words).collect();
    Finding {
        detail: format!("{}{}", row.detail, part.at_instance()),
        jobs: part.jobs().to_vec(),
        others: true,
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

/// `"python3" (pid 500) in no job`.
fn words(process: &Process<'_>) -> String {
    let place = match process.place {
        Place::Job(folder) => format!("in {folder}"),
        Place::Pod(uid) => format!("in pod {uid}"),
        Place::User | Place::Outside => "in no job".to_owned(),
        Place::Unknown => String::new(),
    };
    format!("{} {place}", process.words())
}
