//! The library itself, the driver, and how GPUs are found.

use std::ffi::{CStr, c_char, c_int, c_uint};
use std::sync::atomic::Ordering;

use nvml_wrapper_sys::bindings::{nvmlDevice_t, nvmlReturn_t, nvmlSystemDriverBranchInfo_v1_t};

use crate::call::{Reply, chars, code, on_found, on_system, put_bytes, ready, version};
use crate::functions::Function as F;
use crate::scenario::keys::Key;
use crate::state::{Handle, Library, Live, library};

fn init(function: F) -> nvmlReturn_t {
    on_system(function, false, |library, live| {
        if library.broken {
            return Err(code::UNKNOWN);
        }
        match library.scenario.system.init {
            0 => {}
            code => return Err(code),
        }
        if library.users.fetch_add(1, Ordering::AcqRel) == 0 {
            library.reloads.store(live.control.reloads, Ordering::Release);
        }
        Ok(())
    })
}

/// NVML's `nvmlInit`.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlInit() -> nvmlReturn_t {
    init(F::nvmlInit)
}

/// NVML's `nvmlInit_v2`.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlInit_v2() -> nvmlReturn_t {
    init(F::nvmlInit_v2)
}

/// NVML's `nvmlInitWithFlags`.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlInitWithFlags(_flags: c_uint) -> nvmlReturn_t {
    init(F::nvmlInitWithFlags)
}

/// NVML's `nvmlShutdown`.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlShutdown() -> nvmlReturn_t {
    on_system(F::nvmlShutdown, false, |library, _| {
        let less = |users: usize| users.checked_sub(1);
        let before = library
            .users
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, less);
        before.map(drop).map_err(|_| code::UNINITIALIZED)
    })
}

/// NVML's `nvmlErrorString`.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlErrorString(result: nvmlReturn_t) -> *const c_char {
    const TEXTS: &[&CStr] = &[
        c"Success",
        c"Uninitialized",
        c"Invalid Argument",
        c"Not Supported",
        c"Insufficient Permissions",
        c"Already Initialized",
        c"Not Found",
        c"Insufficient Size",
        c"Insufficient External Power",
        c"Driver Not Loaded",
        c"Timeout",
        c"Interrupt Request Issue",
        c"NVML Shared Library Not Found",
        c"Function Not Found",
        c"Corrupted infoROM",
        c"GPU is lost",
        c"GPU requires reset",
        c"The operating system has blocked the request.",
        c"RM has detected an NVML/RM version mismatch.",
        c"In use by another client",
        c"Insufficient Memory",
        c"No data",
        c"The requested vgpu operation is not available on target device, because ECC is enabled",
        c"Ran out of critical resources, other than memory",
        c"The requested frequency is not supported",
        c"The provided version is invalid/unsupported",
        c"The requested functionality has been deprecated",
        c"The system is not ready for the request",
        c"No GPUs were found",
        c"Resource is not in correct state",
    ];
    library().count(F::nvmlErrorString, None, None, 0);
    TEXTS.get(result as usize).unwrap_or(&c"Unknown Error").as_ptr()
}

fn text(function: F, out: *mut c_char, length: c_uint, of: fn(&Library) -> &str) -> nvmlReturn_t {
    on_system(function, true, |library, _| {
        put_bytes(out, length, of(library).as_bytes())
    })
}

/// NVML's `nvmlSystemGetDriverVersion`.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlSystemGetDriverVersion(out: *mut c_char, length: c_uint) -> nvmlReturn_t {
    text(F::nvmlSystemGetDriverVersion, out, length, |l| {
        &l.scenario.system.driver
    })
}

/// NVML's `nvmlSystemGetNVMLVersion`.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlSystemGetNVMLVersion(out: *mut c_char, length: c_uint) -> nvmlReturn_t {
    text(F::nvmlSystemGetNVMLVersion, out, length, |l| {
        &l.scenario.system.nvml
    })
}

fn give<T>(out: *mut T, value: T) -> Reply {
    if out.is_null() {
        return Err(code::INVALID_ARGUMENT);
    }
    // SAFETY: the caller gives a place for a T.
    unsafe { out.write_unaligned(value) };
    Ok(())
}

/// NVML's `nvmlSystemGetCudaDriverVersion`.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlSystemGetCudaDriverVersion(out: *mut c_int) -> nvmlReturn_t {
    on_system(F::nvmlSystemGetCudaDriverVersion, true, |l, _| {
        give(out, l.scenario.system.cuda)
    })
}

/// NVML's `nvmlSystemGetCudaDriverVersion_v2`.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlSystemGetCudaDriverVersion_v2(out: *mut c_int) -> nvmlReturn_t {
    on_system(F::nvmlSystemGetCudaDriverVersion_v2, true, |l, _| {
        give(out, l.scenario.system.cuda)
    })
}

/// NVML's `nvmlSystemGetDriverBranch`.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlSystemGetDriverBranch(
    out: *mut nvmlSystemDriverBranchInfo_v1_t,
    length: c_uint,
) -> nvmlReturn_t {
    on_system(F::nvmlSystemGetDriverBranch, true, |l, _| {
        version(out, 1)?;
        let branch = l.scenario.system.branch.as_deref().ok_or(code::NOT_SUPPORTED)?;
        if length as usize <= branch.len() {
            return Err(code::INSUFFICIENT_SIZE);
        }
        // SAFETY: its version shows that `out` is such a struct.
        unsafe { (*out).branch = chars(branch) };
        Ok(())
    })
}

