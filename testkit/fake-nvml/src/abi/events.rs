//! Events: sets, their registered events, and the wait.

use std::collections::HashMap;
use std::ffi::{c_uint, c_ulonglong};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nvml_wrapper_sys::bindings::{nvmlDevice_t, nvmlEventData_t, nvmlEventSet_t, nvmlReturn_t};

use super::{device, numbers};
use crate::call::{Reply, code, on_system, ready};
use crate::control::Event;
use crate::functions::Function as F;
use crate::scenario::keys::Key;
use crate::state::{Handle, Library, Live};

/// An event set: its registered events, and the last event that it returned.
#[derive(Default)]
struct Set {
    registered: Vec<Registered>,
    last: u64,
}

struct Registered {
    gpu: usize,
    kinds: c_ulonglong,
    /// Events up to here were before it.
    since: u64,
}

/// Sets by their handle.
static SETS: LazyLock<Mutex<HashMap<usize, Set>>> = LazyLock::new(Mutex::default);

fn sets() -> MutexGuard<'static, HashMap<usize, Set>> {
    SETS.lock().unwrap_or_else(PoisonError::into_inner)
}

numbers! {
    nvmlDeviceGetSupportedEventTypes: c_ulonglong = Events;
}

device! {
    nvmlDeviceRegisterEvents(kinds: c_ulonglong, set: nvmlEventSet_t) |view| {
        if view.mig.is_some() {
            return Err(code::NOT_SUPPORTED);
        }
        let supported = view.num(Key::Events)? as c_ulonglong;
        if kinds & !supported != 0 {
            return Err(code::NOT_SUPPORTED);
        }
        let since = last(&view.live);
        let mut sets = sets();
        let set = sets.get_mut(&set.addr()).ok_or(code::INVALID_ARGUMENT)?;
        set.registered.push(Registered { gpu: view.index, kinds, since });
        Ok(())
    };
}

fn last(live: &Live) -> u64 {
    live.control.events.last().map_or(0, |e| e.seq)
}

/// NVML's `nvmlEventSetCreate`.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlEventSetCreate(out: *mut nvmlEventSet_t) -> nvmlReturn_t {
    on_system(F::nvmlEventSetCreate, true, |_, _| {
        if out.is_null() {
            return Err(code::INVALID_ARGUMENT);
        }
        let mut sets = sets();
        let free = (1..).map(|i| i * 16).find(|h: &usize| !sets.contains_key(h));
        let handle = free.ok_or(code::UNKNOWN)?;
        sets.insert(handle, Set::default());
        // SAFETY: the caller gives a place for a handle.
        unsafe { out.write_unaligned(std::ptr::without_provenance_mut(handle)) };
        Ok(())
    })
}

/// NVML's `nvmlEventSetFree`.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlEventSetFree(set: nvmlEventSet_t) -> nvmlReturn_t {
    on_system(F::nvmlEventSetFree, true, |_, _| {
        let freed = sets().remove(&set.addr());
        freed.map(drop).ok_or(code::INVALID_ARGUMENT)
    })
}

/// NVML's `nvmlEventSetWait`: as the second version, in a struct that ends before the instances.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlEventSetWait(
    set: nvmlEventSet_t,
    out: *mut nvmlEventData_t,
    limit_ms: c_uint,
) -> nvmlReturn_t {
    wait(F::nvmlEventSetWait, set, out, limit_ms, |out, data| {
        // SAFETY: the caller gives a place for these three.
        unsafe {
            (*out).device = data.device;
            (*out).eventType = data.eventType;
            (*out).eventData = data.eventData;
        }
    })
}

/// NVML's `nvmlEventSetWait_v2`.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlEventSetWait_v2(
    set: nvmlEventSet_t,
    out: *mut nvmlEventData_t,
    limit_ms: c_uint,
) -> nvmlReturn_t {
    wait(F::nvmlEventSetWait_v2, set, out, limit_ms, |out, data| {
        // SAFETY: the caller gives a place for it.
        unsafe { out.write_unaligned(data) };
    })
}

fn wait(
    function: F,
    set: nvmlEventSet_t,
    out: *mut nvmlEventData_t,
    limit_ms: c_uint,
    give: fn(*mut nvmlEventData_t, nvmlEventData_t),
) -> nvmlReturn_t {
    on_system(function, true, |library, _| {
        if out.is_null() {
            return Err(code::INVALID_ARGUMENT);
        }
        let end = Instant::now() + Duration::from_millis(limit_ms.into());
        loop {
            let live = library.live();
            if let Some(event) = next(&live, set.addr())? {
                give(out, data(&live, &event));
                return Ok(());
            }
            let left = end.saturating_duration_since(Instant::now());
            let Some(file) = library.control.as_ref().filter(|_| !left.is_zero()) else {
                std::thread::sleep(left);
                return Err(code::TIMEOUT);
            };
            file.wait(live.generation, Some(left));
            waiting(library, function)?;
        }
    })
}

/// What a change may have done to a call that waits.
fn waiting(library: &Library, function: F) -> Reply {
    ready(library)?;
    library.faults(function, None).map(drop)
}

/// The next event that a set wants.
fn next(live: &Live, set: usize) -> Reply<Option<Event>> {
    let mut sets = sets();
    let set = sets.get_mut(&set).ok_or(code::INVALID_ARGUMENT)?;
    let wanted = |event: &&Event| {
        event.seq > set.last
            && set
                .registered
                .iter()
                .any(|r| r.gpu == event.gpu as usize && r.kinds & event.kind != 0 && event.seq > r.since)
    };
    let found = live.control.events.iter().find(wanted).cloned();
    if let Some(event) = &found {
        set.last = event.seq;
    }
    Ok(found)
}

fn data(live: &Live, event: &Event) -> nvmlEventData_t {
    let handle: nvmlDevice_t = Handle::new(event.gpu as usize, None, live.control.reloads).encode();
    nvmlEventData_t {
        device: handle,
        eventType: event.kind,
        eventData: event.data,
        gpuInstanceId: event.gi.unwrap_or(c_uint::MAX),
        computeInstanceId: event.ci.unwrap_or(c_uint::MAX),
    }
}
