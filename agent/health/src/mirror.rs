//! When the copy of the drain's record is written into the scheduler. What it holds is the engine's business.

use std::time::Duration;

use super::drain::{back_off, lost, spread};
use model::scheduler::mirror::MirrorSeen;
use model::scheduler::{ActionId, NodeState, Outcome};

/// The request in progress, and the node as it was last read. Nothing of it is stored: the scheduler shows the copy.
#[derive(Debug, Default)]
pub(super) struct Mirroring {
    node: Option<NodeState>,
    act: Option<(ActionId, Duration)>,
    retry_at: Option<Duration>,
    failures: u32,
    /// What spreads the timers of many nodes.
    pub seed: u64,
}

impl Mirroring {
    /// The node was read.
    pub(super) fn saw(&mut self, node: &NodeState) {
        // A reading that does not show the copy says nothing about it.
        if node.mirror != MirrorSeen::NotRead || self.node.is_none() {
            self.node = Some(node.clone());
        }
    }

    /// The node, if a copy may be written now.
    pub(super) fn ready(&mut self, now: Duration, patience: Duration) -> Option<&NodeState> {
        if self
            .act
            .take_if(|(_, sent)| sent.saturating_add(lost(patience)) <= now)
            .is_some()
        {
            self.retry(now);
        }
        self.retry_at.take_if(|at| *at <= now);
        self.node
            .as_ref()
            .filter(|_| self.act.is_none() && self.retry_at.is_none())
    }

    /// The scheduler shows what it is to hold, or nothing is to be copied: the next copy is the first attempt.
    pub(super) fn settle(&mut self) {
        (self.failures, self.retry_at) = (0, None);
    }

    /// The number of the request that was sent.
    pub(super) fn sent(&mut self, id: ActionId, now: Duration) {
        self.act = Some((id, now));
    }

    /// Its outcome.
    pub(super) fn done(&mut self, now: Duration, id: ActionId, outcome: &Outcome) {
        let is_own = self.act.take_if(|(sent, _)| *sent == id).is_some();
        if !is_own {
            return;
        }
        if matches!(outcome, Outcome::Done(_) | Outcome::Already(_)) {
            self.failures = 0;
        } else {
            self.retry(now);
        }
    }

    /// A copy that is behind the record may let another boot lift what needs a person: it is tried again as soon as a drain.
    fn retry(&mut self, now: Duration) {
        self.failures = self.failures.saturating_add(1);
        let part = spread(self.seed, u64::from(self.failures)) / 4.0;
        self.retry_at = Some(now.saturating_add(back_off(self.failures).mul_f64(1.0 - part)));
    }

    /// The time of the next step.
    pub(super) fn deadline(&self, now: Duration, patience: Duration) -> Option<Duration> {
        match self.act {
            Some((_, sent)) => Some(sent.saturating_add(lost(patience))),
            None => self.retry_at.filter(|at| *at > now),
        }
    }
}
