//! Time in which the clocks were reduced, from the counters of ticks of v1.6 and later.

use super::gpu_metrics::{Field, Table};
use super::metrics as n;
use crate::gpu::metrics as m;
use crate::{Block, Value};

/// Counters of ticks, and the reason. A power limit and a temperature are the same events as on other GPUs.
const REASONS: [(Field, &str); 5] = [
    (Field::PowerResidency, "sw_power_cap"),
    (Field::SocketThermalResidency, "hw_thermal"),
    (Field::RegulatorThermalResidency, "regulator_thermal"),
    (Field::HbmThermalResidency, "memory_thermal"),
    (Field::ProchotResidency, "hw_power_brake"),
];

/// Bits of `indep_throttle_status` (kernel: `amdgpu_smu.h`) of each reason.
const BITS: [(u64, &str); 4] = [
    (0x0000_0000_0000_00FF, "sw_power_cap"),
    (0x0000_0000_00FF_0000, "current_limit"),
    (0x0000_3FFF_0000_0000, "hw_thermal"),
    (0x0000_C000_0000_0000, "hw_power_brake"),
];

/// `SMU_THROTTLER_TEMP_HOTSPOT_BIT`. Firmware of RDNA3 and RDNA4 sets it on cold GPUs too.
const HOTSPOT: u64 = 1 << 36;
/// Degrees Celsius below its limit at which a hotspot may be throttled.
const NEAR: u64 = 5;
/// The share of the time from which a reason counts as active.
const MOST: f64 = 0.5;

/// The counters of one reading.
#[derive(Clone, Copy, Debug)]
struct Ticks {
    /// Of the host, in ns.
    clock: u64,
    all: u64,
    reasons: [Option<u64>; REASONS.len()],
}

impl Ticks {
    fn of(table: &Table<'_>) -> Option<Self> {
        Some(Self {
            clock: table.get(Field::SystemClock)?,
            all: table.get(Field::Accumulation)?,
            reasons: REASONS.map(|(field, _)| table.get(field)),
        })
    }

    /// What each reason took since an earlier reading.
    fn since(&self, last: &Self) -> [Option<Spent>; REASONS.len()] {
        let mut all = [None; REASONS.len()];
        for ((spent, from), to) in all.iter_mut().zip(last.reasons).zip(self.reasons) {
            *spent = span(last, self, from.zip(to));
        }
        all
    }
}

/// The time of each reason since the first reading.
#[derive(Debug, Default)]
pub(super) struct Throttle {
    last: Option<Ticks>,
    seconds: [f64; REASONS.len()],
}

impl Throttle {
    /// Takes a reading and pushes what it has. `limit`: of the hotspot.
    pub(super) fn read(&mut self, gpu: &str, table: &Table<'_>, limit: Option<u64>, out: &mut Block) {
        let bits = table.get(Field::ThrottleReasons);
        if let Some(bits) = bits {
            push_bits(gpu, bits, is_hot(table, limit), out);
        }
        let Some(now) = Ticks::of(table) else { return };
        out.u64(&n::RESIDENCY_TICKS, &[gpu, "all"], now.all);
        let spent = self.last.map_or([None; REASONS.len()], |last| now.since(&last));
        if bits.is_none() {
            push_active(gpu, &spent, out);
        }
        let reasons = REASONS.into_iter().zip(&mut self.seconds);
        for (((_, reason), total), (ticks, spent)) in reasons.zip(now.reasons.into_iter().zip(spent)) {
            *total += spent.map_or(0.0, |spent| spent.seconds);
            let Some(ticks) = ticks else { continue };
            out.f64(&m::CLOCK_EVENT_SECONDS, &[gpu, reason], *total);
            out.u64(&n::RESIDENCY_TICKS, &[gpu, reason], ticks);
            let share = spent.map_or(Value::Absent, |spent| Value::F64(spent.share));
            out.push(&n::RESIDENCY_RATIO, &[gpu, reason], share);
        }
        self.last = Some(now);
    }
}

