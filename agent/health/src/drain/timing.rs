//! Requests in progress, their time-outs, and the time of the next attempt. Nothing of it is stored.

use std::time::Duration;

use model::scheduler::ActionId;

use super::pace::{Pace, spread};

const BACK_OFF_MIN: Duration = Duration::from_secs(2);
const BACK_OFF_MAX: Duration = Duration::from_secs(300);
const REFUSED_MAX: Duration = Duration::from_secs(10);
/// Refusals after which the delay is longer: a site that forbids it does not change that within minutes.
const REFUSALS: u32 = 30;
const REFUSED_LONG: Duration = Duration::from_secs(60);
/// The time to the next try of what is held is spread over this time, doubled with each try.
const HOLD_MIN: Duration = Duration::from_secs(15);
const HOLD_MAX: Duration = Duration::from_secs(300);
const HOLD_LEAST: Duration = Duration::from_secs(1);
/// Evidence shortens a delay at most this often.
const URGED: Duration = Duration::from_secs(30);

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

/// Requests in progress and due times.
#[derive(Debug, Default)]
pub(super) struct Timing {
    act: Option<Act>,
    look: Option<Look>,
    looked: Option<Duration>,
    look_failures: u32,
    /// Consecutive looks that said nothing about the node.
    blind: u32,
    /// Consecutive looks that did not prove the node.
    unproven: u32,
    /// The number of looks.
    looks: u64,
    /// The start of the time in which a drain is required and does not stand, or evidence comes one after the other.
    waiting: Option<Duration>,
    act_failures: u32,
    act_at: Option<Duration>,
    /// Consecutive tries that were held.
    holds: u32,
    /// The number of all tries that were held: each has another spread.
    tries: u64,
    /// What spreads the timers of many nodes.
    pub(super) seed: u64,
    /// The last time at which evidence shortened the delay.
    urged: Option<Duration>,
    /// The node must be read before the next act.
    pub(super) unsure: bool,
    /// The node must be read immediately, for another reason.
    pub(super) urgent: bool,
    /// The look in progress was urgent.
    asked_urgently: bool,
    /// The time at which the own drain was last seen.
    pub(super) shown: Duration,
    /// The time of the last answered request: the answer may be as old.
    pub(super) asked: Duration,
    /// The last reading found no Slurm node.
    pub(super) absent: bool,
    /// Undrain was withheld.
    pub(super) blocked: bool,
    /// The own drain was lifted, and the node was not read since: a crash of the controller can bring the drain back.
    pub(super) lift_unsaved: bool,
    /// When the end of a maintenance was seen, as time since boot.
    pub(super) maintenance_ended: Option<Duration>,
    /// The record that holds the intent and is not known to be stored.
    pub(super) awaiting: Option<u64>,
}

/// The parent answers each request within `patience`, one after another. After this time the answer is lost.
pub(in super::super) fn lost(patience: Duration) -> Duration {
    patience.saturating_mul(2).saturating_add(Duration::from_secs(20))
}

