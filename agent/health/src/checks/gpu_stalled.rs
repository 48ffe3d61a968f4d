//! Check `gpu-stalled`: GPUs of a job are busy without work. This is typical of GPUs spinning on a collective.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use collectors::SubjectKind;
use collectors::gpu::metrics as m;
use collectors::nvidia::metrics as n;
use collectors::rdma::metrics::{PORT_INFO, PORT_RCV_DATA, PORT_XMIT_DATA};

use super::gpu_use::{ended_jobs, of_job};
use super::{Check, Looks, May, Scope, Version};
use crate::condition::{Judged, Reading};
use crate::finding::{Finding, Remedy};
use crate::judge::Judge;
use crate::lasting::{Lasting, Steadies, Steady};
use crate::reads::gpu::whole;
use crate::reads::gpu_part::{Owned, Part};
use crate::reads::gpu_process::some;
use crate::reads::port::{Link, Port, number};
use crate::trail::Trails;
use model::snapshot::Presence;

/// The row.
pub static CHECK: Check = Check {
    id: "gpu-stalled",
    subject: SubjectKind::Job,
    fires_when: "For 600 s, at least 2 GPUs of a job have 95 % utilization but steady power below 40 % of the limit. Memory utilization is at most 5 %; NVLink and RDMA carry less than 1 MB/s.",
    lasting: "2 consecutive readings, at least 10 s",
    clears_when: "3 consecutive readings, at least 60 s, with one of its GPUs at work or more traffic, or the job has ended.",
    ignored_when: "Jobs that share a GPU, MIG instances, and nodes where any of these values is unreadable.",
    scope: Scope::Node,
    // The cause is the job's program or a peer on any node.
    may: May::Observe,
    since: Version(0, 1, 0),
    watch: || Looks::start(conditions),
};

/// Longer than a collective waits for a checkpoint, a dataset or an evaluation on one GPU.
const LONG: Duration = Duration::from_secs(600);
/// A spinning GPU is fully utilized; less is work with pauses.
const FULL: f64 = 0.95;
/// Share of the power limit. A spin loop draws 1/4 to 1/3, computing kernels more than 1/2.
const LITTLE_POWER: f64 = 0.4;
/// Share of the power limit by which the power of a spin loop varies.
const BAND: f64 = 0.05;
/// Share of time with memory access. A flag that a spin loop polls stays in the cache.
const LITTLE_MEMORY: f64 = 0.05;
/// In bytes per second: above the traffic of services and storage without a job's work.
const LITTLE_TRAFFIC: u64 = 1_000_000;
/// Traffic is averaged over this time.
const WINDOW: Duration = Duration::from_secs(60);

/// The activity of one GPU.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Look {
    /// It spins without work.
    Turns(Steady),
    /// It is idle.
    Rests,
    /// It works.
    Works,
    /// Not known.
    Unknown,
}

/// A job, and its spinning GPUs.
type Stalled = (String, Vec<String>);
/// A GPU or port, and a counter.
type Traffic = Trails<(String, &'static str)>;

#[derive(Default)]
struct State {
    lasting: Lasting<Stalled>,
    traffic: Traffic,
    /// The power of each GPU.
    power: Steadies<String>,
}

fn conditions<'a>(judge: &Judge<'a>, state: &mut State) -> Vec<Judged<'a>> {
    let parts = judge.parts;
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

/// Whether a job is stalled.
enum Stall {
    /// It is: its name, how long the power of its GPUs is steady, and the time of the reading.
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
        // The work of a shared GPU cannot be attributed.
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

/// The rate of a counter in bytes per second. `None`: unknown so far.
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
    // Record every reading, before any return.
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

/// Whether the RDMA ports of the node together have little traffic. `None`: unknown.
fn network_is_quiet(judge: &Judge<'_>, traffic: &mut Traffic) -> Option<bool> {
    let snapshot = judge.snapshot;
    match snapshot.collector("rdma").map(|c| &c.presence) {
        Some(Presence::NotHere) => return Some(true),
        Some(Presence::Open) => {}
        _ => return None,
    }
    // Not every driver counts the traffic of virtual functions at the port.
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
        some_rest => format!("; idle: {}", some(some_rest)),
    };
    Finding {
        detail: "GPUs busy without work".to_owned(),
        remedy: Remedy::Inspect,
        evidence: format!(
            "for {} s or more gpu_utilization_ratio {FULL} or more, gpu_power_watts {low:.0} to {high:.0}, gpu_memory_utilization_ratio at most {LITTLE_MEMORY}, less than {LITTLE_TRAFFIC} bytes/s over NVLink and over all RDMA ports, of job {job}: {}{resting}",
            LONG.as_secs(),
            some(&turning),
        ),
        ..Finding::of_job(CHECK.id, job)
    }
}