/// Whether the hotspot is near its limit.
fn is_hot(table: &Table<'_>, limit: Option<u64>) -> Option<bool> {
    let (hotspot, limit) = table.get(Field::TemperatureHotspot).zip(limit)?;
    Some(hotspot + NEAR >= limit)
}

/// Pushes the reasons of the table's bits. The bit of the hotspot alone does not prove heat.
fn push_bits(gpu: &str, bits: u64, is_hot: Option<bool>, out: &mut Block) {
    for (mask, reason) in BITS {
        let active = match bits & mask {
            HOTSPOT => is_hot,
            bits => Some(bits != 0),
        };
        out.maybe_u64(&m::CLOCK_EVENT, &[gpu, reason], active.map(u64::from));
    }
}

/// Pushes the reasons that took most of the time since the last reading, for tables without bits.
fn push_active(gpu: &str, spent: &[Option<Spent>; REASONS.len()], out: &mut Block) {
    for (_, reason) in BITS {
        let reported = REASONS.iter().zip(spent);
        let mut shares = reported.filter(|((_, of), _)| event_of(of) == reason).peekable();
        if shares.peek().is_none() {
            continue;
        }
        let share = shares
            .filter_map(|(_, spent)| Some(spent.as_ref()?.share))
            .reduce(f64::max);
        let active = share.map(|share| u64::from(share > MOST));
        out.maybe_u64(&m::CLOCK_EVENT, &[gpu, reason], active);
    }
}

/// The reason of [`BITS`] to which a counter belongs.
fn event_of(reason: &str) -> &str {
    match reason {
        "regulator_thermal" | "memory_thermal" => "hw_thermal",
        reason => reason,
    }
}

/// What a reason took between two readings.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Spent {
    /// Of all ticks.
    share: f64,
    seconds: f64,
}

/// Its part of all ticks of that time. Counters of 32 bits wrap; a share above 1, or a clock that went back, is a restart of
/// the driver.
#[expect(
    clippy::cast_precision_loss,
    reason = "differences of ticks and ns of one interval"
)]
fn span(last: &Ticks, now: &Ticks, of: Option<(u64, u64)>) -> Option<Spent> {
    let (from, to) = of?;
    let elapsed = now.clock.checked_sub(last.clock)?;
    let (all, part) = (wrapped(last.all, now.all), wrapped(from, to));
    let share = (all > 0 && part <= all).then(|| part as f64 / all as f64)?;
    Some(Spent {
        share,
        seconds: share * elapsed as f64 / 1e9,
    })
}

