//! A minimal node, disk and slurmctld around the engine.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use collectors::event::{Recovery, Xid};
use collectors::{BootId, Event, EventBody, PciAddress};

use crate::audit::{Entry, Kind};
use crate::engine::Engine;
use crate::policy::Policy;
use crate::record::{open, seal};
use crate::settings::Settings;
use crate::{Effect, Input, Mode, Now, Order, OrderVerb};
use model::scheduler::{Action, ActionId, IncidentId, Outcome};
use model::snapshot::Presence;

use super::host::{Host, Machine, snapshot};
use super::slurm::Slurm;
pub(super) use super::slurm::Trouble;

pub(super) const GPU: &str = "0000:3b:00.0";
pub(super) const GPU2: &str = "0000:5e:00.0";

pub(super) fn pci(text: &str) -> PciAddress {
    PciAddress::parse(text).unwrap()
}

pub(super) fn config(mode: Mode) -> Settings {
    Settings {
        mode,
        ..Settings::default()
    }
}

pub(super) fn xid_of(code: u32) -> Xid {
    Xid {
        pci: pci(GPU),
        code,
        ..Xid::default()
    }
}

pub(super) struct Sim {
    pub(super) engine: Engine,
    pub(super) config: Settings,
    pub(super) overlay: Option<String>,
    pub(super) slurm: Slurm,
    pub(super) host: Host,
    pub(super) boot: u32,
    pub(super) now: Now,
    pub(super) seq: u64,
    /// The last record that reached the disk.
    pub(super) disk: Option<Arc<str>>,
    pub(super) disk_works: bool,
    pub(super) answers: Vec<Result<String, String>>,
    /// The audit trail.
    pub(super) audit: Vec<Entry>,
    /// Its length at each start of the daemon.
    pub(super) starts: Vec<usize>,
    /// Every id, with the order of its first appearance.
    pub(super) ids: BTreeMap<String, (i64, String)>,
    twice: Vec<String>,
    /// Stop before the effect with this number.
    pub(super) die_before: Option<usize>,
    pub(super) effects: usize,
    pub(super) looks: u32,
    /// Requested stores.
    pub(super) stores: u32,
    /// Requested acts.
    pub(super) acts: u32,
    /// The log of this boot was read to its end in this run.
    log_told: bool,
    /// The last snapshot reported it as unreadable.
    log_blind: bool,
    /// An operator has cleared an incident since the last drain.
    ordered: bool,
    /// Operators are root.
    pub(super) by_root: bool,
    /// The time from an act to its answer.
    pub(super) answer_after: Duration,
    /// The mode that is put in force during the next act.
    pub(super) mode_in_flight: Option<Mode>,
    /// An operator clears the first incident during the next act.
    pub(super) clear_in_flight: bool,
}

impl Sim {
    pub(super) fn new(mode: Mode) -> Self {
        Self::with(config(mode), None)
    }

    pub(super) fn with(config: Settings, overlay: Option<&str>) -> Self {
        let now = Now {
            boottime: Duration::from_secs(100),
            wall: 1_700_000_000,
        };
        let policy = Policy::new(&config, overlay).unwrap();
        let engine = Engine::new(policy, BootId("boot-0".to_owned()), None, now).unwrap();
        let mut sim = Self {
            engine,
            config,
            overlay: overlay.map(str::to_owned),
            slurm: Slurm::new(),
            host: Host {
                gpus: vec![
                    (GPU.to_owned(), "nvidia", Some(true)),
                    (GPU2.to_owned(), "nvidia", Some(true)),
                ],
                readable: true,
                listed: true,
                edac: Some(0),
                kernel_log: true,
                ports: Vec::new(),
                links: Vec::new(),
                networks: Vec::new(),
                driven: Vec::new(),
                driver: Presence::Open,
                slurm: Presence::Open,
                ethernet: Presence::Open,
                off: None,
                stuck: None,
                stopped: None,
                jobs: Vec::new(),
                tasks: Vec::new(),
                others: Vec::new(),
                others_at: None,
                machine: Machine::default(),
                lustre: Vec::new(),
                commands: Vec::new(),
            },
            boot: 0,
            now,
            seq: 0,
            disk: None,
            disk_works: true,
            answers: Vec::new(),
            audit: Vec::new(),
            starts: Vec::new(),
            ids: BTreeMap::new(),
            twice: Vec::new(),
            die_before: None,
            effects: 0,
            looks: 0,
            stores: 0,
            acts: 0,
            log_told: false,
            log_blind: false,
            ordered: false,
            by_root: false,
            answer_after: Duration::ZERO,
            mode_in_flight: None,
            clear_in_flight: false,
        };
        sim.tick();
        sim.log_is_read();
        sim
    }

