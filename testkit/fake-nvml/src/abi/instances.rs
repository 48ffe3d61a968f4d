//! GPU instances and compute instances, the parts of MIG devices.

use std::ffi::c_uint;

use nvml_wrapper_sys::bindings::{
    nvmlComputeInstance_t, nvmlComputeInstanceInfo_t, nvmlComputeInstancePlacement_t, nvmlDevice_t,
    nvmlGpuInstance_t, nvmlGpuInstanceInfo_t, nvmlGpuInstancePlacement_t, nvmlGpuInstanceProfileInfo_t,
    nvmlGpuInstanceProfileInfo_v2_t, nvmlGpuInstanceProfileInfo_v3_t, nvmlReturn_t,
};

use super::device;
use crate::call::{Reply, chars, code, on_found, version};
use crate::functions::Function as F;
use crate::scenario::{MigDevice, Profile};
use crate::state::{Handle, View};

device! {
    nvmlDeviceGetGpuInstanceProfileInfo(number: c_uint, out: *mut nvmlGpuInstanceProfileInfo_t) [number] |view| {
        let p = profile(view, number)?;
        view.put(out, nvmlGpuInstanceProfileInfo_t {
            id: p.id,
            isP2pSupported: 0,
            sliceCount: p.slices,
            instanceCount: p.instances,
            multiprocessorCount: p.sm,
            copyEngineCount: p.copy,
            decoderCount: p.decoders,
            encoderCount: p.encoders,
            jpegCount: p.jpeg,
            ofaCount: p.ofa,
            memorySizeMB: p.memory_mb,
        })
    };
    nvmlDeviceGetGpuInstanceProfileInfoV(number: c_uint, out: *mut nvmlGpuInstanceProfileInfo_v2_t) [number] |view| {
        let third = out.cast::<nvmlGpuInstanceProfileInfo_v3_t>();
        if version(third, 3).is_ok() {
            let p = profile(view, number)?;
            return view.put_versioned(third, nvmlGpuInstanceProfileInfo_v3_t {
                version: 0,
                id: p.id,
                sliceCount: p.slices,
                instanceCount: p.instances,
                multiprocessorCount: p.sm,
                copyEngineCount: p.copy,
                decoderCount: p.decoders,
                encoderCount: p.encoders,
                jpegCount: p.jpeg,
                ofaCount: p.ofa,
                memorySizeMB: p.memory_mb,
                name: chars(&p.name),
                capabilities: 0,
            });
        }
        version(out, 2)?;
        let p = profile(view, number)?;
        view.put_versioned(out, nvmlGpuInstanceProfileInfo_v2_t {
            version: 0,
            id: p.id,
            isP2pSupported: 0,
            sliceCount: p.slices,
            instanceCount: p.instances,
            multiprocessorCount: p.sm,
            copyEngineCount: p.copy,
            decoderCount: p.decoders,
            encoderCount: p.encoders,
            jpegCount: p.jpeg,
            ofaCount: p.ofa,
            memorySizeMB: p.memory_mb,
            name: chars(&p.name),
        })
    };
    nvmlDeviceGetGpuInstanceRemainingCapacity(id: c_uint, out: *mut c_uint) [id] |view| {
        let p = view.gpu.profiles.iter().find(|p| p.id == id).ok_or(code::NOT_SUPPORTED)?;
        let used = instances(view).iter().filter(|d| d.profile == id).count();
        view.put(out, p.instances.saturating_sub(c_uint::try_from(used).unwrap_or(0)))
    };
    nvmlDeviceGetGpuInstances(profile: c_uint, out: *mut nvmlGpuInstance_t, count: *mut c_uint) [profile] |view| {
        let handles = instances(view).into_iter().filter(|d| d.profile == profile);
        let handles: Vec<nvmlGpuInstance_t> = handles.map(|d| Instance::new(view, d.gi, 0).encode()).collect();
        list(out, count, &handles)
    };
    nvmlDeviceGetGpuInstanceById(id: c_uint, out: *mut nvmlGpuInstance_t) [id] |view| {
        if !instances(view).iter().any(|d| d.gi == id) {
            return Err(code::NOT_FOUND);
        }
        give(out, Instance::new(view, id, 0).encode())
    };
}

fn profile(view: &View, number: c_uint) -> Reply<&Profile> {
    let mut all = view.gpu.profiles.iter();
    all.find(|p| p.profile == number).ok_or(code::NOT_SUPPORTED)
}

/// One MIG device of each GPU instance.
fn instances(view: &View) -> Vec<&'static MigDevice> {
    let mut first: Vec<&MigDevice> = Vec::new();
    for device in view.library.mig(&view.live, view.index) {
        if !first.iter().any(|d| d.gi == device.gi) {
            first.push(device);
        }
    }
    first
}

/// The GPU instance or compute instance of a handle.
#[derive(Clone, Copy)]
struct Instance {
    gpu: usize,
    gi: c_uint,
    ci: c_uint,
}

/// Different from the mark of device handles.
const MARK: usize = 0x4e57 << 48;

impl Instance {
    fn new(view: &View, gi: c_uint, ci: c_uint) -> Self {
        let gpu = view.index;
        Self { gpu, gi, ci }
    }

    fn encode<T>(self) -> *mut T {
        let bits = MARK | (self.gi as usize & 0xff) << 16 | (self.ci as usize & 0xff) << 8 | self.gpu;
        std::ptr::without_provenance_mut(bits)
    }

