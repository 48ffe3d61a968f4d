//! The table of fields and their series.

use super::Fallback;
use crate::gpu::metrics as m;
use crate::sys::nvml::{Batch, Code, FieldValue, Handle, Library, Wanted};
use crate::{Metric, Value};

/// The conversion of a driver's number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::nvidia) enum Scale {
    /// Multiply; the result is a whole number.
    Times(u64),
    /// Divide: 642310 mW become exactly 642.31, which a multiplication would miss.
    Per(f64),
    /// As it is. 0: boards without the sensor.
    Sensor,
    /// Divide, likewise.
    SensorPer(f64),
}

impl Scale {
    #[expect(
        clippy::cast_precision_loss,
        reason = "the exposition formats use floating-point numbers"
    )]
    pub(in crate::nvidia) fn of(self, number: u64) -> Value {
        match self {
            Self::Times(factor) => number.checked_mul(factor).map_or(Value::Absent, Value::U64),
            Self::Sensor | Self::SensorPer(_) if number == 0 => Value::Absent,
            Self::Per(divisor) | Self::SensorPer(divisor) => Value::F64(number as f64 / divisor),
            Self::Sensor => Value::U64(number),
        }
    }
}

/// One field.
pub(in crate::nvidia) struct Row {
    /// Its id before driver 580.82.
    pub(super) field: u32,
    pub(super) scope: u32,
    pub(super) metric: &'static Metric,
    /// The labels after `gpu`.
    pub(super) labels: &'static [&'static str],
    pub(super) scale: Scale,
    /// The driver returns 32 bits.
    narrow: bool,
    /// A margin below zero, whose number is its amount.
    is_below: bool,
    /// Invalid while ECC is off.
    pub(super) ecc: bool,
    pub(super) instead: Option<Fallback>,
    /// A second metric with the same value.
    pub(super) also: Option<(&'static Metric, &'static [&'static str])>,
}

impl Row {
    /// The reported number. Drivers set all bits in a value that they did not read.
    pub(super) fn number(&self, value: FieldValue) -> Option<u64> {
        if self.is_below {
            amount_below(value)
        } else if self.narrow {
            narrow_counter(value)
        } else {
            counter(value)
        }
    }
}

/// A reported 32-bit number. Uses the type that we know, not the reported one: drivers have reported the wrong type
/// and left the rest of the value unwritten.
pub(in crate::nvidia) fn narrow_counter(value: FieldValue) -> Option<u64> {
    let low = match value {
        FieldValue::Unsigned(number) => FieldValue::Unsigned(number & u64::from(u32::MAX)),
        other => other,
    };
    counter(low).filter(|n| *n < u64::from(u32::MAX))
}

/// How far a reported 32-bit number is below zero.
fn amount_below(value: FieldValue) -> Option<u64> {
    let number = match value {
        FieldValue::Signed(number) => i32::try_from(number).ok()?,
        FieldValue::Unsigned(number) => u32::try_from(number).ok()?.cast_signed(),
        FieldValue::Real(_) => return None,
    };
    (-100..0).contains(&number).then(|| number.unsigned_abs().into())
}

/// A reported 64-bit number.
pub(in crate::nvidia) fn counter(value: FieldValue) -> Option<u64> {
    let number = match value {
        FieldValue::Unsigned(number) => Some(number),
        FieldValue::Signed(number) => u64::try_from(number).ok(),
        FieldValue::Real(number) => whole(number),
    };
    number.filter(|n| *n < u64::MAX)
}

/// For drivers that report a whole number as floating-point.
#[expect(clippy::cast_sign_loss, reason = "checked above")]
fn whole(number: f64) -> Option<u64> {
    (number.is_finite() && (0.0..9e15).contains(&number)).then_some(number as u64)
}

const MILLI: Scale = Scale::Per(1e3);
const NANO: Scale = Scale::Per(1e9);
const ONE: Scale = Scale::Times(1);
/// NVML_POWER_SCOPE_MODULE: the GPU and its Grace processor. Other GPUs have no module.
const MODULE: u32 = 1;

const fn narrow(field: u32, metric: &'static Metric, labels: &'static [&'static str], scale: Scale) -> Row {
    Row {
        narrow: true,
        ..wide(field, metric, labels, scale)
    }
}

const fn wide(field: u32, metric: &'static Metric, labels: &'static [&'static str], scale: Scale) -> Row {
    Row {
        field,
        scope: 0,
        metric,
        labels,
        scale,
        narrow: false,
        is_below: false,
        ecc: false,
        instead: None,
        also: None,
    }
}

const fn below(field: u32, metric: &'static Metric) -> Row {
    Row {
        is_below: true,
        ..wide(field, metric, &[], Scale::Per(-1.0))
    }
}

const fn ecc(field: u32, labels: &'static [&'static str]) -> Row {
    let metric = if labels.len() == 2 {
        &m::ECC_ERRORS
    } else {
        &m::ECC_LOCATION_ERRORS
    };
    Row {
        ecc: true,
        ..wide(field, metric, labels, ONE)
    }
}

/// The reason that limits the clocks is also a policy.
const fn policy(field: u32, reason: &'static [&'static str], policy: &'static [&'static str]) -> Row {
    Row {
        also: Some((&m::POLICY_SECONDS, policy)),
        ..wide(field, &m::CLOCK_EVENT_SECONDS, reason, NANO)
    }
}

