//! The own drain of the node, as a state machine: its state, requests in progress, the next step. The parent proves the
//! node, applies the table of node states and rejects foreign reasons; this module only decides when to ask.

mod answers;
mod change;
mod held;
mod late;
pub(super) mod maintenance;
mod pace;
mod timing;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Now, keep};
use change::{Change, ChangeKind};
use late::Late;
use maintenance::JUDGING;
use model::scheduler::{ActionId, Guard, HeldBy, IncidentId, Reason};
pub(super) use pace::spread;
use timing::Timing;
pub(super) use timing::{back_off, lost};

/// The state of the own drain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum State {
    /// No drain.
    #[default]
    None,
    /// Required; the last attempt failed.
    Wanted,
    /// Required, but not permitted in the node's current state.
    Withheld,
    /// Required and permitted, but held by the cluster's limit or a pause.
    Held,
    /// Required, but a foreign drain is in place.
    Foreign,
    /// Write in progress, or its outcome is unknown.
    Writing,
    /// The own drain is in place.
    Drained,
    /// Undrain in progress, or its outcome is unknown.
    Lifting,
    /// An operator lifted it.
    Overridden,
    /// Slurm's node is not proven to be this machine.
    Unproven,
}

impl State {
    /// Its name in output.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Wanted => "wanted",
            Self::Withheld => "withheld",
            Self::Held => "held",
            Self::Foreign => "foreign",
            Self::Writing => "writing",
            Self::Drained => "drained",
            Self::Lifting => "lifting",
            Self::Overridden => "overridden",
            Self::Unproven => "unproven",
        }
    }
}

/// A reboot that was requested before the own drain. Its author did not see the drain, and may have ordered the node's return.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Reboot {
    /// None, or it was cancelled or has ended.
    #[default]
    None,
    /// The node has not booted since.
    Requested,
    /// The node has booted since, and Slurm may not know it yet.
    Booted,
}

/// An incident that requires a drain.
#[derive(Clone, Debug)]
pub(super) struct Want {
    pub incident: IncidentId,
    pub reason: Reason,
    /// A condition of it was just read as bad, and the site lets such a one drain during a maintenance.
    pub in_maintenance: bool,
    /// One of its causes proves that a device of this node is broken.
    pub is_device: bool,
}

/// Facts of the engine that the machine needs.
#[derive(Debug)]
pub(super) struct Facts {
    pub now: Now,
    /// The first open incident that requires a drain, and whose evidence counts now.
    pub want: Option<Want>,
    /// An open incident requires a drain, whether its evidence counts now or later.
    pub required: bool,
    /// An incident behind the own drain is still open, whatever it requires now.
    pub held: bool,
    /// An incident is overridden.
    pub overridden: bool,
    pub undrain: bool,
    /// The kernel log was not read to its end yet: no act starts.
    pub wait: bool,
    /// The kernel log is unreadable: no undrain without an operator's order.
    pub blind: bool,
    /// Why a repaired drain is not lifted without an operator's order yet, or at all.
    pub keep: Option<String>,
    /// A person paused this node: nothing but what a person orders is written.
    pub paused: Option<String>,
    /// What spreads the timers of many nodes.
    pub seed: u64,
    pub poll: Duration,
    pub watch: Duration,
    /// The parent's time limit for a request.
    pub patience: Duration,
}

/// The next step.
#[derive(Debug)]
pub(super) enum Do {
    Look,
    Drain(Want),
    Undrain {
        incident: IncidentId,
        is_ordered: bool,
        /// The time under which the copy of the record counts it, if it is automatic.
        lift: Option<i64>,
    },
}

/// A change for the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Happened {
    /// nodewarden drained the node.
    Drained,
    /// nodewarden lifted its drain, automatically or by an operator's order. `at`: the time of the automatic attempt.
    Lifted { ordered: bool, at: Option<i64> },
    /// The own drain is gone, but nodewarden did not lift it.
    Overridden,
    /// The own drain is gone after its incidents ended, but nodewarden did not lift it.
    LiftedRepaired,
    /// The scheduler's controller lost the own drain in a crash, or ended it, or its daemon on the node replaced it.
    Lost,
    /// An abandoned undrain took effect after all. `at`: as above.
    LiftedLate { at: Option<i64> },
}

