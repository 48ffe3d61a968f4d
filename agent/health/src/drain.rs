//! Our drain of the own node, as a state machine: what stands, what is under way, what comes next. The parent proves the
//! node, applies the table of node states and refuses foreign reasons; here it is only decided when to ask.

mod answers;
mod late;
mod timing;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Now;
use late::Late;
use model::scheduler::{ActionId, IncidentId, Reason};
use timing::Timing;
pub(super) use timing::lost;

/// Where our drain stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum State {
    /// Nothing is wanted.
    #[default]
    None,
    /// Wanted; the last attempt failed.
    Wanted,
    /// Wanted, and not allowed in the state that the node is in.
    Withheld,
    /// Wanted, and somebody else's drain stands there.
    Foreign,
    /// Being written, or it is not known whether it was.
    Writing,
    /// Ours stands.
    Drained,
    /// Being lifted, or it is not known whether it was.
    Lifting,
    /// A person lifted it.
    Overridden,
    /// The node is not proven to be ours.
    Unproven,
}

impl State {
    /// The word for people.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Wanted => "wanted",
            Self::Withheld => "withheld",
            Self::Foreign => "foreign",
            Self::Writing => "writing",
            Self::Drained => "drained",
            Self::Lifting => "lifting",
            Self::Overridden => "overridden",
            Self::Unproven => "unproven",
        }
    }
}

/// An incident asks for a drain.
#[derive(Clone, Debug)]
pub(super) struct Want {
    pub incident: IncidentId,
    pub reason: Reason,
}

/// What the machine needs to know of the rest.
#[derive(Debug)]
pub(super) struct Facts {
    pub now: Now,
    /// The first open incident that asks for a drain.
    pub want: Option<Want>,
    /// An incident for which our drain stands is still open, whatever it asks for now.
    pub held: bool,
    /// An incident is overridden.
    pub overridden: bool,
    pub undrain: bool,
    /// What was read of the kernel's log is not all yet: nothing is begun.
    pub wait: bool,
    /// The kernel's log cannot be read: nothing is lifted, unless a person said so.
    pub blind: bool,
    pub poll: Duration,
    pub watch: Duration,
    /// How long the parent may take over a request.
    pub patience: Duration,
}

/// What is to be done next.
#[derive(Debug)]
pub(super) enum Do {
    Look,
    Drain(IncidentId, Reason),
    Undrain(IncidentId),
}

/// What the rest must know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Happened {
    /// We drained the node.
    Drained,
    /// We lifted our drain.
    Lifted,
    /// Our drain is gone and we did not lift it.
    Overridden,
    /// A lift of ours that was given up has come about after all.
    LiftedLate,
}

/// Our drain.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Drain {
    pub state: State,
    pub why: String,
    pub incident: Option<IncidentId>,
    pub reason: Option<String>,
    /// When slurmctld set our reason, by its own clock.
    pub reason_at: Option<i64>,
    /// Since when the state holds.
    pub since: Option<i64>,
    /// No record of our intent is proven to have reached the disk: never lifted by ourselves.
    pub unrecorded: bool,
    /// A person wrote another reason over ours: theirs now.
    pub taken: bool,
    /// A person cleared what it stands for.
    pub ordered: bool,
    late: Late,
    /// It differs from what was stored last.
    #[serde(skip)]
    pub dirty: bool,
    #[serde(skip)]
    timing: Timing,
}

impl Drain {
    /// After a restart: what was under way may or may not have happened.
    pub(super) fn restored(&mut self, now: Now) {
        match self.state {
            State::Lifting => self.given_up(true, now),
            State::Writing => self.given_up(false, now),
            _ => {}
        }
        self.timing.shown = now.boottime;
        self.timing.unsure = !matches!(self.state, State::None | State::Overridden);
    }

    /// What became of a write is not known: slurmctld may yet carry it out.
    fn given_up(&mut self, lifting: bool, now: Now) {
        self.dirty = true;
        match &self.incident {
            Some(incident) if !lifting && self.is_recorded() => self.late.drain(incident, now.wall),
            _ if lifting => self.late.lift(now.wall),
            _ => {}
        }
    }

    /// Whether a record of the drain that stands is proven to be on the disk.
    pub(super) fn is_recorded(&self) -> bool {
        !self.unrecorded && self.timing.awaiting.is_none()
    }

    /// The number of the record that holds the intent of the drain just begun.
    pub(super) fn intent_is_in(&mut self, record: u64) {
        self.timing.awaiting = Some(record);
    }

    /// Whether a record reached the disk. A later one holds the intent too.
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

    /// The number of the request that was sent.
    pub(super) fn sent(&mut self, id: ActionId, lifting: bool, now: Now) {
        self.timing.act(id, lifting, now.boottime);
    }

    /// When our drain was last seen to stand, as time since boot; after a restart, what is older than it counts as seen.
    pub(super) fn shown(&self) -> Duration {
        self.timing.shown
    }

