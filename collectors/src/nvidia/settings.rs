//! The `nvidia` table of the configuration.

use serde::Deserialize;

/// The table.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Table {
    /// The library, by name or path; `libnvidia-ml.so.1` where it is not set.
    pub(super) library: Option<String>,
    /// Whether GPUs are asked what their parts do (GPM), where they can tell.
    pub(super) gpm: Option<bool>,
    /// Whether processes that use a GPU are shown.
    pub(super) processes: bool,
}
