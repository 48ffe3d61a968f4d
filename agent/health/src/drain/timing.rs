//! What is under way, when it counts as lost, and when the next attempt is due. Nothing of it outlives the process.

use std::time::Duration;

use model::scheduler::ActionId;

const BACK_OFF_MIN: Duration = Duration::from_secs(5);
const BACK_OFF_MAX: Duration = Duration::from_secs(300);

#[derive(Debug)]
struct Act {
    id: ActionId,
    lifting: bool,
    sent: Duration,
}

#[derive(Debug)]
struct Look {
    sent: Duration,
    /// An act was sent after it: its answer may be older than the act.
    stale: bool,
}

/// What is under way and when something is due.
#[derive(Debug, Default)]
pub(super) struct Timing {
    act: Option<Act>,
    look: Option<Look>,
    looked: Option<Duration>,
    look_failures: u32,
    act_failures: u32,
    act_at: Option<Duration>,
    /// The node must be read before anything is done to it.
    pub(super) unsure: bool,
    /// The node is to be read at once, for another reason.
    pub(super) urgent: bool,
    /// When our drain was last seen to stand.
    pub(super) shown: Duration,
    /// When the last answer was asked for: what it shows may be as old.
    pub(super) asked: Duration,
    /// No Slurm node here, as of the last look.
    pub(super) absent: bool,
    /// Lifting was withheld.
    pub(super) blocked: bool,
    /// The record that holds the intent, not known to be stored.
    pub(super) awaiting: Option<u64>,
}

/// The parent answers everything within its patience, one request after another; after this the answer was lost with it.
pub(in super::super) fn lost(patience: Duration) -> Duration {
    patience.saturating_mul(2).saturating_add(Duration::from_secs(20))
}

fn back_off(failures: u32) -> Duration {
    BACK_OFF_MIN
        .saturating_mul(1 << failures.saturating_sub(1).min(10))
        .min(BACK_OFF_MAX)
}

impl Timing {
    pub(super) fn act(&mut self, id: ActionId, lifting: bool, now: Duration) {
        self.act = Some(Act {
            id,
            lifting,
            sent: now,
        });
        self.act_at = None;
        if let Some(look) = &mut self.look {
            look.stale = true;
        }
    }

    pub(super) fn is_acting(&self) -> bool {
        self.act.is_some()
    }

    /// The answer to this request came: whether it was about lifting.
    pub(super) fn answered(&mut self, id: ActionId) -> Option<bool> {
        let act = self.act.take_if(|a| a.id == id)?;
        self.asked = act.sent;
        Some(act.lifting)
    }

    /// The answer read the node too.
    pub(super) fn read_back(&mut self, now: Duration) {
        self.looked = Some(now);
        self.look_failures = 0;
        self.unsure = false;
        self.absent = false;
    }

    pub(super) fn look(&mut self, now: Duration) {
        self.urgent = false;
        self.look = Some(Look {
            sent: now,
            stale: false,
        });
    }

    pub(super) fn is_looking(&self) -> bool {
        self.look.is_some()
    }

    /// The node was read. `false`: nobody asked, or an act has begun since.
    pub(super) fn seen(&mut self, now: Duration) -> bool {
        let Some(look) = self.look.take() else {
            return false;
        };
        if look.stale || self.act.is_some() {
            return false;
        }
        self.looked = Some(now);
        self.asked = look.sent;
        true
    }

    pub(super) fn look_failed(&mut self) {
        self.look_failures = self.look_failures.saturating_add(1);
    }

    pub(super) fn look_back_off(&self) -> Duration {
        if self.look_failures == 0 {
            Duration::ZERO
        } else {
            back_off(self.look_failures)
        }
    }

    /// When a look is due that comes so long after the last. The first is due at once.
    pub(super) fn after_look(&self, every: Option<Duration>) -> Option<Duration> {
        match self.looked {
            None => Some(Duration::ZERO),
            Some(last) => every.map(|e| last.saturating_add(e)),
        }
    }

    /// An act that failed, or may have, is not repeated before this, whatever is read meanwhile.
    pub(super) fn retry_after_failure(&mut self, now: Duration) {
        self.act_failures = self.act_failures.saturating_add(1);
        self.act_at = Some(now.saturating_add(back_off(self.act_failures)));
    }

    /// What was asked for has come about.
    pub(super) fn succeeded(&mut self) {
        self.act_failures = 0;
        self.act_at = None;
    }

    pub(super) fn may_act(&self, now: Duration) -> bool {
        self.act_at.is_none_or(|at| at <= now)
    }

    pub(super) fn act_at(&self) -> Option<Duration> {
        self.act_at
    }

    pub(super) fn lost_act(&self, patience: Duration) -> Option<Duration> {
        self.act.as_ref().map(|a| a.sent.saturating_add(lost(patience)))
    }

    pub(super) fn lost_look(&self, patience: Duration) -> Option<Duration> {
        self.look.as_ref().map(|l| l.sent.saturating_add(lost(patience)))
    }

    /// Gives up answers that will not come. What was asked for may have happened: whether it was a lift.
    pub(super) fn expire(&mut self, now: Duration, patience: Duration) -> Option<bool> {
        let given_up = self.act.take_if(|a| a.sent.saturating_add(lost(patience)) <= now);
        if given_up.is_some() {
            self.unsure = true;
            self.retry_after_failure(now);
        }
        if self.lost_look(patience).is_some_and(|at| at <= now) {
            self.look = None;
            self.looked = Some(now);
            self.look_failed();
        }
        given_up.map(|a| a.lifting)
    }
}
