//! System call filters. Each process installs its own with [`apply`]; a filter survives fork and exec, so a child has
//! those of its parent too.
//!
//! A denied call returns an error and never ends the process: a signal into a GPU driver can hang the GPU. A call that is
//! newer than the table returns ENOSYS, because libraries then use an older one.

mod calls;
pub mod policy;
mod program;

use std::io;

pub use policy::Policy;

/// Why a filter was not installed.
#[derive(Debug, thiserror::Error)]
pub enum FilterError {
    /// A row of the table cannot be compiled; a test of the table finds it.
    #[error("filter: {0}")]
    Table(String),
    /// The kernel refused it: EINVAL or ENOSYS without CONFIG_SECCOMP_FILTER.
    #[error("seccomp: {0}")]
    Kernel(#[from] io::Error),
}

/// Filters the calls of all threads of this process, and of all processes that it starts, permanently.
///
/// # Errors
/// When the kernel has no filters, or the table is wrong.
pub fn apply(policy: &Policy) -> Result<(), FilterError> {
    let program = program::compile(policy)?;
    match seccompiler::apply_filter_all_threads(&program) {
        Ok(()) => Ok(()),
        Err(seccompiler::Error::Prctl(e) | seccompiler::Error::Seccomp(e)) => Err(e.into()),
        Err(e) => Err(FilterError::Table(e.to_string())),
    }
}

#[cfg(test)]
mod tests;
