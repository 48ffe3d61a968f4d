//! Our drain in words of our own: what is written in Slurm may name people.

use serde::Serialize;

use health::view::DrainView;

#[derive(Debug, Serialize)]
pub(super) struct DrainReport {
    /// `none`, `wanted`, `withheld`, `foreign`, `writing`, `drained`, `lifting`, `overridden`, `unproven`.
    pub(super) state: String,
    /// What that means.
    pub(super) text: &'static str,
    /// The incident that it is for.
    pub(super) incident: Option<String>,
    /// Since when, in seconds since the epoch.
    pub(super) since: Option<i64>,
    /// How long ago that is, in seconds.
    pub(super) age: Option<i64>,
    /// Whether our record of it reached the disk.
    pub(super) recorded: bool,
}

impl DrainReport {
    pub(super) fn of(drain: &DrainView, wall: i64) -> Self {
        Self {
            state: drain.state.clone(),
            text: text(&drain.state),
            incident: drain.incident.clone(),
            since: drain.since,
            age: drain.since.map(|s| wall.saturating_sub(s).max(0)),
            recorded: drain.recorded,
        }
    }
}

fn text(state: &str) -> &'static str {
    match state {
        "none" => "nodewarden has not drained this node.",
        "wanted" => "A drain is wanted and not written yet.",
        "withheld" => "A drain is wanted, but must not be written in the node's present state.",
        "foreign" => "Somebody else drained this node. Their reason: scontrol show node",
        "writing" => "A drain is being written.",
        "drained" => "nodewarden drained this node.",
        "lifting" => "Our drain is to be lifted.",
        "overridden" => "A person lifted our drain. No new one without new evidence.",
        "unproven" => "Nothing is written: the node that Slurm shows is not proven to be this one.",
        _ => "",
    }
}
