//! Values with a separate function in the library, each queried once per reading.

use std::collections::BTreeSet;

use super::call::Caller;
use super::instances::{Instances, MigInstance};
use super::inventory::Inventory;
use super::limits::{CLOCKS, FASTEST, HOTTEST, small};
use super::metrics as n;
use crate::gpu::metrics as m;
use crate::gpu::process::{GpuProcess, ProcessFiles};
use crate::sys::nvml::{Library, Memory};
use crate::{Block, Metric, Value};

/// Reasons that limit the clocks, by the driver's bits.
const REASONS: [(u64, &str); 9] = [
    (1, "idle"),
    (1 << 1, "clocks_setting"),
    (1 << 2, "sw_power_cap"),
    (1 << 3, "hw_slowdown"),
    (1 << 4, "sync_boost"),
    (1 << 5, "sw_thermal"),
    (1 << 6, "hw_thermal"),
    (1 << 7, "hw_power_brake"),
    (1 << 8, "display_clocks"),
];

/// Pushes a floating-point number, or its absence.
pub(super) fn real(out: &mut Block, metric: &'static Metric, labels: &[&str], value: Option<f64>) {
    out.push(metric, labels, value.map_or(Value::Absent, Value::F64));
}

fn percent(out: &mut Block, metric: &'static Metric, gpu: &str, value: Option<u32>) {
    let ratio = value.filter(|v| *v <= 100).map(|v| f64::from(v) / 100.0);
    real(out, metric, &[gpu], ratio);
}

pub(super) fn read(gpu: &str, caller: &mut Caller, instances: &Instances, out: &mut Block) {
    let rates = caller.ask(("GetUtilizationRates", 0), Library::utilization);
    percent(out, &m::UTILIZATION, gpu, rates.map(|r| r.gpu));
    percent(out, &m::MEMORY_UTILIZATION, gpu, rates.map(|r| r.memory));
    let engines: [(_, _, fn(&Library, _) -> _); 4] = [
        (
            &m::ENCODER_UTILIZATION,
            "GetEncoderUtilization",
            Library::encoder_utilization,
        ),
        (
            &m::DECODER_UTILIZATION,
            "GetDecoderUtilization",
            Library::decoder_utilization,
        ),
        (
            &m::JPEG_UTILIZATION,
            "GetJpgUtilization",
            Library::jpeg_utilization,
        ),
        (&m::OFA_UTILIZATION, "GetOfaUtilization", Library::ofa_utilization),
    ];
    for (metric, name, call) in engines {
        percent(out, metric, gpu, caller.ask((name, 0), call));
    }
    percent(
        out,
        &m::FAN_SPEED,
        gpu,
        caller.ask(("GetFanSpeed", 0), Library::fan_speed),
    );
    memory(gpu, caller, instances, out);
    temperature(gpu, caller, out);
    clocks(gpu, caller, out);
    let generation = caller.ask(("GetCurrPcieLinkGeneration", 0), Library::pcie_generation);
    let width = caller.ask(("GetCurrPcieLinkWidth", 0), Library::pcie_width);
    out.maybe_u64(
        &m::PCIE_GENERATION,
        &[gpu],
        generation.filter(small).map(u64::from),
    );
    out.maybe_u64(&m::PCIE_WIDTH, &[gpu], width.filter(small).map(u64::from));
    fabric(gpu, caller, out);
}

/// In MIG mode memory is reported per instance, so that a sum over all series is correct.
fn memory(gpu: &str, caller: &mut Caller, instances: &Instances, out: &mut Block) {
    if instances.is_empty() {
        let memory = caller.ask(("GetMemoryInfo", 0), Library::memory);
        push_memory(gpu, "", memory, out);
    } else {
        // Compute instances of one GPU instance share its memory.
        let mut seen = BTreeSet::new();
        for instance in instances.iter().filter(|i| seen.insert(i.gpu_instance)) {
            let handle = instance.handle;
            let memory = caller.ask_about(("GetMemoryInfo", instance.question()), |l| l.memory(handle));
            if memory.is_err() {
                instances.suspect();
            }
            push_memory(gpu, &instance.label, memory.ok().flatten(), out);
        }
    }
    let bar1 = caller.ask(("GetBAR1MemoryInfo", 0), Library::bar1);
    let mut bytes = |metric, value: Option<u64>| out.maybe_u64(metric, &[gpu], value.filter(is_read));
    bytes(&m::BAR1_TOTAL, bar1.map(|b| b.total));
    bytes(&m::BAR1_USED, bar1.map(|b| b.used));
    bytes(&m::BAR1_FREE, bar1.map(|b| b.free));
}

