//! The instances that a GPU is divided into (MIG).

#![allow(unsafe_code, reason = "the library's own functions")]

use super::{Code, Handle, Library, function, one};

impl Library {
    /// The handle of a MIG device. `Ok(None)`: nothing at that index.
    ///
    /// # Errors
    /// The library's return code.
    pub fn mig_device(&self, device: Handle, index: u32) -> Result<Option<Handle>, Code> {
        let call = function(self.raw.nvmlDeviceGetMigDeviceHandleByIndex.as_ref())?;
        // SAFETY: as declared in nvml.h; the pointer is valid for the call.
        match one(std::ptr::null_mut(), |found| unsafe {
            call(device.0, index, found)
        }) {
            Ok(handle) => Ok(Some(Handle(handle))),
            Err(Code::NOT_FOUND) => Ok(None),
            Err(code) => Err(code),
        }
    }
}
