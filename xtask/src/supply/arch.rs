//! The architectures that the program is shipped for.

/// One of them.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub(crate) enum Arch {
    /// Built, installed and run by tests.
    #[value(name = "x86_64")]
    X86_64,
    /// Built only: no machine here runs it.
    #[value(name = "aarch64")]
    Aarch64,
}

impl Arch {
    /// As the kernel and rpm name it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
        }
    }

    /// As Debian names it.
    pub(crate) const fn debian(self) -> &'static str {
        match self {
            Self::X86_64 => "amd64",
            Self::Aarch64 => "arm64",
        }
    }

    /// As rustc names it.
    pub(crate) const fn target(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64-unknown-linux-gnu",
            Self::Aarch64 => "aarch64-unknown-linux-gnu",
        }
    }

    /// As readelf names it.
    pub(crate) const fn machine(self) -> &'static str {
        match self {
            Self::X86_64 => "Advanced Micro Devices X86-64",
            Self::Aarch64 => "AArch64",
        }
    }

    /// The `strip` that reads its programs, and Debian's package of it.
    pub(super) const fn strip(self) -> (&'static str, &'static str) {
        match self {
            Self::X86_64 => ("strip", "binutils"),
            Self::Aarch64 => ("aarch64-linux-gnu-strip", "binutils-aarch64-linux-gnu"),
        }
    }
}
