//! The SMART / Health Information log (log page 02h) of the NVM Express base specification: 512 bytes, little-endian.

use super::metrics as m;
use crate::sys::nvme::LENGTH;
use crate::{Block, Error, Metric, Value};

/// The bits of the critical warning and their values of the label `warning`.
pub(super) const WARNINGS: [&str; 6] = [
    "spare",
    "temperature",
    "reliability",
    "read_only",
    "volatile_memory_backup",
    "persistent_memory_region",
];

/// Bytes of a data unit: 1000 blocks of 512 bytes.
const UNIT: u128 = 512 * 1000;
const MINUTE: u128 = 60;
const HOUR: u128 = 60 * MINUTE;

/// One log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SmartLog {
    critical_warning: u8,
    /// In degrees Celsius.
    temperature: Option<i32>,
    /// In percent.
    spare: Option<u8>,
    spare_threshold: Option<u8>,
    /// In percent; 255 is 255 or more.
    used: u8,
    /// 0: not reported.
    units_read: u128,
    units_written: u128,
    read_commands: u128,
    write_commands: u128,
    /// In minutes.
    busy: u128,
    power_cycles: u128,
    /// In hours.
    power_on: u128,
    unsafe_shutdowns: u128,
    media_errors: u128,
    error_log_entries: u128,
    /// In minutes.
    warning_temperature_time: u32,
    critical_temperature_time: u32,
    sensors: [Option<i32>; 8],
    thermal_transitions: [u32; 2],
    /// In seconds.
    thermal_time: [u32; 2],
}

impl SmartLog {
    /// Reads a log; `device` names it in errors. `None`: all bytes are 00h, as of some virtual drives without a log.
    ///
    /// # Errors
    /// When it does not have 512 bytes, or all bytes are FFh: what a device that has left the bus returns.
    pub(super) fn parse(device: &str, bytes: &[u8]) -> Result<Option<Self>, Error> {
        let wrong = |found: &str| {
            let expected = "512 bytes that are not all 0xff";
            Error::parse(format!("SMART log of {device}"), found, expected)
        };
        let page: &[u8; LENGTH] = bytes
            .try_into()
            .map_err(|_| wrong(&format!("{} bytes", bytes.len())))?;
        let is_all = |filler: u8| page.iter().all(|byte| *byte == filler);
        if is_all(0xff) {
            return Err(wrong("512 bytes 0xff"));
        }
        if is_all(0x00) {
            return Ok(None);
        }
        let half = |at| u16::from_le_bytes(field(page, at));
        let word = |at| u32::from_le_bytes(field(page, at));
        let count = |at| u128::from_le_bytes(field(page, at));
        let byte = |at| u8::from_le_bytes(field(page, at));
        // Above 100 it is no percentage of a whole.
        let percent = |at| Some(byte(at)).filter(|percent| *percent <= 100);
        Ok(Some(Self {
            critical_warning: byte(0),
            temperature: celsius(half(1)),
            spare: percent(3),
            spare_threshold: percent(4),
            used: byte(5),
            units_read: count(32),
            units_written: count(48),
            read_commands: count(64),
            write_commands: count(80),
            busy: count(96),
            power_cycles: count(112),
            power_on: count(128),
            unsafe_shutdowns: count(144),
            media_errors: count(160),
            error_log_entries: count(176),
            warning_temperature_time: word(192),
            critical_temperature_time: word(196),
            sensors: std::array::from_fn(|sensor| celsius(half(200 + 2 * sensor))),
            thermal_transitions: [word(216), word(220)],
            thermal_time: [word(224), word(228)],
        }))
    }

