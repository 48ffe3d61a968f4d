//! libnvidia-ml.so: loaded at run time and never unloaded. A stuck driver also blocks the shutdown function, and
//! other threads may still be in a call.

mod code;
mod device;
mod events;
pub mod gpm;
mod instance;
mod process;
mod values;

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, OsString};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use nvml_wrapper_sys::bindings::{NvmlLib, nvmlDevice_t, nvmlReturn_t};

pub use code::Code;
pub use device::{Bar1, Fabric, Memory, PciInfo, Remapped, Repairs, Sram, Utilization};
pub use events::{EventSet, NvmlEvent};
pub use process::Process;
pub use values::{Batch, FieldValue, Wanted};

/// The library's handle of a GPU, valid until the driver is reloaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle(nvmlDevice_t);

// SAFETY: the library is documented as thread-safe, and a handle is an opaque number that is never dereferenced.
#[allow(unsafe_code, reason = "a handle is used by the thread that reads its GPU")]
unsafe impl Send for Handle {}

/// The library.
pub struct Library {
    raw: NvmlLib,
    /// Driver opens minus closes.
    inits: AtomicU32,
}

/// The library could not be loaded: the loader's message.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct LoadError(String);

/// Loaded libraries by path: the same file is never loaded twice.
static LOADED: Mutex<BTreeMap<OsString, &'static Library>> = Mutex::new(BTreeMap::new());

impl Library {
    /// Loads the library. A second call with the same path returns the same object.
    ///
    /// # Errors
    /// [`LoadError`]: the file is absent, or not a library.
    #[allow(unsafe_code, reason = "the constructors of the driver's library run")]
    pub fn load(path: &str) -> Result<&'static Self, LoadError> {
        let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = loaded.get(OsString::from(path).as_os_str()) {
            return Ok(known);
        }
        // SAFETY: the administrator configured the path; the driver's vendor is responsible for the library's
        // constructors.
        let raw = unsafe { NvmlLib::new(path) }.map_err(|e| LoadError(e.to_string()))?;
        let library: &'static Self = Box::leak(Box::new(Self {
            raw,
            inits: AtomicU32::new(0),
        }));
        loaded.insert(path.into(), library);
        Ok(library)
    }

    /// Opens the driver. May be called again, as after a reload of the driver.
    ///
    /// # Errors
    /// The library's return code.
    #[allow(unsafe_code, reason = "the library's own functions")]
    pub fn init(&self) -> Result<(), Code> {
        let call = function(self.raw.nvmlInit_v2.as_ref())?;
        // SAFETY: as declared in nvml.h.
        Code::of(unsafe { call() })?;
        self.inits.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }

    /// Whether the driver is open.
    pub fn is_open(&self) -> bool {
        self.inits.load(Ordering::Acquire) > 0
    }

    /// Closes the driver once: the library counts opens. Only while no thread is inside it.
    ///
    /// # Errors
    /// The library's return code.
    #[allow(unsafe_code, reason = "the library's own functions")]
    pub fn shutdown(&self) -> Result<(), Code> {
        let call = function(self.raw.nvmlShutdown.as_ref())?;
        // SAFETY: as declared in nvml.h.
        Code::of(unsafe { call() })?;
        let one_less = |inits: u32| inits.checked_sub(1);
        self.inits
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, one_less)
            .ok();
        Ok(())
    }

    /// The GPU at that PCI address.
    ///
    /// # Errors
    /// The library's return code.
    #[allow(unsafe_code, reason = "the library's own functions")]
    pub fn handle_by_pci(&self, address: &str) -> Result<Handle, Code> {
        let call = function(self.raw.nvmlDeviceGetHandleByPciBusId_v2.as_ref())?;
        let address = CString::new(address).map_err(|_| Code::INVALID_ARGUMENT)?;
        // SAFETY: as declared in nvml.h; both pointers are valid for the call.
        one(std::ptr::null_mut(), |device| unsafe {
            call(address.as_ptr(), device)
        })
        .map(Handle)
    }

    /// The number of GPUs that the driver counts, including those that it cannot open.
    ///
    /// # Errors
    /// The library's return code.
    #[allow(unsafe_code, reason = "the library's own functions")]
    pub fn count(&self) -> Result<u32, Code> {
        let call = function(self.raw.nvmlDeviceGetCount_v2.as_ref())?;
        let mut count = 0;
        // SAFETY: as declared in nvml.h; the pointer is valid for the call.
        Code::of(unsafe { call(&raw mut count) })?;
        Ok(count)
    }

    /// The GPU with that index.
    ///
    /// # Errors
    /// The library's return code.
    #[allow(unsafe_code, reason = "the library's own functions")]
    pub fn handle(&self, index: u32) -> Result<Handle, Code> {
        let call = function(self.raw.nvmlDeviceGetHandleByIndex_v2.as_ref())?;
        let mut device: nvmlDevice_t = std::ptr::null_mut();
        // SAFETY: as declared in nvml.h; the pointer is valid for the call.
        Code::of(unsafe { call(index, &raw mut device) })?;
        Ok(Handle(device))
    }

    /// The driver's version, `580.95.05`.
    ///
    /// # Errors
    /// The library's return code.
    #[allow(unsafe_code, reason = "the library's own functions")]
    pub fn driver_version(&self) -> Result<String, Code> {
        let call = function(self.raw.nvmlSystemGetDriverVersion.as_ref())?;
        // SAFETY: as declared in nvml.h; the library writes at most the length that it is given.
        text(|buffer, length| unsafe { call(buffer, length) })
    }
}

impl std::fmt::Debug for Library {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Library")
    }
}

/// A function that this version of the library may not have.
fn function<F: Copy, E>(symbol: Result<&F, E>) -> Result<F, Code> {
    symbol.copied().map_err(|_| Code::FUNCTION_NOT_FOUND)
}

/// A value that the library writes through a pointer.
fn one<T>(start: T, call: impl FnOnce(*mut T) -> nvmlReturn_t) -> Result<T, Code> {
    let mut value = start;
    Code::of(call(&raw mut value))?;
    Ok(value)
}

/// The version of a structure as the library expects it: with its size.
const fn version<T>(number: u32) -> u32 {
    size_of::<T>() as u32 | number << 24
}

/// Maximum length of a text of the library.
const TEXT: usize = 128;

/// A text that the library writes into a buffer.
fn text(call: impl FnOnce(*mut std::ffi::c_char, u32) -> nvmlReturn_t) -> Result<String, Code> {
    let mut buffer = [0_u8; TEXT];
    // One less, so that an unterminated text still ends in a zero byte.
    Code::of(call(buffer.as_mut_ptr().cast(), TEXT as u32 - 1))?;
    let text = CStr::from_bytes_until_nul(&buffer).unwrap_or_default();
    Ok(text.to_string_lossy().into_owned())
}
