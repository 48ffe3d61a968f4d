//! Steps of a call: count, check, inject faults, look up the answer.

use std::ffi::{c_char, c_uint};

use nvml_wrapper_sys::bindings::{nvmlDevice_t, nvmlReturn_t};

use crate::functions::Function;
use crate::scenario::Scenario;
use crate::scenario::keys::Key;
use crate::scenario::value::Time;
use crate::state::{Handle, Library, Live, View, library};

/// The codes of nvmlReturn_t that the stand-in returns.
pub(crate) mod code {
    pub(crate) const SUCCESS: u32 = 0;
    pub(crate) const UNINITIALIZED: u32 = 1;
    pub(crate) const INVALID_ARGUMENT: u32 = 2;
    pub(crate) const NOT_SUPPORTED: u32 = 3;
    pub(crate) const NOT_FOUND: u32 = 6;
    pub(crate) const INSUFFICIENT_SIZE: u32 = 7;
    pub(crate) const TIMEOUT: u32 = 10;
    pub(crate) const FUNCTION_NOT_FOUND: u32 = 13;
    pub(crate) const CORRUPTED_INFOROM: u32 = 14;
    pub(crate) const ARGUMENT_VERSION_MISMATCH: u32 = 25;
    pub(crate) const UNKNOWN: u32 = 999;
}

/// An answer, or the code if it is not success.
pub(crate) type Reply<T = ()> = Result<T, u32>;

