//! Check `gpu-stalled`: the GPUs of a job turn and do nothing, as where a collective operation waits for one that never comes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use collectors::SubjectKind;
use collectors::gpu::metrics as m;
use collectors::nvidia::metrics as n;
use collectors::rdma::metrics::{PORT_INFO, PORT_RCV_DATA, PORT_XMIT_DATA};

use super::gpu_process::some;
use super::gpu_use::{Owned, Part, ended_jobs, of_job, parts};
use super::{Check, Looks, May, Scope, Version};
use crate::condition::{Judged, Reading};
use crate::finding::{Finding, Remedy};
use crate::judge::Judge;
use crate::lasting::{Lasting, Steadies, Steady};
use crate::reads::gpu::whole;
use crate::reads::port::{Link, Port, number};
use crate::trail::Trails;
use model::snapshot::Presence;

/// The row.
pub static CHECK: Check = Check {
    id: "gpu-stalled",
    subject: SubjectKind::Job,
    condition: "For ten minutes two GPUs or more of a job, which alone has them by Slurm's own rules, were fully busy at every reading while they took less than 40 % of their power limit with hardly any change, read and wrote hardly any memory, and moved less than a megabyte a second over NVLink, as did all RDMA ports of the node; its other GPUs on the node did the same, or nothing. Where any of it cannot be read, nothing is said.",
    scope: Scope::Node,
    // It is the job's program, or a peer on another node: nothing says that it is this one.
    may: May::Observe,
    since: Version(0, 1, 0),
    clears: "By itself: three readings running, over a minute or more, show one of its GPUs at work or something moving, or the job is gone.",
    runbook: "docs/runbooks/gpu-stalled.md",
    watch: || Looks::start(conditions),
};

/// A collective waits for the slowest of all: for a checkpoint, a dataset, an evaluation on one GPU. Those take minutes.
const LONG: Duration = Duration::from_secs(600);
/// One that turns in a loop is full; less is work with pauses.
const FULL: f64 = 0.95;
/// Of the power limit. A loop without arithmetic takes a quarter to a third; kernels that compute take more than half.
const LITTLE_POWER: f64 = 0.4;
/// Of the power limit: what a loop's power differs by.
const BAND: f64 = 0.05;
/// Share of the time in which memory is read or written: a flag that is looked at again and again stays in the cache.
const LITTLE_MEMORY: f64 = 0.05;
/// In bytes per second: what services and storage exchange without any work.
const LITTLE_TRAFFIC: u64 = 1_000_000;
/// Traffic is looked at over this time.
const WINDOW: Duration = Duration::from_secs(60);

/// What one GPU does now.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Look {
    /// It turns and does nothing.
    Turns(Steady),
    /// It does nothing.
    Rests,
    /// It works.
    Works,
    /// Not known.
    Unknown,
}

/// A job, and its GPUs that turn.
type Stalled = (String, Vec<String>);
/// A GPU or port, and which of its counters.
type Traffic = Trails<(String, &'static str)>;

#[derive(Default)]
struct State {
    lasting: Lasting<Stalled>,
    traffic: Traffic,
    /// What each GPU draws.
    power: Steadies<String>,
}

fn conditions<'a>(judge: &Judge<'a>, state: &mut State) -> Vec<Judged<'a>> {
    let parts = parts(judge);
    let is_quiet = network_is_quiet(judge, &mut state.traffic);
    let looks: Vec<Look> = parts.iter().map(|part| look(state, part)).collect();
    let all: BTreeSet<&String> = parts.iter().flat_map(Part::jobs).collect();
    let own = |job: &String| -> Vec<(&Part<'a>, Look)> {
        let each = parts.iter().zip(looks.iter().copied());
        each.filter(|(part, _)| part.jobs().contains(job)).collect()
    };
    let mut now = BTreeMap::new();
    let mut stalls = Vec::new();
    for job in all {
        let own = own(job);
        let stall = Stall::of(job, &own, is_quiet);
        if let Stall::Now { name, at, .. } = &stall {
            now.insert(name.clone(), *at);
        }
        stalls.push((job, own, stall));
    }
    state.lasting.take(now);
    let mut judged = Vec::new();
    for (job, own, stall) in stalls {
        let reading = match &stall {
            Stall::Now { name, steady, .. } => {
                let lasts = state.lasting.of(name).map(|l| l.span()).unwrap_or_default();
                if lasts.min(*steady) >= LONG {
                    Reading::Bad
                } else {
                    Reading::Unknown
                }
            }
            Stall::No => Reading::Good,
            Stall::Unknown => Reading::Unknown,
        };
        let at = own.iter().map(|(part, _)| part.gpu.at).max().unwrap_or_default();
        judged.push(of_job(job, reading, at, finding(job, &own)));
    }
    let gone = ended_jobs(judge, &CHECK, &judged);
    judged.extend(gone);
    judged
}

/// Whether a job stands still.
enum Stall {
    /// It does now: what that is called, for how long the power of its GPUs is steady, and when that was read.
    Now {
        name: Stalled,
        steady: Duration,
        at: Duration,
    },
    No,
    Unknown,
}

