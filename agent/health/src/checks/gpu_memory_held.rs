//! Check `gpu-memory-held`: a job has ended, and memory of its GPU is still in use.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use collectors::SubjectKind;
use collectors::gpu::metrics as m;
use collectors::nvidia::metrics as n;

use super::gpu::line;
use super::gpu_process::{Place, Process, some};
use super::gpu_use::{Owned, Part, ended_parts, parts};
use super::{Check, Looks, May, Scope, Version};
use crate::bounded::{Bounded, STORED};
use crate::condition::{Judged, Reading, USUAL};
use crate::finding::Finding;
use crate::judge::Judge;
use crate::lasting::Lasting;

/// The row.
pub static CHECK: Check = Check {
    id: "gpu-memory-held",
    subject: SubjectKind::Gpu,
    condition: "A minute or more after the last job of a GPU, or of an instance of one, has ended, and while it is no job's by the rules of all jobs of the node, a process that was on it with the job still has memory of it, or a gigabyte or more is in use though no process is listed, none that draws either, in two readings running, over ten seconds or more. Not on GPUs whose memory the processor uses as well (NVLink-C2C), nor where the host's processes cannot be seen (a container without hostPID).",
    scope: Scope::Node,
    // The next job may find too little memory; a person ends the process, and the node is well.
    may: May::Comment,
    since: Version(0, 1, 0),
    clears: "By itself: three readings running, over a minute or more, show nothing of it, or another job that has the GPU.",
    runbook: "docs/runbooks/gpu-memory-held.md",
    watch: || Looks::start(conditions),
};

/// An epilog clears up after the job's cgroup is gone.
const EPILOG: Duration = Duration::from_secs(60);
/// What a driver has of its own when nobody uses it is counted elsewhere, or far less.
const HELD: u64 = 1 << 30;

/// The jobs that had a GPU, or a part of one, at the last reading with any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct LastTenant {
    /// Their numbers.
    jobs: Vec<String>,
    /// The processes that were on it.
    processes: BTreeSet<String>,
}

#[derive(Default)]
struct State {
    /// Who had which part last.
    tenants: Bounded<String, LastTenant, STORED>,
    /// Parts that are nobody's.
    free: Lasting<String>,
}

fn conditions<'a>(judge: &Judge<'a>, state: &mut State) -> Vec<Judged<'a>> {
    let parts = parts(judge);
    let mut free = BTreeMap::new();
    for part in &parts {
        match &part.owned {
            Owned::By(jobs) => {
                let tenant = LastTenant {
                    jobs: jobs.clone(),
                    processes: part.processes.iter().map(Process::id).collect(),
                };
                state.tenants.put(part.key(CHECK.id), tenant);
            }
            Owned::Nobody => {
                free.insert(part.key(CHECK.id), part.gpu.at);
            }
            Owned::Unknown => {}
        }
    }
    state.free.take(free);
    let spans: Vec<Option<Duration>> = parts
        .iter()
        .map(|part| state.free.of(&part.key(CHECK.id)).map(|l| l.span()))
        .collect();
    let mut judged = Vec::new();
    for (part, span) in parts.iter().zip(spans) {
        let tenant = state.tenants.get(&part.key(CHECK.id));
        let left = Left::of(part, tenant);
        let reading = match (&part.owned, span) {
            (Owned::By(_), _) => Reading::Good,
            (Owned::Nobody, Some(span)) => match left {
                Left::Processes(_) | Left::Memory if span >= EPILOG => Reading::Bad,
                Left::Nothing => Reading::Good,
                _ => Reading::Unknown,
            },
            _ => Reading::Unknown,
        };
        let finding = finding(part, tenant, &left, span.unwrap_or_default());
        judged.push(Judged {
            key: part.key(CHECK.id),
            subject: part.gpu.subject(),
            reading,
            at: part.gpu.at,
            pace: &USUAL,
            finding: Box::new(move |_| finding),
        });
    }
    let gone = ended_parts(judge, &CHECK, &parts, &judged);
    judged.extend(gone);
    judged
}

/// What a tenant has left behind on a part that is nobody's.
enum Left<'a> {
    /// These processes, which have memory of it.
    Processes(Vec<Process<'a>>),
    /// Memory without any process.
    Memory,
    /// Nothing.
    Nothing,
    /// Not known.
    Unknown,
}

impl<'a> Left<'a> {
    fn of(part: &Part<'a>, tenant: Option<&LastTenant>) -> Self {
        let here = || part.processes.iter().filter(|p| !p.is_servant());
        let is_known = |p: &Process<'_>| {
            // In the cgroup of a job it is a job's, of which nothing else is known.
            let has_place = matches!(p.place, Place::Outside | Place::Pod(_));
            has_place && p.program.is_some() && p.memory.is_some()
        };
        // In a container with a namespace of its own the driver lists none of the host's.
        let are_seen = part.gpu.value(&m::PROCESSES_SEEN) == Some(1.0);
        if !are_seen || !part.complete || !here().all(is_known) {
            return Self::Unknown;
        }
        let Some(tenant) = tenant else {
            // Whose it was before this program began is not known.
            return match (part.used(), part.processes.is_empty()) {
                (Some(..HELD), true) => Self::Nothing,
                _ => Self::Unknown,
            };
        };
        // A pod that has the GPU by now is no leftover.
        let is_left = |p: &&Process<'_>| {
            p.place == Place::Outside && p.memory > Some(0) && tenant.processes.contains(&p.id())
        };
        let left: Vec<Process<'a>> = here().filter(is_left).copied().collect();
        match part.used() {
            _ if !left.is_empty() => Self::Processes(left),
            None => Self::Unknown,
            // The kernel puts what it likes into memory that is the processor's as well.
            Some(HELD..) if part.processes.is_empty() && part.gpu.one(&n::C2C_LINKS).is_none() => {
                match part.gpu.value(&m::GRAPHICS_PROCESSES) {
                    Some(0.0) => Self::Memory,
                    // A display has what it has.
                    _ => Self::Unknown,
                }
            }
            Some(_) => Self::Nothing,
        }
    }
}

fn finding(part: &Part<'_>, tenant: Option<&LastTenant>, left: &Left<'_>, free: Duration) -> Finding {
    let jobs = tenant.map(|t| t.jobs.clone()).unwrap_or_default();
    let words = |p: &Process<'_>| format!("{} {} bytes", p.words(), p.memory.unwrap_or_default());
    let held = match left {
        Left::Processes(processes) => some(&processes.iter().map(words).collect::<Vec<String>>()),
        _ => "no process is listed".to_owned(),
    };
    let used = part.gpu.with(&m::MEMORY_USED, &[("gpu_instance", part.instance)]);
    Finding {
        detail: format!("memory in use after its job{}", part.at_instance()),
        evidence: format!(
            "{}; {held}; job {} has ended {:.0} s ago or earlier and no job has it (slurm_job_gpu_share_ratio)",
            line(used, &format!("less than {HELD}")),
            jobs.join(", "),
            free.as_secs_f64(),
        ),
        jobs,
        ..part.finding(CHECK.id)
    }
}
