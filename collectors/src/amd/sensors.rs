//! Values of the table `gpu_metrics`, or of single files where the driver has no table that can be read.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::files::GpuFiles;
use super::gpu_metrics::{Field, HOTTEST, Table};
use super::metrics as n;
use crate::gpu::metrics as m;
use crate::host::link;
use crate::host::pcie::generation;
use crate::{Block, Metric, Value};

/// kernel: energy is counted in 15.259 µJ, which is 2^-16 J.
const ENERGY: f64 = 65_536.0;
/// Names of HBM stacks.
const STACKS: [&str; 12] = [
    "hbm0", "hbm1", "hbm2", "hbm3", "hbm4", "hbm5", "hbm6", "hbm7", "hbm8", "hbm9", "hbm10", "hbm11",
];
/// Counters of the PCIe link, by the kind of error.
const PCIE: [(Field, &str); 4] = [
    (Field::PcieRecoveries, "recovery"),
    (Field::PcieReplayRollovers, "replay_rollover"),
    (Field::PcieNaksSent, "nak_sent"),
    (Field::PcieNaksReceived, "nak_received"),
];
/// The unit of a table's link speed: 0.1 GT/s.
const TRANSFERS: u64 = 100_000_000;
const MEGAHERTZ: u64 = 1_000_000;
/// Bytes of the kilobyte in which XGMI is counted.
const KILOBYTE: u64 = 1000;

/// What earlier readings showed of the XGMI links of a GPU.
#[derive(Clone, Debug, Default)]
pub(super) struct XgmiLinks {
    /// Those that have had a value: of bytes read, and of bytes written.
    counted: [BTreeSet<usize>; 2],
    /// A link of any GPU of the node was up. A driver may show each link of a virtual function as down, as it cannot see them.
    are_seen: Arc<AtomicBool>,
}

/// A number of parts of a unit.
#[expect(clippy::cast_precision_loss, reason = "small numbers, and energy below 2^53")]
fn real(out: &mut Block, metric: &'static Metric, labels: &[&str], value: Option<u64>, parts: f64) {
    let value = value.map_or(Value::Absent, |value| Value::F64(value as f64 / parts));
    out.push(metric, labels, value);
}

/// A percentage as a ratio. Firmware may answer with more than 100.
pub(super) fn percent(out: &mut Block, metric: &'static Metric, labels: &[&str], value: Option<u64>) {
    real(out, metric, labels, value.filter(|v| *v <= 100), 100.0);
}

fn hertz(out: &mut Block, metric: &'static Metric, labels: &[&str], megahertz: Option<u64>) {
    out.maybe_u64(metric, labels, megahertz.map(|mhz| mhz.saturating_mul(MEGAHERTZ)));
}

/// The power of the socket, in parts of a watt.
fn push_power(gpu: &str, value: Option<u64>, is_mean: bool, parts: f64, out: &mut Block) {
    real(out, &m::POWER, &[gpu], value, parts);
    let kind = if is_mean { "average" } else { "current" };
    real(out, &n::SOCKET_POWER, &[gpu, kind], value, parts);
}

fn has(table: &Table<'_>, field: Field) -> bool {
    table.list(field).next().is_some()
}

/// Whether the table is that of a consumer APU, whose power and activity have another unit by part and firmware.
pub(super) fn is_of_apu(table: &Table<'_>) -> bool {
    has(table, Field::ApuTemperatureGfx)
}

