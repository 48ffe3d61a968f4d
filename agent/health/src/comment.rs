//! The node's Comment, for incidents whose mode is `comment`: one at a time, the oldest first.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::drain::{Want, lost, spread};
use model::scheduler::{Action, ActionId, IncidentId, Outcome};

/// A failed comment is retried after this time to twice that.
const RETRY: Duration = Duration::from_secs(300);
/// A fault of the whole cluster begins and ends on all nodes in the same second: their comments are spread over this time.
const SPREAD: Duration = Duration::from_secs(60);

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
    /// The time of the next act, while one is wanted.
    #[serde(skip)]
    due: Option<Duration>,
    /// The number of times that were chosen: each has another spread.
    #[serde(skip)]
    times: u64,
    /// What spreads the timers of many nodes.
    #[serde(skip)]
    pub seed: u64,
    #[serde(skip)]
    pub dirty: bool,
}

impl Comment {
    /// The incident whose comment was written and not removed since.
    pub(super) fn stands_for(&self) -> Option<&IncidentId> {
        let known = if self.unsure { &self.before } else { &self.written };
        known.as_ref().filter(|_| !self.foreign)
    }

    fn spread(&mut self) -> f64 {
        self.times += 1;
        spread(self.seed, self.times)
    }

    fn retry(&mut self, now: Duration) {
        let time = RETRY.mul_f64(1.0 + self.spread());
        self.due = Some(now.saturating_add(time));
    }

    /// Whether the node's Comment is another than it should be.
    fn is_wanted(&self, want: Option<&Want>) -> bool {
        match want {
            Some(want) => self.unsure || self.written.as_ref() != Some(&want.incident),
            None => self.written.is_some(),
        }
    }

    /// The next act, if one is due. `watch`: no comment is later than the next look.
    pub(super) fn next(
        &mut self,
        now: Duration,
        (patience, watch): (Duration, Duration),
        want: Option<&Want>,
    ) -> Option<Action> {
        if self
            .act
            .as_ref()
            .is_some_and(|(_, _, sent)| sent.saturating_add(lost(patience)) <= now)
        {
            self.act = None;
            // It may have been written.
            self.retry(now);
        }
        if self.act.is_some() {
            return None;
        }
        if !self.is_wanted(want) {
            self.due = None;
            return None;
        }
        if self.due.is_none() {
            let time = SPREAD.min(watch).mul_f64(self.spread());
            self.due = Some(now.saturating_add(time));
        }
        if self.due.is_some_and(|at| at > now) {
            return None;
        }
        match (want, self.written.clone()) {
            (Some(want), _) => {
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
        self.due = None;
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
            | Outcome::NotBegun(_)
            | Outcome::Unknown(_) => self.retry(now),
        }
    }

    /// The time of the next act.
    pub(super) fn deadline(&self, now: Duration, patience: Duration) -> Option<Duration> {
        if let Some((_, _, sent)) = &self.act {
            return Some(sent.saturating_add(lost(patience)));
        }
        self.due.filter(|at| *at > now)
    }
}
