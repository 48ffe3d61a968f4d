//! The `nvidia` table of the configuration.

use serde::Deserialize;

/// The name by which the loader finds the library of the installed driver.
const LIBRARY: &str = "libnvidia-ml.so.1";

/// The table.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct NvidiaSettings {
    /// The library, by name or path.
    library: Option<String>,
    /// Whether GPUs are asked what their parts do (GPM), where they can tell.
    pub(super) gpm: bool,
    /// Whether the processes that use a GPU are shown. They are always looked at, to know whose job uses it.
    pub(super) processes: bool,
}

impl Default for NvidiaSettings {
    fn default() -> Self {
        Self {
            library: None,
            gpm: true,
            processes: false,
        }
    }
}

impl NvidiaSettings {
    /// The library, and whether somebody named it.
    pub(super) fn library(&self) -> (&str, bool) {
        (self.library.as_deref().unwrap_or(LIBRARY), self.library.is_some())
    }
}