    /// Adds its series.
    pub(super) fn show(&self, labels: [&str; 2], out: &mut Block) {
        let [device, pci] = labels;
        temperatures(labels, self.temperature, &self.sensors, out);
        out.u64(&m::CRITICAL_WARNING, &labels, self.critical_warning.into());
        for (bit, warning) in WARNINGS.iter().enumerate() {
            let is_active = self.critical_warning >> bit & 1;
            out.u64(&m::WARNING_ACTIVE, &[device, pci, warning], is_active.into());
        }
        let ratio = |percent: Option<u8>| percent.map_or(Value::Absent, |p| Value::F64(f64::from(p) / 100.0));
        out.push(&m::SPARE, &labels, ratio(self.spare));
        out.push(&m::SPARE_THRESHOLD, &labels, ratio(self.spare_threshold));
        out.push(&m::USED, &labels, ratio(Some(self.used)));
        let reported = |units: u128| match units {
            0 => Value::Absent,
            units => whole(units, UNIT),
        };
        out.push(&m::READ_BYTES, &labels, reported(self.units_read));
        out.push(&m::WRITTEN_BYTES, &labels, reported(self.units_written));
        let counters: [(&'static Metric, u128, u128); 10] = [
            (&m::READ_COMMANDS, self.read_commands, 1),
            (&m::WRITE_COMMANDS, self.write_commands, 1),
            (&m::BUSY, self.busy, MINUTE),
            (&m::POWER_CYCLES, self.power_cycles, 1),
            (&m::POWER_ON, self.power_on, HOUR),
            (&m::UNSAFE_SHUTDOWNS, self.unsafe_shutdowns, 1),
            (&m::MEDIA_ERRORS, self.media_errors, 1),
            (&m::ERROR_LOG_ENTRIES, self.error_log_entries, 1),
            (
                &m::WARNING_TEMPERATURE_TIME,
                self.warning_temperature_time.into(),
                MINUTE,
            ),
            (
                &m::CRITICAL_TEMPERATURE_TIME,
                self.critical_temperature_time.into(),
                MINUTE,
            ),
        ];
        for (metric, count, unit) in counters {
            out.push(metric, &labels, whole(count, unit));
        }
        let levels = self.thermal_transitions.into_iter().zip(self.thermal_time);
        for (level, (transitions, time)) in ["1", "2"].into_iter().zip(levels) {
            out.u64(&m::THERMAL_TRANSITIONS, &[device, pci, level], transitions.into());
            out.u64(&m::THERMAL_TIME, &[device, pci, level], time.into());
        }
    }
}

/// The series of temperatures, from any source.
pub(super) fn temperatures(
    [device, pci]: [&str; 2],
    composite: Option<i32>,
    sensors: &[Option<i32>; 8],
    out: &mut Block,
) {
    let value = |celsius: Option<i32>| celsius.map_or(Value::Absent, |c| Value::F64(c.into()));
    out.push(&m::TEMPERATURE, &[device, pci], value(composite));
    for (number, celsius) in (1..).zip(sensors) {
        // A drive always has the same sensors.
        if celsius.is_some() {
            let sensor = format!("{number}");
            out.push(&m::SENSOR_TEMPERATURE, &[device, pci, &sensor], value(*celsius));
        }
    }
}

/// Bytes of the page; the offsets of this file are all within.
fn field<const N: usize>(page: &[u8; LENGTH], at: usize) -> [u8; N] {
    let bytes = page.get(at..).and_then(|rest| rest.first_chunk());
    bytes.copied().unwrap_or([0; N])
}

/// The drive has whole kelvins; 0: no such sensor.
pub(super) fn celsius(kelvins: u16) -> Option<i32> {
    (kelvins != 0).then(|| i32::from(kelvins) - 273)
}

/// A count in units. Beyond 64 bits it is rounded, not cut.
#[expect(
    clippy::cast_precision_loss,
    reason = "a rounded count, as every consumer of floats has it"
)]
fn whole(count: u128, unit: u128) -> Value {
    let product = count.checked_mul(unit);
    match product.map(u64::try_from) {
        Some(Ok(product)) => Value::U64(product),
        _ => Value::F64(count as f64 * unit as f64),
    }
}