/// The growth of a counter that wraps at 32 bits, as those of v1.6 to v1.8; those of v1.9 never reach that.
const fn wrapped(from: u64, to: u64) -> u64 {
    if to >= from {
        to - from
    } else {
        to.wrapping_sub(from) & 0xFFFF_FFFF
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(clock: u64, all: u64, part: u64) -> Ticks {
        Ticks {
            clock,
            all,
            reasons: [Some(part); REASONS.len()],
        }
    }

    fn between(last: &Ticks, now: &Ticks) -> Option<f64> {
        now.since(last)[0].map(|spent| spent.seconds)
    }

    #[test]
    fn the_time_is_the_share_of_ticks_of_the_time_between_two_readings() {
        let (last, now) = (ticks(0, 1000, 10), ticks(2_000_000_000, 2000, 260));
        assert_eq!(between(&last, &now), Some(0.5));
    }

    #[test]
    fn a_counter_that_wraps_goes_on() {
        let (last, now) = (ticks(0, 0xFFFF_FFFF, 0xFFFF_FFF0), ticks(1_000_000_000, 99, 34));
        assert_eq!(between(&last, &now), Some(0.5));
    }

    #[test]
    fn a_restart_of_the_driver_adds_nothing() {
        let last = ticks(9_000_000_000, 5000, 400);
        for now in [
            ticks(1_000, 9, 3),
            ticks(9_500_000_000, 10, 0),
            ticks(9_500_000_000, 5000, 400),
        ] {
            assert!(
                between(&last, &now).is_none_or(|seconds| seconds < 0.5),
                "{now:?}"
            );
        }
    }

    fn active(throttle: &mut Throttle, bytes: &[u8], limit: Option<u64>, reason: &str) -> Option<Value> {
        let mut block = Block::default();
        throttle.read("g", &Table::parse(bytes).unwrap(), limit, &mut block);
        let mut events = block.iter().filter(|(s, _)| s.metric == &m::CLOCK_EVENT);
        events
            .find(|(s, _)| s.labels[1] == *reason)
            .map(|(_, value)| value)
    }

    /// Firmware of RDNA3 and RDNA4 sets the bit of the hotspot on a cold GPU.
    #[test]
    fn the_bit_of_the_hotspot_counts_only_near_its_limit() {
        let table = |bits: u64, hotspot: u16| {
            let mut bytes = vec![0xFF; 120];
            bytes[..4].copy_from_slice(&[120, 0, 1, 3]);
            bytes[6..8].copy_from_slice(&hotspot.to_le_bytes());
            bytes[112..].copy_from_slice(&bits.to_le_bytes());
            bytes
        };
        for (bits, hotspot, limit, expected) in [
            (HOTSPOT, 41, Some(110), Value::U64(0)),
            (HOTSPOT, 104, Some(110), Value::U64(0)),
            (HOTSPOT, 105, Some(110), Value::U64(1)),
            (0, 109, Some(110), Value::U64(0)),
            (HOTSPOT, 41, None, Value::Absent),
            (HOTSPOT, u16::MAX, Some(110), Value::Absent),
            // The memory and a regulator.
            (HOTSPOT | 1 << 34, 41, Some(110), Value::U64(1)),
            (1 << 38, 41, None, Value::U64(1)),
        ] {
            let found = active(
                &mut Throttle::default(),
                &table(bits, hotspot),
                limit,
                "hw_thermal",
            );
            assert_eq!(found, Some(expected), "{bits:x} {hotspot} {limit:?}");
        }
    }

    /// Tables from v1.6 on have no bits.
    #[test]
    fn a_reason_that_took_most_of_the_time_is_active() {
        // v1.9: time, all ticks, and those of PROCHOT, power, socket, regulator and memory, of 64 bits.
        let table = |clock: u64, ticks: [u64; 6]| {
            let mut bytes = vec![120, 0, 1, 9, 7, 0, 0, 0];
            for (id, value) in (8_u64..).zip([clock].into_iter().chain(ticks)) {
                bytes.extend_from_slice(&(6_u64 << 20 | id << 10 | 1).to_le_bytes());
                bytes.extend_from_slice(&value.to_le_bytes());
            }
            bytes
        };
        let first = table(1_000_000_000, [1000, 0, 0, 0, 0, 0]);
        for (ticks, expected) in [
            ([2000, 0, 900, 600, 0, 0], [Some(1), Some(0), Some(1)]),
            ([2000, 0, 0, 0, 600, 0], [Some(1), Some(0), Some(0)]),
            ([2000, 0, 0, 0, 0, 501], [Some(1), Some(0), Some(0)]),
            ([2000, 990, 0, 499, 499, 499], [Some(0), Some(1), Some(0)]),
            // A restart of the driver.
            ([10, 0, 0, 0, 0, 0], [None; 3]),
        ] {
            for (reason, expected) in ["hw_thermal", "hw_power_brake", "sw_power_cap"]
                .into_iter()
                .zip(expected)
            {
                let mut throttle = Throttle::default();
                assert_eq!(active(&mut throttle, &first, None, reason), Some(Value::Absent));
                let clock = if ticks[0] < 1000 { 1000 } else { 2_000_000_000 };
                let found = active(&mut throttle, &table(clock, ticks), None, reason);
                let expected = expected.map_or(Value::Absent, Value::U64);
                assert_eq!(found, Some(expected), "{ticks:?} {reason}");
            }
        }
    }
}
