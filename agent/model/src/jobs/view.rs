//! The public view of jobs.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::line::Line;

/// The jobs of this node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobsView {
    /// Running jobs, by number.
    pub running: Vec<Line>,
    /// Ended jobs, oldest first; limited in number.
    pub ended: VecDeque<Arc<Line>>,
    /// Number of ended jobs, by result.
    #[serde(default)]
    pub results: BTreeMap<String, u64>,
    /// Number of jobs left out because the asking user may not see them (`access.jobs`).
    #[serde(default)]
    pub withheld: usize,
}