    fn decode<T>(handle: *mut T) -> Reply<Self> {
        let bits = handle.addr();
        if bits >> 32 != MARK >> 32 {
            return Err(code::INVALID_ARGUMENT);
        }
        let byte = |shift: usize| c_uint::try_from(bits >> shift & 0xff).unwrap_or(0);
        Ok(Self {
            gpu: bits & 0xff,
            gi: byte(16),
            ci: byte(8),
        })
    }

    /// Its MIG device in its GPU instance.
    fn device(self, view: &View, any: bool) -> Reply<&'static MigDevice> {
        let mut all = view.library.mig(&view.live, view.index).iter();
        let found = all.find(|d| d.gi == self.gi && (any || d.ci == self.ci));
        found.ok_or(code::INVALID_ARGUMENT)
    }
}

fn give<T>(out: *mut T, value: T) -> Reply {
    if out.is_null() {
        return Err(code::INVALID_ARGUMENT);
    }
    // SAFETY: the caller provides space for a T.
    unsafe { out.write_unaligned(value) };
    Ok(())
}

/// As in the real library, the caller provides space for the maximum number, so there is no size.
fn list<T: Copy>(out: *mut T, count: *mut c_uint, all: &[T]) -> Reply {
    if out.is_null() && !all.is_empty() {
        return Err(code::INVALID_ARGUMENT);
    }
    for (i, one) in all.iter().enumerate() {
        // SAFETY: the caller provides space for the maximum number.
        unsafe { out.add(i).write_unaligned(*one) };
    }
    give(count, c_uint::try_from(all.len()).unwrap_or(0))
}

fn on_instance<T>(function: F, handle: *mut T, body: impl FnOnce(&View, Instance) -> Reply) -> nvmlReturn_t {
    let instance = Instance::decode(handle);
    on_found(
        function,
        0,
        |library, _| {
            let gpu = instance?.gpu;
            (gpu < library.scenario.gpus.len())
                .then_some(gpu)
                .ok_or(code::INVALID_ARGUMENT)
        },
        |view| body(view, instance?),
    )
}

fn parent(view: &View) -> nvmlDevice_t {
    Handle::new(view.index, None, view.live.control.reloads).encode()
}

/// NVML's `nvmlGpuInstanceGetInfo`.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlGpuInstanceGetInfo(
    instance: nvmlGpuInstance_t,
    out: *mut nvmlGpuInstanceInfo_t,
) -> nvmlReturn_t {
    on_instance(F::nvmlGpuInstanceGetInfo, instance, |view, instance| {
        let device = instance.device(view, true)?;
        give(
            out,
            nvmlGpuInstanceInfo_t {
                device: parent(view),
                id: device.gi,
                profileId: device.profile,
                placement: nvmlGpuInstancePlacement_t {
                    start: device.start,
                    size: device.size.unwrap_or(device.slices),
                },
            },
        )
    })
}

/// NVML's `nvmlGpuInstanceGetComputeInstances`.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlGpuInstanceGetComputeInstances(
    instance: nvmlGpuInstance_t,
    _profile: c_uint,
    out: *mut nvmlComputeInstance_t,
    count: *mut c_uint,
) -> nvmlReturn_t {
    on_instance(
        F::nvmlGpuInstanceGetComputeInstances,
        instance,
        |view, instance| {
            let all = view.library.mig(&view.live, view.index).iter();
            let own = all.filter(|d| d.gi == instance.gi);
            let handles: Vec<_> = own.map(|d| Instance::new(view, d.gi, d.ci).encode()).collect();
            list(out, count, &handles)
        },
    )
}

/// NVML's `nvmlGpuInstanceGetComputeInstanceById`.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlGpuInstanceGetComputeInstanceById(
    instance: nvmlGpuInstance_t,
    id: c_uint,
    out: *mut nvmlComputeInstance_t,
) -> nvmlReturn_t {
    on_instance(
        F::nvmlGpuInstanceGetComputeInstanceById,
        instance,
        |view, mut instance| {
            instance.ci = id;
            instance.device(view, false).map_err(|_| code::NOT_FOUND)?;
            give(out, instance.encode())
        },
    )
}

fn compute(
    function: F,
    instance: nvmlComputeInstance_t,
    out: *mut nvmlComputeInstanceInfo_t,
) -> nvmlReturn_t {
    on_instance(function, instance, |view, instance| {
        let device = instance.device(view, false)?;
        give(
            out,
            nvmlComputeInstanceInfo_t {
                device: parent(view),
                gpuInstance: Instance::new(view, device.gi, 0).encode(),
                id: device.ci,
                profileId: device.profile,
                placement: nvmlComputeInstancePlacement_t {
                    start: 0,
                    size: device.ci_slices.unwrap_or(device.slices),
                },
            },
        )
    })
}

/// NVML's `nvmlComputeInstanceGetInfo`.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlComputeInstanceGetInfo(
    instance: nvmlComputeInstance_t,
    out: *mut nvmlComputeInstanceInfo_t,
) -> nvmlReturn_t {
    compute(F::nvmlComputeInstanceGetInfo, instance, out)
}

/// NVML's `nvmlComputeInstanceGetInfo_v2`.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlComputeInstanceGetInfo_v2(
    instance: nvmlComputeInstance_t,
    out: *mut nvmlComputeInstanceInfo_t,
) -> nvmlReturn_t {
    compute(F::nvmlComputeInstanceGetInfo_v2, instance, out)
}
