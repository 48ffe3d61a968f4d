//! What one of our processes costs.

use serde::{Deserialize, Serialize};

/// What a process has used and holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Processor time, in seconds.
    pub cpu: f64,
    /// Resident memory, in bytes.
    pub resident: u64,
    /// Threads.
    pub threads: u64,
    /// Its share of the memory that it has resident, in bytes. Only the process itself may read it.
    pub proportional: Option<u64>,
    /// Open descriptors. Only the process itself may read them.
    pub descriptors: Option<u64>,
    /// Whether its system calls are filtered. `None`: unknown to this reading.
    pub seccomp: Option<bool>,
    /// Whether Landlock confines it. `None`: it does not use Landlock.
    pub landlock: Option<bool>,
}
