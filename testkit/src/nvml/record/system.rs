//! The library and the driver, how GPUs are found, and events.

use std::ffi::{CString, c_char, c_void};
use std::ptr::null_mut;

use nvml_wrapper_sys::bindings as h;
use nvml_wrapper_sys::bindings::nvmlDevice_t;

use super::ask::{Nvml, Said, string};

/// Properties of the driver.
pub(super) struct System {
    pub(super) driver: String,
    pub(super) nvml: String,
    pub(super) cuda: i32,
    pub(super) branch: Option<String>,
    pub(super) count: u32,
}

/// A function that takes nothing.
fn nothing(nvml: &mut Nvml, function: &'static str) -> Said<()> {
    nvml.call(function, String::new(), |address| {
        // SAFETY: this is its signature.
        unsafe { std::mem::transmute::<*const c_void, extern "C" fn() -> u32>(address)() }
    })
}

/// Initialises the library by each init function; leaves it initialised once.
pub(super) fn init(nvml: &mut Nvml) -> Said<()> {
    nothing(nvml, "nvmlInit_v2")?;
    let flags = nvml.call("nvmlInitWithFlags", "0".to_owned(), |address| {
        // SAFETY: as above.
        unsafe { std::mem::transmute::<*const c_void, extern "C" fn(u32) -> u32>(address)(0) }
    });
    for said in [flags, nothing(nvml, "nvmlInit")] {
        if said.is_ok() {
            shutdown(nvml);
        }
    }
    let _ = nvml.call("nvmlErrorString", "15".to_owned(), |address| {
        // SAFETY: as above.
        let text =
            unsafe { std::mem::transmute::<*const c_void, extern "C" fn(u32) -> *const c_char>(address)(15) };
        u32::from(text.is_null())
    });
    Ok(())
}

pub(super) fn shutdown(nvml: &mut Nvml) {
    let _ = nothing(nvml, "nvmlShutdown");
}

fn text(nvml: &mut Nvml, function: &'static str) -> String {
    let mut text = [0; 96];
    let said = nvml.call(function, String::new(), |address| {
        // SAFETY: as above, and the text outlives the call.
        unsafe {
            let function: extern "C" fn(*mut c_char, u32) -> u32 = std::mem::transmute(address);
            function(text.as_mut_ptr(), 80)
        }
    });
    if said.is_ok() {
        string(&text)
    } else {
        String::new()
    }
}

fn number(nvml: &mut Nvml, function: &'static str) -> Said<u32> {
    let mut value = 0;
    nvml.call(function, String::new(), |address| {
        // SAFETY: as above.
        unsafe {
            let function: extern "C" fn(*mut u32) -> u32 = std::mem::transmute(address);
            function(&raw mut value)
        }
    })?;
    Ok(value)
}

/// Records functions without a GPU.
pub(super) fn system(nvml: &mut Nvml) -> System {
    let _ = number(nvml, "nvmlSystemGetCudaDriverVersion");
    let cuda = number(nvml, "nvmlSystemGetCudaDriverVersion_v2").unwrap_or(0);
    let _ = number(nvml, "nvmlDeviceGetCount");
    // SAFETY: all zeroes is a valid struct.
    let mut branch: h::nvmlSystemDriverBranchInfo_v1_t = unsafe { std::mem::zeroed() };
    branch.version = u32::try_from(size_of_val(&branch)).unwrap_or(0) | 1 << 24;
    let said = nvml.call("nvmlSystemGetDriverBranch", String::new(), |address| {
        // SAFETY: as above.
        unsafe {
            let function: extern "C" fn(*mut h::nvmlSystemDriverBranchInfo_v1_t, u32) -> u32 =
                std::mem::transmute(address);
            function(&raw mut branch, 80)
        }
    });
    System {
        driver: text(nvml, "nvmlSystemGetDriverVersion"),
        nvml: text(nvml, "nvmlSystemGetNVMLVersion"),
        cuda: i32::try_from(cuda).unwrap_or(0),
        branch: said.ok().map(|()| string(&branch.branch)),
        count: number(nvml, "nvmlDeviceGetCount_v2").unwrap_or(0),
    }
}