/// The time until the next attempt, by the number of failures in a row.
pub(in super::super) fn back_off(failures: u32) -> Duration {
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

    /// The answer to this request arrived. Returns whether it was an undrain.
    pub(super) fn answered(&mut self, id: ActionId) -> Option<bool> {
        let act = self.act.take_if(|a| a.id == id)?;
        self.asked = act.sent;
        Some(act.lifting)
    }

    /// The answer includes a reading of the node.
    pub(super) fn read_back(&mut self, now: Duration) {
        self.looked = Some(now);
        self.look_failures = 0;
        self.blind = 0;
        self.unproven = 0;
        self.unsure = false;
        self.absent = false;
        self.lift_unsaved = false;
    }

    pub(super) fn look(&mut self, now: Duration) {
        self.asked_urgently = std::mem::take(&mut self.urgent);
        self.looks += 1;
        self.look = Some(Look {
            sent: now,
            stale: false,
        });
    }

    pub(super) fn is_looking(&self) -> bool {
        self.look.is_some()
    }

    /// The node was read. `false`: without a request, or an act has started since.
    pub(super) fn seen(&mut self, now: Duration) -> bool {
        let Some(look) = self.look.take() else {
            return false;
        };
        if look.stale || self.act.is_some() {
            self.urgent |= std::mem::take(&mut self.asked_urgently);
            return false;
        }
        self.looked = Some(now);
        self.asked = look.sent;
        true
    }

    pub(super) fn look_failed(&mut self) {
        self.look_failures = self.look_failures.saturating_add(1);
    }

    /// Slurm's node is not proven to be this machine. Where no slurmd runs, the next one is proven soon.
    pub(super) fn not_proven(&mut self, is_there: bool) {
        self.absent = !is_there;
        self.unproven = if is_there {
            self.unproven.saturating_add(1)
        } else {
            0
        };
    }

    /// Whether a drain is required and does not stand, or the node must be read at once.
    pub(super) fn wait(&mut self, waits: bool, now: Duration) {
        if waits || self.unsure || self.urgent {
            self.waiting.get_or_insert(now);
        } else if self.look.is_none() {
            self.waiting = None;
        }
    }

    /// A look said nothing about the node. What it was urgent for still is.
    pub(super) fn blind(&mut self) {
        self.blind = self.blind.saturating_add(1);
        self.urgent |= std::mem::take(&mut self.asked_urgently);
    }

    /// The pace of looks now.
    pub(super) fn pace(&self, seed: u64, now: Duration) -> Pace {
        Pace {
            waited: self
                .waiting
                .map_or(Duration::ZERO, |since| now.saturating_sub(since)),
            failures: self.look_failures,
            blind: self.blind,
            unproven: self.unproven,
            spread: spread(seed, self.looks),
        }
    }

    /// Whether the node was never read.
    pub(super) fn is_first(&self) -> bool {
        self.looked.is_none()
    }

    /// The time of a reading that is due `every` after the last. The first is due immediately.
    pub(super) fn after_look(&self, every: Option<Duration>) -> Option<Duration> {
        match self.looked {
            None => Some(Duration::ZERO),
            Some(last) => every.map(|e| last.saturating_add(e)),
        }
    }

    /// Delays the retry of an act that failed or may have failed, whatever is read meanwhile.
    pub(super) fn retry_after_failure(&mut self, now: Duration) {
        self.act_failures = self.act_failures.saturating_add(1);
        self.act_at = Some(now.saturating_add(back_off(self.act_failures)));
    }

    /// Delays the retry of an act that the controller refused: it answers, so the drain is due soon.
    pub(super) fn retry_after_refusal(&mut self, now: Duration) {
        self.act_failures = self.act_failures.saturating_add(1);
        let most = if self.act_failures <= REFUSALS {
            REFUSED_MAX
        } else {
            REFUSED_LONG
        };
        self.act_at = Some(now.saturating_add(back_off(self.act_failures).min(most)));
    }

    /// Delays the next try of what is held: any time up to a limit that grows, so that the nodes of a cluster do not come
    /// together.
    pub(super) fn retry_after_hold(&mut self, now: Duration) {
        let most = HOLD_MIN.saturating_mul(1 << self.holds.min(10)).min(HOLD_MAX);
        self.holds = self.holds.saturating_add(1);
        self.tries = self.tries.wrapping_add(1);
        let pause = most.mul_f64(spread(self.seed, self.tries)).max(HOLD_LEAST);
        self.act_at = Some(now.saturating_add(pause));
    }

    /// The number of tries that were held.
    pub(super) fn tries(&self) -> u64 {
        self.tries
    }

    /// Whether one try was held so far.
    pub(super) fn is_first_hold(&self) -> bool {
        self.holds == 1
    }

    /// Nothing is held any more.
    pub(super) fn not_held(&mut self) {
        if self.holds > 0 {
            self.holds = 0;
            self.act_at = None;
        }
    }

    /// New evidence: the next attempt is due now, once in a while.
    pub(super) fn retry_now(&mut self, now: Duration) {
        let is_due = self.urged.is_none_or(|last| last.saturating_add(URGED) <= now);
        if self.act_at.is_some() && is_due {
            self.urged = Some(now);
            self.act_at = None;
        }
    }

    /// The act took effect.
    pub(super) fn succeeded(&mut self) {
        self.act_failures = 0;
        self.holds = 0;
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

    /// Abandons lost requests. An abandoned act may have taken effect: returns whether it was an undrain.
    pub(super) fn expire(&mut self, now: Duration, patience: Duration) -> Option<bool> {
        let given_up = self.act.take_if(|a| a.sent.saturating_add(lost(patience)) <= now);
        if given_up.is_some() {
            self.unsure = true;
            self.retry_after_failure(now);
        }
        if self.lost_look(patience).is_some_and(|at| at <= now) {
            self.look = None;
            self.looked = Some(now);
            self.blind();
            self.look_failed();
        }
        given_up.map(|a| a.lifting)
    }
}
