//! Memory: sizes, retired pages, remapped rows.

use std::ffi::{c_uint, c_ulonglong};

use nvml_wrapper_sys::bindings::{
    nvmlBAR1Memory_t, nvmlConfComputeMemSizeInfo_t, nvmlMemory_t, nvmlMemory_v2_t, nvmlRepairStatus_v1_t,
    nvmlRowRemapperHistogramValues_t,
};

use super::{device, numbers};
use crate::call::{Reply, code};
use crate::functions::Function;
use crate::scenario::keys::Key;
use crate::state::View;

numbers! {
    nvmlDeviceGetRetiredPagesPendingStatus: c_uint = RetiredPending;
}

device! {
    nvmlDeviceGetMemoryInfo(out: *mut nvmlMemory_t) |view| {
        let (total, reserved, used) = sizes(view)?;
        let free = total - reserved - used;
        // Before R510, which added the second version of the call, the total left reserved memory out; now it counts as used.
        if view.library.scenario.lacks(Function::nvmlDeviceGetMemoryInfo_v2) {
            return view.put(out, nvmlMemory_t { total: total - reserved, free, used });
        }
        view.put(out, nvmlMemory_t { total, free, used: used + reserved })
    };
    nvmlDeviceGetConfComputeMemSizeInfo(out: *mut nvmlConfComputeMemSizeInfo_t) |view| {
        // As without confidential computing: all of it is unprotected.
        let (total, ..) = sizes(view)?;
        view.put(out, nvmlConfComputeMemSizeInfo_t { protectedMemSizeKib: 0, unprotectedMemSizeKib: total >> 10 })
    };
    nvmlDeviceGetMemoryInfo_v2(out: *mut nvmlMemory_v2_t) |view| {
        view.version(out, 2)?;
        let (total, reserved, used) = sizes(view)?;
        let free = total - reserved - used;
        view.put_versioned(out, nvmlMemory_v2_t { version: 0, total, reserved, free, used })
    };
    nvmlDeviceGetBAR1MemoryInfo(out: *mut nvmlBAR1Memory_t) |view| {
        let total = view.num(Key::Bar1Total)? as c_ulonglong;
        let used = view.num(Key::Bar1Used)? as c_ulonglong;
        view.put(out, nvmlBAR1Memory_t { bar1Total: total, bar1Free: total.saturating_sub(used), bar1Used: used })
    };
    nvmlDeviceGetRetiredPages(cause: c_uint, count: *mut c_uint, out: *mut c_ulonglong) [cause] |view|
        pages(view, cause, count, out, std::ptr::null_mut());
    nvmlDeviceGetRetiredPages_v2(
        cause: c_uint, count: *mut c_uint, out: *mut c_ulonglong, times: *mut c_ulonglong
    ) [cause] |view| pages(view, cause, count, out, times);
    nvmlDeviceGetRemappedRows(
        corrected: *mut c_uint, uncorrected: *mut c_uint, pending: *mut c_uint, failure: *mut c_uint
    ) |view| {
        if !view.library.mig(&view.live, view.index).is_empty() {
            return Err(code::NOT_SUPPORTED);
        }
        view.put(corrected, view.num(Key::RemapCorrected)? as c_uint)?;
        view.put(uncorrected, view.num(Key::RemapUncorrected)? as c_uint)?;
        view.put(pending, view.num(Key::RemapPending)? as c_uint)?;
        view.put(failure, view.num(Key::RemapFailure)? as c_uint)
    };
    nvmlDeviceGetRowRemapperHistogram(out: *mut nvmlRowRemapperHistogramValues_t) |view| {
        view.put(out, nvmlRowRemapperHistogramValues_t {
            max: view.num(Key::RemapHistogramMax)? as c_uint,
            high: view.num(Key::RemapHistogramHigh)? as c_uint,
            partial: view.num(Key::RemapHistogramPartial)? as c_uint,
            low: view.num(Key::RemapHistogramLow)? as c_uint,
            none: view.num(Key::RemapHistogramNone)? as c_uint,
        })
    };
    nvmlDeviceGetRepairStatus(out: *mut nvmlRepairStatus_v1_t) |view| {
        view.version(out, 1)?;
        view.put_versioned(out, nvmlRepairStatus_v1_t {
            version: 0,
            bChannelRepairPending: view.num(Key::RepairChannel)? as c_uint,
            bTpcRepairPending: view.num(Key::RepairTpc)? as c_uint,
        })
    };
}

/// Total, reserved and used bytes of the GPU or MIG device.
fn sizes(view: &View) -> Reply<(c_ulonglong, c_ulonglong, c_ulonglong)> {
    let (total, reserved, used) = match view.mig {
        Some((_, device)) => {
            let of = |v: &crate::scenario::value::Value| v.int(view.time).ok_or(code::NOT_SUPPORTED);
            (of(&device.total)?, of(&device.reserved)?, of(&device.used)?)
        }
        None => (
            view.num(Key::MemoryTotal)?,
            view.or_zero(Key::MemoryReserved),
            view.num(Key::MemoryUsed)?,
        ),
    };
    let used = used.clamp(0, total - reserved);
    Ok((total as c_ulonglong, reserved as c_ulonglong, used as c_ulonglong))
}

fn pages(
    view: &View,
    cause: c_uint,
    count: *mut c_uint,
    out: *mut c_ulonglong,
    times: *mut c_ulonglong,
) -> Reply {
    // A GPU that does not retire pages has no pending flag.
    view.num(Key::RetiredPending)?;
    let pages = match cause {
        0 => &view.gpu.retired_sbe,
        1 => &view.gpu.retired_dbe,
        _ => return Err(code::INVALID_ARGUMENT),
    };
    if count.is_null() {
        return Err(code::INVALID_ARGUMENT);
    }
    let has = c_uint::try_from(pages.len()).unwrap_or(0);
    // SAFETY: the caller gives a number.
    let room = unsafe { count.read_unaligned() };
    view.put(count, has)?;
    if has > room {
        return Err(code::INSUFFICIENT_SIZE);
    }
    for (i, page) in pages.iter().enumerate() {
        // SAFETY: the caller gives a place for `room` of them, which is no less.
        view.put(unsafe { out.add(i) }, *page)?;
        if !times.is_null() {
            // SAFETY: as above.
            view.put(unsafe { times.add(i) }, 1_700_000_000_000_000)?;
        }
    }
    Ok(())
}
