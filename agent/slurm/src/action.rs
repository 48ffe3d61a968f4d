//! The acts: permission before, outcome after.

use model::scheduler::mirror::{MOST_LIFTS, Mirror, MirrorSeen, Note};
use model::scheduler::{Action, Author, IncidentId, NodeState, Outcome, Permission, Reason};

use super::state::Node;
use super::texts::{self, is_foreign_comment};
use super::{decide, describe, extra};

fn incident(action: &Action) -> &IncidentId {
    match action {
        Action::Drain { incident, .. }
        | Action::Undrain { incident, .. }
        | Action::Mirror { incident, .. }
        | Action::Comment { incident, .. }
        | Action::Uncomment { incident } => incident,
    }
}

/// Whether a request has the form of ours: the parent checks the daemon's text again before it reaches scontrol.
pub fn is_ours(action: &Action) -> bool {
    let id = incident(action);
    let own = |text: &Reason| {
        Reason::new(text.as_str()).is_some() && texts::incident_of(text.as_str()) == Some(id.0.as_str())
    };
    IncidentId::parse(&id.0).is_some()
        && match action {
            Action::Drain { reason: text, .. } | Action::Comment { text, .. } => own(text),
            Action::Undrain { lifts, .. } => lifts.len() <= MOST_LIFTS,
            Action::Mirror { note, .. } => note.is_plain(),
            Action::Uncomment { .. } => true,
        }
}

/// Whether the state of the node allows the act. `shown`: the same node in the scheduler's vocabulary.
pub fn permission(action: &Action, node: &Node, shown: &NodeState) -> Permission {
    match action {
        Action::Drain {
            in_maintenance: true, ..
        } => decide::drain_in_maintenance(node),
        Action::Drain { .. } => shown.drain.clone(),
        Action::Undrain { incident, .. } => shown.undrain(incident).clone(),
        Action::Mirror { incident, note } => mirror(incident, note, node, shown),
        Action::Comment { text, .. } => decide::comment(node, text),
        Action::Uncomment { incident } => decide::uncomment(node, incident),
    }
}

fn mirror(incident: &IncidentId, note: &Note, node: &Node, shown: &NodeState) -> Permission {
    match (shown.mirror_of(incident, note), &shown.mirror) {
        (None, _) | (_, MirrorSeen::Foreign) => Permission::Foreign,
        (_, MirrorSeen::NotRead) => Permission::Withheld("no_extra".into()),
        (copy, MirrorSeen::Own(present)) if copy == *present => Permission::Already,
        (_, MirrorSeen::Own(_)) => decide::mirror(node),
    }
}

/// The new Extra that the act leaves. `None`: it stays as it is.
pub fn extra(action: &Action, node: &Node) -> Option<String> {
    let shown = describe(node);
    let MirrorSeen::Own(present) = &shown.mirror else {
        return None;
    };
    let copy = match action {
        Action::Mirror { incident, note } => shown.mirror_of(incident, note),
        Action::Undrain { lifts, .. } => (!lifts.is_empty()).then(|| Mirror {
            drain: None,
            lifts: lifts.clone(),
        }),
        Action::Drain { .. } | Action::Comment { .. } | Action::Uncomment { .. } => return None,
    };
    let new = extra::with(node.extra.as_deref(), copy.as_ref());
    new.filter(|_| copy != *present)
}

/// The outcome, by the state of the node after the write. `refused`: the error message of scontrol.
pub fn outcome(action: &Action, after: &Node, refused: Option<String>) -> Outcome {
    let shown = describe(after);
    let drained = shown.is_drained();
    let (done, foreign) = match action {
        Action::Drain { incident, .. } => {
            let ours = shown.incident() == Some(incident);
            (drained && ours, drained && !ours && shown.author != Author::None)
        }
        Action::Undrain { .. } => {
            let is_foreign = matches!(
                shown.author,
                Author::Foreign | Author::NodeDaemon | Author::SchedulerDrain
            );
            (!drained, drained && is_foreign)
        }
        Action::Mirror { incident, note } => {
            let copy = shown.mirror_of(incident, note);
            let is_done = copy.is_some() && shown.mirror == MirrorSeen::Own(copy);
            (is_done, shown.mirror == MirrorSeen::Foreign)
        }
        Action::Comment { text, .. } => {
            let comment = after.comment.as_deref();
            (comment == Some(text.as_str()), is_foreign_comment(comment))
        }
        Action::Uncomment { .. } => {
            let comment = after.comment.as_deref();
            (comment.is_none(), is_foreign_comment(comment))
        }
    };
    match refused {
        _ if done => Outcome::Done(shown),
        _ if foreign => Outcome::Foreign(shown),
        // The controller may still execute it.
        Some(words) if words.to_ascii_lowercase().contains("timed out") => Outcome::Unknown(words),
        Some(words) => Outcome::Failed(words),
        None => Outcome::Failed("slurmctld said yes but the node did not change".to_owned()),
    }
}