    /// Reads the node at once.
    pub(super) fn look_now(&mut self) {
        self.timing.urgent = true;
    }

    fn to(&mut self, state: State, why: impl Into<String>, now: Now) {
        let why = why.into();
        if self.state != state {
            self.state = state;
            self.since = (state != State::None).then_some(now.wall);
            self.dirty = true;
        }
        self.dirty |= self.why != why;
        self.why = why;
    }

    /// Forgets the drain: it is gone, or was never written.
    fn forget(&mut self, state: State, why: impl Into<String>, now: Now) {
        self.incident = None;
        self.reason = None;
        self.reason_at = None;
        self.unrecorded = false;
        self.taken = false;
        self.ordered = false;
        self.timing.awaiting = None;
        self.timing.blocked = false;
        self.to(state, why, now);
    }

    /// What comes next. To be asked again until there is nothing more.
    pub(super) fn next(&mut self, facts: &Facts) -> Option<Do> {
        if let Some(lifting) = self.timing.expire(facts.now.boottime, facts.patience) {
            self.given_up(lifting, facts.now);
        }
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
        let may = self.timing.may_act(now.boottime) && !facts.wait;
        let may_lift = may && (self.ordered || !facts.blind);
        match self.state {
            State::None | State::Overridden | State::Wanted | State::Unproven => match &facts.want {
                Some(want) => (may && !self.timing.absent).then(|| self.begin(want, now)),
                None => {
                    let obeyed = self.state == State::Overridden && facts.overridden;
                    if !obeyed && self.state != State::None {
                        self.forget(State::None, "", now);
                    }
                    None
                }
            },
            // Only a look at the node tells when these can go on.
            State::Withheld | State::Foreign => {
                if facts.want.is_none() && !self.taken {
                    self.forget(State::None, "", now);
                }
                None
            }
            // The answer never came.
            State::Writing => {
                self.timing.unsure = true;
                None
            }
            State::Drained => {
                let over = facts.want.is_none() && !facts.held && facts.undrain;
                (over && may_lift && self.is_recorded())
                    .then(|| self.lift("every incident behind it is cleared", now))
                    .flatten()
            }
            State::Lifting => {
                if facts.want.is_some() || facts.held || !facts.undrain {
                    self.timing.blocked = false;
                    self.to(State::Drained, "an incident is open", now);
                    None
                } else {
                    (may_lift && !self.timing.blocked)
                        .then(|| self.lift("every incident behind it is cleared", now))
                        .flatten()
                }
            }
        }
    }

    fn begin(&mut self, want: &Want, now: Now) -> Do {
        self.incident = Some(want.incident.clone());
        self.reason = Some(want.reason.as_str().to_owned());
        self.reason_at = None;
        self.taken = false;
        self.ordered = false;
        self.unrecorded = false;
        self.dirty = true;
        self.to(State::Writing, want.reason.as_str(), now);
        Do::Drain(want.incident.clone(), want.reason.clone())
    }

    fn lift(&mut self, why: &str, now: Now) -> Option<Do> {
        let incident = self.incident.clone()?;
        self.to(State::Lifting, why, now);
        // Each attempt stores its intent first.
        self.dirty = true;
        Some(Do::Undrain(incident))
    }

    /// When the node is to be read next.
    fn look_due(&self, facts: &Facts) -> Option<Duration> {
        if self.timing.is_looking() {
            return None;
        }
        let watch = facts.watch.max(Duration::from_secs(1));
        let poll = (!facts.poll.is_zero()).then_some(facts.poll);
        let every = match self.state {
            _ if self.timing.unsure || self.timing.urgent => Some(self.timing.look_back_off()),
            State::None | State::Overridden | State::Wanted | State::Unproven if self.timing.absent => {
                if facts.want.is_some() {
                    Some(watch)
                } else {
                    poll
                }
            }
            State::None | State::Overridden if self.late.drain_is_out(facts.now.wall) => Some(watch),
            State::None | State::Overridden => poll,
            State::Withheld | State::Foreign | State::Drained => Some(watch),
            State::Lifting if self.timing.blocked => Some(watch),
            State::Wanted | State::Unproven | State::Writing | State::Lifting => None,
        };
        self.timing.after_look(every)
    }

    /// When [`Drain::next`] is to be asked next, if nothing else happens.
    pub(super) fn deadline(&self, facts: &Facts) -> Option<Duration> {
        let patience = facts.patience;
        if let Some(lost) = self.timing.lost_act(patience) {
            return Some(lost);
        }
        // One that has passed waits for something else.
        let act_at = self.timing.act_at().filter(|at| *at > facts.now.boottime);
        [act_at, self.timing.lost_look(patience), self.look_due(facts)]
            .into_iter()
            .flatten()
            .min()
    }
}