fn by_index(nvml: &mut Nvml, function: &'static str, index: u32) -> Said<nvmlDevice_t> {
    let mut gpu: nvmlDevice_t = null_mut();
    nvml.call(function, index.to_string(), |address| {
        // SAFETY: as above.
        unsafe {
            let function: extern "C" fn(u32, *mut nvmlDevice_t) -> u32 = std::mem::transmute(address);
            function(index, &raw mut gpu)
        }
    })?;
    Ok(gpu)
}

/// The GPU of that index.
pub(super) fn handle(nvml: &mut Nvml, index: u32) -> Said<nvmlDevice_t> {
    let _ = by_index(nvml, "nvmlDeviceGetHandleByIndex", index);
    by_index(nvml, "nvmlDeviceGetHandleByIndex_v2", index)
}

/// Finds a GPU by its recorded properties.
pub(super) fn find(nvml: &mut Nvml, index: u32, gpu: nvmlDevice_t, table: &toml::Table) {
    let _ = gpu;
    for (function, path) in [
        ("nvmlDeviceGetHandleByUUID", "uuid"),
        ("nvmlDeviceGetHandleBySerial", "serial"),
        ("nvmlDeviceGetHandleByPciBusId", "pci"),
        ("nvmlDeviceGetHandleByPciBusId_v2", "pci"),
    ] {
        let value = table.get(path);
        let text = value.and_then(|v| v.get("bus_id").unwrap_or(v).as_str());
        let Ok(text) = CString::new(text.unwrap_or_default()) else {
            continue;
        };
        let mut found: nvmlDevice_t = null_mut();
        let _ = nvml.call(function, format!("GPU {index}"), |address| {
            // SAFETY: as above.
            unsafe {
                let function: extern "C" fn(*const c_char, *mut nvmlDevice_t) -> u32 =
                    std::mem::transmute(address);
                function(text.as_ptr(), &raw mut found)
            }
        });
    }
}

/// A set of events, of the first GPU, and a wait that ends at once.
pub(super) fn events(nvml: &mut Nvml) {
    let mut set: h::nvmlEventSet_t = null_mut();
    let made = nvml.call("nvmlEventSetCreate", String::new(), |address| {
        // SAFETY: as above.
        unsafe {
            let function: extern "C" fn(*mut h::nvmlEventSet_t) -> u32 = std::mem::transmute(address);
            function(&raw mut set)
        }
    });
    if made.is_err() {
        return;
    }
    if let Ok(gpu) = by_index(nvml, "nvmlDeviceGetHandleByIndex_v2", 0) {
        let _ = nvml.call("nvmlDeviceRegisterEvents", "GPU 0, Xid".to_owned(), |address| {
            // SAFETY: as above.
            unsafe {
                let function: extern "C" fn(nvmlDevice_t, u64, h::nvmlEventSet_t) -> u32 =
                    std::mem::transmute(address);
                function(gpu, 8, set)
            }
        });
    }
    for wait in ["nvmlEventSetWait", "nvmlEventSetWait_v2"] {
        // SAFETY: all zeroes is a valid struct.
        let mut data: h::nvmlEventData_t = unsafe { std::mem::zeroed() };
        let _ = nvml.call(wait, "0 ms".to_owned(), |address| {
            // SAFETY: as above.
            unsafe {
                let function: extern "C" fn(h::nvmlEventSet_t, *mut h::nvmlEventData_t, u32) -> u32 =
                    std::mem::transmute(address);
                function(set, &raw mut data, 0)
            }
        });
    }
    let _ = nvml.call("nvmlEventSetFree", String::new(), |address| {
        // SAFETY: as above.
        unsafe {
            let function: extern "C" fn(h::nvmlEventSet_t) -> u32 = std::mem::transmute(address);
            function(set)
        }
    });
}