fn push_memory(gpu: &str, part: &str, memory: Option<Memory>, out: &mut Block) {
    let labels = &[gpu, part];
    let mut bytes = |metric, value: Option<u64>| out.maybe_u64(metric, labels, value.filter(is_read));
    bytes(&m::MEMORY_TOTAL, memory.map(|m| m.total));
    bytes(&m::MEMORY_USED, memory.map(|m| m.used));
    bytes(&m::MEMORY_FREE, memory.map(|m| m.free));
    bytes(&m::MEMORY_RESERVED, memory.and_then(|m| m.reserved));
}

/// Drivers set all bits in a value that they did not read.
fn is_read(bytes: &u64) -> bool {
    *bytes != u64::MAX
}

fn temperature(gpu: &str, caller: &mut Caller, out: &mut Block) {
    const NEW: (&str, u32) = ("GetTemperatureV", 0);
    let mut degrees = caller.ask(NEW, Library::temperature_v);
    if degrees.is_none() && caller.is_refused(NEW) {
        let old = caller.ask(("GetTemperature", 0), Library::temperature);
        degrees = old.and_then(|t| i32::try_from(t).ok());
    }
    let degrees = degrees.filter(|t| (0..HOTTEST.cast_signed()).contains(t));
    real(out, &m::TEMPERATURE, &[gpu], degrees.map(f64::from));
    let margin = caller
        .ask(("GetMarginTemperature", 0), Library::temperature_margin)
        .filter(|t| (-200..HOTTEST.cast_signed()).contains(t) && *t != -1);
    real(out, &m::TEMPERATURE_MARGIN, &[gpu], margin.map(f64::from));
}

fn clocks(gpu: &str, caller: &mut Caller, out: &mut Block) {
    let state = caller.ask(("GetPerformanceState", 0), Library::performance_state);
    out.maybe_u64(
        &m::PERFORMANCE_STATE,
        &[gpu],
        state.filter(|s| *s <= 15).map(u64::from),
    );
    for (clock, which) in CLOCKS {
        let mhz = caller
            .ask(("GetClockInfo", which), |l, d| l.clock(d, which))
            .filter(|mhz| *mhz < FASTEST);
        out.maybe_u64(
            &m::CLOCK_SPEED,
            &[gpu, clock],
            mhz.map(|mhz| u64::from(mhz) * 1_000_000),
        );
    }
    let reasons = caller
        .ask(("GetCurrentClocksEventReasons", 0), Library::clock_event_reasons)
        .filter(|bits| *bits != u64::MAX);
    for (bit, reason) in REASONS {
        let active = reasons.map(|bits| u64::from(bits & bit != 0));
        out.maybe_u64(&m::CLOCK_EVENT, &[gpu, reason], active);
    }
    out.maybe_u64(&m::CLOCK_EVENTS_MASK, &[gpu], reasons);
}

/// Health aspects of a fabric: the offset of each aspect's bits, and the values of these that mean unhealthy and healthy.
const ASPECTS: [(&str, u32, u32, u32); 6] = [
    ("degraded_bandwidth", 0, 1, 2),
    ("route_recovery", 2, 1, 2),
    (ROUTE, 4, 1, 2),
    ("access_timeout_recovery", 6, 1, 2),
    // The driver names these by their good state.
    ("partition_unassigned", 12, 2, 1),
    ("manager_disconnected", 14, 2, 1),
];

const ROUTE: &str = "route_unhealthy";