/// Pushes what the table has of the whole GPU. `energy`: its counter, made monotonic.
pub(super) fn push_table(
    gpu: &str,
    table: &Table<'_>,
    energy: Option<u64>,
    links: &mut XgmiLinks,
    out: &mut Block,
) {
    let get = |field| table.get(field);
    let has = |field| has(table, field);
    let edge = get(Field::TemperatureEdge);
    let hotspot = get(Field::TemperatureHotspot);
    if is_of_apu(table) {
        real(out, &m::TEMPERATURE, &[gpu], get(Field::ApuTemperatureGfx), 100.0);
        real(
            out,
            &n::SENSOR_TEMPERATURE,
            &[gpu, "soc"],
            get(Field::ApuTemperatureSoc),
            100.0,
        );
    } else {
        real(out, &m::TEMPERATURE, &[gpu], hotspot.or(edge), 1.0);
        // Drivers may leave the hottest of the stacks out.
        let hottest = || table.list(Field::TemperatureHbm).flatten().max();
        let memory = get(Field::TemperatureMemory).or_else(hottest);
        real(out, &m::MEMORY_TEMPERATURE, &[gpu], memory, 1.0);
        if !table.lacks_power() {
            push_power(gpu, get(Field::SocketPower), table.has_mean_power(), 1.0, out);
        }
        real(out, &m::ENERGY, &[gpu], energy, ENERGY);
        percent(out, &m::UTILIZATION, &[gpu], get(Field::GfxActivity));
        percent(out, &m::MEMORY_UTILIZATION, &[gpu], get(Field::MemoryActivity));
    }
    let regulator = get(Field::TemperatureRegulator);
    for (sensor, value) in [("edge", edge), ("junction", hotspot), ("regulator", regulator)] {
        if value.is_some() {
            real(out, &n::SENSOR_TEMPERATURE, &[gpu, sensor], value, 1.0);
        }
    }
    for (sensor, value) in STACKS.into_iter().zip(table.list(Field::TemperatureHbm)) {
        if value.is_some() {
            real(out, &n::SENSOR_TEMPERATURE, &[gpu, sensor], value, 1.0);
        }
    }
    push_clocks(gpu, table, out);
    push_xgmi(gpu, table, links, out);
    for (field, kind) in PCIE {
        if has(field) {
            out.maybe_u64(&m::PCIE_ERRORS, &[gpu, kind], get(field));
        }
    }
}

/// The clock of a GPU is that of its fastest die: one that rests is in deep sleep.
fn push_clocks(gpu: &str, table: &Table<'_>, out: &mut Block) {
    let fastest = |field| table.list(field).flatten().max();
    let clocks = [
        ("sm", Field::GfxClock),
        ("memory", Field::MemoryClock),
        ("soc", Field::SocClock),
        ("video", Field::VideoClock),
    ];
    for (clock, field) in clocks {
        if table.list(field).next().is_some() {
            hertz(out, &m::CLOCK_SPEED, &[gpu, clock], fastest(field));
        }
    }
    if table.list(Field::GfxClock).count() > 1 {
        for (xcc, mhz) in (0_u64..).zip(table.list(Field::GfxClock)) {
            if mhz.is_some() {
                hertz(out, &n::XCC_CLOCK, &[gpu, &xcc.to_string()], mhz);
            }
        }
    }
}

/// Links without a state of 0 or 1 are not in use: no GPU is at their other end.
fn push_xgmi_states(gpu: &str, table: &Table<'_>, are_seen: &AtomicBool, out: &mut Block) {
    let states: Vec<_> = table.list(Field::XgmiLinkStatus).collect();
    if states.contains(&Some(1)) {
        are_seen.store(true, Ordering::Relaxed);
    }
    if !are_seen.load(Ordering::Relaxed) {
        return;
    }
    let used = states.iter().filter(|state| matches!(state, Some(0 | 1))).count();
    if used > 0 {
        let up = states.iter().filter(|state| **state == Some(1)).count();
        out.maybe_u64(&n::XGMI_LINKS, &[gpu], u64::try_from(used).ok());
        out.maybe_u64(&n::XGMI_LINKS_UP, &[gpu], u64::try_from(up).ok());
    }
    for (link, state) in (0_u64..).zip(&states) {
        if let Some(state @ (0 | 1)) = state {
            out.u64(&n::XGMI_LINK_UP, &[gpu, &link.to_string()], *state);
        }
    }
}

