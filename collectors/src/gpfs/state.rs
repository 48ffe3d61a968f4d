//! The state of the node, as `mmgetstate -Y` reports it.

use super::command_metrics::NODE_STATE;
use super::output::Output;
use super::replies::{Faults, Reason};
use crate::Block;

/// The states of a node.
const STATES: [&str; 5] = ["active", "arbitrating", "down", UNKNOWN, "unresponsive"];
/// The state that GPFS cannot tell, and every word of a later release.
const UNKNOWN: &str = "unknown";

/// One row, of this node. The command has no name for its section.
pub(super) fn show(output: &Output<'_>, out: &mut Block, faults: &mut Faults) {
    let mut states = output.rows("").map(|row| row.text("state"));
    let (Some(Some(state)), None) = (states.next(), states.next()) else {
        faults.add(Reason::Malformed);
        return;
    };
    let known = STATES.into_iter().find(|known| *known == state);
    if known.is_none() {
        faults.add(Reason::Malformed);
    }
    for name in STATES {
        out.u64(&NODE_STATE, &[name], u64::from(name == known.unwrap_or(UNKNOWN)));
    }
}