fn fabric(gpu: &str, caller: &mut Caller, out: &mut Block) {
    const V3: (&str, u32) = ("GetGpuFabricInfoV", 3);
    const V2: (&str, u32) = ("GetGpuFabricInfoV", 2);
    let mut fabric = caller.ask(V3, Library::fabric_v3);
    if fabric.is_none() && caller.is_refused(V3) {
        fabric = caller.ask(V2, Library::fabric_v2);
    }
    if fabric.is_none() && caller.is_refused(V2) {
        fabric = caller.ask(("GetGpuFabricInfo", 0), Library::fabric_v1);
    }
    let Some(fabric) = fabric else {
        return;
    };
    // 0: this GPU joins no fabric. The other values are invalid then.
    if !(1..=3).contains(&fabric.state) {
        return;
    }
    out.u64(&n::FABRIC_STATE, &[gpu], u64::from(fabric.state));
    // The result is valid only after the registration has ended.
    let ended = (fabric.state == 3).then_some(fabric);
    out.maybe_u64(&n::FABRIC_STATUS, &[gpu], ended.map(|f| u64::from(f.status)));
    for (aspect, shift, bad, good) in ASPECTS {
        // 0: unknown.
        let wrong = match fabric.health.map(|mask| mask >> shift & 3) {
            Some(bits) if bits == bad => Some(1),
            Some(bits) if bits == good => Some(0),
            // Of the route: unhealthy, until a reset.
            Some(3) if aspect == ROUTE => Some(1),
            _ => None,
        };
        out.maybe_u64(&n::FABRIC_UNHEALTHY, &[gpu, aspect], wrong);
    }
    let configuration = match fabric.health.map(|mask| mask >> 8 & 15) {
        None | Some(0 | 15) => None,
        Some(1) => Some(0),
        // Newer drivers name further mistakes.
        Some(2..) => Some(1),
    };
    out.maybe_u64(
        &n::FABRIC_UNHEALTHY,
        &[gpu, "incorrect_configuration"],
        configuration,
    );
    out.maybe_u64(&n::FABRIC_HEALTH_MASK, &[gpu], fabric.health.map(u64::from));
    let summary = Some(fabric.summary).filter(|s| (1..=3).contains(s));
    out.maybe_u64(&n::FABRIC_HEALTH_SUMMARY, &[gpu], summary.map(u64::from));
    let cluster: String = fabric.cluster.iter().map(|b| format!("{b:02x}")).collect();
    out.info(&n::FABRIC_INFO, &[gpu, &cluster, &fabric.clique.to_string()]);
}

/// The processes that compute on the GPU, and their cgroups.
pub(super) fn read_processes(
    gpu: &str,
    caller: &mut Caller,
    instances: &Instances,
    (inventory, files): (&Inventory, &mut ProcessFiles),
    out: &mut Block,
) {
    let processes = caller.ask(("GetComputeRunningProcesses", 0), Library::processes);
    let count = processes.as_ref().and_then(|p| u64::try_from(p.len()).ok());
    out.maybe_u64(&m::PROCESSES, &[gpu], count);
    inventory.processes.push_seen(gpu, out);
    // Graphics processes explain memory only if no process computes: on a busy GPU that call is saved.
    let graphics = match count {
        Some(0) => caller.ask(("GetGraphicsRunningProcesses", 0), Library::graphics_processes),
        _ => None,
    };
    let drawn = graphics.and_then(|p| u64::try_from(p.len()).ok());
    out.maybe_u64(&m::GRAPHICS_PROCESSES, &[gpu], drawn);
    for found in processes.into_iter().flatten() {
        let part = found.instance.and_then(|ids| instances.label_of(ids));
        let process = GpuProcess {
            pid: found.pid,
            part: part.unwrap_or(""),
            memory: found.memory,
        };
        inventory.processes.push(gpu, &process, files, out);
    }
    files.finish();
}

/// The query variant for one instance.
impl MigInstance {
    fn question(&self) -> u32 {
        self.gpu_instance << 8 | self.compute_instance
    }
}
