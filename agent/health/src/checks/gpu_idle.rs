//! Check `gpu-idle`: a job does not use its GPUs.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use collectors::SubjectKind;
use collectors::gpu::metrics as m;

use super::gpu_use::{ended_jobs, of_job};
use super::{Check, Looks, May, Scope, Version};
use crate::condition::{Judged, Reading};
use crate::counts::Counters;
use crate::finding::{Finding, Remedy};
use crate::judge::Judge;
use crate::lasting::Lasting;
use crate::reads::gpu_part::Part;
use crate::reads::gpu_process::some;

/// The row.
pub static CHECK: Check = Check {
    id: "gpu-idle",
    subject: SubjectKind::Job,
    fires_when: "A GPU allocated to a job is at 0 % utilization in every reading for 1,800 s. Its processes stay the same, and its memory use grows by less than 1 MiB.",
    lasting: "2 consecutive readings, at least 10 s",
    clears_when: "3 consecutive readings, at least 60 s, with all GPUs of the job used recently, or the job has ended.",
    ignored_when: "GPUs with MIG instances, whose utilization drivers do not report. GPUs whose job is not known from Slurm's device rules.",
    scope: Scope::Node,
    // No hardware failed.
    may: May::Observe,
    since: Version(0, 1, 0),
    watch: || Looks::start(conditions),
};

/// Longer than a compilation, the loading of a dataset, a checkpoint to a slow filesystem or a lunch break.
const LONG: Duration = Duration::from_secs(1800);
/// Above the memory that a driver allocates and frees on its own.
const TAKEN: u64 = 1 << 20;

/// The state of one GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    /// Idle for this time.
    Idle(Duration),
    /// In use, now or earlier during the readings.
    Used,
    /// Unreadable, or idle since the first reading, which is too recent.
    Unknown,
}

/// A part that was read, or an idle part with its jobs and processes: another job or process is another state.
type Noted = (String, Option<(Vec<String>, Vec<String>)>);

#[derive(Default)]
struct State {
    lasting: Lasting<Noted>,
    /// Memory in use, by part.
    used: Counters<String>,
}

fn conditions<'a>(judge: &Judge<'a>, state: &mut State) -> Vec<Judged<'a>> {
    let is_used = |part: &&Part<'_>| part.instance.is_empty() && !part.jobs().is_empty();
    let parts: Vec<&Part<'_>> = judge.parts.iter().filter(is_used).collect();
    let mut now = BTreeMap::new();
    for part in &parts {
        let Some(is_idle) = is_idle(&mut state.used, part) else {
            continue;
        };
        now.insert(watched(part), part.gpu.at);
        if is_idle {
            now.insert(idle(part), part.gpu.at);
        }
    }
    state.lasting.take(now);
    let looks: Vec<Look> = parts.iter().map(|part| look(&state.lasting, part)).collect();
    let all: BTreeSet<&String> = parts.iter().flat_map(|part| part.jobs()).collect();
    let mut judged = Vec::new();
    for job in all {
        let of = |(part, _): &(&Part<'_>, &Look)| part.jobs().contains(job);
        let own: Vec<(&Part<'_>, &Look)> = parts.iter().copied().zip(&looks).filter(of).collect();
        let at = own.iter().map(|(part, _)| part.gpu.at).max().unwrap_or_default();
        judged.push(of_job(job, reading(&own), at, finding(job, &own)));
    }
    let gone = ended_jobs(judge, &CHECK, &judged);
    judged.extend(gone);
    judged
}

fn watched(part: &Part<'_>) -> Noted {
    (part.key(CHECK.id), None)
}

fn idle(part: &Part<'_>) -> Noted {
    let pids = part.processes.iter().map(|p| p.pid.to_owned()).collect();
    (part.key(CHECK.id), Some((part.jobs().to_vec(), pids)))
}

/// Whether a GPU is idle now. `None`: unknown.
fn is_idle(used_before: &mut Counters<String>, part: &Part<'_>) -> Option<bool> {
    // Utilization excludes the video engines.
    let engines = [
        &m::ENCODER_UTILIZATION,
        &m::DECODER_UTILIZATION,
        &m::JPEG_UTILIZATION,
        &m::OFA_UTILIZATION,
    ];
    let is_busy = part.gpu.value(&m::UTILIZATION)? > 0.0
        || engines
            .iter()
            .any(|engine| part.gpu.value(engine).is_some_and(|share| share > 0.0));
    let used = part.used()?;
    let taken = used_before.growth(part.key(CHECK.id), used);
    part.complete.then_some(!is_busy && taken < TAKEN)
}

fn look(lasting: &Lasting<Noted>, part: &Part<'_>) -> Look {
    let Some(watched) = lasting.of(&watched(part)) else {
        return Look::Unknown;
    };
    match lasting.of(&idle(part)) {
        Some(idle) if idle.span() >= LONG => Look::Idle(idle.span()),
        // Without a busy reading before, the idle time may be longer or shorter.
        Some(idle) if idle.since <= watched.since => Look::Unknown,
        _ => Look::Used,
    }
}

fn reading(own: &[(&Part<'_>, &Look)]) -> Reading {
    match () {
        () if own.iter().any(|(_, look)| matches!(look, Look::Idle(_))) => Reading::Bad,
        () if own.iter().all(|(_, look)| **look == Look::Used) => Reading::Good,
        () => Reading::Unknown,
    }
}

fn finding(job: &str, own: &[(&Part<'_>, &Look)]) -> Finding {
    let idle = own.iter().filter_map(|(part, look)| match look {
        Look::Idle(span) => Some((part.gpu.label.clone(), *span)),
        Look::Used | Look::Unknown => None,
    });
    let gpus: Vec<String> = idle.clone().map(|(gpu, _)| gpu).collect();
    let shortest = idle.map(|(_, span)| span).min().unwrap_or_default();
    Finding {
        detail: "has GPUs that it does not use".to_owned(),
        remedy: Remedy::Inspect,
        evidence: format!(
            "gpu_utilization_ratio 0 at every reading for {} s, expected less than {} s, with no new process and no more memory, of {} of {} GPUs of job {job}: {}",
            shortest.as_secs(),
            LONG.as_secs(),
            gpus.len(),
            own.len(),
            some(&gpus),
        ),
        ..Finding::of_job(CHECK.id, job)
    }
}
