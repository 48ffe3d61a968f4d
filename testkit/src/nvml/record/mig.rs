//! MIG devices and the instances that they are made of, and processes.

use std::ptr::null_mut;

use nvml_wrapper_sys::bindings as h;
use nvml_wrapper_sys::bindings::{nvmlComputeInstance_t, nvmlDevice_t, nvmlGpuInstance_t};
use toml::{Table, Value};

use super::ask::{Nvml, int, set, string};
use super::links;

/// No GPU has more.
const MOST: u32 = 16;
/// The driver's number for a missing instance.
const NONE: u32 = u32::MAX;

/// Asks all of it.
pub(super) fn ask(nvml: &mut Nvml, index: u32, gpu: nvmlDevice_t, table: &mut Table) {
    let who = format!("GPU {index}");
    let most = nvml.one("nvmlDeviceGetMaxMigDeviceCount", who.clone(), gpu, 0_u32);
    set(table, "mig.max", most.map(i64::from));
    let profiles = profiles(nvml, &who, gpu);
    let on = table.get("mig").and_then(|m| m.get("current")?.as_integer()) == Some(1);
    let mut devices = Vec::new();
    for i in 0..most.unwrap_or(0).max(1) {
        let mut device: nvmlDevice_t = null_mut();
        let what = format!("{who}, MIG {i}");
        if let Ok(found) = nvml.with(
            "nvmlDeviceGetMigDeviceHandleByIndex",
            what.clone(),
            (gpu, i),
            device,
        ) {
            device = found;
            devices.push(self::device(nvml, &what, gpu, device));
        }
    }
    // What a GPU without MIG answers to questions about it.
    for function in [
        "nvmlDeviceIsMigDeviceHandle",
        "nvmlDeviceGetGpuInstanceId",
        "nvmlDeviceGetComputeInstanceId",
    ] {
        let _ = nvml.one(function, who.clone(), gpu, 0_u32);
    }
    if !profiles.is_empty() {
        set(table, "mig.profiles", Ok(profiles));
    }
    if on {
        set(table, "mig.layout", Ok("recorded"));
        set(table, "mig.layouts.recorded", Ok(devices));
    }
    let found = processes(nvml, &who, gpu);
    if !found.is_empty() {
        set(table, "processes", Ok(found));
    }
}

fn profiles(nvml: &mut Nvml, who: &str, gpu: nvmlDevice_t) -> Vec<Value> {
    let mut found = Vec::new();
    for number in 0..MOST {
        let what = format!("{who}, profile {number}");
        // SAFETY: all zeroes is a valid struct; so with those below.
        let first: h::nvmlGpuInstanceProfileInfo_t = unsafe { std::mem::zeroed() };
        let _ = nvml.with(
            "nvmlDeviceGetGpuInstanceProfileInfo",
            what.clone(),
            (gpu, number),
            first,
        );
        // SAFETY: as above.
        let mut second: h::nvmlGpuInstanceProfileInfo_v2_t = unsafe { std::mem::zeroed() };
        second.version = u32::try_from(size_of_val(&second)).unwrap_or(0) | 2 << 24;
        let said = nvml.with(
            "nvmlDeviceGetGpuInstanceProfileInfoV",
            what.clone(),
            (gpu, number),
            second,
        );
        let Ok(p) = said else { continue };
        let mut one = Table::new();
        for (key, value) in [
            ("profile", number),
            ("id", p.id),
            ("slices", p.sliceCount),
            ("instances", p.instanceCount),
            ("sm", p.multiprocessorCount),
            ("copy", p.copyEngineCount),
            ("decoders", p.decoderCount),
            ("encoders", p.encoderCount),
            ("jpeg", p.jpegCount),
            ("ofa", p.ofaCount),
        ] {
            set(&mut one, key, Ok(i64::from(value)));
        }
        set(&mut one, "memory_mb", Ok(int(p.memorySizeMB)));
        set(&mut one, "name", Ok(string(&p.name)));
        found.push(one.into());
        let _ = nvml.with(
            "nvmlDeviceGetGpuInstanceRemainingCapacity",
            what.clone(),
            (gpu, p.id),
            0_u32,
        );
        let mut instances: [nvmlGpuInstance_t; MOST as usize] = [null_mut(); MOST as usize];
        let mut count = 0_u32;
        let _ = nvml.call("nvmlDeviceGetGpuInstances", what, |address| {
            // SAFETY: this is its signature, and the buffers outlive the call.
            unsafe {
                let function: extern "C" fn(nvmlDevice_t, u32, *mut nvmlGpuInstance_t, *mut u32) -> u32 =
                    std::mem::transmute(address);
                function(gpu, p.id, instances.as_mut_ptr(), &raw mut count)
            }
        });
    }
    found
}

