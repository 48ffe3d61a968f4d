//! A node as slurmctld describes it.

use std::collections::BTreeSet;

use model::scheduler::NodeReason;
use serde::{Deserialize, Serialize};

/// The base states of slurm.h (`NODE_STATE_BASE`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[allow(missing_docs, reason = "Slurm's own words")]
pub enum Base {
    Unknown,
    Down,
    Idle,
    Allocated,
    Error,
    Mixed,
    Future,
}

/// The state flags of slurm.h (`NODE_STATE_FLAGS`), 20.11 to 26.05.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[allow(missing_docs, reason = "Slurm's own words")]
pub enum Flag {
    Reserved,
    Undrain,
    Cloud,
    Drain,
    Completing,
    NotResponding,
    PoweredDown,
    Fail,
    PoweringUp,
    Maint,
    RebootRequested,
    RebootCancel,
    PoweringDown,
    DynamicFuture,
    RebootIssued,
    Planned,
    InvalidReg,
    PowerDown,
    PowerUp,
    PowerDrain,
    DynamicNorm,
    Blocked,
    External,
}

/// The own node, as `scontrol show node` describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// NodeName.
    pub name: String,
    /// NodeHostName.
    pub hostname: String,
    /// The base state.
    pub base: Base,
    /// The flags.
    pub flags: BTreeSet<Flag>,
    /// State words that no known Slurm prints.
    pub unknown_words: Vec<String>,
    /// The reason.
    pub reason: Option<NodeReason>,
    /// Comment.
    pub comment: Option<String>,
    /// Extra.
    pub extra: Option<String>,
    /// The answer shows Extra also where it is empty, so this version has it, and it may be read and written.
    pub has_extra: bool,
    /// BootTime, in seconds since the epoch.
    pub boot_time: Option<i64>,
    /// SlurmdStartTime, in seconds since the epoch.
    pub slurmd_start_time: Option<i64>,
    /// Gres, as configured.
    pub gres: String,
    /// Partitions.
    pub partitions: Vec<String>,
}

impl Node {
    /// A node of which only the name is known.
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            hostname: String::new(),
            base: Base::Unknown,
            flags: BTreeSet::new(),
            unknown_words: Vec::new(),
            reason: None,
            comment: None,
            extra: None,
            has_extra: false,
            boot_time: None,
            slurmd_start_time: None,
            gres: String::new(),
            partitions: Vec::new(),
        }
    }

    /// Whether a flag is set.
    pub fn has(&self, flag: Flag) -> bool {
        self.flags.contains(&flag)
    }
}
