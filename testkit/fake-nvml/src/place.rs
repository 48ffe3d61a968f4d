//! Where this copy of the library lies, and the files beside it.

use std::ffi::{CStr, OsStr, OsString, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Names another scenario than the one beside the library.
pub const VARIABLE: &str = "FAKE_NVML_SCENARIO";

/// The file that this code was loaded from.
pub(crate) fn library() -> Option<PathBuf> {
    // SAFETY: all zeroes is a valid Dl_info.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: the address is one of this library's own functions, and `info` outlives the call.
    let found = unsafe { libc::dladdr(library as *const () as *const c_void, &raw mut info) };
    if found == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: dladdr gives a string that ends with a zero and lives as long as the library.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    std::fs::canonicalize(OsStr::from_bytes(name.to_bytes())).ok()
}

/// A file beside the library.
#[must_use]
pub fn beside(library: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(library);
    name.push(suffix);
    name.into()
}

/// The scenario of a library at that path.
#[must_use]
pub fn scenario(library: &Path) -> PathBuf {
    std::env::var_os(VARIABLE).map_or_else(|| beside(library, ".toml"), PathBuf::from)
}

/// Of the control file.
pub const CONTROL: &str = ".control";
/// Of the counts.
pub const COUNTS: &str = ".counts";
