//! Events of Slurm jobs.

use serde::{Deserialize, Serialize};

use crate::slurm::hook::{End, RecordId};

/// A Slurm job that began or ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct JobChange {
    /// The name of its cgroup: `job_7`, or a SLUID.
    pub folder: String,
    /// What happened.
    pub what: JobEvent,
    /// When its prolog ran by the record of its hook, in microseconds since the epoch. `None`: no record.
    pub start_us: Option<u64>,
}

/// Kinds of changes of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum JobEvent {
    /// Its cgroup exists.
    Began,
    /// Its cgroup was removed.
    Ended,
}

impl JobEvent {
    /// The word used in messages.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Began => "began",
            Self::Ended => "ended",
        }
    }
}

/// What prolog and epilog know of a job that is over. Texts are empty where Slurm set none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct JobEnd {
    /// The record, which has the job's number and the time of its epilog.
    pub record: RecordId,
    /// When its prolog ran, in microseconds since the epoch. `None`: no prolog of ours.
    pub start_us: Option<u64>,
    /// Exit code and signal, if Slurm reported them.
    pub end: Option<End>,
    /// The owner.
    pub uid: Option<u32>,
    /// The owner as `slurm.jobs.user` shows users.
    pub user: String,
    /// Account.
    pub account: String,
    /// Partition.
    pub partition: String,
    /// Job id of its array.
    pub array_job: String,
    /// Its task id in the array.
    pub array_task: String,
    /// Job id of the heterogeneous job's first component.
    pub het_job: String,
    /// Its GPUs, as in `slurm_job_grant_info`. `None`: unknown.
    pub devices: Option<Vec<String>>,
    /// Number of records that the hooks had to drop since the boot.
    pub dropped: u64,
}