/// The own drain.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Drain {
    pub state: State,
    pub why: String,
    pub incident: Option<IncidentId>,
    pub reason: Option<String>,
    /// The time at which slurmctld set the own reason, by its clock.
    pub reason_at: Option<i64>,
    /// Start of the state. Wanted, writing and held count as one while the incident is the same.
    pub since: Option<i64>,
    /// No record of the intent is proven to be on disk: never lifted automatically.
    pub unrecorded: bool,
    /// Another author's reason took the place of the own one: the drain is theirs.
    pub taken: bool,
    /// An operator cleared the incidents behind it.
    pub ordered: bool,
    /// The operator was root: the id in the reason is proof enough.
    pub by_root: bool,
    late: Late,
    /// The wall clock when it took effect.
    pub written: Option<i64>,
    /// The first attempt to lift it automatically (wall clock). All attempts of one drain are one lift: the copy in the
    /// scheduler and the record count it under the same time.
    pub lift_at: Option<i64>,
    /// An attempt to lift it is under way. Stored before each one.
    lift_sent: bool,
    /// An incident behind it ends in a way that no test has verified: an operator lifts it.
    pub unverified: bool,
    /// It was not seen in place since: a crash of the controller can lose what it has not saved.
    pub unsaved: bool,
    reboot: Reboot,
    /// When the drain was last seen, a reboot was requested, by whomever: its cancellation ends the drain.
    reboot_requested: bool,
    /// What it waits for, while it is held.
    pub held: Option<HeldBy>,
    /// It is withheld for a maintenance only.
    by_maintenance: bool,
    /// The node was in maintenance at the last try.
    in_maintenance: bool,
    /// The last try may be written in a maintenance.
    #[serde(skip)]
    may_in_maintenance: bool,
    /// The last reading showed a maintenance.
    maintained: bool,
    /// When the end of the last maintenance was seen (wall clock), while it still matters.
    maintenance_end: Option<i64>,
    /// The cause of the last try is proven to be one device.
    is_device: bool,
    /// The incidents that were held since the last drain, each with whether its cause is one device.
    tried: Vec<(IncidentId, bool)>,
    /// The cluster's limit, as last read, until the slots that were read have ended.
    #[serde(skip)]
    pub guard: Option<Guard>,
    /// The time since boot at which they have.
    #[serde(skip)]
    guard_ends: Duration,
    /// It differs from the stored record.
    #[serde(skip)]
    pub dirty: bool,
    /// Changes since [`Drain::take_changes`].
    #[serde(skip)]
    changes: Vec<Change>,
    #[serde(skip)]
    timing: Timing,
}

impl Drain {
    /// After a restart: the outcome of a request in progress is unknown.
    pub(super) fn restored(&mut self, now: Now, seed: u64) {
        self.timing.seed = seed;
        match self.state {
            State::Lifting if self.lift_sent => self.given_up(true, now),
            State::Writing => self.given_up(false, now),
            // Many nodes start again at the same time.
            State::Held => self.timing.retry_after_hold(now.boottime),
            _ => {}
        }
        self.timing.shown = now.boottime;
        self.timing.unsure = !matches!(self.state, State::None | State::Overridden | State::Held);
        // What happened in a maintenance is judged again after its end.
        self.timing.unsure |= self.maintained;
        self.restore_maintenance_end(now);
    }

    /// The node has booted since the record was stored.
    pub(super) fn booted(&mut self) {
        self.dirty |= std::mem::take(&mut self.reboot_requested);
        if self.reboot == Reboot::Requested {
            self.reboot = Reboot::Booted;
            self.dirty = true;
        }
    }

    /// The outcome of a write is unknown: slurmctld may still carry it out.
    fn given_up(&mut self, lifting: bool, now: Now) {
        self.dirty = true;
        match &self.incident {
            Some(incident) if !lifting && self.is_recorded() => self.late.drain(incident, now.wall),
            _ if lifting => self.late.lift(now.wall),
            _ => {}
        }
    }

    /// Whether a record of the current drain is proven to be on disk.
    pub(super) fn is_recorded(&self) -> bool {
        !self.unrecorded && self.timing.awaiting.is_none()
    }

    /// Whether the drain of this incident stands, and no record proves that nodewarden wrote it.
    pub(super) fn is_unproven(&self, incident: &IncidentId) -> bool {
        self.state == State::Drained && self.unrecorded && self.incident.as_ref() == Some(incident)
    }

    /// The copy of its record proves it, written at this time.
    pub(super) fn is_proven(&mut self, written: i64) {
        self.unrecorded = false;
        self.written = Some(written);
        self.dirty = true;
    }

    /// The record with this number holds the intent of the new drain.
    pub(super) fn intent_is_in(&mut self, record: u64) {
        self.timing.awaiting = Some(record);
    }

