//! The settings of Slurm.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::guard;

/// `[slurm]`. The defaults of the keys are in their rows: agent/src/config/keys.rs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// `node_name`: which slurmd of this host is ours, where several run.
    pub node_name: Option<String>,
    /// `scontrol`: its path; detected where absent.
    pub scontrol: Option<PathBuf>,
    /// `conf`: slurm.conf; taken from the running slurmd where absent.
    pub conf: Option<PathBuf>,
    /// `timeout`: the time-out of one scontrol.
    pub timeout: Duration,
    /// `mirror`: keep a copy of the drain's record in the node's Extra.
    pub mirror: bool,
    /// `[health.guard]`.
    pub guard: guard::Settings,
}
