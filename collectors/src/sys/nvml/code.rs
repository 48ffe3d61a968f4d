//! Return codes. The newest drivers use codes that are not in our header, so a code stays a number.

use nvml_wrapper_sys::bindings::nvmlReturn_t;

/// The error code of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Code(pub u32);

impl Code {
    /// The library was not opened, or the driver was unloaded since.
    pub const UNINITIALIZED: Self = Self(1);
    /// An argument that this library does not support.
    pub const INVALID_ARGUMENT: Self = Self(2);
    /// This GPU does not support it.
    pub const NOT_SUPPORTED: Self = Self(3);
    /// This user lacks the permission.
    pub const NO_PERMISSION: Self = Self(4);
    /// No such object.
    pub const NOT_FOUND: Self = Self(6);
    /// Power cables are not connected.
    pub const INSUFFICIENT_POWER: Self = Self(8);
    /// No driver is loaded.
    pub const DRIVER_NOT_LOADED: Self = Self(9);
    /// The call took too long.
    pub const TIMEOUT: Self = Self(10);
    /// The kernel found a problem with interrupts of a GPU.
    pub const IRQ_ISSUE: Self = Self(11);
    /// This library, or this driver, has no such function.
    pub const FUNCTION_NOT_FOUND: Self = Self(13);
    /// The board's memory is corrupt.
    pub const CORRUPTED_INFOROM: Self = Self(14);
    /// The GPU has fallen off the bus or is otherwise gone.
    pub const GPU_IS_LOST: Self = Self(15);
    /// The GPU must be reset before it can be used.
    pub const RESET_REQUIRED: Self = Self(16);
    /// The operating system blocks the GPU for this process, such as the device list of its cgroup (`nvml.h`).
    pub const OPERATING_SYSTEM: Self = Self(17);
    /// Library and kernel module have different versions.
    pub const LIB_RM_VERSION_MISMATCH: Self = Self(18);
    /// The GPU is used exclusively by another program.
    pub const IN_USE: Self = Self(19);
    /// Unsupported structure version.
    pub const ARGUMENT_VERSION_MISMATCH: Self = Self(25);
    /// No longer supported.
    pub const DEPRECATED: Self = Self(26);
    /// The GPU is not ready yet.
    pub const NOT_READY: Self = Self(27);
    /// No supported GPU was found at the start of the library (R545).
    pub const GPU_NOT_FOUND: Self = Self(28);
    /// The library says no more.
    pub const UNKNOWN: Self = Self(999);

    /// Success, or the code.
    pub(super) const fn of(answer: nvmlReturn_t) -> Result<(), Self> {
        match answer {
            0 => Ok(()),
            code => Err(Self(code)),
        }
    }

    /// The GPU will not answer any more.
    pub const fn is_lost(self) -> bool {
        matches!(self, Self::GPU_IS_LOST | Self::RESET_REQUIRED)
    }

    /// The GPU, or this library, does not support it: repeating the query gives the same answer.
    pub const fn is_unsupported(self) -> bool {
        matches!(
            self,
            Self::NOT_SUPPORTED
                | Self::FUNCTION_NOT_FOUND
                | Self::INVALID_ARGUMENT
                | Self::ARGUMENT_VERSION_MISMATCH
                | Self::DEPRECATED
                | Self::NO_PERMISSION
        )
    }

    /// This version of the driver lacks the function, or this version of its structure: an older one may be there.
    pub const fn is_too_new(self) -> bool {
        matches!(self, Self::FUNCTION_NOT_FOUND | Self::ARGUMENT_VERSION_MISMATCH)
    }

    /// The driver must be reopened.
    pub const fn is_uninitialized(self) -> bool {
        matches!(self, Self::UNINITIALIZED | Self::DRIVER_NOT_LOADED)
    }

    /// Whether it is no answer about the GPU: its state stays unknown.
    pub const fn is_no_answer(self) -> bool {
        // Codes of newer drivers are none.
        !matches!(
            self,
            Self::GPU_IS_LOST
                | Self::RESET_REQUIRED
                | Self::INSUFFICIENT_POWER
                | Self::IRQ_ISSUE
                | Self::NOT_SUPPORTED
                | Self::NOT_FOUND
                | Self::IN_USE
                | Self::NOT_READY
        )
    }

    /// The value of the label `reason`: few, stable words.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::GPU_IS_LOST => "lost",
            Self::RESET_REQUIRED => "reset_required",
            Self::UNINITIALIZED | Self::DRIVER_NOT_LOADED => "no_driver",
            Self::NO_PERMISSION | Self::OPERATING_SYSTEM => "no_permission",
            Self::INSUFFICIENT_POWER => "power",
            Self::IRQ_ISSUE => "interrupt",
            Self::TIMEOUT => "timeout",
            Self::NOT_SUPPORTED | Self::NOT_FOUND => "refused",
            Self::IN_USE | Self::NOT_READY => "busy",
            Self::GPU_NOT_FOUND => "no_gpus",
            _ => "unknown",
        }
    }
}

impl std::fmt::Display for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let words = match *self {
            Self::UNINITIALIZED => "not initialised",
            Self::INVALID_ARGUMENT => "invalid argument",
            Self::NOT_SUPPORTED => "not supported",
            Self::NO_PERMISSION => "no permission",
            Self::NOT_FOUND => "not found",
            Self::INSUFFICIENT_POWER => "power cables are not connected",
            Self::DRIVER_NOT_LOADED => "the driver is not loaded",
            Self::TIMEOUT => "timed out",
            Self::IRQ_ISSUE => "interrupts of a GPU do not arrive",
            Self::FUNCTION_NOT_FOUND => "the library has no such function",
            Self::GPU_IS_LOST => "the GPU is lost",
            Self::RESET_REQUIRED => "the GPU must be reset",
            Self::OPERATING_SYSTEM => "the operating system blocks the GPU",
            Self::GPU_NOT_FOUND => "the driver has no GPU that it can use",
            Self::LIB_RM_VERSION_MISMATCH => "library and kernel module are of different versions",
            _ => "",
        };
        if words.is_empty() {
            write!(f, "NVML code {}", self.0)
        } else {
            write!(f, "{words} (NVML code {})", self.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_no_answer_where_its_reason_says_nothing_of_the_gpu() {
        for code in (1..40).chain([998, 999]).map(Code) {
            let is_none =
                ["unknown", "timeout", "no_permission", "no_driver", "no_gpus"].contains(&code.reason());
            assert_eq!(code.is_no_answer(), is_none, "{code}");
        }
    }
}