fn push_xgmi(gpu: &str, table: &Table<'_>, links: &mut XgmiLinks, out: &mut Block) {
    push_xgmi_states(gpu, table, &links.are_seen, out);
    let directions = [
        (&n::XGMI_READ, &n::XGMI_LINK_READ, Field::XgmiRead),
        (&n::XGMI_WRITTEN, &n::XGMI_LINK_WRITTEN, Field::XgmiWritten),
    ];
    for ((total, of_link, field), known) in directions.into_iter().zip(&mut links.counted) {
        let bytes = |kilobytes: u64| kilobytes.saturating_mul(KILOBYTE);
        let counted = table.list(field).enumerate().filter(|(_, value)| value.is_some());
        let now: BTreeSet<usize> = counted.map(|(link, _)| link).collect();
        // Without a link that it had, the sum would go back.
        let is_whole = known.is_subset(&now);
        known.extend(now);
        let sum = table.list(field).flatten().reduce(u64::saturating_add);
        if let Some(sum) = sum.filter(|_| is_whole) {
            out.u64(total, &[gpu], bytes(sum));
        }
        for (link, kilobytes) in (0_u64..).zip(table.list(field)) {
            if let Some(kilobytes) = kilobytes {
                out.u64(of_link, &[gpu, &link.to_string()], bytes(kilobytes));
            }
        }
    }
}

/// The PCIe link: by the table, or by the files of the PCI core.
pub(super) fn push_link(gpu: &str, table: Option<&Table<'_>>, files: &GpuFiles, out: &mut Block) {
    let of_table = |field| table.and_then(|table| table.get(field));
    let speed = of_table(Field::PcieLinkSpeed).and_then(|tenths| tenths.checked_mul(TRANSFERS));
    let width = of_table(Field::PcieLinkWidth).filter(|lanes| link::is_width(*lanes));
    let is_tabled = speed.is_some() && width.is_some();
    let card = if is_tabled { None } else { files.card() };
    let read = card.as_deref().map(link::current).unwrap_or_default();
    let (speed, width) = (speed.or(read.speed), width.or(read.width));
    out.maybe_u64(&m::PCIE_GENERATION, &[gpu], speed.and_then(generation));
    out.maybe_u64(&n::PCIE_SPEED, &[gpu], speed);
    out.maybe_u64(&m::PCIE_WIDTH, &[gpu], width);
    let replays = of_table(Field::PcieReplays).or_else(|| files.number("pcie_replay_count"));
    out.maybe_u64(&m::PCIE_REPLAYS, &[gpu], replays);
}

/// What single files have in the same unit for every APU.
pub(super) fn push_apu(gpu: &str, hwmon: Option<&str>, files: &GpuFiles, out: &mut Block) {
    if let Some(hwmon) = hwmon {
        push_power_of_files(gpu, hwmon, files, out);
    }
    percent(out, &m::UTILIZATION, &[gpu], files.number("gpu_busy_percent"));
}

/// The power by hwmon, which the driver converts to microwatts for each part.
pub(super) fn push_power_of_files(gpu: &str, hwmon: &str, files: &GpuFiles, out: &mut Block) {
    // A die without the sensors of its module says 0.
    let power = |name| {
        let microwatts = files.number(&format!("{hwmon}/{name}"));
        microwatts.filter(|microwatts| *microwatts > 0)
    };
    let mean = power("power1_average");
    let now = mean.or_else(|| power("power1_input"));
    push_power(gpu, now, mean.is_some(), 1e6, out);
}

