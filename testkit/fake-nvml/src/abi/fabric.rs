//! The NVLink fabric, and what cannot be repaired.

use std::ffi::{c_uchar, c_uint};

use nvml_wrapper_sys::bindings::{
    nvmlGpuFabricInfo_t, nvmlGpuFabricInfo_v2_t, nvmlGpuFabricInfo_v3_t, nvmlReturn_t,
};

use super::device;
use super::identity::sixteen;
use crate::call::{Reply, version};
use crate::scenario::keys::Key;
use crate::state::View;

/// NVML's nvmlUnrepairableMemoryStatus_v1_t, which is younger than the bindings.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct UnrepairableMemory {
    /// Whether there is memory that cannot be repaired.
    pub flag: c_uint,
}

device! {
    nvmlDeviceGetGpuFabricInfo(out: *mut nvmlGpuFabricInfo_t) |view| {
        let f = fabric(view)?;
        view.put(out, nvmlGpuFabricInfo_t { clusterUuid: f.uuid, status: f.status, cliqueId: f.clique, state: f.state })
    };
    nvmlDeviceGetGpuFabricInfoV(out: *mut nvmlGpuFabricInfo_v3_t) |view| {
        let second = out.cast::<nvmlGpuFabricInfo_v2_t>();
        if version(second, 2).is_ok() {
            let f = fabric(view)?;
            return view.put_versioned(second, nvmlGpuFabricInfo_v2_t {
                version: 0,
                clusterUuid: f.uuid,
                status: f.status,
                cliqueId: f.clique,
                state: f.state,
                healthMask: f.mask,
            });
        }
        version(out, 3)?;
        let f = fabric(view)?;
        view.put_versioned(out, nvmlGpuFabricInfo_v3_t {
            version: 0,
            clusterUuid: f.uuid,
            status: f.status,
            cliqueId: f.clique,
            state: f.state,
            healthMask: f.mask,
            healthSummary: view.or_zero(Key::FabricHealthSummary) as c_uchar,
        })
    };
    nvmlDeviceGetUnrepairableMemoryFlag_v1(out: *mut UnrepairableMemory) |view| {
        let flag = view.num(Key::Unrepairable)? as c_uint;
        view.put(out, UnrepairableMemory { flag })
    };
}

struct Fabric {
    uuid: [c_uchar; 16],
    status: nvmlReturn_t,
    clique: c_uint,
    state: c_uchar,
    mask: c_uint,
}

fn fabric(view: &View) -> Reply<Fabric> {
    let state = view.num(Key::FabricState)? as c_uchar;
    let uuid = view.gpu.text(Key::FabricUuid).map_or(Ok([0; 16]), sixteen)?;
    Ok(Fabric {
        uuid,
        status: view.or_zero(Key::FabricStatus) as nvmlReturn_t,
        clique: view.or_zero(Key::FabricClique) as c_uint,
        state,
        mask: view.or_zero(Key::FabricHealthMask) as c_uint,
    })
}
