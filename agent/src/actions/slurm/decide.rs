//! What may be done to a node in which state. Pure; the whole table is in `fixtures/scontrol/state-table.txt`.

use super::state::{Base, Flag, NodeState};
use super::texts::{Whose, whose};
use crate::actions::{IncidentId, Reason};

/// Whether something may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Write it.
    Write,
    /// Nothing to do: it is already so.
    Already,
    /// Somebody else's text or drain stands there: leave it alone.
    Foreign,
    /// Not in this state; try again later. The word says why.
    Withheld(&'static str),
}

/// States that belong to somebody else's change in progress, or in which a write kills jobs or is refused.
const WITHHELD: &[(Flag, &str)] = &[
    (Flag::PoweredDown, "powered_down"),
    (Flag::PoweringUp, "powering_up"),
    (Flag::PoweringDown, "powering_down"),
    (Flag::PowerDown, "power_down"),
    (Flag::PowerUp, "power_up"),
    (Flag::PowerDrain, "power_drain"),
    (Flag::Maint, "maint"),
    (Flag::RebootRequested, "reboot_requested"),
    (Flag::RebootIssued, "reboot_issued"),
    (Flag::InvalidReg, "invalid_reg"),
    (Flag::DynamicFuture, "dynamic_future"),
    (Flag::External, "external"),
];

/// May DRAIN be set with our reason?
pub fn drain(state: &NodeState, id: &IncidentId) -> Verdict {
    if let Some(unknown) = unknown(state) {
        return unknown;
    }
    let whose = whose(state, id);
    if state.has(Flag::Fail) {
        return Verdict::Foreign;
    }
    if state.has(Flag::Drain) && matches!(whose, Whose::Ours | Whose::OursForAnother) {
        return Verdict::Already;
    }
    if let Some(withheld) = withheld(state) {
        return withheld;
    }
    match whose {
        // Without DRAIN or DOWN a reason is only what is left of an earlier one.
        _ if !state.has(Flag::Drain) && state.base != Base::Down => Verdict::Write,
        Whose::Ours | Whose::OursForAnother => Verdict::Write,
        // A drain without a reason is not ours: with our reason on it we would lift it later.
        Whose::Nobody if !state.has(Flag::Drain) => Verdict::Write,
        Whose::Nobody | Whose::Slurm | Whose::Foreign => Verdict::Foreign,
    }
}

/// May our DRAIN be cleared? The caller knows from its record that this incident drained the node.
pub fn undrain(state: &NodeState, id: &IncidentId) -> Verdict {
    if let Some(unknown) = unknown(state) {
        return unknown;
    }
    if !state.has(Flag::Drain) {
        return Verdict::Already;
    }
    if state.has(Flag::Fail) {
        return Verdict::Foreign;
    }
    match whose(state, id) {
        Whose::Ours | Whose::Slurm => {}
        Whose::OursForAnother | Whose::Foreign | Whose::Nobody => return Verdict::Foreign,
    }
    if let Some(withheld) = withheld(state) {
        return withheld;
    }
    // UNDRAIN makes a DOWN node register again, which can put it back into service.
    if state.base == Base::Down {
        return Verdict::Withheld("down");
    }
    Verdict::Write
}

/// May the Comment be set to this text?
pub fn comment(state: &NodeState, text: &Reason) -> Verdict {
    match state.comment.as_deref() {
        Some(old) if old == text.as_str() => Verdict::Already,
        Some(old) if !old.starts_with("nodewarden:") || old.contains('\n') => Verdict::Foreign,
        _ => unknown(state)
            .or_else(|| withheld(state))
            .unwrap_or(Verdict::Write),
    }
}

/// May the Comment be emptied? Only this incident's is.
pub fn uncomment(state: &NodeState, id: &IncidentId) -> Verdict {
    match state.comment.as_deref() {
        None => Verdict::Already,
        Some(old) => match super::texts::incident_of(old) {
            Some(found) if found == id.0 => unknown(state)
                .or_else(|| withheld(state))
                .unwrap_or(Verdict::Write),
            // Another incident's comment has taken its place.
            Some(_) => Verdict::Already,
            None => Verdict::Foreign,
        },
    }
}

fn unknown(state: &NodeState) -> Option<Verdict> {
    (!state.unknown_words.is_empty()).then_some(Verdict::Withheld("unknown_state"))
}

fn withheld(state: &NodeState) -> Option<Verdict> {
    if state.base == Base::Future {
        return Some(Verdict::Withheld("future"));
    }
    WITHHELD
        .iter()
        .find(|(flag, _)| state.has(*flag))
        .map(|(_, word)| Verdict::Withheld(word))
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;
