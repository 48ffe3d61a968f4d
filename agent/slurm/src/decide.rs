//! Which write each node state allows. The whole table: `fixtures/scontrol/state-table.txt`.

use model::scheduler::{Author, IncidentId, MAINTENANCE, Permission, Reason, UNKNOWN_STATE};

use super::state::{Base, Flag, Node};
use super::texts::{self, author};

/// States of another change in progress, or in which a write kills jobs or slurmctld rejects it.
const WITHHELD: &[(Flag, &str)] = &[
    (Flag::PoweredDown, "powered_down"),
    (Flag::PoweringUp, "powering_up"),
    (Flag::PoweringDown, "powering_down"),
    (Flag::PowerDown, "power_down"),
    (Flag::PowerUp, "power_up"),
    (Flag::PowerDrain, "power_drain"),
    (Flag::Maint, MAINTENANCE),
    (Flag::RebootRequested, "reboot_requested"),
    (Flag::RebootIssued, "reboot_issued"),
    (Flag::InvalidReg, "invalid_reg"),
    (Flag::External, "external"),
];

/// May DRAIN be set with our reason?
pub fn drain(state: &Node) -> Permission {
    match drain_in_maintenance(state) {
        Permission::Allowed if state.has(Flag::Maint) => Permission::Withheld(MAINTENANCE.into()),
        other => other,
    }
}

/// The same for a node in maintenance: DRAIN is accepted and stays when it ends.
pub fn drain_in_maintenance(state: &Node) -> Permission {
    if let Some(unknown) = unknown(state) {
        return unknown;
    }
    let author = author(state);
    if state.has(Flag::Fail) {
        return Permission::Foreign;
    }
    if state.has(Flag::Drain) && matches!(author, Author::Ours(_)) {
        return Permission::Already;
    }
    // Until a requested reboot is issued, Slurm starts jobs on the node, unless `ASAP` drained it.
    let reboot = (!state.has(Flag::Drain)).then_some(Flag::RebootRequested);
    let except: Vec<Flag> = reboot.into_iter().chain([Flag::Maint]).collect();
    if let Some(withheld) = withheld(state, &except) {
        return withheld;
    }
    match author {
        // Without DRAIN or DOWN a reason is a remnant of an earlier drain.
        _ if !state.has(Flag::Drain) && state.base != Base::Down => Permission::Allowed,
        Author::Ours(_) => Permission::Allowed,
        // A drain without a reason is not ours: with our reason we would lift it later.
        Author::None if !state.has(Flag::Drain) => Permission::Allowed,
        Author::None | Author::Scheduler | Author::NodeDaemon | Author::SchedulerDrain | Author::Foreign => {
            Permission::Foreign
        }
    }
}

/// May the DRAIN of the incident that the reason names be cleared? [`model::scheduler::NodeState::undrain`] asks for one
/// incident.
pub fn undrain(state: &Node) -> Permission {
    if let Some(unknown) = unknown(state) {
        return unknown;
    }
    if !state.has(Flag::Drain) {
        return Permission::Already;
    }
    if state.has(Flag::Fail) {
        return Permission::Foreign;
    }
    match author(state) {
        Author::Ours(_) | Author::Scheduler => {}
        Author::Foreign | Author::NodeDaemon | Author::SchedulerDrain | Author::None => {
            return Permission::Foreign;
        }
    }
    if let Some(withheld) = withheld(state, &[]) {
        return withheld;
    }
    // UNDRAIN makes a DOWN node register again, which can put it back into service.
    if state.base == Base::Down {
        return Permission::Withheld("down".into());
    }
    Permission::Allowed
}

/// May the Comment be set to this text?
pub fn comment(state: &Node, text: &Reason) -> Permission {
    match state.comment.as_deref() {
        Some(old) if old == text.as_str() => Permission::Already,
        old if texts::is_foreign_comment(old) => Permission::Foreign,
        _ => unknown(state)
            .or_else(|| withheld(state, &[]))
            .unwrap_or(Permission::Allowed),
    }
}

/// May the copy of the own drain's record be written? It is no part of what a maintenance or a reboot changes, and right before
/// a boot it must be true.
pub fn mirror(state: &Node) -> Permission {
    unknown(state)
        .or_else(|| withheld(state, &[Flag::Maint, Flag::RebootRequested, Flag::RebootIssued]))
        .unwrap_or(Permission::Allowed)
}

/// May the Comment be emptied? Only that of this incident.
pub fn uncomment(state: &Node, id: &IncidentId) -> Permission {
    match state.comment.as_deref() {
        None => Permission::Already,
        Some(old) => match texts::incident_of(old) {
            Some(found) if found == id.0 => unknown(state)
                .or_else(|| withheld(state, &[]))
                .unwrap_or(Permission::Allowed),
            // Another incident's comment has taken its place.
            Some(_) => Permission::Already,
            None => Permission::Foreign,
        },
    }
}

fn unknown(state: &Node) -> Option<Permission> {
    (!state.unknown_words.is_empty()).then_some(Permission::Withheld(UNKNOWN_STATE.into()))
}

/// What forbids a write, except these flags.
fn withheld(state: &Node, except: &[Flag]) -> Option<Permission> {
    if state.base == Base::Future {
        return Some(Permission::Withheld("future".into()));
    }
    WITHHELD
        .iter()
        .find(|(flag, _)| state.has(*flag) && !except.contains(flag))
        .map(|(_, word)| Permission::Withheld((*word).into()))
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;
