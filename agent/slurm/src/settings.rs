//! The settings of Slurm.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// `[slurm]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// `node_name`: which slurmd of this host is ours, where several run.
    pub node_name: Option<String>,
    /// `scontrol`: its path; detected where absent.
    pub scontrol: Option<PathBuf>,
    /// `conf`: slurm.conf; taken from the running slurmd where absent.
    pub conf: Option<PathBuf>,
    /// `timeout`: the time-out of one scontrol. Default 10 s.
    pub timeout: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            node_name: None,
            scontrol: None,
            conf: None,
            timeout: Duration::from_secs(10),
        }
    }
}