fn device(nvml: &mut Nvml, what: &str, gpu: nvmlDevice_t, device: nvmlDevice_t) -> Value {
    let what = || what.to_owned();
    let mut one = Table::new();
    set(&mut one, "uuid", nvml.text("nvmlDeviceGetUUID", what(), device));
    set(&mut one, "name", nvml.text("nvmlDeviceGetName", what(), device));
    let gi = nvml.one("nvmlDeviceGetGpuInstanceId", what(), device, 0_u32);
    let ci = nvml.one("nvmlDeviceGetComputeInstanceId", what(), device, 0_u32);
    set(&mut one, "gi", gi.map(i64::from));
    set(&mut one, "ci", ci.map(i64::from));
    let none: nvmlDevice_t = null_mut();
    let _ = nvml.one(
        "nvmlDeviceGetDeviceHandleFromMigDeviceHandle",
        what(),
        device,
        none,
    );
    let _ = nvml.one("nvmlDeviceGetAttributes", what(), device, [0_u64; 5]);
    // SAFETY: all zeroes is a valid struct; so with those below.
    let attributes: h::nvmlDeviceAttributes_t = unsafe { std::mem::zeroed() };
    if let Ok(a) = nvml.one("nvmlDeviceGetAttributes_v2", what(), device, attributes) {
        for (key, value) in [
            ("sm", a.multiprocessorCount),
            ("copy", a.sharedCopyEngineCount),
            ("decoders", a.sharedDecoderCount),
            ("encoders", a.sharedEncoderCount),
            ("jpeg", a.sharedJpegCount),
            ("ofa", a.sharedOfaCount),
            ("slices", a.gpuInstanceSliceCount),
            ("ci_slices", a.computeInstanceSliceCount),
        ] {
            set(&mut one, key, Ok(i64::from(value)));
        }
        set(&mut one, "memory_mb", Ok(int(a.memorySizeMB)));
    }
    let version = 40 | 2 << 24;
    let memory = nvml.one(
        "nvmlDeviceGetMemoryInfo_v2",
        what(),
        device,
        [version, 0, 0, 0, 0_u64],
    );
    for (key, i) in [("total", 1), ("reserved", 2), ("used", 4)] {
        set(&mut one, key, memory.map(|m| int(m[i])));
    }
    if let Ok(gi) = gi {
        instance(nvml, &what(), gpu, (gi, ci.unwrap_or(0)), &mut one);
        let found = links::metrics(nvml, &what(), |nvml, sample| {
            nvml.call("nvmlGpmMigSampleGet", what(), |address| {
                // SAFETY: this is its signature.
                unsafe {
                    let function: extern "C" fn(nvmlDevice_t, u32, h::nvmlGpmSample_t) -> u32 =
                        std::mem::transmute(address);
                    function(gpu, gi, sample)
                }
            })
        });
        for (name, value) in found {
            set(&mut one, &format!("gpm.{name}"), Ok(value));
        }
    }
    one.into()
}