/// The function that returns the same value on GPUs and drivers without the field.
macro_rules! or {
    ($row:expr, $name:literal, $call:ident) => {
        Row {
            instead: Some(Fallback {
                name: $name,
                call: Library::$call,
            }),
            ..$row
        }
    };
}

/// The recovery action of drivers before R565, which have two flags: a reset is required (226), or recommended once no program
/// uses the GPU (227).
fn wanted_reset(library: &Library, gpu: Handle) -> Result<u32, Code> {
    let mut flags = Batch::new(&[226, 227].map(|field| Wanted { field, scope: 0 }));
    library.fields(gpu, &mut flags)?;
    match (flags.get(0).map(narrow_counter), flags.get(1).map(narrow_counter)) {
        (Ok(Some(1)), _) => Ok(1),
        (_, Ok(Some(1))) => Ok(4),
        (Ok(Some(0)), Ok(Some(0))) => Ok(0),
        (Err(code), _) | (_, Err(code)) => Err(code),
        _ => Err(Code::NOT_SUPPORTED),
    }
}

/// Errors by location: corrected and uncorrected, volatile and aggregate.
macro_rules! location {
    ($location:literal: $cv:literal $uv:literal $ca:literal $ua:literal) => {
        [
            ecc($cv, &["corrected", "volatile", $location]),
            ecc($uv, &["uncorrected", "volatile", $location]),
            ecc($ca, &["corrected", "aggregate", $location]),
            ecc($ua, &["uncorrected", "aggregate", $location]),
        ]
    };
}

const L1: [Row; 4] = location!("l1": 7 8 18 19);
const L2: [Row; 4] = location!("l2": 9 10 20 21);
const DRAM: [Row; 4] = location!("dram": 11 12 22 23);
const REGISTERS: [Row; 4] = location!("register_file": 13 14 24 25);
const TEXTURE: [Row; 4] = location!("texture": 15 16 26 27);

const fn of(rows: &[Row; 4], at: usize) -> Row {
    let Row { field, labels, .. } = rows[at];
    ecc(field, labels)
}