    /// Whether a record reached the disk. A later record holds the intent too.
    pub(super) fn stored(&mut self, record: u64, ok: bool) {
        match self.timing.awaiting {
            Some(awaited) if ok && record >= awaited => self.timing.awaiting = None,
            Some(awaited) if !ok && record >= awaited => {
                self.timing.awaiting = None;
                self.unrecorded = true;
                self.dirty = true;
            }
            _ => {}
        }
    }

    /// A request with this number was sent.
    pub(super) fn sent(&mut self, id: ActionId, lifting: bool, now: Now) {
        self.timing.act(id, lifting, now.boottime);
    }

    /// The time since boot at which the own drain was last seen. After a restart, older incidents count as seen.
    pub(super) fn shown(&self) -> Duration {
        self.timing.shown
    }

    /// Whether a request is under way.
    pub(super) fn is_acting(&self) -> bool {
        self.timing.is_acting()
    }

    /// Reads the node at once.
    pub(super) fn look_now(&mut self) {
        self.timing.urgent = true;
    }

    /// An operator ordered the end of the drain that has the id of this incident.
    pub(super) fn order(&mut self, root: bool) {
        self.ordered = true;
        self.by_root |= root;
        self.timing.not_held();
        self.dirty = true;
    }

    /// What was ordered does not cover a new incident.
    pub(super) fn withdraw_order(&mut self) {
        self.ordered = false;
        self.by_root = false;
    }

