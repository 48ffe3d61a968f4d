//! One call: looked up by name, timed and recorded.

use std::ffi::{CStr, c_char, c_void};
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};
use libloading::Library;
use nvml_wrapper_sys::bindings::nvmlDevice_t;
use toml::Value;

use super::Asked;

/// NVML_ERROR_FUNCTION_NOT_FOUND, also for functions that the library lacks.
pub(super) const NO_FUNCTION: u32 = 13;

/// A loaded library and its calls so far.
pub(super) struct Nvml {
    library: Library,
    pub(super) asked: Vec<Asked>,
}

/// The value of a call, or its return code.
pub(super) type Said<T> = Result<T, u32>;

impl Nvml {
    pub(super) fn load(path: &Path) -> Result<Self> {
        // SAFETY: loading NVIDIA's library only runs its own initialisation.
        let library = unsafe { Library::new(path) }.with_context(|| path.display().to_string())?;
        Ok(Self {
            library,
            asked: Vec::new(),
        })
    }

    /// Looks up a function and passes its address to `call`.
    pub(super) fn call(
        &mut self,
        function: &'static str,
        what: String,
        call: impl FnOnce(*const c_void) -> u32,
    ) -> Said<()> {
        // SAFETY: this only looks up the symbol; `call` knows its signature.
        let symbol = unsafe { self.library.get::<*const c_void>(function.as_bytes()) };
        let address = symbol.ok().map(|s| *s);
        let begin = Instant::now();
        let code = address.map(call);
        let took = begin.elapsed();
        self.asked.push(Asked {
            function,
            what,
            code,
            took,
        });
        match code {
            Some(0) => Ok(()),
            Some(code) => Err(code),
            None => Err(NO_FUNCTION),
        }
    }

    /// `function(device, &mut T)`.
    pub(super) fn one<T: Copy>(
        &mut self,
        function: &'static str,
        what: String,
        gpu: nvmlDevice_t,
        mut value: T,
    ) -> Said<T> {
        self.call(function, what, |address| {
            // SAFETY: this is the signature of these functions, and the value outlives the call.
            unsafe {
                let function: extern "C" fn(nvmlDevice_t, *mut T) -> u32 = std::mem::transmute(address);
                function(gpu, &raw mut value)
            }
        })?;
        Ok(value)
    }

    /// `function(device, argument, &mut T)`.
    pub(super) fn with<T: Copy>(
        &mut self,
        function: &'static str,
        what: String,
        (gpu, argument): (nvmlDevice_t, u32),
        mut value: T,
    ) -> Said<T> {
        self.call(function, what, |address| {
            // SAFETY: as above.
            unsafe {
                let function: extern "C" fn(nvmlDevice_t, u32, *mut T) -> u32 = std::mem::transmute(address);
                function(gpu, argument, &raw mut value)
            }
        })?;
        Ok(value)
    }

    /// `function(device, argument, argument, &mut T)`.
    pub(super) fn with_two<T: Copy>(
        &mut self,
        function: &'static str,
        what: String,
        (gpu, first, second): (nvmlDevice_t, u32, u32),
        mut value: T,
    ) -> Said<T> {
        self.call(function, what, |address| {
            // SAFETY: as above.
            unsafe {
                let function: extern "C" fn(nvmlDevice_t, u32, u32, *mut T) -> u32 =
                    std::mem::transmute(address);
                function(gpu, first, second, &raw mut value)
            }
        })?;
        Ok(value)
    }

    /// `function(device, &mut a, &mut b)`.
    pub(super) fn two(&mut self, function: &'static str, what: String, gpu: nvmlDevice_t) -> Said<[u32; 2]> {
        let [mut a, mut b] = [0, 0];
        self.call(function, what, |address| {
            // SAFETY: as above.
            unsafe {
                let function: extern "C" fn(nvmlDevice_t, *mut u32, *mut u32) -> u32 =
                    std::mem::transmute(address);
                function(gpu, &raw mut a, &raw mut b)
            }
        })?;
        Ok([a, b])
    }

    /// `function(device, text, length)`.
    pub(super) fn text(&mut self, function: &'static str, what: String, gpu: nvmlDevice_t) -> Said<String> {
        let mut text = [0; 256];
        self.call(function, what, |address| {
            // SAFETY: as above; a function without a length writes at most 80 bytes.
            unsafe {
                let function: extern "C" fn(nvmlDevice_t, *mut c_char, u32) -> u32 =
                    std::mem::transmute(address);
                function(gpu, text.as_mut_ptr(), 256)
            }
        })?;
        Ok(string(&text))
    }
}

/// The text before the terminating zero.
pub(super) fn string(text: &[c_char]) -> String {
    let bytes: Vec<u8> = text.iter().map(|c| c.cast_unsigned()).chain([0]).collect();
    CStr::from_bytes_until_nul(&bytes)
        .map(|t| t.to_string_lossy().into_owned())
        .unwrap_or_default()
}

/// Puts a value at a path such as `power.usage`; an error adds nothing.
pub(super) fn set<T: Into<Value>>(table: &mut toml::Table, path: &str, value: Said<T>) {
    let Ok(value) = value else { return };
    match path.split_once('.') {
        None => drop(table.insert(path.to_owned(), value.into())),
        Some((word, below)) => {
            let inner = table.entry(word).or_insert_with(|| toml::Table::new().into());
            if let Some(inner) = inner.as_table_mut() {
                set(inner, below, Ok(value));
            }
        }
    }
}

/// The scenario's form of 64-bit numbers.
pub(super) fn int(value: u64) -> i64 {
    value.cast_signed()
}
