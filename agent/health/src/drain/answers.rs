//! The effect of answers from Slurm on the own drain.

use super::super::Now;
use super::{Drain, Happened, Reboot, State};
use model::scheduler::mirror::MirrorSeen;
use model::scheduler::{
    ActionId, Author, IncidentId, LookError, MAINTENANCE, NOT_WRITTEN, NodeState, Outcome, Permission,
};

/// The controller has saved a drain after this time (seconds): it writes its state at once, or 5 s after the last time.
const SAVED: u64 = 8;

impl Drain {
    /// The outcome of an act.
    pub(in super::super) fn done(&mut self, now: Now, id: ActionId, outcome: &Outcome) -> Option<Happened> {
        let lifting = self.timing.answered(id)?;
        if outcome.node().is_some() {
            self.timing.read_back(now.boottime);
        }
        if lifting {
            self.lift_done(now, outcome)
        } else {
            self.drain_done(now, outcome)
        }
    }

    fn drain_done(&mut self, now: Now, outcome: &Outcome) -> Option<Happened> {
        match outcome {
            Outcome::Done(node) | Outcome::Already(node) if !node.is_drained() => {
                self.timing.unsure = true;
                self.timing.look_failed();
                self.timing.retry_after_failure(now.boottime);
                self.to(
                    State::Writing,
                    "scontrol reported success, but DRAIN is not set",
                    now,
                );
            }
            Outcome::Done(node) => {
                self.read_guard(node.guard.as_ref(), now);
                self.stands(node, now);
                self.written = Some(now.wall);
                self.unsaved = true;
                return Some(Happened::Drained);
            }
            Outcome::Already(node) => return self.found(node, now),
            Outcome::Withheld(word, node) => {
                self.saw_maintenance(node, now);
                self.is_withheld(word, now);
            }
            Outcome::Foreign(node) => {
                self.saw_maintenance(node, now);
                self.to(State::Foreign, foreign(node), now);
            }
            Outcome::Held(held) => self.is_held(held, now),
            Outcome::NotOurs(why) => {
                self.timing.retry_after_failure(now.boottime);
                self.to(State::Unproven, why.as_str(), now);
            }
            Outcome::Failed(why) => {
                self.timing.retry_after_refusal(now.boottime);
                self.to(State::Wanted, why.as_str(), now);
            }
            Outcome::NotBegun(why) => {
                self.timing.retry_after_failure(now.boottime);
                self.to(State::Wanted, format!("{NOT_WRITTEN}{why}"), now);
            }
            Outcome::Unknown(why) => {
                self.timing.unsure = true;
                self.timing.retry_after_failure(now.boottime);
                self.given_up(false, now);
                self.to(State::Writing, why.as_str(), now);
            }
        }
        None
    }

    fn is_withheld(&mut self, word: &str, now: Now) {
        self.to(State::Withheld, word, now);
        self.by_maintenance = word == MAINTENANCE;
    }

    fn lift_done(&mut self, now: Now, outcome: &Outcome) -> Option<Happened> {
        match outcome {
            Outcome::Done(node) if node.is_drained() => {
                self.timing.retry_after_failure(now.boottime);
                self.to(
                    State::Lifting,
                    "scontrol reported success, but DRAIN is still set",
                    now,
                );
            }
            Outcome::Done(_) | Outcome::Already(_) => {
                return Some(self.lifted(now));
            }
            Outcome::Withheld(word, _) => {
                self.timing.blocked = true;
                self.to(State::Lifting, format!("withheld: {word}"), now);
            }
            Outcome::Foreign(node) => return self.is_taken(node, now),
            Outcome::Held(held) => {
                self.timing.retry_after_hold(now.boottime);
                self.held = Some(held.by);
                self.to(State::Drained, held.why.as_str(), now);
            }
            Outcome::NotOurs(why) => {
                self.timing.retry_after_failure(now.boottime);
                self.to(State::Lifting, format!("not proven to be ours: {why}"), now);
            }
            Outcome::Failed(why) => {
                self.timing.retry_after_failure(now.boottime);
                self.to(State::Lifting, why.as_str(), now);
            }
            Outcome::NotBegun(why) => {
                self.timing.retry_after_failure(now.boottime);
                self.to(State::Lifting, format!("{NOT_WRITTEN}{why}"), now);
            }
            Outcome::Unknown(why) => {
                self.timing.unsure = true;
                self.timing.retry_after_failure(now.boottime);
                self.given_up(true, now);
                self.to(State::Lifting, why.as_str(), now);
            }
        }
        None
    }

    fn lifted(&mut self, now: Now) -> Happened {
        let (ordered, at) = (self.ordered, self.lift_at);
        self.timing.succeeded();
        self.timing.lift_unsaved = true;
        self.forget(State::None, "", now);
        Happened::Lifted { ordered, at }
    }