    /// In mode drain, with this GPU in the configuration.
    pub(super) fn expecting(address: &str) -> Self {
        let mut config = config(Mode::Drain);
        config.gpu_addresses = vec![pci(address)];
        Self::with(config, None)
    }

    /// In mode drain, with the default of `slurm.hold`.
    pub(super) fn holding() -> Self {
        let mut config = config(Mode::Drain);
        config.scheduler.hold = Duration::from_secs(600);
        Self::with(config, None)
    }

    /// The reason of the drain in place.
    pub(super) fn reason(&self) -> String {
        assert!(self.slurm.is_drained());
        self.slurm.reason.clone().unwrap()
    }

    pub(super) fn policy(&self) -> Policy {
        Policy::new(&self.config, self.overlay.as_deref()).unwrap()
    }

    pub(super) fn boot_id(&self) -> BootId {
        BootId(format!("boot-{}", self.boot))
    }

    pub(super) fn input(&mut self, input: Input<'_>) {
        let effects = self.engine.step(self.now, input);
        self.run(effects);
    }

    pub(super) fn reload(&mut self) {
        let effects = self.engine.set_policy(self.now, self.policy());
        self.run(effects);
    }

    /// The last event of a collector whose consequences reached the disk.
    pub(super) fn stored_event(&self, collector: &str) -> Option<u64> {
        record_of(self.disk.as_ref()?)["cursors"][collector]["seq"].as_u64()
    }

    /// Executes effects, and their consequences.
    pub(super) fn run(&mut self, effects: Vec<Effect>) {
        check_order(&effects);
        let mut queue: VecDeque<Effect> = effects.into();
        while let Some(effect) = queue.pop_front() {
            self.effects += 1;
            if self.die_before == Some(self.effects) {
                self.die_before = None;
                self.restart();
                return;
            }
            let more = match effect {
                Effect::Store(record) => {
                    self.stores += 1;
                    if self.disk_works {
                        self.disk = Some(Arc::clone(&record.json));
                    }
                    self.engine
                        .step(self.now, Input::Stored(record.number, self.disk_works))
                }
                Effect::Look(_) => {
                    self.looks += 1;
                    let seen = self.slurm.look();
                    self.engine.step(self.now, Input::Scheduler(seen.as_ref()))
                }
                Effect::Act(id, action) => {
                    self.acts += 1;
                    assert!(self.may_act(&action), "{action:?} in {:?}", self.config.mode);
                    if let Action::Undrain { incident, .. } = &action {
                        if !(self.by_root && self.ordered) {
                            self.assert_proven(incident);
                        }
                        assert!(
                            (self.log_told && !self.log_blind) || self.ordered,
                            "lifted without the kernel's log"
                        );
                    }
                    if let Action::Drain { .. } = &action {
                        self.ordered = false;
                    }
                    let outcome = self.slurm.act(&action);
                    self.sleep_until(self.now.boottime + self.answer_after);
                    let mut effects = Vec::new();
                    if let Some(mode) = self.mode_in_flight.take() {
                        self.config.mode = mode;
                        effects = self.engine.set_policy(self.now, self.policy());
                    }
                    if std::mem::take(&mut self.clear_in_flight) {
                        let named = self.engine.view().incidents[0].id.clone();
                        let order = self.order_of(OrderVerb::Clear(IncidentId(named)));
                        effects.extend(self.engine.step(self.now, Input::Operator(order)));
                    }
                    effects.extend(self.done(id, &outcome));
                    effects
                }
                Effect::Answer(answer) => {
                    self.answers.push(answer);
                    Vec::new()
                }
                Effect::Audit(entry) => {
                    self.audit.push(*entry);
                    Vec::new()
                }
                Effect::Publish(verdict) => {
                    assert!(verdict.valid_until_ms > verdict.at_ms);
                    Vec::new()
                }
            };
            check_order(&more);
            queue.extend(more);
        }
        for incident in self.engine.view().incidents {
            assert!(IncidentId::parse(&incident.id).is_some());
            let what = (incident.since, incident.subject);
            let known = self
                .ids
                .entry(incident.id.clone())
                .or_insert_with(|| what.clone());
            if *known != what {
                self.twice.push(incident.id);
            }
        }
    }

    /// Ids under which two different incidents were shown.
    pub(super) fn ids_given_twice(&self) -> &[String] {
        &self.twice
    }

    fn done(&mut self, id: ActionId, outcome: &Outcome) -> Vec<Effect> {
        self.engine.step(self.now, Input::Done(id, outcome))
    }

    fn may_act(&self, action: &Action) -> bool {
        match action {
            Action::Drain { .. } => self.config.mode == Mode::Drain,
            Action::Comment { .. } => self.config.mode >= Mode::Comment,
            Action::Undrain { .. } | Action::Mirror { .. } | Action::Uncomment { .. } => true,
        }
    }