/// Invariants for fuzzing: no bytes panic, and a log that is read has 512 bytes and finite, non-negative counts.
pub(crate) fn check(data: &[u8]) {
    let Ok(Some(log)) = SmartLog::parse("nvme0", data) else {
        return;
    };
    assert_eq!(data.len(), LENGTH);
    let mut block = Block::default();
    log.show(["nvme0", "0000:01:00.0"], &mut block);
    block.finish();
    for (series, value) in block.iter() {
        let number = match value {
            Value::U64(_) | Value::Absent => continue,
            Value::F64(number) => number,
        };
        let may_be_negative = series.metric.unit == crate::Unit::Celsius;
        assert!(number.is_finite(), "{}", series.metric.name);
        assert!(may_be_negative || number >= 0.0, "{}", series.metric.name);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn set(page: &mut [u8], at: usize, bytes: &[u8]) {
        page[at..at + bytes.len()].copy_from_slice(bytes);
    }

    #[test]
    fn a_page_of_another_length_or_of_ff_is_an_error_and_one_of_zeros_is_no_log() {
        for (bytes, found) in [
            (vec![1; 511], "511 bytes"),
            (vec![1; 513], "513 bytes"),
            (Vec::new(), "0 bytes"),
            (vec![0xff; 512], "512 bytes 0xff"),
        ] {
            let error = SmartLog::parse("nvme3", &bytes).unwrap_err().to_string();
            assert!(
                error.contains("SMART log of nvme3") && error.contains(found),
                "{error}"
            );
            assert!(error.contains("expected 512 bytes"), "{error}");
        }
        assert_eq!(SmartLog::parse("nvme3", &[0; LENGTH]).unwrap(), None);
    }

    #[test]
    fn counts_beyond_64_bits_are_rounded_and_not_cut() {
        assert_eq!(whole(3, UNIT), Value::U64(1_536_000));
        assert_eq!(whole(u64::MAX.into(), 1), Value::U64(u64::MAX));
        let Value::F64(beyond) = whole(1 << 64, UNIT) else {
            panic!("a float")
        };
        assert!((beyond / (18_446_744_073_709_551_616.0 * 512_000.0) - 1.0).abs() < 1e-9);
        let Value::F64(most) = whole(u128::MAX, UNIT) else {
            panic!("a float")
        };
        assert!(most.is_finite() && most > 1e43);
    }

    #[test]
    fn a_percentage_above_100_is_none_except_the_used_one() {
        let mut page = [0; LENGTH];
        set(&mut page, 3, &[101, 255, 254]);
        let log = SmartLog::parse("nvme0", &page).unwrap().unwrap();
        assert_eq!((log.spare, log.spare_threshold, log.used), (None, None, 254));
    }

    proptest! {
        #[test]
        fn each_field_is_read_from_its_place(
            warning: u8, kelvins in 1_u16.., spare in 0_u8..=100, used: u8,
            counts: [u128; 10], words: [u32; 2], sensors: [u16; 8], thermal: [u32; 4],
        ) {
            let mut page = [0; LENGTH];
            set(&mut page, 0, &[warning]);
            set(&mut page, 1, &kelvins.to_le_bytes());
            set(&mut page, 3, &[spare, 100 - spare, used]);
            for (at, count) in (32..).step_by(16).zip(counts) {
                set(&mut page, at, &count.to_le_bytes());
            }
            for (at, word) in (192..).step_by(4).zip(words) {
                set(&mut page, at, &word.to_le_bytes());
            }
            for (at, sensor) in (200..).step_by(2).zip(sensors) {
                set(&mut page, at, &sensor.to_le_bytes());
            }
            for (at, word) in (216..).step_by(4).zip(thermal) {
                set(&mut page, at, &word.to_le_bytes());
            }
            let [units_read, units_written, read_commands, write_commands, busy, power_cycles, power_on,
                unsafe_shutdowns, media_errors, error_log_entries] = counts;
            let [a, b, c, d] = thermal;
            let expected = SmartLog {
                critical_warning: warning,
                temperature: Some(i32::from(kelvins) - 273),
                spare: Some(spare),
                spare_threshold: Some(100 - spare),
                used,
                units_read,
                units_written,
                read_commands,
                write_commands,
                busy,
                power_cycles,
                power_on,
                unsafe_shutdowns,
                media_errors,
                error_log_entries,
                warning_temperature_time: words[0],
                critical_temperature_time: words[1],
                sensors: sensors.map(celsius),
                thermal_transitions: [a, b],
                thermal_time: [c, d],
            };
            prop_assert_eq!(SmartLog::parse("nvme0", &page).unwrap(), Some(expected));
        }

        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), LENGTH)) {
            check(&bytes);
        }

        #[test]
        fn no_length_panics(bytes in prop::collection::vec(any::<u8>(), 0..1100)) {
            check(&bytes);
        }
    }
}