/// The GPU instance that a device is in, and its compute instance.
fn instance(nvml: &mut Nvml, what: &str, gpu: nvmlDevice_t, (gi, ci): (u32, u32), one: &mut Table) {
    let what = || what.to_owned();
    let none: nvmlGpuInstance_t = null_mut();
    let Ok(instance) = nvml.with("nvmlDeviceGetGpuInstanceById", what(), (gpu, gi), none) else {
        return;
    };
    // SAFETY: as above.
    let info: h::nvmlGpuInstanceInfo_t = unsafe { std::mem::zeroed() };
    // A handle of another kind, which is a pointer too.
    let info = nvml.one("nvmlGpuInstanceGetInfo", what(), instance.cast(), info);
    set(one, "profile", info.map(|i| i64::from(i.profileId)));
    set(one, "start", info.map(|i| i64::from(i.placement.start)));
    set(one, "size", info.map(|i| i64::from(i.placement.size)));
    let mut all: [nvmlComputeInstance_t; MOST as usize] = [null_mut(); MOST as usize];
    let mut count = 0_u32;
    let _ = nvml.call("nvmlGpuInstanceGetComputeInstances", what(), |address| {
        // SAFETY: this is its signature, and the buffers outlive the call.
        unsafe {
            let function: extern "C" fn(nvmlGpuInstance_t, u32, *mut nvmlComputeInstance_t, *mut u32) -> u32 =
                std::mem::transmute(address);
            function(instance, 0, all.as_mut_ptr(), &raw mut count)
        }
    });
    let none: nvmlComputeInstance_t = null_mut();
    let found = nvml.with(
        "nvmlGpuInstanceGetComputeInstanceById",
        what(),
        (instance.cast(), ci),
        none,
    );
    if let Ok(compute) = found {
        // SAFETY: as above.
        let info: h::nvmlComputeInstanceInfo_t = unsafe { std::mem::zeroed() };
        for function in ["nvmlComputeInstanceGetInfo", "nvmlComputeInstanceGetInfo_v2"] {
            let _ = nvml.one(function, what(), compute.cast(), info);
        }
    }
}

/// Processes; of functions that older drivers have, only whether they answer.
fn processes(nvml: &mut Nvml, who: &str, gpu: nvmlDevice_t) -> Vec<Value> {
    const FUNCTIONS: [(&str, [&str; 3]); 3] = [
        (
            "compute",
            [
                "nvmlDeviceGetComputeRunningProcesses",
                "nvmlDeviceGetComputeRunningProcesses_v2",
                "nvmlDeviceGetComputeRunningProcesses_v3",
            ],
        ),
        (
            "graphics",
            [
                "nvmlDeviceGetGraphicsRunningProcesses",
                "nvmlDeviceGetGraphicsRunningProcesses_v2",
                "nvmlDeviceGetGraphicsRunningProcesses_v3",
            ],
        ),
        (
            "mps",
            [
                "nvmlDeviceGetMPSComputeRunningProcesses",
                "nvmlDeviceGetMPSComputeRunningProcesses_v2",
                "nvmlDeviceGetMPSComputeRunningProcesses_v3",
            ],
        ),
    ];
    let used = utilisation(nvml, who, gpu);
    // Only whether it answers: without space it returns the number of processes.
    let details = h::nvmlProcessDetailList_t {
        version: 24 | 1 << 24,
        mode: 0,
        numProcArrayEntries: 0,
        procArray: std::ptr::null_mut(),
    };
    let _ = nvml.one(
        "nvmlDeviceGetRunningProcessDetailList",
        who.to_owned(),
        gpu,
        details,
    );
    let mut found: Vec<Value> = Vec::new();
    for (kind, functions) in FUNCTIONS {
        for function in functions {
            // SAFETY: all zeroes is a valid struct.
            let mut all: Vec<h::nvmlProcessInfo_v2_t> = vec![unsafe { std::mem::zeroed() }; 256];
            let mut count = 256_u32;
            let said = nvml.call(function, who.to_owned(), |address| {
                // SAFETY: this is its signature; entries of the first version are smaller.
                unsafe {
                    let function: extern "C" fn(nvmlDevice_t, *mut u32, *mut h::nvmlProcessInfo_v2_t) -> u32 =
                        std::mem::transmute(address);
                    function(gpu, &raw mut count, all.as_mut_ptr())
                }
            });
            if said.is_err() || !function.ends_with("_v3") {
                continue;
            }
            for process in all.iter().take(count as usize) {
                let mut one = Table::new();
                set(&mut one, "pid", Ok(i64::from(process.pid)));
                set(&mut one, "kind", Ok(kind));
                if process.usedGpuMemory != u64::MAX {
                    set(&mut one, "memory", Ok(int(process.usedGpuMemory)));
                }
                if process.gpuInstanceId != NONE {
                    set(&mut one, "gi", Ok(i64::from(process.gpuInstanceId)));
                    set(&mut one, "ci", Ok(i64::from(process.computeInstanceId)));
                }
                let mut name = [0; 256];
                let _ = nvml.call("nvmlSystemGetProcessName", process.pid.to_string(), |address| {
                    // SAFETY: as above.
                    unsafe {
                        let function: extern "C" fn(u32, *mut std::ffi::c_char, u32) -> u32 =
                            std::mem::transmute(address);
                        function(process.pid, name.as_mut_ptr(), 256)
                    }
                });
                if let Some(used) = used.iter().find(|u| u.pid == process.pid) {
                    for (key, value) in [
                        ("sm", used.smUtil),
                        ("mem", used.memUtil),
                        ("enc", used.encUtil),
                        ("dec", used.decUtil),
                        ("jpg", used.jpgUtil),
                        ("ofa", used.ofaUtil),
                    ] {
                        set(&mut one, key, Ok(i64::from(value)));
                    }
                }
                found.push(one.into());
            }
        }
    }
    found
}

