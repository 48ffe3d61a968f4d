//! all-smi from crates.io.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::crates::Published;
use crate::deps;

/// Its crate requires a newer compiler than ours.
pub(super) const ALL_SMI: Published = Published {
    name: "all-smi",
    version: "0.28.1",
    compiler: Some("1.96.0"),
};

/// The path of the program.
///
/// # Errors
/// When it cannot be built.
pub(super) fn get(work: &Path) -> Result<PathBuf> {
    if !ALL_SMI.is_built(work) {
        // One of its accelerator clients is generated code.
        deps::install(&["protobuf-compiler", "libprotobuf-dev"])?;
    }
    ALL_SMI.get(work)
}
