//! Whether a fault is the node's own or shared.

use serde::{Deserialize, Serialize};

/// Whether a fault is the node's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// The node's own.
    Node,
    /// Of something that nodes share: when everyone has it, it is not the node.
    Shared,
}