/// All fields of the GPU as a whole, in the order of the exposition.
pub(super) static ROWS: &[Row] = &[
    narrow(82, &m::MEMORY_TEMPERATURE, &[], Scale::Sensor),
    below(194, &m::TEMPERATURE_SLOWDOWN_MARGIN),
    or!(narrow(185, &m::POWER, &[], MILLI), "GetPowerUsage", power_usage),
    narrow(186, &m::POWER_INSTANT, &[], MILLI),
    Row {
        scope: MODULE,
        ..narrow(185, &m::MODULE_POWER, &[], Scale::SensorPer(1e3))
    },
    or!(
        narrow(190, &m::POWER_LIMIT, &[], MILLI),
        "GetEnforcedPowerLimit",
        enforced_power_limit
    ),
    or!(
        narrow(192, &m::POWER_LIMIT_REQUESTED, &[], MILLI),
        "GetPowerManagementLimit",
        power_limit
    ),
    wide(83, &m::ENERGY, &[], MILLI),
    policy(74, &["sw_power_cap"], &["power"]),
    policy(76, &["sync_boost"], &["sync_boost"]),
    wide(251, &m::CLOCK_EVENT_SECONDS, &["sw_thermal"], NANO),
    wide(252, &m::CLOCK_EVENT_SECONDS, &["hw_thermal"], NANO),
    wide(253, &m::CLOCK_EVENT_SECONDS, &["hw_power_brake"], NANO),
    wide(75, &m::POLICY_SECONDS, &["thermal"], NANO),
    wide(77, &m::POLICY_SECONDS, &["board_limit"], NANO),
    wide(78, &m::POLICY_SECONDS, &["low_utilization"], NANO),
    wide(79, &m::POLICY_SECONDS, &["reliability"], NANO),
    wide(80, &m::POLICY_SECONDS, &["application_clocks"], NANO),
    wide(81, &m::POLICY_SECONDS, &["base_clocks"], NANO),
    Row {
        instead: Some(Fallback {
            name: "GetFieldValues of resets",
            call: wanted_reset,
        }),
        ..narrow(230, &m::RECOVERY_ACTION, &[], ONE)
    },
    ecc(3, &["corrected", "volatile"]),
    ecc(4, &["uncorrected", "volatile"]),
    ecc(5, &["corrected", "aggregate"]),
    ecc(6, &["uncorrected", "aggregate"]),
    of(&DRAM, 0),
    of(&DRAM, 1),
    of(&DRAM, 2),
    of(&DRAM, 3),
    of(&L1, 0),
    of(&L1, 1),
    of(&L1, 2),
    of(&L1, 3),
    of(&L2, 0),
    of(&L2, 1),
    of(&L2, 2),
    of(&L2, 3),
    of(&REGISTERS, 0),
    of(&REGISTERS, 1),
    of(&REGISTERS, 2),
    of(&REGISTERS, 3),
    of(&TEXTURE, 0),
    of(&TEXTURE, 1),
    of(&TEXTURE, 2),
    of(&TEXTURE, 3),
    ecc(17, &["uncorrected", "volatile", "cbu"]),
    ecc(28, &["uncorrected", "aggregate", "cbu"]),
    narrow(142, &m::REMAPPED_ROWS, &["corrected"], ONE),
    narrow(143, &m::REMAPPED_ROWS, &["uncorrected"], ONE),
    narrow(144, &m::ROW_REMAP_PENDING, &[], ONE),
    narrow(145, &m::ROW_REMAP_FAILURE, &[], ONE),
    narrow(29, &m::RETIRED_PAGES, &["corrected"], ONE),
    narrow(30, &m::RETIRED_PAGES, &["uncorrected"], ONE),
    narrow(31, &m::RETIRED_PAGES_PENDING, &[], ONE),
    or!(
        narrow(94, &m::PCIE_REPLAYS, &[], ONE),
        "GetPcieReplayCounter",
        pcie_replays
    ),
    narrow(173, &m::PCIE_ERRORS, &["correctable"], ONE),
    narrow(179, &m::PCIE_ERRORS, &["non_fatal"], ONE),
    narrow(180, &m::PCIE_ERRORS, &["fatal"], ONE),
    narrow(175, &m::PCIE_ERRORS, &["receiver"], ONE),
    narrow(176, &m::PCIE_ERRORS, &["bad_tlp"], ONE),
    narrow(178, &m::PCIE_ERRORS, &["bad_dllp"], ONE),
    narrow(174, &m::PCIE_ERRORS, &["nak_received"], ONE),
    narrow(177, &m::PCIE_ERRORS, &["nak_sent"], ONE),
    narrow(181, &m::PCIE_ERRORS, &["unsupported_request"], ONE),
    narrow(182, &m::PCIE_ERRORS, &["lcrc"], ONE),
    narrow(169, &m::PCIE_ERRORS, &["recovery"], ONE),
    // 183, lane errors, is of the one lane that is its scope, and how many lanes a driver takes is not documented.
    // 197 and 198, bytes over PCI Express, have 32 bits: they wrap several times a second.
];

#[cfg(test)]
mod tests {
    use super::*;

    /// 148 to 159 and 183: the scope is one lane of several (nvml.h, change log of v535).
    #[test]
    fn no_field_of_a_single_lane_is_asked() {
        assert!(ROWS.iter().all(|row| row.field != 183));
    }

    #[test]
    fn a_module_that_draws_nothing_was_not_measured() {
        let scale = Scale::SensorPer(1e3);
        assert_eq!(scale.of(0), Value::Absent);
        assert_eq!(scale.of(642_310), Value::F64(642.31));
    }

    #[test]
    fn a_margin_below_zero_is_read_with_either_type() {
        let bits = |number: i32| FieldValue::Unsigned(u64::from(number.cast_unsigned()));
        for (value, amount) in [
            (FieldValue::Signed(-3), Some(3)),
            (bits(-3), Some(3)),
            (FieldValue::Signed(0), None),
            (FieldValue::Signed(-101), None),
            (bits(87), None),
            (FieldValue::Real(-3.0), None),
        ] {
            assert_eq!(amount_below(value), amount, "{value:?}");
        }
        assert_eq!(Scale::Per(-1.0).of(3), Value::F64(-3.0));
    }

    #[test]
    fn of_a_number_of_32_bits_the_rest_is_chance() {
        let chance = 0xa5a5_a5a5_0000_0000;
        for (raw, want) in [
            (650_000, Some(650_000)),
            (chance | 650_000, Some(650_000)),
            (0, Some(0)),
            (u64::from(u32::MAX), None),
            (u64::MAX, None),
        ] {
            assert_eq!(narrow_counter(FieldValue::Unsigned(raw)), want, "{raw:#x}");
        }
        assert_eq!(counter(FieldValue::Unsigned(chance)), Some(chance));
        assert_eq!(narrow_counter(FieldValue::Signed(-1)), None);
    }
}
