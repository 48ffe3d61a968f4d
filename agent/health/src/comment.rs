//! The node's Comment, for incidents whose mode is `comment`: one at a time, the oldest first.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::drain::{Want, lost};
use model::scheduler::{Action, ActionId, IncidentId, Outcome};

/// A failed comment is retried after this time.
const RETRY: Duration = Duration::from_secs(300);

/// The own comment.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Comment {
    /// The incident whose comment may be written.
    pub written: Option<IncidentId>,
    /// It is not known to be written.
    unsure: bool,
    /// A person's text is there, which stays.
    foreign: bool,
    /// The incident whose comment stands meanwhile.
    before: Option<IncidentId>,
    #[serde(skip)]
    act: Option<(ActionId, bool, Duration)>,
    #[serde(skip)]
    retry_at: Option<Duration>,
    #[serde(skip)]
    pub dirty: bool,
}

impl Comment {
    /// The incident whose comment was written and not removed since.
    pub(super) fn stands_for(&self) -> Option<&IncidentId> {
        let known = if self.unsure { &self.before } else { &self.written };
        known.as_ref().filter(|_| !self.foreign)
    }

    /// The next act, if one is due.
    pub(super) fn next(&mut self, now: Duration, patience: Duration, want: Option<&Want>) -> Option<Action> {
        if self
            .act
            .as_ref()
            .is_some_and(|(_, _, sent)| sent.saturating_add(lost(patience)) <= now)
        {
            self.act = None;
            // It may have been written.
            self.retry_at = Some(now.saturating_add(RETRY));
        }
        if self.act.is_some() || self.retry_at.is_some_and(|at| at > now) {
            return None;
        }
        match (want, self.written.clone()) {
            (Some(want), written) => {
                if written.as_ref() == Some(&want.incident) && !self.unsure {
                    return None;
                }
                if !self.unsure {
                    self.before = self.written.take();
                }
                self.written = Some(want.incident.clone());
                self.unsure = true;
                self.dirty = true;
                Some(Action::Comment {
                    incident: want.incident.clone(),
                    text: want.reason.clone(),
                })
            }
            (None, Some(incident)) => Some(Action::Uncomment { incident }),
            (None, None) => None,
        }
    }

    /// The number of the request that was sent.
    pub(super) fn sent(&mut self, id: ActionId, action: &Action, now: Duration) {
        self.act = Some((id, matches!(action, Action::Comment { .. }), now));
    }

    /// Its outcome.
    pub(super) fn done(&mut self, now: Duration, id: ActionId, outcome: &Outcome) {
        let Some((_, writing, _)) = self.act.take_if(|(sent, _, _)| *sent == id) else {
            return;
        };
        match outcome {
            // An operator's comment stays; no own comment is left to remove.
            Outcome::Done(_) | Outcome::Already(_) | Outcome::Foreign(_) => {
                self.unsure = false;
                self.foreign = writing && matches!(outcome, Outcome::Foreign(_));
                let before = self.before.take();
                if !writing {
                    self.written = before;
                }
                self.dirty = true;
            }
            Outcome::Withheld(..)
            | Outcome::Held(_)
            | Outcome::NotOurs(_)
            | Outcome::Failed(_)
            | Outcome::Unknown(_) => {
                self.retry_at = Some(now.saturating_add(RETRY));
            }
        }
    }

    /// The time of the next act.
    pub(super) fn deadline(&self, now: Duration, patience: Duration, wanted: bool) -> Option<Duration> {
        if let Some((_, _, sent)) = &self.act {
            return Some(sent.saturating_add(lost(patience)));
        }
        let due = wanted || self.written.is_some();
        self.retry_at.filter(|at| due && *at > now)
    }
}
