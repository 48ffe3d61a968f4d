//! A pause of this node by a person.

use serde::{Deserialize, Serialize};

/// A pause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    /// The operator.
    pub by: String,
    /// The operator's reason.
    pub reason: String,
    /// Its start, in seconds since the epoch.
    pub since: i64,
    /// Its end, in seconds since the epoch.
    pub until: i64,
}
