//! From changes to effects, in the only safe order: the record first, then the acts that it announces.

use std::time::Duration;

use super::{Engine, millis};
use crate::audit::Entry;
use crate::drain::{Do, Happened, Want};
use crate::keep;
use crate::verdict::Verdict;
use crate::{Effect, Mode, Query, Record};
use model::scheduler::{Action, ActionId, IncidentId, ReasonParts};

/// Validity of a verdict.
pub(super) const VALID_MS: u64 = 60_000;
/// A verdict is repeated after this time without a snapshot.
const REPEAT: Duration = Duration::from_secs(20);
/// The least time between two records in which only the cursor differs.
const PROGRESS: Duration = Duration::from_secs(10);
/// The least time between two records in which only counts differ: a flood of lines must not cause a flood of records.
const COUNTED: Duration = Duration::from_secs(2);
/// A failed record is retried after this time, doubled up to [`RETRY_MAX`].
const RETRY_MIN: Duration = Duration::from_secs(10);
const RETRY_MAX: Duration = Duration::from_secs(300);
/// The drain machine needs two or three steps.
const MAX_STEPS: usize = 8;

/// Changes that are not effects yet.
#[derive(Debug, Default)]
pub(super) struct Pending {
    /// The record differs from the last one stored.
    pub dirty: bool,
    /// Only the cursor and counts differ: store by this time.
    later: Option<Duration>,
    stored_at: Option<Duration>,
    /// Consecutive failures to store a record, and the time of the next attempt.
    failures: u32,
    retry_at: Option<Duration>,
    /// A snapshot came: the verdict is due.
    pub tick: bool,
    pub answer: Option<Result<String, String>>,
    /// Entries of the audit trail.
    pub audit: Vec<Entry>,
    published: Option<(Verdict, Duration)>,
}

impl Pending {
    /// Only the cursor moved.
    pub(super) fn progress(&mut self, now: Duration) {
        self.store_after(PROGRESS, now);
    }

    /// Only counts changed, no incident and no drain.
    pub(super) fn counted(&mut self, now: Duration) {
        self.store_after(COUNTED, now);
    }

    fn store_after(&mut self, pause: Duration, now: Duration) {
        let due = self.stored_at.map_or(now, |at| at.saturating_add(pause).max(now));
        self.later = Some(self.later.map_or(due, |by| by.min(due)));
    }

    /// Whether a record reached the disk. The latest record includes all earlier ones.
    pub(super) fn stored(&mut self, ok: bool, is_latest: bool, now: Duration) {
        if !ok {
            let pause = RETRY_MIN
                .saturating_mul(1 << self.failures.min(10))
                .min(RETRY_MAX);
            self.failures = self.failures.saturating_add(1);
            self.retry_at = Some(now.saturating_add(pause));
        } else if is_latest {
            self.failures = 0;
            self.retry_at = None;
        }
    }

    /// Why nothing is lifted automatically: the next start would find an open incident, and take the lift for an operator's.
    pub(super) fn cannot_store(&self) -> Option<String> {
        let why = "repaired, but the record cannot be stored: lifted when it can, or by an operator";
        (self.failures > 0).then(|| why.to_owned())
    }

    pub(super) fn deadline(&self) -> Option<Duration> {
        let publish = self
            .published
            .as_ref()
            .map_or(Duration::ZERO, |(_, at)| at.saturating_add(REPEAT));
        [self.later, self.retry_at, Some(publish)]
            .into_iter()
            .flatten()
            .min()
    }
}

impl Engine {
    /// An operator lifted our drain, or the one that replaced its reason. The first lift leaves a fault that is still
    /// there; a second within an hour silences its incident, and existing faults of it do not count as new evidence.
    /// What came after `shown`, a time since boot, the operator did not know.
    fn obey(&mut self, shown: Duration) {
        self.lifts_are_known();
        let required = self.required();
        let wants = |i: &crate::incident::Incident| required.contains(&i.id);
        let shown = millis(shown);
        let frame = Self::frame(&self.boot, self.now, self.policy.site.settings.settle);
        let silenced = self.book.lifted_by_operator(frame, shown, wants);
        for known in &silenced.known {
            self.ignore_existing(known);
        }
        for finding in silenced.news {
            self.find(finding);
        }
        self.out.dirty = true;
    }

