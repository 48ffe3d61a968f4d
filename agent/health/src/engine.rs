//! The engine: from inputs to effects. It keeps the incidents, decides on the drain and computes the verdict. No I/O,
//! no clock, no randomness, so that every decision can be replayed.

mod audit;
mod effects;
mod evidence;
mod inputs;
mod judging;
mod mirroring;
mod orders;
mod pausing;
mod unjudged;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::Duration;

use collectors::{BootId, Cursor, PciAddress, SubjectKind};

pub use super::record::{Identity, RestoreError};

use super::book::{Book, Frame, Taken};
use super::checks::{self, Said, Watches};
use super::condition::Streaks;
use super::drain::{Facts, State as DrainState, Want};
use super::finding::{Clear, Finding};
use super::incident::{At, Incident, Seen, Status};
use super::keep::Quiet;
use super::log::Log;
use super::policy::Policy;
use super::record::State;
use super::settings::Maintenance;
use super::sight::Sight;
use super::verdict::{Health, Verdict};
use super::view::View;
use super::{Effect, Input, Mode, Now, id, keep, show};
use model::derive::affinity::Affinity;
use model::derive::xid::{Faults, gpu_label};
use model::ledger::Ledger;
use model::ownership::{Timeline, When};
use model::scheduler::{HeldBy, Reason};
use model::snapshot::Snapshot;

/// The age of a reading that counts during a maintenance.
const FRESH: Duration = Duration::from_secs(30);
/// Requests before a restart may still be answered; their numbers are not reused.
const ACTIONS_OF_A_RUN: u64 = 1 << 20;

/// The health engine of one node.
#[derive(Debug)]
pub struct Engine {
    policy: Policy,
    boot: BootId,
    now: Now,
    /// The time of its start.
    started: Duration,
    state: State,
    book: Book,
    streaks: Streaks,
    checks: Watches,
    /// Checks whose state in the record is unusable, and why.
    lost: Vec<String>,
    /// A GPU whose checks are proven is on the bus.
    has_proven: bool,
    sight: Sight,
    log: Log,
    /// `health.rdma.ports` names none of the ports of the last snapshot.
    names_no_port: bool,
    /// Slurm's Gres, of the last reading of the node.
    gres: Option<String>,
    /// Slurm's name of the node, and the node's Comment, of the last reading.
    node: Option<(String, Option<String>)>,
    /// The ports nearest to each GPU, of the last snapshot.
    affinity: Vec<Affinity>,
    /// The jobs of each GPU over time.
    timeline: Timeline,
    /// The time of the current findings.
    when: When,
    /// The number of the last record.
    records: u64,
    quiet: Quiet,
    /// What spreads the timers of many nodes.
    seed: u64,
    audited: audit::Audited,
    out: effects::Pending,
    /// The result of [`Engine::next_deadline`], until the next input.
    deadline: Cell<Option<Option<Duration>>>,
}

impl Engine {
    /// Starts from the record. `None`: the first start, or a deleted state directory.
    ///
    /// # Errors
    /// When the record is unusable. Without it, no existing drain is lifted.
    pub fn new(policy: Policy, boot: BootId, restored: Option<&str>, now: Now) -> Result<Self, RestoreError> {
        let mut state = match restored {
            Some(json) => State::parse(json)?,
            None => State::new(now.wall),
        };
        // The record of an earlier release has no first addresses, and counts by address.
        for (pci, uuid) in &state.inventory {
            state.known.place_gpu(uuid, pci);
            state.ledger.rename(&format!("pci:{pci}"), uuid);
        }
        let mut checks = Watches::default();
        let lost = checks.restore(std::mem::take(&mut state.checks));
        if state.boot != boot {
            // Unconfirmed counts belong to the earlier boot.
            state.faults = Faults::default();
            state.known.adapters.clear();
            state.known.present.clear();
            state.notes.clear();
            state.unproven_here = false;
            for (_, check) in checks.each() {
                check.rebooted();
            }
            state.drain.booted();
            state.boot = boot.clone();
            state.ledger.booted(now.wall, now.boottime);
        }
        let seed = id::seed(&boot);
        state.drain.restored(now, seed);
        state.comment.seed = seed;
        state.mirror.seed = seed;
        state.actions = state.actions.saturating_add(ACTIONS_OF_A_RUN);
        let mut book = Book::default();
        book.incidents = std::mem::take(&mut state.incidents);
        book.origin = state.origin;
        book.serial = state.serial;
        book.dropped = state.dropped;
        Ok(Self {
            policy,
            boot,
            now,
            started: now.boottime,
            state,
            book,
            streaks: Streaks::default(),
            checks,
            lost,
            has_proven: false,
            sight: Sight::default(),
            log: Log::new(now.boottime),
            names_no_port: false,
            gres: None,
            node: None,
            affinity: Vec::new(),
            timeline: Timeline::default(),
            when: When::default(),
            records: 0,
            quiet: Quiet::since(now.boottime),
            seed,
            audited: audit::Audited::default(),
            out: effects::Pending::default(),
            deadline: Cell::default(),
        })
    }

