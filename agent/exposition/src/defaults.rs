//! The selection of a page for a request without parameters.

use collectors::Tier;
use serde::{Deserialize, Serialize};

/// `[metrics]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Defaults {
    /// `tier`: the highest tier. Default core.
    pub tier: Tier,
    /// `include`: metrics that are served although their tier is higher.
    pub include: Vec<String>,
    /// `exclude`: metrics that are never served.
    pub exclude: Vec<String>,
}

impl Default for Defaults {
    fn default() -> Self {
        Self {
            tier: Tier::Core,
            include: Vec::new(),
            exclude: Vec::new(),
        }
    }
}