impl Stall {
    fn of(job: &str, own: &[(&Part<'_>, Look)], is_quiet: Option<bool>) -> Self {
        let mut turning = Vec::new();
        let mut steady = Duration::MAX;
        for (part, look) in own {
            match look {
                Look::Works => return Self::No,
                Look::Turns(power) => {
                    turning.push(part.gpu.label.clone());
                    steady = steady.min(power.span());
                }
                Look::Rests | Look::Unknown => {}
            }
        }
        // Of one that others have as well it cannot be said whose work it does.
        let is_alone = |part: &Part<'_>| matches!(&part.owned, Owned::By(jobs) if jobs.len() == 1);
        match is_quiet {
            Some(false) => Self::No,
            None => Self::Unknown,
            Some(true)
                if own
                    .iter()
                    .any(|(part, look)| *look == Look::Unknown || !is_alone(part)) =>
            {
                Self::Unknown
            }
            Some(true) if turning.len() < 2 => Self::No,
            Some(true) => Self::Now {
                name: (job.to_owned(), turning),
                steady,
                at: own.iter().map(|(part, _)| part.gpu.at).max().unwrap_or_default(),
            },
        }
    }
}

/// How much a counter moves, in bytes per second. `None`: not known yet.
fn rate(traffic: &mut Traffic, name: (&str, &'static str), bytes: u64, at: Duration) -> Option<u64> {
    let growth = traffic.take((name.0.to_owned(), name.1), bytes, at, WINDOW);
    growth.by.checked_div(growth.over.as_secs())
}

fn look(state: &mut State, part: &Part<'_>) -> Look {
    let gpu = &part.gpu;
    if !part.instance.is_empty() {
        return Look::Unknown;
    }
    let traffic = [(&n::NVLINK_TRANSMITTED, "tx"), (&n::NVLINK_RECEIVED, "rx")].map(|(metric, of)| {
        let bytes = whole(gpu.one(metric));
        bytes.and_then(|bytes| rate(&mut state.traffic, (gpu.place(), of), bytes, gpu.at))
    });
    let power = gpu
        .value(&m::POWER)
        .zip(gpu.value(&m::POWER_LIMIT).filter(|w| *w > 0.0));
    // Every reading counts, whatever the rest says.
    let steady = power.map(|(watts, limit)| {
        let place = gpu.place().to_owned();
        state.power.take(place, watts, gpu.at, limit * BAND)
    });
    let busy = gpu.value(&m::UTILIZATION);
    let memory = gpu.value(&m::MEMORY_UTILIZATION);
    let moves = |traffic: Option<u64>| traffic.is_some_and(|rate| rate >= LITTLE_TRAFFIC);
    match busy {
        Some(busy) if busy <= 0.0 => return Look::Rests,
        Some(busy) if busy < FULL => return Look::Works,
        None => return Look::Unknown,
        Some(_) => {}
    }
    let works = power.is_some_and(|(watts, limit)| watts >= limit * LITTLE_POWER)
        || memory.is_some_and(|share| share > LITTLE_MEMORY)
        || traffic.into_iter().any(moves);
    match (works, steady, memory, traffic) {
        (true, ..) => Look::Works,
        (false, Some(steady), Some(_), [Some(_), Some(_)]) => Look::Turns(steady),
        _ => Look::Unknown,
    }
}

/// Whether all RDMA ports of the node together move hardly anything. `None`: not known.
fn network_is_quiet(judge: &Judge<'_>, traffic: &mut Traffic) -> Option<bool> {
    let snapshot = judge.snapshot;
    match snapshot.collector("rdma").map(|c| &c.presence) {
        Some(Presence::NotHere) => return Some(true),
        Some(Presence::Open) => {}
        _ => return None,
    }
    // What a virtual function carries is not its port's in every driver's count.
    let is_virtual = snapshot
        .samples(&PORT_INFO)
        .any(|s| s.label("function") == Some("virtual"));
    let ports: &[Port<'_>] = judge.ports;
    let mut total = (!is_virtual).then_some(0_u64);
    for port in ports
        .iter()
        .filter(|port| port.link() != Link::Down && port.link() != Link::Disabled)
    {
        for metric in [&PORT_XMIT_DATA, &PORT_RCV_DATA] {
            let bytes = number(port.one(metric));
            let name = (port.id.as_str(), metric.name);
            let rate = bytes.and_then(|bytes| rate(traffic, name, bytes, port.at));
            if rate.is_some_and(|rate| rate >= LITTLE_TRAFFIC) {
                return Some(false);
            }
            total = total.zip(rate).map(|(total, rate)| total.saturating_add(rate));
        }
    }
    total.map(|total| total < LITTLE_TRAFFIC)
}

fn finding(job: &str, own: &[(&Part<'_>, Look)]) -> Finding {
    let with = |is: fn(&Look) -> bool| -> Vec<String> {
        let those = own.iter().filter(|(_, look)| is(look));
        those.map(|(part, _)| part.gpu.label.clone()).collect()
    };
    let turning = with(|look| matches!(look, Look::Turns(_)));
    let resting = with(|look| *look == Look::Rests);
    let powers = own.iter().filter_map(|(_, look)| match look {
        Look::Turns(steady) => Some((steady.low, steady.high)),
        _ => None,
    });
    let (low, high) = powers.fold((f64::MAX, f64::MIN), |(l, h), (low, high)| {
        (l.min(low), h.max(high))
    });
    let resting = match resting.as_slice() {
        [] => String::new(),
        some_rest => format!("; at rest: {}", some(some_rest)),
    };
    Finding {
        detail: "GPUs busy without work".to_owned(),
        remedy: Remedy::Inspect,
        evidence: format!(
            "for {} s or more gpu_utilization_ratio {FULL} or more, gpu_power_watts {low:.0} to {high:.0}, gpu_memory_utilization_ratio at most {LITTLE_MEMORY}, less than {LITTLE_TRAFFIC} bytes a second over NVLink and over all RDMA ports, of job {job}: {}{resting}",
            LONG.as_secs(),
            some(&turning),
        ),
        ..Finding::of_job(CHECK.id, job)
    }
}