    /// Applies a change of the own drain to incidents and counts.
    pub(super) fn happened(&mut self, what: Option<Happened>) {
        match what {
            None => return,
            Some(Happened::Overridden) => {
                self.state.overrides = self.state.overrides.saturating_add(1);
                self.state.undrains = self.state.undrains.saturating_add(1);
                self.obey(self.state.drain.shown());
            }
            Some(Happened::LiftedRepaired) => self.lifts_are_known(),
            Some(what @ (Happened::LiftedLate { .. } | Happened::Lost)) => {
                if let Happened::LiftedLate { at } = what {
                    self.state.undrains = self.state.undrains.saturating_add(1);
                    if let Some(at) = at {
                        keep::count(&mut self.state.lifts, at, self.now.wall);
                    }
                }
                for incident in &mut self.book.incidents {
                    incident.behind = false;
                }
            }
            Some(Happened::Lifted { ordered, at }) => {
                self.state.undrains = self.state.undrains.saturating_add(1);
                // One that began during the lift has no drain of ours behind it.
                for incident in &mut self.book.incidents {
                    incident.behind = false;
                }
                if ordered {
                    self.lifts_are_known();
                } else {
                    let at = at.unwrap_or(self.now.wall);
                    keep::count(&mut self.state.lifts, at, self.now.wall);
                }
            }
            Some(Happened::Drained) => {
                let named = self.state.drain.incident.clone();
                let is_named = |i: &crate::incident::Incident| Some(&i.id) == named.as_ref();
                let mut all = self.book.incidents.iter();
                let cause = all.find(|i| is_named(i)).and_then(|i| self.cause(i, Mode::Drain));
                if let Some(check) = cause.map(|cause| cause.check.clone()) {
                    *self.state.drains.entry(check).or_default() += 1;
                }
                if let Some(incident) = self.book.incidents.iter_mut().find(|i| is_named(i)) {
                    incident.note(self.now.wall, "drained the node".to_owned());
                }
            }
        }
        self.out.dirty = true;
    }

    /// Runs the drain machine until it has no next step.
    fn decide(&mut self, acts: &mut Vec<Effect>) -> bool {
        let mut intent = false;
        self.go_on();
        for _ in 0..MAX_STEPS {
            self.mark_behind();
            let facts = self.facts();
            let Some(next) = self.state.drain.next(&facts) else {
                break;
            };
            let (action, lifting) = match next {
                Do::Look => {
                    acts.push(Effect::Look(Query::Node));
                    continue;
                }
                Do::Drain(want) => {
                    let Want {
                        incident,
                        reason,
                        in_maintenance,
                        is_device,
                    } = want;
                    let action = Action::Drain {
                        incident,
                        reason,
                        in_maintenance,
                        is_device,
                    };
                    (action, false)
                }
                Do::Undrain {
                    incident,
                    is_ordered,
                    lift,
                } => {
                    let lifts = self.lifts_to_copy(lift);
                    let action = Action::Undrain {
                        incident,
                        is_ordered,
                        lifts,
                    };
                    (action, true)
                }
            };
            let id = self.action_id();
            self.state.drain.sent(id, lifting, self.now);
            intent |= !lifting;
            self.out.dirty = true;
            acts.push(Effect::Act(id, action));
        }
        self.mark_behind();
        intent
    }