    /// The result of a reading of the node.
    pub(in super::super) fn looked(
        &mut self,
        now: Now,
        seen: Result<&NodeState, &LookError>,
        open: bool,
    ) -> Option<Happened> {
        if !self.timing.seen(now.boottime) {
            return None;
        }
        match seen {
            Ok(node) => {
                self.timing.read_back(now.boottime);
                self.seen(node, now, open)
            }
            Err(error) => {
                self.unreadable(error, now);
                None
            }
        }
    }

    fn seen(&mut self, node: &NodeState, now: Now, open: bool) -> Option<Happened> {
        self.saw_maintenance(node, now);
        match (self.state, self.incident.clone()) {
            (State::Drained | State::Lifting, Some(id)) => self.seen_drained(&id, node, now, open),
            (State::Foreign, _) if self.taken => {
                (!node.drained?).then(|| self.is_gone(node, now, open)).flatten()
            }
            (
                State::Writing
                | State::Wanted
                | State::Withheld
                | State::Held
                | State::Foreign
                | State::Unproven,
                Some(_),
            ) => self.seen_required(node, now),
            // An own drain without a record: the state directory was deleted.
            _ => {
                if let Some(id) = node.incident().cloned().filter(|_| node.is_drained()) {
                    self.adopt(id, node, now);
                }
                None
            }
        }
    }

    /// A drain is required and does not stand. The end of a foreign drain is no lift: its author, often a program, never saw our
    /// reason.
    fn seen_required(&mut self, node: &NodeState, now: Now) -> Option<Happened> {
        match &node.drain {
            Permission::Already => return self.found(node, now),
            Permission::Foreign => self.to(State::Foreign, foreign(node), now),
            Permission::Withheld(word) => {
                self.timing.not_held();
                self.is_withheld(word, now);
            }
            // The reason why the last write failed stays.
            Permission::Allowed if matches!(self.state, State::Held | State::Wanted) => {}
            Permission::Allowed => self.to(State::Wanted, "not written yet", now),
        }
        None
    }

    fn seen_drained(&mut self, id: &IncidentId, node: &NodeState, now: Now, open: bool) -> Option<Happened> {
        if !node.drained? {
            if self.state == State::Lifting {
                self.late.take_lift(now.wall);
                return Some(self.lifted(now));
            }
            if self.unsaved && self.is_lost(node) {
                self.lost("slurmctld lost the drain when it restarted", now);
                return Some(Happened::Lost);
            }
            // 24.11 and later keep the reason of a drain that has ended: it replaced ours.
            if node.author == Author::NodeDaemon {
                let happened = self.is_taken(node, now);
                return self.seen_required(node, now).or(happened);
            }
            return self.is_gone(node, now, open);
        }
        if !node.reboots && self.reboot != Reboot::None {
            self.reboot = Reboot::None;
            self.dirty = true;
        }
        self.saw_request(node);
        self.timing.shown = self.timing.asked;
        let is_saved = self.written.is_none_or(|at| now.wall.abs_diff(at) >= SAVED);
        if self.unsaved && is_saved {
            self.unsaved = false;
            self.dirty = true;
        }
        match node.undrain(id) {
            Permission::Foreign => return self.is_taken(node, now),
            Permission::Withheld(word) if self.state == State::Lifting => {
                self.timing.blocked = true;
                self.to(State::Lifting, format!("withheld: {word}"), now);
            }
            Permission::Withheld(_) | Permission::Allowed | Permission::Already => {
                self.timing.blocked = false;
            }
        }
        None
    }

    /// Whether the controller started after it wrote the drain, and nodewarden has not seen the drain since. Both times are whole
    /// seconds of its clock: it may be back in the same one.
    fn is_lost(&self, node: &NodeState) -> bool {
        let started = node.controller_started;
        started
            .zip(self.reason_at)
            .is_some_and(|(started, at)| started >= at)
    }

    /// Another reason stands in the place of ours: an operator's, unless it names another incident. That drain is own: an
    /// abandoned one that took effect late, or one whose record was lost.
    fn is_taken(&mut self, node: &NodeState, now: Now) -> Option<Happened> {
        let named = node.incident().filter(|_| node.is_drained());
        let other = named.filter(|id| self.incident.as_ref() != Some(id));
        if let Some(other) = other.cloned() {
            if !self.late.is_ours(&other) {
                self.withdraw_order();
            }
            self.adopt(other, node, now);
            return None;
        }
        if node.author == Author::NodeDaemon {
            // The end of its drain is no lift: who ends it has not seen our reason.
            let incident = self.incident.clone();
            self.forget(State::Foreign, foreign(node), now);
            self.incident = incident;
            return Some(Happened::Lost);
        }
        self.taken = true;
        self.dirty = true;
        self.timing.blocked = false;
        let how = match node.author {
            Author::SchedulerDrain => "slurmctld drained the node after the drain was lifted",
            _ => "an operator replaced the reason",
        };
        self.to(State::Foreign, format!("{how}: {}", foreign(node)), now);
        None
    }

