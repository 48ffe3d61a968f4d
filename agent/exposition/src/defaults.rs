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
    /// `slurm.jobs.labels`: the personal labels that are served. Default none: a page knows no user.
    #[serde(default)]
    pub labels: Vec<String>,
}

/// Labels that name a person or a project. They are omitted, not emptied: an empty label means unknown.
const PERSONAL: [&str; 3] = ["user", "account", "partition"];

impl Defaults {
    /// Whether pages show this label.
    pub(crate) fn shows_label(&self, label: &str) -> bool {
        !PERSONAL.contains(&label) || self.labels.iter().any(|shown| shown == label)
    }
}

impl Default for Defaults {
    fn default() -> Self {
        Self {
            tier: Tier::Core,
            include: Vec::new(),
            exclude: Vec::new(),
            labels: Vec::new(),
        }
    }
}
