//! The four acts: permission before, outcome after.

use model::scheduler::{Action, Author, IncidentId, NodeState, Outcome, Permission, Reason};

use super::state::Node;
use super::{decide, describe, texts};

fn incident(action: &Action) -> &IncidentId {
    match action {
        Action::Drain { incident, .. }
        | Action::Undrain { incident, .. }
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
            Action::Undrain { .. } | Action::Uncomment { .. } => true,
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
        Action::Comment { text, .. } => decide::comment(node, text),
        Action::Uncomment { incident } => decide::uncomment(node, incident),
    }
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
        Action::Undrain { .. } => (!drained, drained && shown.author == Author::Foreign),
        Action::Comment { text, .. } => {
            let comment = after.comment.as_deref();
            let foreign = comment.is_some_and(|c| !c.starts_with("nodewarden:"));
            (comment == Some(text.as_str()), foreign)
        }
        Action::Uncomment { .. } => {
            let foreign = after
                .comment
                .as_deref()
                .is_some_and(|c| !c.starts_with("nodewarden:"));
            (after.comment.is_none(), foreign)
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