/// NVML's `nvmlSystemGetProcessName`.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlSystemGetProcessName(pid: c_uint, out: *mut c_char, length: c_uint) -> nvmlReturn_t {
    on_system(F::nvmlSystemGetProcessName, true, |l, _| {
        let all = l.scenario.gpus.iter().flat_map(|g| &g.processes);
        let mut found = all.filter(|p| p.pid == pid);
        let name = found.find_map(|p| p.name.as_deref()).ok_or(code::NOT_FOUND)?;
        // The real one cuts a name that is too long.
        let most = (length as usize).saturating_sub(1).min(name.len());
        put_bytes(out, length, &name.as_bytes()[..most])
    })
}

fn count(function: F, out: *mut c_uint) -> nvmlReturn_t {
    on_system(function, true, |_, live| {
        give(out, c_uint::try_from(live.visible.len()).unwrap_or(0))
    })
}

/// NVML's `nvmlDeviceGetCount`.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetCount(out: *mut c_uint) -> nvmlReturn_t {
    count(F::nvmlDeviceGetCount, out)
}

/// NVML's `nvmlDeviceGetCount_v2`.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetCount_v2(out: *mut c_uint) -> nvmlReturn_t {
    count(F::nvmlDeviceGetCount_v2, out)
}

fn handle(
    function: F,
    selector: u32,
    out: *mut nvmlDevice_t,
    find: impl FnOnce(&'static Library, &Live) -> Reply<usize>,
) -> nvmlReturn_t {
    on_found(function, selector, find, |view| {
        let handle = Handle::new(view.index, None, view.live.control.reloads);
        give(out, handle.encode())
    })
}

fn by_index(live: &Live, index: c_uint) -> Reply<usize> {
    let found = live.visible.get(index as usize).copied();
    found.ok_or(code::INVALID_ARGUMENT)
}

/// NVML's `nvmlDeviceGetHandleByIndex`.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetHandleByIndex(index: c_uint, out: *mut nvmlDevice_t) -> nvmlReturn_t {
    handle(F::nvmlDeviceGetHandleByIndex, 0, out, |_, live| {
        by_index(live, index)
    })
}

/// NVML's `nvmlDeviceGetHandleByIndex_v2`.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetHandleByIndex_v2(index: c_uint, out: *mut nvmlDevice_t) -> nvmlReturn_t {
    handle(F::nvmlDeviceGetHandleByIndex_v2, 0, out, |_, live| {
        by_index(live, index)
    })
}

/// The visible GPU whose text is that.
fn by_text(
    library: &Library,
    live: &Live,
    key: Key,
    text: *const c_char,
    same: fn(&str, &str) -> bool,
) -> Reply<usize> {
    if text.is_null() {
        return Err(code::INVALID_ARGUMENT);
    }
    // SAFETY: the caller gives a string that ends with a zero.
    let text = unsafe { CStr::from_ptr(text) };
    let text = text.to_str().map_err(|_| code::INVALID_ARGUMENT)?;
    let gpu = |i: &&usize| {
        let gpu = library.scenario.gpus.get(**i);
        gpu.and_then(|g| g.text(key)).is_some_and(|own| same(own, text))
    };
    live.visible.iter().find(gpu).copied().ok_or(code::NOT_FOUND)
}

/// Domains are written with four or eight digits.
fn same_address(a: &str, b: &str) -> bool {
    let short = |address: &str| {
        let (domain, rest) = address.split_once(':').unwrap_or(("0", address));
        (u32::from_str_radix(domain, 16).ok(), rest.to_ascii_lowercase())
    };
    short(a) == short(b)
}

/// NVML's `nvmlDeviceGetHandleBySerial`.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetHandleBySerial(serial: *const c_char, out: *mut nvmlDevice_t) -> nvmlReturn_t {
    handle(F::nvmlDeviceGetHandleBySerial, 0, out, |library, live| {
        by_text(library, live, Key::Serial, serial, |a, b| a == b)
    })
}

/// NVML's `nvmlDeviceGetHandleByPciBusId`.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetHandleByPciBusId(
    address: *const c_char,
    out: *mut nvmlDevice_t,
) -> nvmlReturn_t {
    handle(F::nvmlDeviceGetHandleByPciBusId, 0, out, |library, live| {
        by_text(library, live, Key::PciBusId, address, same_address)
    })
}

/// NVML's `nvmlDeviceGetHandleByPciBusId_v2`.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetHandleByPciBusId_v2(
    address: *const c_char,
    out: *mut nvmlDevice_t,
) -> nvmlReturn_t {
    handle(F::nvmlDeviceGetHandleByPciBusId_v2, 0, out, |library, live| {
        by_text(library, live, Key::PciBusId, address, same_address)
    })
}

/// NVML's `nvmlDeviceGetHandleByUUID`. Also gives MIG devices.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetHandleByUUID(uuid: *const c_char, out: *mut nvmlDevice_t) -> nvmlReturn_t {
    let library = library();
    if !uuid.is_null() && ready(library).is_ok() {
        // SAFETY: the caller gives a string that ends with a zero.
        let wanted = unsafe { CStr::from_ptr(uuid) }.to_bytes();
        let live = library.live();
        for gpu in live.visible.iter().copied() {
            let devices = library.mig(&live, gpu);
            if let Some(mig) = devices.iter().position(|d| d.uuid.as_bytes() == wanted) {
                return on_found(
                    F::nvmlDeviceGetHandleByUUID,
                    0,
                    |_, _| Ok(gpu),
                    |view| {
                        give(
                            out,
                            Handle::new(gpu, Some(mig), view.live.control.reloads).encode(),
                        )
                    },
                );
            }
        }
    }
    handle(F::nvmlDeviceGetHandleByUUID, 0, out, |library, live| {
        by_text(library, live, Key::Uuid, uuid, |a, b| a == b)
    })
}