    /// The record was lost, and the fault is seen again: its incident has the id that the reason of the drain names.
    pub(super) fn go_on(&mut self) {
        use crate::drain::State as S;
        let drain = &self.state.drain;
        let (S::Drained, Some(id), Some(reason)) = (drain.state, &drain.incident, &drain.reason) else {
            return;
        };
        if self.book.incidents.iter().any(|i| i.id == *id) {
            return;
        }
        let is_named = |i: &crate::incident::Incident| {
            let subject = i.subject.to_string();
            let named = |parts: ReasonParts<'_>| {
                let mut findings = i.findings.iter();
                findings.any(|seen| parts.name(&seen.check, &subject, &seen.detail))
            };
            ReasonParts::of(reason).is_some_and(named)
        };
        let mut incidents = self.book.incidents.iter_mut();
        if let Some(incident) = incidents.find(|i| i.status == super::Status::Open && is_named(i)) {
            incident.id = id.clone();
            incident.note(
                self.now.wall,
                "the drain of an earlier record is for this fault".to_owned(),
            );
            self.out.dirty = true;
        }
    }

    fn action_id(&mut self) -> ActionId {
        self.state.actions = self.state.actions.saturating_add(1);
        ActionId(self.state.actions)
    }

    /// While the own drain is in place, every incident that requires a drain holds it, and so does the one that it was written for:
    /// the mode may have been lowered since.
    fn mark_behind(&mut self) {
        use crate::drain::State as S;
        let required = self.required();
        let state = self.state.drain.state;
        let is_behind = |i: &crate::incident::Incident| i.behind || required.contains(&i.id);
        if matches!(state, S::Writing | S::Drained | S::Lifting)
            && !self.state.drain.unverified
            && self
                .book
                .open()
                .any(|i| is_behind(i) && i.holding().any(keep::needs_verification))
        {
            self.state.drain.unverified = true;
            self.out.dirty = true;
        }
        if !matches!(state, S::Drained | S::Lifting) {
            return;
        }
        let shown = millis(self.state.drain.shown());
        for incident in &mut self.book.incidents {
            let is_standing = incident.status == super::Status::Open && incident.holding().next().is_some();
            let is_for_it = is_standing && self.state.drain.is_kept_for(&incident.id);
            if incident.behind || !(is_for_it || required.contains(&incident.id)) {
                continue;
            }
            incident.behind = true;
            self.state.drain.withdraw_order();
            self.out.dirty = true;
            if incident.began_after(&self.boot, shown) {
                // Check the drain now: if it was lifted already, the operator did not know this incident.
                self.state.drain.look_now();
            }
        }
    }

    /// The open incidents that require a drain now.
    pub(super) fn required(&self) -> Vec<IncidentId> {
        let open = self.book.open().filter(|i| self.requires(i, Mode::Drain));
        open.map(|i| i.id.clone()).collect()
    }

    /// Counts drains that a lower mode suppresses, once per incident.
    fn count_would_drain(&mut self) {
        let policy = &self.policy;
        for incident in &mut self.book.incidents {
            // A check that may only comment would not have drained.
            let below = policy.mode_of(incident).is_some_and(|m| m < Mode::Drain)
                && policy.could_of(incident) == Some(Mode::Drain);
            // A drain that is being written may still be carried out.
            let drain = &self.state.drain;
            let is_written =
                incident.behind || drain.is_writing_for(&incident.id) || drain.is_kept_for(&incident.id);
            let fresh = !incident.counted && !is_written;
            if incident.status == super::Status::Open && below && fresh {
                incident.counted = true;
                self.out.dirty = true;
                let cause = incident
                    .standing()
                    .filter(|seen| policy.could_of_finding(seen) == Mode::Drain);
                if let Some(cause) = cause.min_by_key(|seen| seen.precedence()) {
                    *self.state.would_drain.entry(cause.check.clone()).or_default() += 1;
                }
            }
        }
    }

    /// All changes, as effects.
    pub(super) fn flush(&mut self) -> Vec<Effect> {
        let now = self.now.boottime;
        for (_, check) in self.checks.each() {
            self.out.dirty |= check.expire(now);
        }
        let wait = self.log.unfinished(now).is_some();
        if !wait {
            self.count_would_drain();
        }
        let mut acts = Vec::new();
        let intent = self.decide(&mut acts);
        let want = self.to_comment();
        let may_write = !wait && self.paused().is_none();
        if may_write && let Some(action) = self.next_mirror() {
            let id = self.action_id();
            self.state.mirror.sent(id, now);
            acts.push(Effect::Act(id, action));
        }
        let times = (self.policy.patience, self.policy.site.settings.scheduler.watch);
        if may_write && let Some(action) = self.state.comment.next(now, times, want.as_ref()) {
            let id = self.action_id();
            self.state.comment.sent(id, &action, now);
            acts.push(Effect::Act(id, action));
        }
        let mut effects = Vec::new();
        self.store(intent, &mut effects);
        self.audit_drain();
        let audit = std::mem::take(&mut self.out.audit).into_iter();
        effects.extend(audit.map(|entry| Effect::Audit(Box::new(entry))));
        effects.append(&mut acts);
        self.publish(&mut effects);
        if let Some(answer) = self.out.answer.take() {
            effects.push(Effect::Answer(answer));
        }
        effects
    }

    /// The daemon ends: what a record only waits for is stored now, and nothing is decided.
    pub(super) fn store_waiting(&mut self) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.out.dirty |= self.out.later.is_some();
        self.store(false, &mut effects);
        effects
    }

    fn store(&mut self, intent: bool, effects: &mut Vec<Effect>) {
        let now = self.now.boottime;
        let due = [self.out.later, self.out.retry_at]
            .into_iter()
            .flatten()
            .any(|by| by <= now);
        let dirty = std::mem::take(&mut self.out.dirty)
            | std::mem::take(&mut self.state.drain.dirty)
            | std::mem::take(&mut self.state.comment.dirty);
        if !dirty && !due {
            return;
        }
        self.book.forget_old(self.state.drain.incident.as_ref());
        self.records += 1;
        if intent {
            self.state.drain.intent_is_in(self.records);
        }
        self.state.incidents = std::mem::take(&mut self.book.incidents);
        self.state.serial = self.book.serial;
        self.state.dropped = self.book.dropped;
        self.state.checks = self.checks.store();
        let json = self.state.json();
        self.book.incidents = std::mem::take(&mut self.state.incidents);
        self.out.stored_at = Some(now);
        self.out.later = None;
        self.out.retry_at = None;
        effects.push(Effect::Store(Record {
            number: self.records,
            json,
        }));
    }

    fn publish(&mut self, effects: &mut Vec<Effect>) {
        let verdict: Verdict = self.verdict();
        let due = match &self.out.published {
            None => true,
            Some((last, at)) => {
                last.health != verdict.health
                    || last.text != verdict.text
                    || last.drained_ms.is_some() != verdict.drained_ms.is_some()
                    || at.saturating_add(REPEAT) <= self.now.boottime
            }
        };
        if !std::mem::take(&mut self.out.tick) && !due {
            return;
        }
        debug_assert_eq!(verdict.at_ms, millis(self.now.boottime));
        self.out.published = Some((verdict.clone(), self.now.boottime));
        effects.push(Effect::Publish(verdict));
    }
}