/// Answers a call without a GPU.
pub(crate) fn on_system(
    function: Function,
    initialised: bool,
    body: impl FnOnce(&'static Library, &Live) -> Reply,
) -> nvmlReturn_t {
    let library = library();
    library.count(function, None, None, 0);
    finish((|| {
        available(library, function)?;
        if initialised {
            ready(library)?;
        }
        library.faults(function, None)?;
        // A call that was blocked during a reload must not return old values.
        if initialised {
            ready(library)?;
        }
        body(library, &library.live())
    })())
}

/// Answers a call about a GPU or a MIG device. `selector` distinguishes calls of one function.
pub(crate) fn on_device(
    function: Function,
    device: nvmlDevice_t,
    selector: u32,
    body: impl FnOnce(&View) -> Reply,
) -> nvmlReturn_t {
    let library = library();
    let handle = Handle::decode(device).filter(|h| h.gpu < library.scenario.gpus.len());
    let byte = |n: usize| u8::try_from(n).ok();
    library.count(
        function,
        handle.and_then(|h| byte(h.gpu)),
        handle.and_then(|h| byte(h.mig?)),
        selector,
    );
    finish((|| {
        available(library, function)?;
        ready(library)?;
        let handle = handle.ok_or(code::INVALID_ARGUMENT)?;
        let garbage = library.faults(function, Some(handle.gpu))?;
        ready(library)?;
        body(&look(library, handle, garbage)?)
    })())
}

/// Answers a call that looks up a GPU: the faults of that GPU apply to the call.
pub(crate) fn on_found(
    function: Function,
    selector: u32,
    find: impl FnOnce(&'static Library, &Live) -> Reply<usize>,
    body: impl FnOnce(&View) -> Reply,
) -> nvmlReturn_t {
    let library = library();
    let found = if ready(library).is_ok() {
        find(library, &library.live())
    } else {
        Err(code::UNINITIALIZED)
    };
    let gpu = found.ok();
    library.count(function, gpu.and_then(|g| u8::try_from(g).ok()), None, selector);
    finish((|| {
        available(library, function)?;
        ready(library)?;
        let garbage = library.faults(function, gpu)?;
        ready(library)?;
        let handle = Handle::new(found?, None, library.live().control.reloads);
        body(&look(library, handle, garbage)?)
    })())
}

fn look(library: &'static Library, handle: Handle, garbage: bool) -> Reply<View> {
    let live = library.live();
    let is_idle = live.control.idle.iter().any(|idle| *idle as usize == handle.gpu);
    let Scenario { gpus, idle, .. } = &library.scenario;
    let gpus = if is_idle { idle } else { gpus };
    let gpu = gpus.get(handle.gpu).ok_or(code::INVALID_ARGUMENT)?;
    let mig = match handle.mig {
        None => None,
        Some(i) => {
            let device = library.mig(&live, handle.gpu).get(i);
            Some((i, device.ok_or(code::INVALID_ARGUMENT)?))
        }
    };
    Ok(View {
        time: library.time(&live),
        library,
        live,
        gpu,
        index: handle.gpu,
        mig,
        garbage,
    })
}

fn available(library: &Library, function: Function) -> Reply {
    if library.scenario.lacks(function) {
        return Err(code::FUNCTION_NOT_FOUND);
    }
    Ok(())
}

/// Whether the library is initialised with the currently loaded driver.
pub(crate) fn ready(library: &Library) -> Reply {
    use std::sync::atomic::Ordering;
    if library.users.load(Ordering::Acquire) == 0 {
        return Err(code::UNINITIALIZED);
    }
    let live = library.live();
    if library.reloads.load(Ordering::Acquire) != live.control.reloads {
        return Err(match live.control.stale_code {
            0 => code::UNINITIALIZED,
            code => code,
        });
    }
    Ok(())
}

fn finish(reply: Reply) -> nvmlReturn_t {
    reply.err().unwrap_or(code::SUCCESS)
}

impl View {
    /// A number of the GPU; NOT_SUPPORTED if the scenario lacks it, and for MIG devices.
    pub(crate) fn num(&self, key: Key) -> Reply<i64> {
        if self.mig.is_some() {
            return Err(code::NOT_SUPPORTED);
        }
        self.of_gpu(key)
    }

    /// A number of the GPU that contains a MIG device.
    pub(crate) fn of_gpu(&self, key: Key) -> Reply<i64> {
        self.gpu.int(key, self.time).ok_or(code::NOT_SUPPORTED)
    }

    /// A number, 0 if the scenario lacks it.
    pub(crate) fn or_zero(&self, key: Key) -> i64 {
        self.gpu.int(key, self.time).unwrap_or(0)
    }

    /// A text of the GPU.
    pub(crate) fn text(&self, key: Key) -> Reply<&'static str> {
        self.gpu.text(key).ok_or(code::NOT_SUPPORTED)
    }

    /// NOT_SUPPORTED for calls that the whole GPU does not support in MIG mode.
    pub(crate) fn not_with_mig(&self) -> Reply {
        match self.library.mig_mode(&self.live, self.index) {
            Some(true) => Err(code::NOT_SUPPORTED),
            _ => Ok(()),
        }
    }

    /// Returns a value.
    pub(crate) fn put<T: Copy>(&self, out: *mut T, value: T) -> Reply {
        if out.is_null() {
            return Err(code::INVALID_ARGUMENT);
        }
        if self.garbage {
            // SAFETY: the caller provides space for a T, and every bit pattern is a valid T.
            unsafe { std::ptr::write_bytes(out, 0xff, 1) };
        } else {
            // SAFETY: as above.
            unsafe { out.write_unaligned(value) };
        }
        Ok(())
    }

    /// Returns a text.
    pub(crate) fn put_text(&self, out: *mut c_char, length: c_uint, text: &str) -> Reply {
        if self.garbage {
            return put_bytes(out, length, &[0xff, 0xfe, 0xff]);
        }
        put_bytes(out, length, text.as_bytes())
    }

    /// Checks the version at the start of a struct.
    pub(crate) fn version<T>(&self, at: *mut T, number: u32) -> Reply {
        version(at, number)
    }

    /// Fills a struct after its version, which stays.
    pub(crate) fn put_versioned<T: Copy>(&self, out: *mut T, value: T) -> Reply {
        if out.is_null() {
            return Err(code::INVALID_ARGUMENT);
        }
        // SAFETY: the struct begins with a number of 32 bits.
        let version = unsafe { out.cast::<u32>().read_unaligned() };
        self.put(out, value)?;
        // SAFETY: as above.
        unsafe { out.cast::<u32>().write_unaligned(version) };
        Ok(())
    }
}

/// Checks the version at the start of a struct.
pub(crate) fn version<T>(at: *mut T, number: u32) -> Reply {
    if at.is_null() {
        return Err(code::INVALID_ARGUMENT);
    }
    // SAFETY: the struct begins with a number of 32 bits.
    let found = unsafe { at.cast::<u32>().read_unaligned() };
    let expected = u32::try_from(size_of::<T>()).unwrap_or(0) | number << 24;
    if found == expected {
        Ok(())
    } else {
        Err(code::ARGUMENT_VERSION_MISMATCH)
    }
}

/// Returns a text with its terminating zero.
pub(crate) fn put_bytes(out: *mut c_char, length: c_uint, text: &[u8]) -> Reply {
    if out.is_null() {
        return Err(code::INVALID_ARGUMENT);
    }
    if length as usize <= text.len() {
        return Err(code::INSUFFICIENT_SIZE);
    }
    // SAFETY: the caller provides `length` bytes.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr().cast(), out, text.len());
        out.add(text.len()).write(0);
    }
    Ok(())
}

/// A text in an array of a struct, truncated if too long.
pub(crate) fn chars<const N: usize>(text: &str) -> [c_char; N] {
    let mut out = [0; N];
    for (to, from) in out.iter_mut().take(N - 1).zip(text.bytes()) {
        *to = from.cast_signed();
    }
    out
}

/// The value of an optional entry at a time.
pub(crate) fn int(value: Option<&crate::scenario::value::Value>, time: Time) -> Option<i64> {
    value.and_then(|v| v.int(time))
}
