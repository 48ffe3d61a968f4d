//! The NVLink fabric, and unrepairable memory.

use std::ffi::{c_uchar, c_uint};

use nvml_wrapper_sys::bindings::{
    nvmlGpuFabricInfo_t, nvmlGpuFabricInfo_v2_t, nvmlGpuFabricInfo_v3_t, nvmlReturn_t,
};

use super::device;
use super::identity::sixteen;
use crate::call::{code, version};
use crate::scenario::keys::Key;

/// NVML's nvmlUnrepairableMemory_v1_t, which is younger than the bindings; from nvidia-ml-py.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct UnrepairableMemory {
    version: c_uint,
    unrepairable: c_uint,
}

/// Fills what all versions have. All of it is cleared first, behind the version: bindings differ in how wide the state
/// is, so what pads it is read too.
macro_rules! fill {
    ($view:ident, $out:ident, $from:literal) => {{
        let out = $out;
        if out.is_null() {
            return Err(code::INVALID_ARGUMENT);
        }
        let state = $view.num(Key::FabricState)? as c_uchar;
        let uuid = $view.gpu.text(Key::FabricUuid).map_or(Ok([0; 16]), sixteen)?;
        // SAFETY: the caller gives a place for such a struct.
        unsafe {
            let length = size_of_val(&*out) - $from;
            std::ptr::write_bytes(out.cast::<u8>().add($from), 0, length);
            $view.put(&raw mut (*out).clusterUuid, uuid)?;
            let status = $view.or_zero(Key::FabricStatus) as nvmlReturn_t;
            $view.put(&raw mut (*out).status, status)?;
            $view.put(
                &raw mut (*out).cliqueId,
                $view.or_zero(Key::FabricClique) as c_uint,
            )?;
            $view.put(&raw mut (*out).state, state)
        }
    }};
}

device! {
    nvmlDeviceGetGpuFabricInfo(out: *mut nvmlGpuFabricInfo_t) |view| fill!(view, out, 0);
    nvmlDeviceGetGpuFabricInfoV(out: *mut nvmlGpuFabricInfo_v3_t) |view| {
        let second = out.cast::<nvmlGpuFabricInfo_v2_t>();
        if version(second, 2).is_ok() {
            fill!(view, second, 4)?;
            // SAFETY: its version shows that it is such a struct.
            return view.put(unsafe { &raw mut (*second).healthMask }, view.or_zero(Key::FabricHealthMask) as c_uint);
        }
        version(out, 3)?;
        fill!(view, out, 4)?;
        // SAFETY: as above.
        let (mask, summary) = unsafe { (&raw mut (*out).healthMask, &raw mut (*out).healthSummary) };
        view.put(mask, view.or_zero(Key::FabricHealthMask) as c_uint)?;
        // A driver without a summary is older than this version.
        let known = view.num(Key::FabricHealthSummary).map_err(|_| code::ARGUMENT_VERSION_MISMATCH)?;
        view.put(summary, known as c_uchar)
    };
    nvmlDeviceGetUnrepairableMemoryFlag_v1(out: *mut UnrepairableMemory) |view| {
        view.version(out, 1)?;
        let unrepairable = view.num(Key::Unrepairable)? as c_uint;
        view.put_versioned(out, UnrepairableMemory { version: 0, unrepairable })
    };
}