    /// The place of the next want among several that are held: each has its turn.
    pub(super) fn turn<'a, T>(&self, all: &'a [T], key: impl Fn(&T) -> (IncidentId, bool)) -> Option<&'a T> {
        let new = all.iter().find(|one| !self.tried.contains(&key(one)));
        new.or_else(|| {
            let at = usize::try_from(self.timing.tries()).unwrap_or(0);
            all.get(at % all.len().max(1))
        })
    }

    /// How long ago the own drain took effect, while it is in place. `None` also if the clock was set back since.
    pub(super) fn stands_for(&self, now: Now) -> Option<Duration> {
        let is_ours = self.state == State::Drained && !self.taken;
        let since = self.written.filter(|_| is_ours)?;
        u64::try_from(now.wall.saturating_sub(since))
            .ok()
            .map(Duration::from_secs)
    }

    /// Whether the drain of this incident is in place.
    pub(super) fn is_kept_for(&self, incident: &IncidentId) -> bool {
        matches!(self.state, State::Drained | State::Lifting) && self.incident.as_ref() == Some(incident)
    }

    /// Whether the drain of this incident is being written, or its outcome is unknown.
    pub(super) fn is_writing_for(&self, incident: &IncidentId) -> bool {
        self.state == State::Writing && self.incident.as_ref() == Some(incident)
    }

    /// New evidence of a fault that requires a drain: looks whether it stands.
    pub(super) fn evidence(&mut self, now: Duration) {
        if matches!(self.state, State::Drained | State::Lifting) {
            self.look_now();
        }
        // Who is held reads neither the node nor the slots sooner.
        if self.state != State::Held {
            self.timing.retry_now(now);
        }
    }

    fn to(&mut self, state: State, why: impl Into<String>, now: Now) {
        self.change(ChangeKind::Plain, state, why.into(), now);
    }

    fn change(&mut self, kind: ChangeKind, state: State, why: String, now: Now) {
        self.lift_sent = kind == ChangeKind::Lift;
        if self.state != state || self.why != why {
            self.changes.push(Change {
                from: self.state,
                to: state,
                kind,
                why: why.clone(),
                incident: self.incident.clone(),
                reason: self.reason.clone(),
                taken: self.taken,
                held: self.held.is_some(),
                slot: self.guard.as_ref().and_then(|guard| guard.slot.clone()),
            });
        }
        if !matches!(state, State::Held | State::Writing) {
            self.held = None;
        }
        if self.state != state {
            // Attempts of one drain that is not written: it is wanted since the first.
            let waits = |state| matches!(state, State::Wanted | State::Writing | State::Held);
            let goes_on = waits(self.state) && waits(state);
            self.since = match self.since.filter(|_| goes_on) {
                None => (state != State::None).then_some(now.wall),
                since => since,
            };
            self.state = state;
            self.dirty = true;
        }
        self.dirty |= self.why != why;
        self.why = why;
    }

    /// Resets the drain: it is gone, or was never written.
    fn forget(&mut self, state: State, why: impl Into<String>, now: Now) {
        self.reset(ChangeKind::Plain, state, why.into(), now);
    }

    /// Slurm ended the drain, which is wanted again.
    fn lost(&mut self, how: &str, now: Now) {
        self.reset(ChangeKind::Lost, State::Wanted, how.to_owned(), now);
    }

    fn reset(&mut self, kind: ChangeKind, state: State, why: String, now: Now) {
        // First: the change has the incident.
        self.change(kind, state, why, now);
        self.incident = None;
        self.reason = None;
        self.reason_at = None;
        self.unrecorded = false;
        self.taken = false;
        self.ordered = false;
        self.by_root = false;
        self.written = None;
        self.lift_at = None;
        self.unsaved = false;
        self.reboot = Reboot::None;
        self.reboot_requested = false;
        self.unverified = false;
        self.timing.awaiting = None;
        self.timing.blocked = false;
        self.in_maintenance = false;
        self.tried.clear();
        self.timing.not_held();
    }

    /// What happened to the drain since the last call, in order.
    pub(super) fn take_changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }

    /// The next step. Call again until `None`.
    pub(super) fn next(&mut self, facts: &Facts) -> Option<Do> {
        if let Some(lifting) = self.timing.expire(facts.now.boottime, facts.patience) {
            self.given_up(lifting, facts.now);
        }
        if self.guard_ends <= facts.now.boottime {
            self.guard = None;
        }
        let stands = matches!(self.state, State::Drained | State::Lifting);
        self.timing
            .wait(facts.want.is_some() && !stands, facts.now.boottime);
        if self.timing.is_acting() {
            return None;
        }
        if !self.timing.unsure
            && let Some(next) = self.next_act(facts)
        {
            return Some(next);
        }
        let due = self.look_due(facts).is_some_and(|d| d <= facts.now.boottime);
        due.then(|| {
            self.timing.look(facts.now.boottime);
            Do::Look
        })
    }

    fn next_act(&mut self, facts: &Facts) -> Option<Do> {
        let now = facts.now;
        self.expect_another(facts);
        let may = self.timing.may_act(now.boottime) && !facts.wait;
        let may_lift = may && (self.ordered || !(facts.blind || facts.paused.is_some()));
        match self.state {
            State::None | State::Overridden | State::Wanted | State::Held => match &facts.want {
                Some(want) => (may && !self.timing.absent)
                    .then(|| self.begin(want, facts))
                    .flatten(),
                None => {
                    let obeyed = self.state == State::Overridden && facts.overridden;
                    // Its turn among the nodes of the cluster stays.
                    let waits = self.state == State::Held && facts.required;
                    if self.state == State::Wanted && facts.required && self.judges_maintenance(now) {
                        self.to(State::Wanted, JUDGING, now);
                    } else if !(obeyed || waits) && self.state != State::None {
                        self.forget(State::None, "", now);
                    }
                    None
                }
            },
            State::Withheld if self.may_in_maintenance(facts) => {
                let want = facts.want.as_ref()?;
                may.then(|| self.begin(want, facts)).flatten()
            }
            // Only a reading of the node changes these states.
            State::Withheld | State::Foreign | State::Unproven => {
                if facts.want.is_none() && !facts.required && !self.taken {
                    self.forget(State::None, "", now);
                }
                None
            }
            // The answer was lost.
            State::Writing => {
                self.timing.unsure = true;
                None
            }
            State::Drained => {
                let over = facts.want.is_none() && !facts.held && facts.undrain;
                if !over || !(self.is_recorded() || self.by_root) {
                    return None;
                }
                if let Some(why) = facts.keep.as_ref().filter(|_| !self.ordered) {
                    self.to(State::Drained, why.as_str(), now);
                    return None;
                }
                may_lift.then(|| self.lift(now)).flatten()
            }
            State::Lifting => {
                if facts.want.is_some() || facts.held || !facts.undrain {
                    self.timing.blocked = false;
                    self.to(State::Drained, "an incident is open", now);
                    None
                } else {
                    (may_lift && !self.timing.blocked)
                        .then(|| self.lift(now))
                        .flatten()
                }
            }
        }
    }

    fn may_in_maintenance(&self, facts: &Facts) -> bool {
        let wants = facts.want.as_ref().is_some_and(|want| want.in_maintenance);
        wants && self.is_held_by_maintenance() && !self.timing.absent
    }

    /// Whether only a maintenance of the node forbids the drain.
    pub(super) fn is_held_by_maintenance(&self) -> bool {
        self.state == State::Withheld && self.by_maintenance
    }

    fn begin(&mut self, want: &Want, facts: &Facts) -> Option<Do> {
        let now = facts.now;
        if let Some(why) = &facts.paused {
            self.hold(want, why, now);
            return None;
        }
        // Where no maintenance was seen yet, the parent sees it: the drain is then asked for again, from other slots.
        let in_maintenance = match self.state {
            State::Held => self.in_maintenance,
            _ => self.is_held_by_maintenance(),
        };
        self.in_maintenance = in_maintenance;
        self.may_in_maintenance = want.in_maintenance;
        self.is_device = want.is_device;
        self.is_for(&want.incident, now);
        self.reason = Some(want.reason.as_str().to_owned());
        self.reason_at = None;
        self.taken = false;
        self.withdraw_order();
        self.unrecorded = false;
        self.dirty = true;
        self.to(State::Writing, want.reason.as_str(), now);
        Some(Do::Drain(Want {
            in_maintenance,
            ..want.clone()
        }))
    }

    /// The incident of the next attempt: that of another one has waited for another time.
    fn is_for(&mut self, incident: &IncidentId, now: Now) {
        if self.incident.as_ref().is_some_and(|before| before != incident) {
            self.since = Some(now.wall);
        }
        self.incident = Some(incident.clone());
    }

    fn lift(&mut self, now: Now) -> Option<Do> {
        let incident = self.incident.clone()?;
        let why = "all incidents behind it are cleared".to_owned();
        self.change(ChangeKind::Lift, State::Lifting, why, now);
        // Each attempt stores its intent first.
        self.dirty = true;
        let lift = (!self.ordered).then(|| {
            let known = self.lift_at.filter(|at| keep::is_of_today(*at, now.wall));
            *self.lift_at.insert(known.unwrap_or(now.wall))
        });
        Some(Do::Undrain {
            incident,
            is_ordered: self.ordered,
            lift,
        })
    }

    /// The time of the next reading of the node.
    fn look_due(&self, facts: &Facts) -> Option<Duration> {
        if self.timing.is_looking() {
            return None;
        }
        let pace = self.timing.pace(facts.seed, facts.now.boottime);
        let poll = (!facts.poll.is_zero()).then_some(facts.poll);
        let every = match self.state {
            _ if self.timing.unsure => Some(pace.unsure()),
            _ if self.timing.urgent => Some(pace.wanted()),
            State::None | State::Overridden | State::Wanted if self.timing.absent => {
                Some(pace.absent(facts.want.is_some()))
            }
            State::Withheld | State::Foreign | State::Unproven if facts.want.is_some() => Some(pace.wanted()),
            State::None | State::Overridden | State::Held if self.late.drain_is_out(facts.now.wall) => {
                Some(pace.watch(facts.watch))
            }
            State::None if self.timing.lift_unsaved && pace.blind < 3 => Some(pace.saved(facts.watch)),
            State::None | State::Overridden if pace.blind > 0 => Some(pace.unproven()),
            State::None | State::Overridden => poll.map(|every| pace.watch(every)),
            State::Drained if self.unsaved => Some(pace.saved(facts.watch)),
            State::Withheld | State::Foreign | State::Unproven | State::Drained => {
                Some(pace.watch(facts.watch))
            }
            State::Lifting if self.timing.blocked => Some(pace.watch(facts.watch)),
            State::Wanted | State::Writing | State::Lifting | State::Held => None,
        };
        if self.timing.is_first() {
            // A drain that stands, or is held, can wait for its turn after a common restart.
            let is_calm = matches!(self.state, State::Drained | State::Held);
            let is_due = self.timing.urgent || (!is_calm && (facts.want.is_some() || self.timing.unsure));
            return Some(if is_due {
                Duration::ZERO
            } else {
                self.timing.shown.saturating_add(pace.start(facts.watch))
            });
        }
        self.timing.after_look(every)
    }

    /// The time of the next call of [`Drain::next`] without other events.
    pub(super) fn deadline(&self, facts: &Facts) -> Option<Duration> {
        let patience = facts.patience;
        if let Some(lost) = self.timing.lost_act(patience) {
            return Some(lost);
        }
        // A passed time waits for another event.
        let act_at = self.timing.act_at().filter(|at| *at > facts.now.boottime);
        [act_at, self.timing.lost_look(patience), self.look_due(facts)]
            .into_iter()
            .flatten()
            .min()
    }
}