    /// Runs on this machine.
    ///
    /// # Errors
    /// When another machine wrote the record.
    pub fn on(mut self, machine: Identity) -> Result<Self, RestoreError> {
        self.state.take_over(machine)?;
        Ok(self)
    }

    /// The events come from a recording: their time stamps are not of this machine.
    #[must_use]
    pub fn replaying(mut self) -> Self {
        self.log.replay();
        self.state.ledger.booted(0, Duration::ZERO);
        self
    }

    /// Takes one input and returns the effects, in order.
    pub fn step(&mut self, now: Now, input: Input<'_>) -> Vec<Effect> {
        self.begin(now);
        self.take(input);
        self.flush()
    }

    /// The daemon ends. Counts that pages have shown must not go back after the restart.
    pub fn finish(&mut self, now: Now) -> Vec<Effect> {
        self.begin(now);
        self.store_waiting()
    }

    /// Replaces the policy. Drains that the new one permits start immediately. Conditions of a check that only observed drain
    /// with the next readings that show them, and its events when they happen again.
    pub fn set_policy(&mut self, now: Now, policy: Policy) -> Vec<Effect> {
        self.begin(now);
        self.policy = policy;
        self.names_no_port = false;
        self.flush()
    }

    fn begin(&mut self, now: Now) {
        self.now = now;
        self.deadline.set(None);
    }

    /// The time since boot of the next call of [`Engine::step`], with [`Input::Tick`] if no other input comes.
    pub fn next_deadline(&self) -> Option<Duration> {
        if let Some(known) = self.deadline.get() {
            return known;
        }
        let deadline = self.find_deadline();
        self.deadline.set(Some(deadline));
        deadline
    }

