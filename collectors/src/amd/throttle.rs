//! Time in which the clocks were reduced, from the counters of ticks of v1.6 and later.

use super::gpu_metrics::{Field, Table};
use crate::Block;
use crate::gpu::metrics as m;

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
}

/// The time of each reason since the first reading.
#[derive(Debug, Default)]
pub(super) struct Throttle {
    last: Option<Ticks>,
    seconds: [f64; REASONS.len()],
}

impl Throttle {
    /// Takes a reading and pushes what it has.
    pub(super) fn read(&mut self, gpu: &str, table: &Table<'_>, out: &mut Block) {
        if let Some(bits) = table.get(Field::ThrottleReasons) {
            for (mask, reason) in BITS {
                out.u64(&m::CLOCK_EVENT, &[gpu, reason], u64::from(bits & mask != 0));
            }
        }
        let Some(now) = Ticks::of(table) else { return };
        if let Some(last) = self.last {
            for ((total, now_of), last_of) in self.seconds.iter_mut().zip(now.reasons).zip(last.reasons) {
                *total += span(&last, &now, last_of.zip(now_of)).unwrap_or(0.0);
            }
        }
        for ((_, reason), (seconds, ticks)) in REASONS.into_iter().zip(self.seconds.iter().zip(now.reasons)) {
            if ticks.is_some() {
                out.f64(&m::CLOCK_EVENT_SECONDS, &[gpu, reason], *seconds);
            }
        }
        self.last = Some(now);
    }
}

/// Seconds of a reason between two readings: its part of all ticks of that time. Counters of 32 bits wrap; a share above
/// 1, or a clock that went back, is a restart of the driver.
#[expect(
    clippy::cast_precision_loss,
    reason = "differences of ticks and ns of one interval"
)]
fn span(last: &Ticks, now: &Ticks, of: Option<(u64, u64)>) -> Option<f64> {
    let (from, to) = of?;
    let elapsed = now.clock.checked_sub(last.clock)?;
    let (all, part) = (wrapped(last.all, now.all), wrapped(from, to));
    (all > 0 && part <= all).then(|| part as f64 / all as f64 * elapsed as f64 / 1e9)
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
        span(last, now, last.reasons[0].zip(now.reasons[0]))
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
}
