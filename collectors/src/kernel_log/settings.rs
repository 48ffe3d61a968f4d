//! The collector's table in the configuration.

use std::path::PathBuf;

use serde::Deserialize;

use crate::sys::kmsg::DEV_KMSG;

/// `[kernel_log]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct KernelLogSettings {
    /// The log to read; a file or FIFO in its place holds one record per line. Default `/dev/kmsg`.
    pub path: PathBuf,
    /// Takes lines that programs wrote into the log for the driver's. For tests only: whoever may write to /dev/kmsg
    /// could then have the node drained. Default false.
    pub accept_user: bool,
}

impl Default for KernelLogSettings {
    fn default() -> Self {
        Self {
            path: PathBuf::from(DEV_KMSG),
            accept_user: false,
        }
    }
}
