//! MIG devices.

use std::ffi::{c_uint, c_ulonglong};

use nvml_wrapper_sys::bindings::{nvmlDevice_t, nvmlDeviceAttributes_t};

use super::device;
use crate::call::{Reply, code};
use crate::scenario::MigDevice;
use crate::scenario::keys::Key;
use crate::state::{Handle, View};

device! {
    nvmlDeviceGetMigMode(current: *mut c_uint, pending: *mut c_uint) |view| {
        view.num(Key::MigCurrent)?;
        let mode = view.library.mig_mode(&view.live, view.index);
        let mode = c_uint::from(mode.ok_or(code::NOT_SUPPORTED)?);
        // A layout that a test has set is active immediately.
        let set = view.live.control.layouts.contains_key(&view.index.to_string());
        let after = if set { mode } else { view.num(Key::MigPending)? as c_uint };
        view.put(current, mode)?;
        view.put(pending, after)
    };
    nvmlDeviceIsMigDeviceHandle(out: *mut c_uint) |view| view.put(out, c_uint::from(view.mig.is_some()));
    nvmlDeviceGetMaxMigDeviceCount(out: *mut c_uint) |view| {
        // 0 on a GPU without MIG support.
        if view.mig.is_some() {
            return Err(code::INVALID_ARGUMENT);
        }
        view.put(out, view.or_zero(Key::MigMax) as c_uint)
    };
    nvmlDeviceGetMigDeviceHandleByIndex(index: c_uint, out: *mut nvmlDevice_t) [index] |view| {
        if view.library.mig_mode(&view.live, view.index) != Some(true) {
            return Err(code::NOT_SUPPORTED);
        }
        if i64::from(index) >= view.or_zero(Key::MigMax) {
            return Err(code::INVALID_ARGUMENT);
        }
        let devices = view.library.mig(&view.live, view.index);
        if index as usize >= devices.len() {
            return Err(code::NOT_FOUND);
        }
        let handle = Handle::new(view.index, Some(index as usize), view.live.control.reloads);
        give(out, handle)
    };
    nvmlDeviceGetDeviceHandleFromMigDeviceHandle(out: *mut nvmlDevice_t) |view| {
        of_mig(view)?;
        give(out, Handle::new(view.index, None, view.live.control.reloads))
    };
    nvmlDeviceGetGpuInstanceId(out: *mut c_uint) |view| view.put(out, of_mig(view)?.gi);
    nvmlDeviceGetComputeInstanceId(out: *mut c_uint) |view| view.put(out, of_mig(view)?.ci);
    nvmlDeviceGetAttributes(out: *mut nvmlDeviceAttributes_t) |view| view.put(out, attributes(view)?);
    nvmlDeviceGetAttributes_v2(out: *mut nvmlDeviceAttributes_t) |view| view.put(out, attributes(view)?);
}

/// Handles are never garbage: a program could not use them.
fn give(out: *mut nvmlDevice_t, handle: Handle) -> Reply {
    if out.is_null() {
        return Err(code::INVALID_ARGUMENT);
    }
    // SAFETY: the caller provides space for a handle.
    unsafe { out.write_unaligned(handle.encode()) };
    Ok(())
}

fn of_mig(view: &View) -> Reply<&'static MigDevice> {
    view.mig.map(|(_, device)| device).ok_or(code::INVALID_ARGUMENT)
}

fn attributes(view: &View) -> Reply<nvmlDeviceAttributes_t> {
    let device = view.mig.map(|(_, d)| d).ok_or(code::NOT_SUPPORTED)?;
    Ok(nvmlDeviceAttributes_t {
        multiprocessorCount: device.sm,
        sharedCopyEngineCount: device.copy,
        sharedDecoderCount: device.decoders,
        sharedEncoderCount: device.encoders,
        sharedJpegCount: device.jpeg,
        sharedOfaCount: device.ofa,
        gpuInstanceSliceCount: device.slices,
        computeInstanceSliceCount: device.ci_slices.unwrap_or(device.slices),
        memorySizeMB: device.memory_mb as c_ulonglong,
    })
}