    /// An undrain is requested only if the disk holds the drain of that incident.
    fn assert_proven(&self, incident: &IncidentId) {
        let disk = self.record();
        assert_eq!(disk["drain"]["incident"], incident.0.as_str());
        assert_eq!(disk["drain"]["unrecorded"], false);
    }

    /// The record on the disk, without its envelope.
    pub(super) fn record(&self) -> serde_json::Value {
        let text = self.disk.as_deref().map(|text| open(text).unwrap());
        serde_json::from_str(text.unwrap_or("null")).unwrap()
    }

    /// Another record is on the disk.
    pub(super) fn set_record(&mut self, record: &serde_json::Value) {
        self.disk = Some(seal(&record.to_string()).into());
    }

    /// The daemon stops and restarts from the disk.
    pub(super) fn restart(&mut self) {
        self.restart_unread();
        self.log_is_read();
    }

    /// The same, before the watcher has delivered anything.
    pub(super) fn restart_unread(&mut self) {
        (self.log_told, self.log_blind) = (false, false);
        self.starts.push(self.audit.len());
        // The incident of a drain that the record does not have may go on, with another start.
        let named = self.engine.view().drain.incident.unwrap_or_default();
        if !self.disk.as_ref().is_some_and(|disk| disk.contains(&named)) {
            self.ids.remove(&named);
        }
        self.engine = self.engine_of_disk();
        self.tick();
    }

    pub(super) fn engine_of_disk(&self) -> Engine {
        Engine::new(self.policy(), self.boot_id(), self.disk.as_deref(), self.now).unwrap()
    }

    /// The node reboots. Time since boot restarts.
    pub(super) fn reboot(&mut self) {
        self.reboot_unread();
        self.log_is_read();
    }

    pub(super) fn reboot_unread(&mut self) {
        self.boot += 1;
        self.seq = 0;
        self.now.boottime = Duration::from_secs(30);
        self.now.wall += 300;
        self.restart_unread();
    }

    /// The watcher has read the log to its end.
    pub(super) fn log_is_read(&mut self) {
        if self.host.kernel_log {
            self.log_told = true;
            let end = self.end_of_log();
            self.input(Input::Event("kernel_log", &end));
        }
    }

    /// The watcher's event at the end of an empty log.
    pub(super) fn end_of_log(&mut self) -> Event {
        let mut end = self.event_of(EventBody::Progress);
        self.seq -= 1;
        (end.seq, end.count) = (self.seq, 0);
        end
    }

    pub(super) fn wipe(&mut self) {
        self.disk = None;
        self.now.wall += 1;
        // Its incident may be made again of the copy, with another start.
        let reason = self.slurm.reason.clone().unwrap_or_default();
        self.ids.retain(|id, _| !reason.contains(id));
        self.restart();
    }

    pub(super) fn tick(&mut self) {
        self.input(Input::Tick);
    }

    /// Lets time pass, with a snapshot every 15 s and a tick at every deadline.
    pub(super) fn pass(&mut self, seconds: u64) {
        let end = self.now.boottime + Duration::from_secs(seconds);
        let mut snapshot = self.now.boottime + Duration::from_secs(15);
        while self.now.boottime < end {
            let deadline = self.engine.next_deadline().unwrap_or(end);
            assert!(deadline > self.now.boottime, "a deadline that is always due");
            let next = deadline.min(snapshot).min(end).max(self.now.boottime);
            self.sleep_until(next);
            if next >= snapshot {
                snapshot += Duration::from_secs(15);
                self.snapshot();
            } else {
                self.tick();
            }
        }
    }

    pub(super) fn sleep_until(&mut self, next: Duration) {
        let gone = next.as_secs().saturating_sub(self.now.boottime.as_secs());
        self.now.boottime = next;
        self.now.wall += i64::try_from(gone).unwrap();
    }

    pub(super) fn event_of(&mut self, body: EventBody) -> Event {
        self.seq += 1;
        Event {
            boot: self.boot_id(),
            seq: self.seq,
            at_us: u64::try_from(self.now.boottime.as_micros()).unwrap(),
            history: false,
            count: 1,
            text: format!("line {}", self.seq),
            body,
        }
    }

    pub(super) fn event(&mut self, body: EventBody) {
        let event = self.event_of(body);
        self.input(Input::Event("kernel_log", &event));
    }

    /// One whose log's clock is this many seconds behind.
    pub(super) fn event_behind(&mut self, seconds: u64, body: EventBody) {
        let mut event = self.event_of(body);
        event.at_us = event.at_us.saturating_sub(seconds * 1_000_000);
        self.input(Input::Event("kernel_log", &event));
    }

