//! What changes while a GPU works: utilisation, temperature, power, clocks.

use std::ffi::{c_int, c_uint, c_ulonglong};

use nvml_wrapper_sys::bindings::{
    nvmlMarginTemperature_v1_t, nvmlTemperature_v1_t, nvmlUtilization_t, nvmlViolationTime_t,
};

use super::{device, numbers};
use crate::call::{Reply, code};
use crate::scenario::keys::Key;
use crate::state::View;

numbers! {
    nvmlDeviceGetPowerUsage: c_uint = PowerUsage;
    nvmlDeviceGetTotalEnergyConsumption: c_ulonglong = Energy;
    nvmlDeviceGetPerformanceState: c_uint = Pstate;
    nvmlDeviceGetPowerState: c_uint = Pstate;
    nvmlDeviceGetCurrentClocksEventReasons: c_ulonglong = Reasons;
    nvmlDeviceGetCurrentClocksThrottleReasons: c_ulonglong = Reasons;
    nvmlDeviceGetSupportedClocksEventReasons: c_ulonglong = ReasonsSupported;
    nvmlDeviceGetSupportedClocksThrottleReasons: c_ulonglong = ReasonsSupported;
    nvmlDeviceGetFanSpeed: c_uint = FanSpeed;
    nvmlDeviceGetNumFans: c_uint = Fans;
}

device! {
    nvmlDeviceGetUtilizationRates(out: *mut nvmlUtilization_t) |view| {
        view.not_with_mig()?;
        view.put(out, nvmlUtilization_t {
            gpu: view.num(Key::UtilizationGpu)? as c_uint,
            memory: view.num(Key::UtilizationMemory)? as c_uint,
        })
    };
    nvmlDeviceGetEncoderUtilization(out: *mut c_uint, period: *mut c_uint) |view|
        engine(view, out, period, Key::UtilizationEncoder);
    nvmlDeviceGetDecoderUtilization(out: *mut c_uint, period: *mut c_uint) |view|
        engine(view, out, period, Key::UtilizationDecoder);
    nvmlDeviceGetJpgUtilization(out: *mut c_uint, period: *mut c_uint) |view|
        engine(view, out, period, Key::UtilizationJpeg);
    nvmlDeviceGetOfaUtilization(out: *mut c_uint, period: *mut c_uint) |view|
        engine(view, out, period, Key::UtilizationOfa);
    nvmlDeviceGetTemperature(sensor: c_uint, out: *mut c_uint) [sensor] |view| {
        if sensor != 0 {
            return Err(code::INVALID_ARGUMENT);
        }
        view.put(out, view.num(Key::TemperatureGpu)? as c_uint)
    };
    nvmlDeviceGetTemperatureV(out: *mut nvmlTemperature_v1_t) |view| {
        view.version(out, 1)?;
        // SAFETY: its version shows that it is such a struct.
        let sensor = unsafe { (*out).sensorType };
        if sensor != 0 {
            return Err(code::INVALID_ARGUMENT);
        }
        let temperature = view.num(Key::TemperatureGpu)? as c_int;
        view.put_versioned(out, nvmlTemperature_v1_t { version: 0, sensorType: sensor, temperature })
    };
    nvmlDeviceGetMarginTemperature(out: *mut nvmlMarginTemperature_v1_t) |view| {
        view.version(out, 1)?;
        let margin = view.num(Key::TemperatureMargin)? as c_int;
        view.put_versioned(out, nvmlMarginTemperature_v1_t { version: 0, marginTemperature: margin })
    };
    nvmlDeviceGetClockInfo(kind: c_uint, out: *mut c_uint) [kind] |view|
        view.put(out, view.num(clock(kind, &CURRENT)?)? as c_uint);
    nvmlDeviceGetMaxClockInfo(kind: c_uint, out: *mut c_uint) [kind] |view|
        view.put(out, view.num(clock(kind, &MAX)?)? as c_uint);
    nvmlDeviceGetApplicationsClock(kind: c_uint, out: *mut c_uint) [kind] |view|
        view.put(out, view.num(clock(kind, &APPLICATION)?)? as c_uint);
    nvmlDeviceGetDefaultApplicationsClock(kind: c_uint, out: *mut c_uint) [kind] |view|
        view.put(out, view.num(clock(kind, &DEFAULT)?)? as c_uint);
    nvmlDeviceGetMaxCustomerBoostClock(kind: c_uint, out: *mut c_uint) [kind] |view|
        view.put(out, view.num(clock(kind, &BOOST)?)? as c_uint);
    nvmlDeviceGetClock(kind: c_uint, id: c_uint, out: *mut c_uint) [kind * 4 + id] |view| {
        let keys = match id {
            0 => &CURRENT,
            1 => &APPLICATION,
            2 => &DEFAULT,
            3 => &BOOST,
            _ => return Err(code::INVALID_ARGUMENT),
        };
        view.put(out, view.num(clock(kind, keys)?)? as c_uint)
    };
    nvmlDeviceGetViolationStatus(policy: c_uint, out: *mut nvmlViolationTime_t) [policy] |view| {
        let key = match policy {
            0 => Key::ViolationPower,
            1 => Key::ViolationThermal,
            2 => Key::ViolationSyncBoost,
            3 => Key::ViolationBoardLimit,
            4 => Key::ViolationLowUtilization,
            5 => Key::ViolationReliability,
            10 => Key::ViolationAppClocks,
            11 => Key::ViolationBaseClocks,
            _ => return Err(code::INVALID_ARGUMENT),
        };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "seconds of a test")]
        let since = (view.time.seconds * 1e6) as c_ulonglong;
        let time = view.num(key)? as c_ulonglong;
        view.put(out, nvmlViolationTime_t { referenceTime: since, violationTime: time })
    };
    nvmlDeviceGetFanSpeed_v2(fan: c_uint, out: *mut c_uint) [fan] |view| {
        if i64::from(fan) >= view.num(Key::Fans)? {
            return Err(code::INVALID_ARGUMENT);
        }
        view.put(out, view.num(Key::FanSpeed)? as c_uint)
    };
}

fn engine(view: &View, out: *mut c_uint, period: *mut c_uint, key: Key) -> Reply {
    view.not_with_mig()?;
    view.put(out, view.num(key)? as c_uint)?;
    // How long the engine was looked at, in microseconds.
    view.put(period, 1_000_000)
}

/// By nvmlClockType_t: graphics, SM, memory, video.
type Clocks = [Key; 4];

const CURRENT: Clocks = [
    Key::ClocksGraphics,
    Key::ClocksSm,
    Key::ClocksMemory,
    Key::ClocksVideo,
];
const MAX: Clocks = [
    Key::ClocksMaxGraphics,
    Key::ClocksMaxSm,
    Key::ClocksMaxMemory,
    Key::ClocksMaxVideo,
];
const APPLICATION: Clocks = [
    Key::ClocksApplicationGraphics,
    Key::ClocksApplicationSm,
    Key::ClocksApplicationMemory,
    Key::ClocksApplicationVideo,
];
const DEFAULT: Clocks = [
    Key::ClocksDefaultGraphics,
    Key::ClocksDefaultSm,
    Key::ClocksDefaultMemory,
    Key::ClocksDefaultVideo,
];
const BOOST: Clocks = [
    Key::ClocksBoostGraphics,
    Key::ClocksBoostSm,
    Key::ClocksBoostMemory,
    Key::ClocksBoostVideo,
];

fn clock(kind: c_uint, of: &Clocks) -> Reply<Key> {
    of.get(kind as usize).copied().ok_or(code::INVALID_ARGUMENT)
}