    /// The own drain is gone, without an own undrain. Slurm 22.05 drops it where a node does not boot in time.
    fn is_gone(&mut self, node: &NodeState, now: Now, open: bool) -> Option<Happened> {
        if self.late.take_lift(now.wall) {
            let at = self.lift_at;
            self.forget(State::Wanted, "an abandoned undrain took effect late", now);
            Some(Happened::LiftedLate { at })
        } else if node.boot_timed_out {
            self.lost(
                "slurmctld dropped the drain of a node that did not boot in time",
                now,
            );
            Some(Happened::Lost)
        } else if self.reboot == Reboot::Booted {
            self.lost(
                "slurmctld ended the drain with a reboot that was requested before it",
                now,
            );
            Some(Happened::Lost)
        } else if self.reboot_requested && !node.reboots && !self.taken && open {
            // A person's RESUME looks the same. UNDRAIN leaves the request.
            self.lost("slurmctld ended the drain with a reboot that was cancelled", now);
            Some(Happened::Lost)
        } else if open {
            self.forget(State::Overridden, "an operator lifted nodewarden's drain", now);
            Some(Happened::Overridden)
        } else {
            self.forget(State::None, "", now);
            Some(Happened::LiftedRepaired)
        }
    }

    fn unreadable(&mut self, error: &LookError, now: Now) {
        self.timing.blind();
        match error {
            LookError::NotHere(_) => {
                self.timing.not_proven(false);
                // No own drain can be in place yet; a possible one stays recorded.
                if matches!(
                    self.state,
                    State::Wanted | State::Withheld | State::Held | State::Unproven
                ) {
                    self.timing.unsure = self.maintained;
                    self.forget(State::None, error.to_string(), now);
                } else if self.state == State::None {
                    self.to(State::None, error.to_string(), now);
                }
            }
            LookError::NotOurs(_) => {
                self.timing.not_proven(true);
                if matches!(self.state, State::Wanted | State::Withheld) {
                    self.timing.unsure = false;
                    self.to(State::Unproven, error.to_string(), now);
                }
            }
            LookError::Failed(_) => {
                self.timing.absent = false;
                self.timing.look_failed();
            }
        }
    }

    /// The own drain is in place.
    fn found(&mut self, node: &NodeState, now: Now) -> Option<Happened> {
        let named = node.incident().cloned();
        let is_asked = |id: &IncidentId| self.incident.as_ref() == Some(id) || self.late.is_ours(id);
        // A write whose answer was lost: it may be as recent as this.
        let is_new = self.written.is_none();
        let happened = (is_new && named.as_ref().is_some_and(is_asked)).then_some(Happened::Drained);
        if is_new {
            self.written = Some(now.wall);
            self.unsaved = true;
        }
        if named.is_some() && named == self.incident {
            self.stands(node, now);
        } else if let Some(id) = named {
            self.adopt(id, node, now);
        } else {
            // The parent reports it as own, but no record proves it.
            self.unrecorded = true;
            self.stands(node, now);
        }
        happened
    }

    fn stands(&mut self, node: &NodeState, now: Now) {
        self.reason_at = node.reason.as_ref().and_then(|r| r.at);
        self.reboot = if node.reboots {
            Reboot::Requested
        } else {
            Reboot::None
        };
        self.saw_request(node);
        self.timing.blocked = false;
        self.timing.shown = self.timing.asked;
        self.timing.succeeded();
        self.tried.clear();
        let why = self.reason.clone().unwrap_or_default();
        self.to(State::Drained, why, now);
    }

    /// The own drain stands: whether a reboot is requested beside it.
    fn saw_request(&mut self, node: &NodeState) {
        self.dirty |= self.reboot_requested != node.reboot_requested;
        self.reboot_requested = node.reboot_requested;
    }

    /// A drain with an own reason, other than the one in progress. Without a record it is own, but never lifted
    /// automatically.
    fn adopt(&mut self, id: IncidentId, node: &NodeState, now: Now) {
        self.reason = node.reason.as_ref().map(|r| r.text.clone());
        // An abandoned drain that took effect late is recorded.
        self.unrecorded = !self.late.is_ours(&id);
        self.incident = Some(id);
        // The next reading may show the copy of the lost record.
        self.timing.urgent |= self.unrecorded && node.mirror == MirrorSeen::NotRead;
        self.timing.awaiting = None;
        self.taken = false;
        self.stands(node, now);
    }
}

fn foreign(node: &NodeState) -> String {
    match &node.reason {
        Some(reason) => format!("{} by {}", reason.text, reason.user),
        None => "drained without a reason".to_owned(),
    }
}