fn utilisation(nvml: &mut Nvml, who: &str, gpu: nvmlDevice_t) -> Vec<h::nvmlProcessUtilizationInfo_v1_t> {
    // SAFETY: all zeroes is a valid struct.
    let mut older: Vec<h::nvmlProcessUtilizationSample_t> = vec![unsafe { std::mem::zeroed() }; 256];
    let mut count = 256_u32;
    let said = nvml.call("nvmlDeviceGetProcessUtilization", who.to_owned(), |address| {
        // SAFETY: this is its signature, and the buffers outlive the call.
        unsafe {
            let function: extern "C" fn(
                nvmlDevice_t,
                *mut h::nvmlProcessUtilizationSample_t,
                *mut u32,
                u64,
            ) -> u32 = std::mem::transmute(address);
            function(gpu, older.as_mut_ptr(), &raw mut count, 0)
        }
    });
    older.truncate(if said.is_ok() { count as usize } else { 0 });
    // SAFETY: as above.
    let mut newer: Vec<h::nvmlProcessUtilizationInfo_v1_t> = vec![unsafe { std::mem::zeroed() }; 256];
    let list = h::nvmlProcessesUtilizationInfo_v1_t {
        version: u32::try_from(size_of::<h::nvmlProcessesUtilizationInfo_v1_t>()).unwrap_or(0) | 1 << 24,
        processSamplesCount: 256,
        lastSeenTimeStamp: 0,
        procUtilArray: newer.as_mut_ptr(),
    };
    match nvml.one("nvmlDeviceGetProcessesUtilizationInfo", who.to_owned(), gpu, list) {
        Ok(list) => {
            newer.truncate(list.processSamplesCount as usize);
            newer
        }
        Err(_) => older
            .iter()
            .map(|o| h::nvmlProcessUtilizationInfo_v1_t {
                timeStamp: o.timeStamp,
                pid: o.pid,
                smUtil: o.smUtil,
                memUtil: o.memUtil,
                encUtil: o.encUtil,
                decUtil: o.decUtil,
                jpgUtil: 0,
                ofaUtil: 0,
            })
            .collect(),
    }
}
