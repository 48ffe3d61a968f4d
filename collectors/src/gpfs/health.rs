//! Components of GPFS on this node and their active events, as `mmhealth node show -Y` reports them.

use std::collections::{BTreeMap, BTreeSet};

use super::command_metrics::{COMPONENT_EVENT, COMPONENT_HAS_STATUS, COMPONENT_STATUS};
use super::output::{Output, Row};
use super::replies::{Faults, Reason};
use crate::Block;
use crate::text::printable;

/// The component whose status the check judges: mmfsd and its cluster.
pub const GPFS: &str = "GPFS";
/// The statuses of a component.
const STATUSES: [&str; 11] = [
    "CHECKING",
    "DEGRADED",
    "DEPEND",
    "DISABLED",
    "FAILED",
    "HEALTHY",
    "STARTING",
    "STOPPED",
    "SUSPENDED",
    "TIPS",
    UNKNOWN,
];
/// The status that GPFS cannot tell, and every word of a later release.
const UNKNOWN: &str = "UNKNOWN";
/// The severities of an event, with that of an event without one.
pub const SEVERITIES: [&str; 5] = ["", "ERROR", "INFO", "TIP", "WARNING"];
/// Statuses without a fault, which give way to others at the limit.
const QUIET: [&str; 4] = ["HEALTHY", "TIPS", "DISABLED", "STOPPED"];
/// The most components and the most events with series.
const MOST: usize = 64;
/// Limit of a label, in bytes.
const MAX_LABEL: usize = 64;

/// The labels component, entity and entity_type.
type Entity = [String; 3];

fn label(row: &Row<'_>, column: &str) -> Option<String> {
    row.text(column).map(|text| printable(text.as_bytes(), MAX_LABEL))
}

/// `None`: the row lacks a column.
fn entity(row: &Row<'_>) -> Option<Entity> {
    Some([
        label(row, "component").filter(|component| !component.is_empty())?,
        label(row, "entityname")?,
        label(row, "entitytype")?,
    ])
}

/// Whether an event is hidden. `None`: the row's values are not those of its columns.
fn is_hidden(output: &Output<'_>, row: &Row<'_>) -> Option<bool> {
    if !output.has_column("Event", "ishidden") {
        return Some(false);
    }
    match row.text("ishidden")?.as_str() {
        "no" => Some(false),
        "yes" => Some(true),
        _ => None,
    }
}

/// The severity of an event; `None`: a value that is none.
fn severity(row: &Row<'_>) -> Option<&'static str> {
    // Releases whose header ends with `ishidden` add message, type and severity to a row.
    let text = row.text("severity").or_else(|| row.text_after("ishidden", 3));
    let text = text.unwrap_or_default();
    SEVERITIES.into_iter().find(|known| *known == text)
}

pub(super) fn show(output: &Output<'_>, out: &mut Block, faults: &mut Faults) {
    let mut found: BTreeMap<Entity, &str> = BTreeMap::new();
    for row in output.rows("State") {
        let (Some(entity), Some(word)) = (entity(row), label(row, "status")) else {
            faults.add(Reason::Malformed);
            continue;
        };
        let status = STATUSES.into_iter().find(|known| *known == word);
        if status.is_none() {
            faults.add(Reason::Malformed);
        }
        found.entry(entity).or_insert(status.unwrap_or(UNKNOWN));
    }
    if found.is_empty() {
        faults.add(Reason::Malformed);
        return;
    }
    show_statuses(found, out, faults);
    show_events(output, out, faults);
}

fn show_statuses(found: BTreeMap<Entity, &str>, out: &mut Block, faults: &mut Faults) {
    let mut found: Vec<(Entity, &str)> = found.into_iter().collect();
    found.sort_by_key(|([component, ..], status)| (component != GPFS, QUIET.contains(status)));
    if found.len() > MOST {
        faults.add(Reason::Limit);
    }
    for ([component, name, kind], status) in found.iter().take(MOST) {
        out.u64(&COMPONENT_STATUS, &[component, name, kind, status], 1);
        for other in STATUSES {
            out.u64(
                &COMPONENT_HAS_STATUS,
                &[component, name, kind, other],
                u64::from(other == *status),
            );
        }
    }
}

fn show_events(output: &Output<'_>, out: &mut Block, faults: &mut Faults) {
    let mut events: BTreeSet<(bool, Entity, (String, &str))> = BTreeSet::new();
    for row in output.rows("Event") {
        let event = label(row, "event").filter(|event| !event.is_empty());
        let (Some(entity), Some(event), Some(is_hidden)) = (entity(row), event, is_hidden(output, row))
        else {
            faults.add(Reason::Malformed);
            continue;
        };
        if !is_hidden {
            let severity = severity(row);
            if severity.is_none() {
                faults.add(Reason::Malformed);
            }
            let [component, ..] = &entity;
            events.insert((component != GPFS, entity, (event, severity.unwrap_or_default())));
        }
    }
    if events.len() > MOST {
        faults.add(Reason::Limit);
    }
    for (_, [component, name, kind], (event, severity)) in events.iter().take(MOST) {
        out.u64(&COMPONENT_EVENT, &[component, name, kind, event, severity], 1);
    }
}
