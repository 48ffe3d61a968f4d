//! The changes of the own drain, for the audit trail.

use super::State;
use crate::audit::{Act, Kind};
use model::scheduler::IncidentId;

/// What a change says beyond its states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum ChangeKind {
    /// No more than its states.
    Plain,
    /// An attempt to lift the drain begins.
    Lift,
    /// Slurm ended the drain.
    Lost,
}

/// A new state, or a new text of the same state.
#[derive(Clone, Debug)]
pub(in super::super) struct Change {
    pub from: State,
    pub to: State,
    pub kind: ChangeKind,
    pub why: String,
    pub incident: Option<IncidentId>,
    pub reason: Option<String>,
    /// An operator had taken the drain over.
    pub taken: bool,
    /// What the cluster's limit or a person holds back.
    pub held: bool,
    /// The slot that was taken last.
    pub slot: Option<String>,
}

impl Change {
    /// Its entry, and the act that it is about. `None`: nothing happened.
    pub(in super::super) fn entry(&self) -> Option<(Kind, Option<Act>)> {
        use State as S;
        let (drain, undrain) = (Some(Act::Drain), Some(Act::Undrain));
        Some(match (self.from, self.to) {
            (S::Lifting, S::Lifting) if self.kind == ChangeKind::Lift => return None,
            (S::Lifting, S::Lifting) => (Kind::Refused, undrain),
            (S::Lifting, S::Drained) if self.held => (Kind::Held, undrain),
            (S::Lifting, S::Drained) => (Kind::Withdrawn, undrain),
            (S::Lifting, S::None) => (Kind::Lifted, undrain),
            (S::Lifting, S::Foreign) => (Kind::Foreign, undrain),
            (_, S::Lifting) => (Kind::Wanted, undrain),
            (S::Drained, S::Drained) => return None,
            (S::Drained, S::None) => (Kind::Lifted, None),
            (S::Drained | S::Foreign, S::Wanted) if self.kind == ChangeKind::Lost => (Kind::Lost, None),
            // An abandoned undrain took effect.
            (S::Drained, S::Wanted) => (Kind::Lifted, undrain),
            (S::Foreign, S::Wanted) if self.taken => (Kind::Lifted, undrain),
            (S::Writing, S::Writing | S::Wanted) => (Kind::Refused, drain),
            (_, S::Writing) => (Kind::Wanted, drain),
            (_, S::Held) => (Kind::Held, drain),
            (_, S::Withheld | S::Unproven) => (Kind::Refused, drain),
            (_, S::Foreign) => (Kind::Foreign, drain),
            (_, S::Overridden) => (Kind::Overridden, None),
            (S::None | S::Overridden, S::Drained) => (Kind::Found, None),
            (_, S::Drained) => (Kind::Written, drain),
            // One that is gone has no incident until the next intent.
            (S::Wanted, S::None) if self.incident.is_none() => return None,
            (S::Wanted | S::Held | S::Withheld | S::Writing | S::Unproven, S::None) => {
                (Kind::Withdrawn, drain)
            }
            (S::Foreign, S::None) if !self.taken => (Kind::Withdrawn, drain),
            (_, S::None | S::Wanted) => return None,
        })
    }
}