    pub(super) fn history(&mut self, body: EventBody) {
        let mut event = self.event_of(body);
        event.history = true;
        self.input(Input::Event("kernel_log", &event));
    }

    pub(super) fn xid(&mut self, code: u32) {
        self.event(EventBody::Xid(xid_of(code)));
    }

    pub(super) fn verdict_154(&mut self, recovery: Recovery) {
        let mut xid = xid_of(154);
        xid.recovery = Some(recovery);
        self.event(EventBody::Xid(xid));
    }

    pub(super) fn snapshot(&mut self) {
        self.log_blind = !self.host.kernel_log;
        let snapshot = snapshot(&self.host, self.now.boottime);
        self.input(Input::Snapshot(&snapshot));
    }

    pub(super) fn order(&mut self, verb: fn(IncidentId) -> OrderVerb, id: &str) -> Result<String, String> {
        self.try_order(verb, id);
        self.answers.pop().unwrap()
    }

    pub(super) fn try_order(&mut self, verb: fn(IncidentId) -> OrderVerb, id: &str) {
        self.try_verb(verb(IncidentId(id.to_owned())));
    }

    /// An order that is about no incident.
    pub(super) fn order_all(&mut self, verb: OrderVerb) -> Result<String, String> {
        self.try_verb(verb);
        self.answers.pop().unwrap()
    }

    fn try_verb(&mut self, verb: OrderVerb) {
        let order = self.order_of(verb);
        self.input(Input::Operator(order));
    }

    fn order_of(&mut self, verb: OrderVerb) -> Order {
        self.ordered |= matches!(verb, OrderVerb::Clear(_));
        Order {
            verb,
            reason: "replaced".to_owned(),
            by: "bob".to_owned(),
            uid: if self.by_root { 0 } else { 1000 },
        }
    }

    /// Repaired, but by no test: the drain stays until an operator's `clear`.
    pub(super) fn clear_repaired(&mut self) {
        let drain = self.engine.view().drain;
        assert!(drain.why.contains("no test has verified it"), "{drain:?}");
        assert!(self.slurm.is_drained());
        self.order(OrderVerb::Clear, &drain.incident.unwrap()).unwrap();
        self.pass(1);
    }

    /// An operator lifts the drain, and lifts it again when it comes back.
    pub(super) fn admin_insists(&mut self) {
        for _ in 0..2 {
            self.slurm.admin_resumes();
            self.pass(60);
        }
    }

    pub(super) fn drain_state(&self) -> String {
        self.engine.view().drain.state
    }

    /// `kind act` of every entry of the audit trail.
    pub(super) fn trail(&self) -> Vec<String> {
        let word = |entry: &Entry| match entry.act {
            Some(act) => format!("{:?} {act:?}", entry.kind),
            None => format!("{:?}", entry.kind),
        };
        self.audit.iter().map(word).collect()
    }

    /// `detail state` of every incident.
    pub(super) fn incidents(&self) -> Vec<String> {
        let view = self.engine.view();
        view.incidents
            .iter()
            .map(|i| format!("{} {}", i.detail, i.state))
            .collect()
    }

    /// Whether such a finding exists, and whether it has ended.
    pub(super) fn says(&self, detail: &str, ended: bool) -> bool {
        let mut all = self.engine.book.incidents.iter().flat_map(|i| &i.findings);
        all.any(|seen| seen.detail == detail && seen.resolved.is_some() == ended)
    }

    pub(super) fn set_gpu(&mut self, address: &str, driver: &'static str, responding: Option<bool>) {
        self.remove_gpu(address);
        self.host.gpus.push((address.to_owned(), driver, responding));
    }

    pub(super) fn remove_gpu(&mut self, address: &str) {
        self.host.gpus.retain(|g| g.0 != address);
    }
}

/// What a record holds.
pub(super) fn record_of(json: &str) -> serde_json::Value {
    serde_json::from_str(open(json).unwrap()).unwrap()
}

/// A drain or an undrain comes after a store in the same effects, and after the audit entry of the intent, if it is new.
fn check_order(effects: &[Effect]) {
    let (mut stored, mut acted) = (false, false);
    for effect in effects {
        match effect {
            Effect::Store(record) => {
                stored = true;
                assert!(record_of(&record.json)["cursors"].is_object());
            }
            Effect::Act(_, Action::Drain { .. } | Action::Undrain { .. }) => {
                assert!(stored, "{effects:?}");
                acted = true;
            }
            Effect::Audit(entry) if entry.kind == Kind::Wanted => {
                assert!(stored && !acted, "{effects:?}");
            }
            _ => {}
        }
    }
}
