//! Check `gpu-memory-held`: a job ended, but memory of its GPU is still in use.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use collectors::SubjectKind;
use collectors::gpu::metrics as m;
use collectors::nvidia::metrics as n;

use super::gpu::line;
use super::gpu_use::ended_parts;
use super::{Check, Looks, May, Scope, Version};
use crate::bounded::{Bounded, STORED};
use crate::condition::{Judged, Reading, USUAL};
use crate::finding::Finding;
use crate::judge::Judge;
use crate::lasting::Lasting;
use crate::reads::gpu_part::{Owned, Part};
use crate::reads::gpu_process::{Place, Process, some};

/// The row.
pub static CHECK: Check = Check {
    id: "gpu-memory-held",
    subject: SubjectKind::Gpu,
    fires_when: "60 s after its last job ended, a process of that time still holds memory of an unallocated GPU or MIG instance. Or at least 1 GiB is in use without a listed process.",
    lasting: "2 consecutive readings, at least 10 s",
    clears_when: "3 consecutive readings, at least 60 s, with that memory free, or with the GPU allocated to another job.",
    ignored_when: "Memory without a process on GPUs with NVLink-C2C or graphics processes. Services by name, outside user.slice. Processes in pods, containers without hostPID.",
    scope: Scope::Node,
    // The next job may lack memory. An operator ends the process; no hardware failed.
    may: May::Comment,
    since: Version(0, 1, 0),
    watch: || Looks::start(conditions),
};

/// Time for an epilog to clean up after the job's cgroup was removed.
const EPILOG: Duration = Duration::from_secs(60);
/// Above the memory that a driver itself uses on an idle GPU.
const HELD: u64 = 1 << 30;

/// The last jobs of a GPU or a part of one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct LastTenant {
    /// Their ids.
    jobs: Vec<String>,
    /// The processes on it, by number: a process may change its name.
    processes: BTreeSet<String>,
}

#[derive(Default)]
struct State {
    /// The last jobs of each part.
    tenants: Bounded<String, LastTenant, STORED>,
    /// Unallocated parts.
    free: Lasting<String>,
}

fn conditions<'a>(judge: &Judge<'a>, state: &mut State) -> Vec<Judged<'a>> {
    let parts = judge.parts;
    let mut free = BTreeMap::new();
    for part in parts {
        match &part.owned {
            Owned::By(jobs) => {
                let tenant = LastTenant {
                    jobs: jobs.clone(),
                    processes: part.processes.iter().map(|p| p.pid.to_owned()).collect(),
                };
                state.tenants.put(part.key(CHECK.id), tenant);
            }
            Owned::Unallocated => {
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
            (Owned::Unallocated, Some(span)) => match left {
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
    let gone = ended_parts(judge, &CHECK, &judged);
    judged.extend(gone);
    judged
}

/// The memory that a tenant left on an unallocated part.
enum Left<'a> {
    /// Memory held by these processes.
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
            // A process in a job's cgroup belongs to a job with unknown devices.
            let has_place = matches!(p.place, Place::Outside | Place::User | Place::Pod(_));
            has_place && p.program.is_some() && p.memory.is_some()
        };
        // In a container with its own PID namespace the driver lists no process of the host.
        let are_seen = part.gpu.value(&m::PROCESSES_SEEN) == Some(1.0);
        if !are_seen || !part.complete || !here().all(is_known) {
            return Self::Unknown;
        }
        let Some(tenant) = tenant else {
            // The tenant before the start of nodewarden is unknown.
            return match (part.used(), part.processes.is_empty()) {
                (Some(..HELD), true) => Self::Nothing,
                _ => Self::Unknown,
            };
        };
        // A pod that uses the GPU now is not a leftover.
        let is_left = |p: &&Process<'_>| {
            matches!(p.place, Place::Outside | Place::User)
                && p.memory > Some(0)
                && tenant.processes.contains(p.pid)
        };
        let left: Vec<Process<'a>> = here().filter(is_left).copied().collect();
        match part.used() {
            _ if !left.is_empty() => Self::Processes(left),
            None => Self::Unknown,
            // With C2C the kernel itself uses GPU memory.
            Some(HELD..) if part.processes.is_empty() && part.gpu.one(&n::C2C_LINKS).is_none() => {
                match part.gpu.value(&m::GRAPHICS_PROCESSES) {
                    Some(0.0) => Self::Memory,
                    // A display uses memory without a listed process.
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
            "{}; {held}; job {} ended at least {:.0} s ago and the GPU is unallocated (slurm_job_gpu_share_ratio)",
            line(used, &format!("less than {HELD}")),
            jobs.join(", "),
            free.as_secs_f64(),
        ),
        jobs,
        // The processes are outside of the job's cgroup, so they may be of any user.
        others: matches!(left, Left::Processes(_)),
        ..part.finding(CHECK.id)
    }
}
