//! What is shown of jobs.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::line::Line;

/// The jobs of this node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobsView {
    /// Those that run, in order of their numbers.
    pub running: Vec<Line>,
    /// Those that have ended, the last at the end; not all that there ever were.
    pub ended: VecDeque<Arc<Line>>,
    /// How many have ended, by result.
    #[serde(default)]
    pub results: BTreeMap<String, u64>,
}
