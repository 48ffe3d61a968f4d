//! Processes on a GPU.

use std::ffi::{c_uint, c_ulonglong};

use nvml_wrapper_sys::bindings::{
    nvmlProcessDetail_v1_t, nvmlProcessDetailList_v1_t, nvmlProcessInfo_v1_t, nvmlProcessInfo_v2_t,
    nvmlProcessUtilizationInfo_v1_t, nvmlProcessUtilizationSample_t, nvmlProcessesUtilizationInfo_v1_t,
};

use super::device;
use crate::call::{Reply, code, int};
use crate::functions::Function;
use crate::scenario::value::Value;
use crate::scenario::{Process, ProcessKind};
use crate::state::View;

device! {
    nvmlDeviceGetComputeRunningProcesses(count: *mut c_uint, out: *mut nvmlProcessInfo_v1_t) |view|
        running(view, ProcessKind::Compute, count, out, first);
    nvmlDeviceGetComputeRunningProcesses_v2(count: *mut c_uint, out: *mut nvmlProcessInfo_v2_t) |view|
        running(view, ProcessKind::Compute, count, out, second);
    nvmlDeviceGetComputeRunningProcesses_v3(count: *mut c_uint, out: *mut nvmlProcessInfo_v2_t) |view|
        third(view, ProcessKind::Compute, count, out);
    nvmlDeviceGetGraphicsRunningProcesses(count: *mut c_uint, out: *mut nvmlProcessInfo_v1_t) |view|
        running(view, ProcessKind::Graphics, count, out, first);
    nvmlDeviceGetGraphicsRunningProcesses_v2(count: *mut c_uint, out: *mut nvmlProcessInfo_v2_t) |view|
        running(view, ProcessKind::Graphics, count, out, second);
    nvmlDeviceGetGraphicsRunningProcesses_v3(count: *mut c_uint, out: *mut nvmlProcessInfo_v2_t) |view|
        third(view, ProcessKind::Graphics, count, out);
    nvmlDeviceGetMPSComputeRunningProcesses(count: *mut c_uint, out: *mut nvmlProcessInfo_v1_t) |view|
        running(view, ProcessKind::Mps, count, out, first);
    nvmlDeviceGetMPSComputeRunningProcesses_v2(count: *mut c_uint, out: *mut nvmlProcessInfo_v2_t) |view|
        running(view, ProcessKind::Mps, count, out, second);
    nvmlDeviceGetMPSComputeRunningProcesses_v3(count: *mut c_uint, out: *mut nvmlProcessInfo_v2_t) |view|
        third(view, ProcessKind::Mps, count, out);
    nvmlDeviceGetRunningProcessDetailList(out: *mut nvmlProcessDetailList_v1_t) |view| {
        view.version(out, 1)?;
        // SAFETY: its version shows that it is such a struct.
        let (mode, count, array) = unsafe { ((*out).mode, &raw mut (*out).numProcArrayEntries, (*out).procArray) };
        let kind = match mode {
            0 => ProcessKind::Compute,
            1 => ProcessKind::Graphics,
            2 => ProcessKind::Mps,
            _ => return Err(code::INVALID_ARGUMENT),
        };
        running(view, kind, count, array, detail)
    };
    nvmlDeviceGetProcessUtilization(
        out: *mut nvmlProcessUtilizationSample_t, count: *mut c_uint, seen: c_ulonglong
    ) |view| {
        view.not_with_mig()?;
        let now = stamp(view);
        let samples: Vec<_> = measured(view, seen)?.into_iter().map(|p| nvmlProcessUtilizationSample_t {
            pid: p.pid,
            timeStamp: now,
            smUtil: percent(view, p.sm.as_ref()),
            memUtil: percent(view, p.mem.as_ref()),
            encUtil: percent(view, p.enc.as_ref()),
            decUtil: percent(view, p.dec.as_ref()),
        }).collect();
        list(view, count, out, &samples)
    };
    nvmlDeviceGetProcessesUtilizationInfo(out: *mut nvmlProcessesUtilizationInfo_v1_t) |view| {
        view.version(out, 1)?;
        view.not_with_mig()?;
        // SAFETY: its version shows that it is such a struct.
        let seen = unsafe { (*out).lastSeenTimeStamp };
        let now = stamp(view);
        let samples: Vec<_> = measured(view, seen)?.into_iter().map(|p| nvmlProcessUtilizationInfo_v1_t {
            timeStamp: now,
            pid: p.pid,
            smUtil: percent(view, p.sm.as_ref()),
            memUtil: percent(view, p.mem.as_ref()),
            encUtil: percent(view, p.enc.as_ref()),
            decUtil: percent(view, p.dec.as_ref()),
            jpgUtil: percent(view, p.jpg.as_ref()),
            ofaUtil: percent(view, p.ofa.as_ref()),
        }).collect();
        // SAFETY: as above.
        let (count, array) = unsafe { (&raw mut (*out).processSamplesCount, (*out).procUtilArray) };
        list(view, count, array, &samples)
    };
}

