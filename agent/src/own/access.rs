//! Who sees whose jobs where the user is known: on the control socket. The meaning is that of Slurm's `PrivateData=jobs`.

use serde::{Deserialize, Serialize};

/// `access.jobs`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobAccess {
    /// Every user sees all jobs.
    All,
    /// A user sees the own jobs; root and `health.operators` see all.
    #[default]
    Own,
    /// Only root and `health.operators` see jobs.
    Operators,
}
