//! GPM: two samples, and metrics from one to the other.

use std::collections::HashMap;
use std::ffi::{CString, c_char, c_uint};
use std::sync::{LazyLock, Mutex, PoisonError};

use nvml_wrapper_sys::bindings::{
    nvmlGpmMetric_t, nvmlGpmMetricsGet_t, nvmlGpmSample_t, nvmlGpmSupport_t, nvmlReturn_t,
};

use super::device;
use crate::call::{Reply, code, on_found, on_system};
use crate::functions::Function as F;
use crate::scenario::keys::Key;
use crate::scenario::value::Time;
use crate::scenario::{gpm, metric_ids};
use crate::state::{View, library};

/// What a sample has taken: of which GPU, of which instance, when.
#[derive(Clone, Copy)]
struct Sample {
    gpu: usize,
    instance: Option<c_uint>,
    time: Time,
}

/// Samples by their handle; `None` until the first time that one is taken.
static SAMPLES: LazyLock<Mutex<HashMap<usize, Option<Sample>>>> = LazyLock::new(Mutex::default);

fn samples() -> std::sync::MutexGuard<'static, HashMap<usize, Option<Sample>>> {
    SAMPLES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// NVML's `nvmlGpmSampleAlloc`.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlGpmSampleAlloc(out: *mut nvmlGpmSample_t) -> nvmlReturn_t {
    on_system(F::nvmlGpmSampleAlloc, true, |_, _| {
        if out.is_null() {
            return Err(code::INVALID_ARGUMENT);
        }
        let mut samples = samples();
        let free = (1..).map(|i| i * 16).find(|h: &usize| !samples.contains_key(h));
        let handle = free.ok_or(code::UNKNOWN)?;
        samples.insert(handle, None);
        // SAFETY: the caller gives a place for a handle.
        unsafe { out.write_unaligned(std::ptr::without_provenance_mut(handle)) };
        Ok(())
    })
}

/// NVML's `nvmlGpmSampleFree`.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlGpmSampleFree(sample: nvmlGpmSample_t) -> nvmlReturn_t {
    on_system(F::nvmlGpmSampleFree, false, |_, _| {
        let freed = samples().remove(&sample.addr());
        freed.map(drop).ok_or(code::INVALID_ARGUMENT)
    })
}

device! {
    nvmlGpmQueryDeviceSupport(out: *mut nvmlGpmSupport_t) |view| {
        plain_version(out, 1)?;
        let supported = view.or_zero(Key::GpmSupported) as c_uint;
        view.put_versioned(out, nvmlGpmSupport_t { version: 0, isSupportedDevice: supported })
    };
    nvmlGpmQueryIfStreamingEnabled(out: *mut c_uint) |view| {
        supported(view)?;
        view.put(out, view.or_zero(Key::GpmStreaming) as c_uint)
    };
    nvmlGpmSampleGet(sample: nvmlGpmSample_t) |view| take(view, None, sample);
    nvmlGpmMigSampleGet(instance: c_uint, sample: nvmlGpmSample_t) [instance] |view| {
        let devices = view.library.mig(&view.live, view.index);
        if !devices.iter().any(|d| d.gi == instance) {
            return Err(code::INVALID_ARGUMENT);
        }
        take(view, Some(instance), sample)
    };
}

fn supported(view: &View) -> Reply {
    match view.or_zero(Key::GpmSupported) {
        0 => Err(code::NOT_SUPPORTED),
        _ => Ok(()),
    }
}

fn take(view: &View, instance: Option<c_uint>, sample: nvmlGpmSample_t) -> Reply {
    supported(view)?;
    let mut samples = samples();
    let slot = samples.get_mut(&sample.addr());
    *slot.ok_or(code::INVALID_ARGUMENT)? = Some(Sample {
        gpu: view.index,
        instance,
        time: view.time,
    });
    Ok(())
}

/// Structs of GPM have a version that is not mixed with their size.
fn plain_version<T>(at: *mut T, number: u32) -> Reply {
    if at.is_null() {
        return Err(code::INVALID_ARGUMENT);
    }
    // SAFETY: the struct begins with a number of 32 bits.
    if unsafe { at.cast::<u32>().read_unaligned() } == number {
        Ok(())
    } else {
        Err(code::ARGUMENT_VERSION_MISMATCH)
    }
}

/// NVML's `nvmlGpmMetricsGet`. The length of its list depends on the header; only `numMetrics` entries are accessed.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlGpmMetricsGet(get: *mut nvmlGpmMetricsGet_t) -> nvmlReturn_t {
    let sample = |of: fn(*mut nvmlGpmMetricsGet_t) -> nvmlGpmSample_t| -> Reply<Sample> {
        plain_version(get, 1)?;
        let taken = samples().get(&of(get).addr()).copied();
        taken.flatten().ok_or(code::INVALID_ARGUMENT)
    };
    // SAFETY: its version shows that it is such a struct.
    let first = sample(|get| unsafe { (*get).sample1 });
    // SAFETY: as above.
    let second = sample(|get| unsafe { (*get).sample2 });
    on_found(
        F::nvmlGpmMetricsGet,
        0,
        |_, _| Ok(first?.gpu),
        |view| {
            let (first, second) = (first?, second?);
            if first.gpu != second.gpu || first.instance != second.instance {
                return Err(code::INVALID_ARGUMENT);
            }
            // SAFETY: as above.
            let count = unsafe { (*get).numMetrics } as usize;
            if count == 0 || count > gpm::MOST as usize {
                return Err(code::INVALID_ARGUMENT);
            }
            // SAFETY: as above.
            let metrics = unsafe { (&raw mut (*get).metrics).cast::<nvmlGpmMetric_t>() };
            for i in 0..count {
                // SAFETY: the caller gives that many.
                metric(view, second, unsafe { &mut *metrics.add(i) });
            }
            Ok(())
        },
    )
}

fn metric(view: &View, sample: Sample, out: &mut nvmlGpmMetric_t) {
    if let Some(name) = usize::try_from(out.metricId).ok().and_then(|i| NAMES.get(i)) {
        let name: *mut c_char = name.as_ptr().cast_mut();
        out.metricInfo.shortName = name;
        out.metricInfo.longName = name;
        out.metricInfo.unit = c"".as_ptr().cast_mut();
    }
    if view.garbage {
        out.nvmlReturn = code::SUCCESS;
        out.value = f64::from_bits(u64::MAX);
        return;
    }
    let value = match sample.instance {
        None => view.gpu.gpm.get(&out.metricId).and_then(|v| v.float(sample.time)),
        Some(instance) => {
            let devices = library().mig(&view.live, sample.gpu);
            let device = devices.iter().find(|d| d.gi == instance);
            let metrics = device.and_then(|d| metric_ids(d.gpm.clone()).ok());
            metrics.and_then(|m| m.get(&out.metricId)?.float(sample.time))
        }
    };
    match value {
        Some(value) => {
            out.nvmlReturn = code::SUCCESS;
            out.value = value;
        }
        None => out.nvmlReturn = code::NOT_SUPPORTED,
    }
}

static NAMES: LazyLock<Vec<CString>> = LazyLock::new(|| {
    (0..gpm::MOST)
        .map(|i| CString::new(gpm::name(i)).unwrap_or_default())
        .collect()
});