    fn find_deadline(&self) -> Option<Duration> {
        let facts = self.facts();
        [
            self.state.drain.deadline(&facts),
            self.state
                .comment
                .deadline(self.now.boottime, self.policy.patience),
            self.state
                .mirror
                .deadline(self.now.boottime, self.policy.patience),
            self.pause_ends(),
            self.checks.iter().filter_map(|(_, check)| check.deadline()).min(),
            self.out.deadline(),
            self.log.unfinished(self.now.boottime),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// The view of the whole state.
    pub fn view(&self) -> View {
        show::view(&show::Shown {
            policy: &self.policy,
            state: &self.state,
            book: &self.book,
            verdict: self.verdict(),
            affinity: &self.affinity,
            node: self.node.as_ref(),
            pause: self.state.pause.clone().filter(|_| self.paused().is_some()),
            cause: &|incident| {
                let mode = self.policy.mode_of(incident).unwrap_or_default();
                self.cause(incident, mode)
            },
        })
    }

    /// Notes of each collector for its next worker, by its name.
    pub fn notes(&self) -> &BTreeMap<String, String> {
        &self.state.notes
    }

    /// Reads the jobs of the GPUs, between health ticks. Who owns a GPU changes no deadline.
    pub fn look_at_jobs(&mut self, now: Now, snapshot: &Snapshot) {
        self.now = now;
        self.jobs(snapshot);
    }

    /// A job left the node.
    pub fn job_left(&mut self, now: Now, job: &str) {
        self.timeline.left(job, now.boottime);
        self.deadline.set(None);
    }

    /// Takes the jobs of the GPUs, and attributes Xids to runs.
    fn jobs(&mut self, snapshot: &Snapshot) {
        self.timeline.look(snapshot, snapshot.ownership(), self.now.wall);
        for (_, check) in self.checks.each() {
            if check.runs(&self.timeline, &self.state.inventory, self.now.boottime) {
                self.out.counted(self.now.boottime);
                self.deadline.set(None);
            }
        }
    }

    /// The counts of events.
    pub fn ledger(&self) -> &Ledger {
        &self.state.ledger
    }

    /// The last processed event of each collector, by its name: the position of its watcher.
    pub fn cursors(&self) -> &BTreeMap<String, Cursor> {
        &self.state.cursors
    }

    /// `health.rdma.ports` names none of the node's RDMA ports: no check judges one, and no incident of one ends.
    pub const fn names_no_port(&self) -> bool {
        self.names_no_port
    }

    /// Checks whose state in the record is unusable, and why. Those started empty.
    pub fn lost(&self) -> &[String] {
        &self.lost
    }

    /// Applies the results of a check.
    fn apply(&mut self, said: Vec<Said>) {
        for said in said {
            match said {
                Said::Found(finding) => {
                    self.find(finding);
                }
                Said::Again(finding) => {
                    let is_new = !self.book.stands(&finding);
                    self.take_in(finding, is_new);
                }
                Said::FoundOld(finding) => {
                    let when = std::mem::replace(&mut self.when, When::Long);
                    self.find(finding);
                    self.when = when;
                }
                Said::Declared(subject) => {
                    let said = match self.when {
                        When::At(wall) => wall,
                        When::SinceTick | When::Long => self.now.wall,
                    };
                    self.out.dirty |= self.state.ledger.reset(&subject.name, said);
                    self.out.dirty |= self.book.verdict_none(&subject, self.now.wall);
                }
                Said::Remedied {
                    subject,
                    by,
                    before,
                    met,
                } => {
                    let until = millis(before.boottime);
                    for (_, check) in self.checks.each() {
                        self.out.dirty |= check.remedied(&subject, until);
                    }
                    let wall = self.now.wall;
                    if by == Clear::GpuReset {
                        self.out.dirty |= self.state.ledger.reset(&subject.name, before.wall);
                    }
                    self.out.dirty |= self.book.remedied(&subject, by, (&self.boot, until), &met, wall);
                }
            }
        }
    }

    /// Takes a finding into the book. Returns whether the book had room for it.
    fn find(&mut self, finding: Finding) -> bool {
        self.take_in(finding, true)
    }

    /// The same. One that is not new is only counted: it stands, and must not hold back the lift of another drain.
    fn take_in(&mut self, mut finding: Finding, is_new: bool) -> bool {
        // A check that only observes must not hold the drain of another finding.
        finding.drains &= !self.policy.only_observes(&finding.check);
        if finding.jobs.is_empty() {
            finding.jobs = self.timeline.on(&finding.subject, self.when);
        }
        finding.comments_only |= Self::is_unproven(&self.state, self.has_proven, &finding);
        let may_drain = finding.drains && !finding.comments_only;
        let is_evidence = may_drain && self.policy.effective(&finding.check) == Mode::Drain;
        let has_room = may_drain && self.policy.own(&finding.check) == Mode::Drain;
        let last = format!("{}, {}, {}", finding.check, finding.subject.name, finding.detail);
        let frame = Self::frame(&self.boot, self.now, self.policy.site.settings.settle);
        match self.book.take(finding, frame, has_room) {
            Taken::Nothing => {}
            Taken::Counted => self.out.counted(self.now.boottime),
            Taken::Changed => self.out.dirty = true,
            // Tried again at each reading: no reason to write the record.
            Taken::Dropped => return false,
        }
        if is_new {
            if is_evidence && self.when != When::Long {
                self.state.drain.evidence(self.now.boottime);
            }
            // Also a finding that does not drain: the fault goes on.
            self.quiet.broken(self.now.boottime, last);
        }
        true
    }

    /// Whether it is about a GPU, the number of GPUs or their driver, of a maker whose hardware has not proven the checks.
    fn is_unproven(state: &State, has_proven: bool, finding: &Finding) -> bool {
        let all = &state.unproven;
        let name = finding.subject.name.as_str();
        finding.pci.as_ref().is_some_and(|pci| all.contains(pci))
            || match finding.subject.kind {
                SubjectKind::Gpu => all.iter().any(|pci| gpu_label(&state.inventory, pci) == name),
                SubjectKind::Pci => PciAddress::parse(name).is_some_and(|pci| all.contains(&pci)),
                SubjectKind::Node => {
                    // After an exchange of the cards, the number and the driver are those of the new ones.
                    let are_gone = has_proven && !state.unproven_here;
                    let check = checks::check(&finding.check);
                    !all.is_empty()
                        && !are_gone
                        && check.is_some_and(|check| check.subject == SubjectKind::Gpu)
                }
                _ => false,
            }
    }

    fn frame(boot: &BootId, now: Now, settle: Duration) -> Frame<'_> {
        let at = At {
            boot,
            now_ms: millis(now.boottime),
            wall: now.wall,
        };
        Frame { at, settle }
    }

    /// Whether an incident requires its act. What it requires holds a drain that stands.
    fn requires(&self, incident: &Incident, mode: Mode) -> bool {
        match mode {
            Mode::Drain => self.causes(incident).next().is_some(),
            _ => self.policy.mode_of(incident) == Some(mode),
        }
    }

    /// The open incidents that require exactly this mode, and whose evidence counts now.
    fn due(&self, mode: Mode) -> impl Iterator<Item = &Incident> {
        let counts = |i: &Incident| self.is_judged(i) && self.causes(i).any(|seen| self.is_confirmed(seen));
        let open = self.book.open().filter(move |i| self.requires(i, mode));
        open.filter(move |i| mode != Mode::Drain || counts(i))
    }

    /// The first incident that is due, or the one whose turn it is.
    fn wanted(&self, mode: Mode) -> Option<Want> {
        let in_maintenance = || {
            let is_held = mode == Mode::Drain && self.state.drain.is_held_by_maintenance();
            let mut open = self.book.open().filter(|_| is_held);
            open.find(|i| self.requires(i, mode) && self.may_in_maintenance(i))
        };
        let turn = || {
            let is_held = mode == Mode::Drain && self.state.drain.state == DrainState::Held;
            let open: Vec<&Incident> = self.due(mode).filter(|_| is_held).collect();
            let key = |i: &&Incident| (i.id.clone(), self.is_device(i));
            self.state.drain.turn(&open, key).copied()
        };
        let incident = in_maintenance().or_else(turn).or_else(|| self.due(mode).next())?;
        let reason = self.reason(incident, mode, "")?;
        let again = mode == Mode::Drain && incident.lift.is_some();
        Some(Want {
            incident: incident.id.clone(),
            reason: if again { reason.after_lift() } else { reason },
            in_maintenance: mode == Mode::Drain && self.may_in_maintenance(incident),
            is_device: self.is_device(incident),
        })
    }

    /// Whether a finding that drains proves that one device of this node is broken.
    fn is_device(&self, incident: &Incident) -> bool {
        let drains = |seen: &Seen| seen.device && self.policy.of(seen) == Mode::Drain;
        incident.standing().any(drains)
    }

    /// The incident for the node's Comment: one whose mode is `comment`, or the one whose drain the cluster's limit
    /// holds.
    fn to_comment(&self) -> Option<Want> {
        self.wanted(Mode::Comment).or_else(|| {
            // Without the cause and the turn, which change: each text is a write.
            self.state.drain.held.filter(|by| *by != HeldBy::Pause)?;
            let mut open = self.book.open();
            let incident = open.find(|i| self.requires(i, Mode::Drain))?;
            Some(Want {
                incident: incident.id.clone(),
                reason: self.reason(incident, Mode::Drain, " held by the limit on drains")?,
                in_maintenance: false,
                is_device: false,
            })
        })
    }

    /// Whether a condition of the incident was just read as bad, and may drain during a maintenance. An event may be a
    /// consequence of the maintenance: it waits for its end.
    fn may_in_maintenance(&self, incident: &Incident) -> bool {
        let is_fresh = |key: &String| {
            let read_at = self.streaks.bad_at(key);
            read_at.is_some_and(|at| self.now.boottime.saturating_sub(at) <= FRESH)
        };
        self.policy.site.settings.maintenance == Maintenance::Drain
            && incident
                .standing()
                .any(|seen| self.policy.of(seen) == Mode::Drain && seen.condition().is_some_and(is_fresh))
    }

    /// The reason of an incident. `held`: what its drain waits for.
    fn reason(&self, incident: &Incident, mode: Mode, held: &str) -> Option<Reason> {
        let cause = self.cause(incident, mode)?;
        Some(Reason::compose(
            &cause.check,
            &incident.subject.to_string(),
            &format!("{}{held}", cause.detail),
            incident.remedy().word(),
            &incident.id,
        ))
    }

    fn facts(&self) -> Facts {
        Facts {
            now: self.now,
            want: self.wanted(Mode::Drain),
            required: self.book.open().any(|i| self.requires(i, Mode::Drain)),
            held: self.book.open().any(|i| i.behind),
            overridden: self.book.any_lifted(),
            undrain: self.policy.site.settings.scheduler.undrain,
            paused: self.paused(),
            keep: self.paused().or_else(|| {
                keep::why(
                    (self.state.drain.written, self.state.drain.unverified),
                    &self.state.lifts,
                    (self.state.origin, self.state.lifts_known),
                    (&self.quiet, self.pending(|check| self.policy.effective(check))),
                    self.policy.site.settings.scheduler.hold,
                    self.now,
                )
                .or_else(|| self.out.cannot_store())
            }),
            seed: self.seed,
            wait: self.log.unfinished(self.now.boottime).is_some(),
            blind: !self.log.is_known(),
            poll: self.policy.site.settings.scheduler.poll,
            watch: self.policy.site.settings.scheduler.watch,
            patience: self.policy.patience,
        }
    }

    /// The current verdict.
    fn verdict(&self) -> Verdict {
        let counts = |seen: &&Seen| self.policy.own_of(seen) == Mode::Drain && self.is_shown(seen);
        let cause = |i: &Incident| i.standing().any(|seen| counts(&seen));
        let doubt = || {
            let unread = self.sight.unknown(self.now.boottime);
            unread
                .or_else(|| self.sight.unjudged(self.now.boottime))
                .or_else(|| self.declared_well())
                .or_else(|| self.unconfirmed())
                .or_else(|| {
                    // Where no drain of ours stands, one bad reading is no doubt.
                    let stands = matches!(self.state.drain.state, DrainState::Drained | DrainState::Lifting);
                    let check = self.pending(|check| self.policy.own(check)).filter(|_| stands)?;
                    Some(format!("bad readings of {check} are not confirmed yet"))
                })
        };
        let (health, text) = if let Some(incident) = self.book.open().find(|i| cause(i)) {
            let cause = incident.standing().filter(counts);
            let line = show::line(incident, cause.min_by_key(|seen| seen.precedence()));
            let others = self.book.shown().filter(|i| i.id != incident.id);
            let text = match show::open(others, " more") {
                Some(others) => format!("{line}; and {others}"),
                None => line,
            };
            (Health::Unhealthy, text)
        } else {
            let open = show::open(self.book.shown(), "");
            match (doubt(), open) {
                (Some(why), Some(open)) => (Health::Unknown, format!("{why}; {open}")),
                (Some(why), None) => (Health::Unknown, why),
                (None, open) => (
                    Health::Healthy,
                    open.unwrap_or_else(|| "nothing is wrong".to_owned()),
                ),
            }
        };
        let blind = self.sight.blind(self.now.boottime).map(|blind| blind.collector);
        let at_ms = millis(self.now.boottime);
        let drained = self.state.drain.stands_for(self.now);
        Verdict {
            health,
            text,
            incidents: self.book.shown().count(),
            boot: self.boot.0.clone(),
            at_ms,
            valid_until_ms: at_ms.saturating_add(effects::VALID_MS),
            // One from before this boot has no time in it.
            drained_ms: drained.and_then(|time| at_ms.checked_sub(millis(time))),
            blind: blind.filter(|_| health == Health::Unknown),
        }
    }
}

pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