/// What the library calls unknown.
const NOT_AVAILABLE: c_ulonglong = c_ulonglong::MAX;
const NO_INSTANCE: c_uint = c_uint::MAX;

fn first(process: &Process, memory: c_ulonglong) -> nvmlProcessInfo_v1_t {
    nvmlProcessInfo_v1_t {
        pid: process.pid,
        usedGpuMemory: memory,
    }
}

fn second(process: &Process, memory: c_ulonglong) -> nvmlProcessInfo_v2_t {
    nvmlProcessInfo_v2_t {
        pid: process.pid,
        usedGpuMemory: memory,
        gpuInstanceId: process.gi.unwrap_or(NO_INSTANCE),
        computeInstanceId: process.ci.unwrap_or(NO_INSTANCE),
    }
}

fn detail(process: &Process, memory: c_ulonglong) -> nvmlProcessDetail_v1_t {
    let nvmlProcessInfo_v2_t {
        pid,
        usedGpuMemory,
        gpuInstanceId,
        computeInstanceId,
    } = second(process, memory);
    nvmlProcessDetail_v1_t {
        pid,
        usedGpuMemory,
        gpuInstanceId,
        computeInstanceId,
        usedGpuCcProtectedMemory: 0,
    }
}

/// Drivers 535.43 to 535.86 have memory of confidential computing but no list of details: they write its entries here.
fn third(view: &View, kind: ProcessKind, count: *mut c_uint, out: *mut nvmlProcessInfo_v2_t) -> Reply {
    let lacks = |function| view.library.scenario.lacks(function);
    if lacks(Function::nvmlDeviceGetRunningProcessDetailList)
        && !lacks(Function::nvmlDeviceGetConfComputeMemSizeInfo)
    {
        return running(view, kind, count, out.cast(), detail);
    }
    running(view, kind, count, out, second)
}

/// Of a MIG device: those in its instances.
fn own(view: &View) -> impl Iterator<Item = &Process> {
    view.gpu.processes.iter().filter(|p| match view.mig {
        None => true,
        Some((_, d)) => p.gi == Some(d.gi) && p.ci == Some(d.ci),
    })
}

fn running<T: Copy>(
    view: &View,
    kind: ProcessKind,
    count: *mut c_uint,
    out: *mut T,
    entry: fn(&Process, c_ulonglong) -> T,
) -> Reply {
    let memory = |p: &Process| int(p.memory.as_ref(), view.time).map_or(NOT_AVAILABLE, |m| m as c_ulonglong);
    let all: Vec<T> = own(view)
        .filter(|p| p.kind == kind)
        .map(|p| entry(p, memory(p)))
        .collect();
    list(view, count, out, &all)
}

/// Processes with a sample since `seen`.
fn measured(view: &View, seen: c_ulonglong) -> Reply<Vec<&Process>> {
    let all: Vec<_> = own(view).filter(|p| p.sm.is_some()).collect();
    if all.is_empty() || stamp(view) <= seen {
        return Err(code::NOT_FOUND);
    }
    Ok(all)
}

/// Microseconds since 1970, in the scenario's time.
pub(super) fn stamp(view: &View) -> c_ulonglong {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "seconds of a test"
    )]
    let since = (view.time.seconds * 1e6) as c_ulonglong;
    1_700_000_000_000_000 + since
}

fn percent(view: &View, value: Option<&Value>) -> c_uint {
    int(value, view.time).unwrap_or(0) as c_uint
}

/// Returns a list if there is space for it, and its length.
fn list<T: Copy>(view: &View, count: *mut c_uint, out: *mut T, all: &[T]) -> Reply {
    if count.is_null() {
        return Err(code::INVALID_ARGUMENT);
    }
    // SAFETY: the caller gives a number.
    let room = unsafe { count.read_unaligned() } as usize;
    // SAFETY: as above.
    unsafe { count.write_unaligned(c_uint::try_from(all.len()).unwrap_or(0)) };
    if all.len() > room {
        return Err(code::INSUFFICIENT_SIZE);
    }
    for (i, one) in all.iter().enumerate() {
        view.put(out.wrapping_add(i), *one)?;
    }
    Ok(())
}