/// Values of single files, each of which costs a query of the firmware.
pub(super) fn push_files(gpu: &str, hwmon: &str, files: &GpuFiles, out: &mut Block) {
    let sensor = |name: &str| files.number(&format!("{hwmon}/{name}"));
    let celsius = |name| sensor(name).filter(|millidegrees| *millidegrees <= HOTTEST * 1000);
    let (edge, hotspot) = (celsius("temp1_input"), celsius("temp2_input"));
    // A torn reading is no missing sensor.
    let hottest = match sensor("temp2_input") {
        Some(_) => hotspot,
        None => edge,
    };
    let memory = celsius("temp3_input");
    let clocks = [("sm", sensor("freq1_input")), ("memory", sensor("freq2_input"))];
    real(out, &m::TEMPERATURE, &[gpu], hottest, 1000.0);
    real(out, &m::MEMORY_TEMPERATURE, &[gpu], memory, 1000.0);
    for (sensor, value) in [("edge", edge), ("junction", hotspot)] {
        if value.is_some() {
            real(out, &n::SENSOR_TEMPERATURE, &[gpu, sensor], value, 1000.0);
        }
    }
    push_power_of_files(gpu, hwmon, files, out);
    percent(out, &m::UTILIZATION, &[gpu], files.number("gpu_busy_percent"));
    percent(
        out,
        &m::MEMORY_UTILIZATION,
        &[gpu],
        files.number("mem_busy_percent"),
    );
    for (clock, hertz) in clocks {
        out.maybe_u64(&m::CLOCK_SPEED, &[gpu, clock], hertz);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_of_twelve_stacks_has_its_temperature_and_the_memory_that_of_the_hottest() {
        // v1.9, one attribute: 48, of 16 bits, 12 values.
        let mut bytes = vec![40, 0, 1, 9, 1, 0, 0, 0];
        bytes.extend_from_slice(&(2_u64 << 20 | 48 << 10 | 12).to_le_bytes());
        bytes.extend((41..=52_u16).flat_map(u16::to_le_bytes));
        let mut block = Block::default();
        push_table(
            "g",
            &Table::parse(&bytes).unwrap(),
            None,
            &mut XgmiLinks::default(),
            &mut block,
        );
        let stacks = block.iter().filter(|(s, _)| s.metric == &n::SENSOR_TEMPERATURE);
        let found: Vec<_> = stacks
            .map(|(s, value)| (s.labels[1].to_string(), value))
            .collect();
        let expected = (0..12_u16).map(|at| (format!("hbm{at}"), Value::F64(f64::from(41 + at))));
        assert_eq!(found, expected.collect::<Vec<_>>());
        let memory = block.iter().find(|(s, _)| s.metric == &m::MEMORY_TEMPERATURE);
        assert_eq!(memory.map(|(_, value)| value), Some(Value::F64(52.0)));
    }

    #[test]
    fn the_total_of_links_is_absent_while_one_that_counted_has_no_value() {
        // v1.9, one attribute: 29, bytes read over each link, of 64 bits, 3 values.
        let mut links = XgmiLinks::default();
        let mut total = |counts: [u64; 3]| {
            let mut bytes = vec![40, 0, 1, 9, 1, 0, 0, 0];
            bytes.extend_from_slice(&(6_u64 << 20 | 29 << 10 | 3).to_le_bytes());
            bytes.extend(counts.into_iter().flat_map(u64::to_le_bytes));
            let mut block = Block::default();
            push_table("g", &Table::parse(&bytes).unwrap(), None, &mut links, &mut block);
            let mut totals = block.iter().filter(|(s, _)| s.metric == &n::XGMI_READ);
            totals.next().map(|(_, value)| value)
        };
        // The third is not in use.
        assert_eq!(total([5, 7, u64::MAX]), Some(Value::U64(12_000)));
        assert_eq!(total([6, u64::MAX, u64::MAX]), None);
        assert_eq!(total([6, 8, u64::MAX]), Some(Value::U64(14_000)));
    }

    /// Drivers before `AMDGPU_XGMI_LINK_NA` of virtual functions.
    #[test]
    fn links_are_down_only_where_one_of_the_node_was_up() {
        let read = |links: &mut XgmiLinks, states: [u16; 8]| {
            let mut bytes = vec![u8::MAX; 3872];
            bytes[..4].copy_from_slice(&[0x20, 0x0F, 1, 8]);
            for (at, state) in states.into_iter().enumerate() {
                bytes[264 + 2 * at..][..2].copy_from_slice(&state.to_le_bytes());
            }
            let mut block = Block::default();
            push_table("g", &Table::parse(&bytes).unwrap(), None, links, &mut block);
            let value = |metric| {
                let mut series = block.iter().filter(|(s, _)| s.metric == metric);
                series.next().map(|(_, value)| value)
            };
            [&n::XGMI_LINKS, &n::XGMI_LINKS_UP, &n::XGMI_LINK_UP].map(value)
        };
        let shown = |values: [u64; 3]| values.map(|value| Some(Value::U64(value)));
        let mut links = XgmiLinks::default();
        // Another GPU of the node.
        let mut peer = links.clone();
        assert_eq!(read(&mut links, [0; 8]), [None; 3]);
        assert_eq!(read(&mut links, [u16::MAX; 8]), [None; 3]);
        let seven = [u16::MAX, 1, 1, 1, 1, 1, 1, 1];
        assert_eq!(read(&mut peer, seven), shown([7, 7, 1]));
        assert_eq!(read(&mut links, [0; 8]), shown([8, 0, 0]));
        assert_eq!(read(&mut peer, [0; 8]), shown([8, 0, 0]));
    }
}
