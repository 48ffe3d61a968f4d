//! What a GPU may do: power, temperature, the PCIe link.

use std::ffi::{c_int, c_uint};

use super::{device, numbers};
use crate::call::code;
use crate::scenario::keys::Key;

numbers! {
    nvmlDeviceGetPowerManagementMode: c_uint = PowerManaged;
    nvmlDeviceGetPowerManagementLimit: c_uint = PowerLimit;
    nvmlDeviceGetPowerManagementDefaultLimit: c_uint = PowerDefault;
    nvmlDeviceGetEnforcedPowerLimit: c_uint = PowerEnforced;
    nvmlDeviceGetPowerSource: c_uint = PowerSource;
    nvmlDeviceGetCurrPcieLinkGeneration: c_uint = PcieGen;
    nvmlDeviceGetCurrPcieLinkWidth: c_uint = PcieWidth;
    nvmlDeviceGetMaxPcieLinkGeneration: c_uint = PcieMaxGen;
    nvmlDeviceGetMaxPcieLinkWidth: c_uint = PcieMaxWidth;
    nvmlDeviceGetGpuMaxPcieLinkGeneration: c_uint = PcieGpuMaxGen;
    nvmlDeviceGetPcieSpeed: c_uint = PcieSpeed;
    nvmlDeviceGetPcieLinkMaxSpeed: c_uint = PcieMaxSpeed;
    nvmlDeviceGetPcieReplayCounter: c_uint = PcieReplay;
}

device! {
    nvmlDeviceGetPowerManagementLimitConstraints(least: *mut c_uint, most: *mut c_uint) |view| {
        view.put(least, view.num(Key::PowerMin)? as c_uint)?;
        view.put(most, view.num(Key::PowerMax)? as c_uint)
    };
    nvmlDeviceGetTemperatureThreshold(threshold: c_uint, out: *mut c_uint) [threshold] |view| {
        let key = match threshold {
            0 => Key::ThresholdShutdown,
            1 => Key::ThresholdSlowdown,
            2 => Key::ThresholdMemMax,
            3 => Key::ThresholdGpuMax,
            4 => Key::ThresholdAcousticMin,
            5 => Key::ThresholdAcousticCurrent,
            6 => Key::ThresholdAcousticMax,
            7 => Key::ThresholdGpsCurrent,
            _ => return Err(code::INVALID_ARGUMENT),
        };
        view.put(out, view.num(key)? as c_uint)
    };
    nvmlDeviceGetPcieThroughput(counter: c_uint, out: *mut c_uint) [counter] |view| {
        let key = match counter {
            0 => Key::PcieTx,
            1 => Key::PcieRx,
            _ => return Err(code::INVALID_ARGUMENT),
        };
        view.put(out, view.num(key)? as c_uint)
    };
    nvmlDeviceGetBusType(out: *mut c_int) |view| {
        // NVML_BUS_TYPE_PCIE.
        view.put(out, 2)
    };
}
