//! Errors that memory has corrected or not.

use std::ffi::{c_uint, c_ulonglong};

use nvml_wrapper_sys::bindings::{nvmlEccErrorCounts_t, nvmlEccSramErrorStatus_v1_t};

use super::{device, numbers};
use crate::call::{Reply, code};
use crate::scenario::keys::Key;
use crate::state::View;

numbers! {
    nvmlDeviceGetDefaultEccMode: c_uint = EccDefault;
}

device! {
    nvmlDeviceGetEccMode(current: *mut c_uint, pending: *mut c_uint) |view| {
        view.put(current, view.num(Key::EccMode)? as c_uint)?;
        view.put(pending, view.num(Key::EccPending)? as c_uint)
    };
    nvmlDeviceGetTotalEccErrors(error: c_uint, counter: c_uint, out: *mut c_ulonglong) [counter * 2 + error] |view|
        view.put(out, errors(view, error, counter, "total")?);
    nvmlDeviceGetDetailedEccErrors(error: c_uint, counter: c_uint, out: *mut nvmlEccErrorCounts_t)
        [counter * 2 + error] |view| {
        view.put(out, nvmlEccErrorCounts_t {
            l1Cache: errors(view, error, counter, "l1")?,
            l2Cache: errors(view, error, counter, "l2")?,
            deviceMemory: errors(view, error, counter, "device")?,
            registerFile: errors(view, error, counter, "register")?,
        })
    };
    nvmlDeviceGetMemoryErrorCounter(error: c_uint, counter: c_uint, location: c_uint, out: *mut c_ulonglong)
        [location * 4 + counter * 2 + error] |view| {
        const LOCATIONS: [&str; 8] = ["l1", "l2", "device", "register", "texture", "shared", "cbu", "sram"];
        let location = LOCATIONS.get(location as usize).ok_or(code::INVALID_ARGUMENT)?;
        view.put(out, errors(view, error, counter, location)?)
    };
    nvmlDeviceGetSramEccErrorStatus(out: *mut nvmlEccSramErrorStatus_v1_t) |view| {
        view.version(out, 1)?;
        view.num(Key::SramThresholdExceeded)?;
        let of = |key| view.or_zero(key) as c_ulonglong;
        view.put_versioned(out, nvmlEccSramErrorStatus_v1_t {
            version: 0,
            aggregateUncParity: of(Key::SramAggregateParity),
            aggregateUncSecDed: of(Key::SramAggregateSecded),
            aggregateCor: of(Key::SramAggregateCorrected),
            volatileUncParity: of(Key::SramVolatileParity),
            volatileUncSecDed: of(Key::SramVolatileSecded),
            volatileCor: of(Key::SramVolatileCorrected),
            aggregateUncBucketL2: of(Key::SramL2),
            aggregateUncBucketSm: of(Key::SramSm),
            aggregateUncBucketPcie: of(Key::SramPcie),
            aggregateUncBucketMcu: of(Key::SramMcu),
            aggregateUncBucketOther: of(Key::SramOther),
            bThresholdExceeded: view.num(Key::SramThresholdExceeded)? as c_uint,
        })
    };
}

/// nvmlMemoryErrorType_t and nvmlEccCounterType_t as words.
fn errors(view: &View, error: c_uint, counter: c_uint, location: &str) -> Reply<c_ulonglong> {
    let error = match error {
        0 => "corrected",
        1 => "uncorrected",
        _ => return Err(code::INVALID_ARGUMENT),
    };
    let counter = match counter {
        0 => "volatile",
        1 => "aggregate",
        _ => return Err(code::INVALID_ARGUMENT),
    };
    // Nothing is counted while ECC is off.
    if view.num(Key::EccMode)? == 0 {
        return Err(code::NOT_SUPPORTED);
    }
    let key = Key::find(&format!("ecc.{counter}.{error}.{location}"));
    Ok(view.num(key.ok_or(code::UNKNOWN)?)? as c_ulonglong)
}
