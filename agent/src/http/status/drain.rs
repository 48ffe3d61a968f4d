//! nodewarden's drain in fixed words: texts in Slurm may name people.

use serde::Serialize;

use health::view::DrainView;
use model::scheduler::HeldBy;

#[derive(Debug, Serialize)]
pub(super) struct DrainReport {
    /// `none`, `wanted`, `withheld`, `foreign`, `writing`, `held`, `drained`, `lifting`, `overridden`, `unproven`.
    pub(super) state: String,
    /// Its meaning.
    pub(super) text: &'static str,
    /// Its incident.
    pub(super) incident: Option<String>,
    /// Since when, in seconds since the epoch.
    pub(super) since: Option<i64>,
    /// Its age, in seconds.
    pub(super) age: Option<i64>,
    /// Whether its record reached the disk.
    pub(super) recorded: bool,
    /// What a held one waits for: `guard`, `standing`, `pause`, `refused`.
    pub(super) held: Option<&'static str>,
}

impl DrainReport {
    pub(super) fn of(drain: &DrainView, wall: i64) -> Self {
        Self {
            state: drain.state.clone(),
            text: drain.held.map_or_else(|| text(&drain.state), held),
            incident: drain.incident.clone(),
            since: drain.since,
            age: drain.since.map(|s| wall.saturating_sub(s).max(0)),
            recorded: drain.recorded,
            held: drain.held.map(HeldBy::word),
        }
    }
}

fn held(by: HeldBy) -> &'static str {
    match by {
        HeldBy::Guard => "A drain is wanted, but no drain slot is free; see: scontrol show reservation",
        HeldBy::Standing => {
            "A drain is wanted, but as many nodes are drained by nodewarden as may be: a person must act."
        }
        HeldBy::Pause => "A drain is wanted, but nodewarden is paused.",
        HeldBy::Refused => {
            "A drain is wanted, but drain slots cannot be read or taken; see: nodewarden status"
        }
    }
}

fn text(state: &str) -> &'static str {
    match state {
        "none" => "nodewarden has not drained this node.",
        "wanted" => "A drain is wanted and not written yet.",
        "withheld" => "A drain is wanted, but the node's present state forbids it.",
        "foreign" => "The node is drained with a foreign reason; see: scontrol show node",
        "writing" => "A drain is being written.",
        "drained" => "nodewarden drained this node.",
        "lifting" => "nodewarden is about to lift its drain.",
        "overridden" => "An operator lifted nodewarden's drain. No new drain without new evidence.",
        "unproven" => "nodewarden writes nothing: Slurm's node is not proven to be this machine.",
        _ => "",
    }
}
