//! A node, its site and its Slurm on which anything may happen, and what must be so after each input. A model of the readings,
//! which knows neither streaks nor incidents of the engine, says when a fault stands and when it is over.

use std::collections::BTreeMap;
use std::time::Duration;

use collectors::event::{EventBody, KernelLine, Recovery};
use collectors::gpu::metrics as m;
use collectors::mounts::metrics::{AVAILABLE, INFO, INODES, INODES_FREE, READ_ONLY, SIZE};
use collectors::{Block, Event, Subject, SubjectKind};
use model::commands::{CommandResult, CommandRun, CommandState};
use slurm::state::{Base, Flag};

use super::host::{Driven, Machine, Port};
use super::random::{Happens, Setting};
use super::sim::*;
use crate::checks::Scope;
use crate::incident::{Seen, Status};
use crate::settings::{Command, Settings};
use crate::verdict::Health;
use crate::{Input, Mode, Order, OrderVerb};
use rules::rule;

mod rules;

/// The time between two readings, in seconds.
const TICK: u64 = 15;
/// Evidence of the record counts unconfirmed after this time since the start, in seconds.
const CONFIRMED_AT_MOST: u64 = 600;
/// A reading is pending for this time, in seconds.
const PENDING: u64 = 120;

/// A part of the node whose state each reading shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    Port,
    Memory,
    Module,
    Command,
    Mount,
    Heat,
    Action,
    Bus,
}

pub(super) const PARTS: [Part; 8] = [
    Part::Port,
    Part::Memory,
    Part::Module,
    Part::Command,
    Part::Mount,
    Part::Heat,
    Part::Action,
    Part::Bus,
];

/// As documented in docs/checks.md: bad readings and their span, good readings and their span, in seconds.
struct Pace {
    check: &'static str,
    bad: (u32, u64),
    good: (u32, u64),
    /// Since boot, and since the start of nodewarden: bad readings before say nothing; and good ones too, if the last is set.
    grace: (u64, u64, bool),
}

impl Part {
    const fn pace(self) -> Pace {
        let (check, bad, good, grace) = match self {
            Self::Port => ("rdma-port-down", (8, 240), (3, 600), (600, 60, true)),
            Self::Memory => ("memory-missing", (4, 100), (3, 100), (600, 60, false)),
            Self::Module => ("module-missing", (4, 100), (3, 100), (600, 60, false)),
            Self::Command => ("site-disk", (2, 0), (2, 0), (0, 0, false)),
            Self::Mount => ("mount-read-only", (2, 10), (3, 60), (0, 0, false)),
            Self::Heat => ("gpu-temperature", (4, 60), (3, 60), (0, 0, false)),
            Self::Action => ("gpu-recovery-action", (2, 10), (3, 60), (0, 0, false)),
            Self::Bus => ("gpu-missing", (2, 10), (3, 60), (0, 0, false)),
        };
        Pace {
            check,
            bad,
            good,
            grace,
        }
    }

    fn of_check(check: &str) -> Option<Self> {
        PARTS.into_iter().find(|part| part.pace().check == check)
    }
}

/// The state of a part. `None`: unreadable.
pub(super) type State = Option<bool>;

/// What the readings of a part say.
#[derive(Clone, Copy, Debug, Default)]
struct Truth {
    /// Consecutive bad readings of this run of the daemon: their number, the first and the last (time since boot).
    bad: Option<(u32, u64, u64)>,
    good: Option<(u32, u64, u64)>,
    /// The readings made it a fault, and none ended it.
    stands: bool,
    /// The last readable reading of this run was bad, and when.
    last: Option<(bool, u64)>,
    /// A person lifted the drain or closed the incident meanwhile.
    excused: bool,
}

impl Truth {
    /// Takes a reading made at `at`, in seconds since boot.
    fn take(&mut self, state: State, at: u64, pace: &Pace) {
        let Some(is_well) = state else {
            (self.bad, self.good) = (None, None);
            return;
        };
        self.last = Some((!is_well, at));
        let (run, other) = if is_well {
            (&mut self.good, &mut self.bad)
        } else {
            (&mut self.bad, &mut self.good)
        };
        *other = None;
        let (count, first, last) = run.get_or_insert((0, at, 0));
        if *count > 0 && at <= *last {
            return;
        }
        (*count, *last) = (*count + 1, at);
        let (least, span) = if is_well { pace.good } else { pace.bad };
        if *count >= least && at - *first >= span {
            self.stands = !is_well;
            self.excused &= !is_well;
        }
    }

    /// The daemon starts again.
    fn restarted(&mut self) {
        (self.bad, self.good, self.last) = (None, None, None);
    }
}

/// What must not become less while the daemon runs, and what the model of Slurm and the audit trail had.
#[derive(Clone, Debug, Default)]
struct Before {
    starts: usize,
    counts: [u64; 6],
    drains: u32,
    undrains: u32,
    drained: bool,
    reason: Option<String>,
    audit: usize,
}

pub(super) struct World {
    sim: Sim,
    states: BTreeMap<Part, State>,
    truth: BTreeMap<Part, Truth>,
    /// The events of this boot: the watcher delivers those after the cursor again.
    events: Vec<Event>,
    started: u64,
    tick_at: u64,
    minute: u64,
    before: Before,
    /// Nothing was tried with an unknown end, no step was cut short, no record or state directory was lost.
    is_plain: bool,
    /// A state directory was lost.
    wiped: bool,
    /// A clock jumped.
    jumped: bool,
    /// A person ordered a lift.
    ordered: bool,
}

fn settings() -> Settings {
    let mut config = config(Mode::Drain);
    for check in [
        "rdma-port-down",
        "memory-missing",
        "module-missing",
        "mount-read-only",
        "gpu-temperature",
        "kernel-crash",
        "memory-exhausted",
    ] {
        config.checks.insert(check.to_owned(), Mode::Drain);
    }
    config.gpu_addresses = vec![pci(GPU2)];
    config.expect.memory = Some(1 << 40);
    config.expect.modules = vec!["nvidia_peermem".to_owned()];
    config.commands = vec![row(Mode::Drain)];
    config
}

fn row(mode: Mode) -> Command {
    Command {
        name: "disk".to_owned(),
        every: Duration::from_secs(60),
        mode,
        scope: Scope::Node,
        after: 2,
    }
}

impl World {
    pub(super) fn new() -> Self {
        let mut sim = Sim::with(settings(), None);
        sim.host.ports = (0..8).map(Port::new).collect();
        sim.host.commands = vec![CommandState::new(
            row(Mode::Drain).check(),
            row(Mode::Drain).max_age(),
        )];
        sim.slurm.gres = String::new();
        let mut world = Self {
            sim,
            states: PARTS.map(|part| (part, Some(true))).into(),
            truth: PARTS.map(|part| (part, Truth::default())).into(),
            events: Vec::new(),
            started: 100,
            tick_at: 0,
            minute: 0,
            before: Before::default(),
            is_plain: true,
            wiped: false,
            jumped: false,
            ordered: false,
        };
        world.before.starts = world.sim.starts.len();
        for part in PARTS {
            world.show(part);
        }
        world.pass(700);
        assert_eq!(world.sim.incidents(), [""; 0]);
        world
    }

    fn now(&self) -> u64 {
        self.sim.now.boottime.as_secs()
    }

    fn set(&mut self, part: Part, state: State) {
        self.states.insert(part, state);
        self.show(part);
    }

    /// Puts the state of a part into the next readings.
    fn show(&mut self, part: Part) {
        let state = self.states[&part];
        let host = &mut self.sim.host;
        match part {
            Part::Port => {
                let port = &mut host.ports[3];
                port.up();
                match state {
                    Some(true) => {}
                    Some(false) => port.down(),
                    None => (port.state, port.physical) = (None, None),
                }
            }
            Part::Memory | Part::Module => {
                let of = |part| self.states[&part];
                host.machine = Machine {
                    memory: of(Part::Memory).map(|well| if well { 1 << 40 } else { 1 << 39 }),
                    cpus: Some(8),
                    modules: of(Part::Module)
                        .map(|well| if well { "ib_core,nvidia_peermem" } else { "ib_core" }),
                    mounts: vec![("/", "xfs")],
                    whole: true,
                };
            }
            Part::Command => {}
            Part::Mount => {
                let mut list = Block::default();
                list.info(&INFO, &["/scratch", "xfs", "/dev/nvme1n1p1", "local"]);
                if let Some(well) = state {
                    list.u64(&READ_ONLY, &["/scratch"], u64::from(!well));
                }
                let mut probe = Block::default();
                for (metric, value) in [
                    (&SIZE, 1000),
                    (&AVAILABLE, 500),
                    (&INODES, 1000),
                    (&INODES_FREE, 500),
                ] {
                    probe.u64(metric, &["/scratch"], value);
                }
                let subject = Subject::new(SubjectKind::Mount, "/scratch");
                host.others = vec![
                    ("mounts", Subject::node(), Ok(list)),
                    ("mounts", subject, Ok(probe)),
                ];
            }
            Part::Heat | Part::Action => {
                let identity = vec!["nvidia", "H100", GPU, "0", "0", "", "", "", "580", "hopper"];
                let mut series = vec![(&m::UP, vec![], 1), (&m::INFO, identity, 1)];
                if let Some(well) = self.states[&Part::Action] {
                    series.push((&m::RECOVERY_ACTION, vec![], u64::from(!well)));
                }
                let margin = self.states[&Part::Heat].map(|well| if well { 20 } else { -5 });
                host.driven = vec![Driven {
                    label: "GPU-1".to_owned(),
                    series,
                    margin,
                    ..Driven::default()
                }];
            }
            Part::Bus => {
                host.gpus.retain(|gpu| gpu.0 != GPU2);
                match state {
                    Some(true) => host.gpus.push((GPU2.to_owned(), "nvidia", Some(true))),
                    Some(false) => {}
                    None => host.gpus.push((GPU2.to_owned(), "vfio-pci", None)),
                }
            }
        }
    }

    /// The reading of a part in the next snapshot, as the configuration counts it, and its time.
    fn reading(&self, part: Part) -> (State, u64) {
        let (now, state) = (self.now(), self.states[&part]);
        let config = &self.sim.config;
        let pace = part.pace();
        let (of_boot, of_start, also_good) = pace.grace;
        let is_early = now < of_boot || now - self.started < of_start;
        let counted = match state {
            Some(false) if is_early => None,
            Some(true) if is_early && also_good => None,
            state => state,
        };
        let state = match part {
            Part::Port if !config.rdma.exclude.is_empty() => Some(true),
            Part::Memory if config.expect.memory.is_none() => Some(true),
            Part::Module if config.expect.modules.is_empty() => Some(true),
            Part::Bus if config.gpu_addresses.is_empty() => Some(true),
            Part::Bus if !self.sim.host.readable => None,
            Part::Command => {
                if config.commands.is_empty() {
                    return (Some(true), now);
                }
                let run = self.sim.host.commands[0].current(self.sim.now.boottime);
                return run.map_or((None, now), |run| (run.result.is_healthy(), run.at.as_secs()));
            }
            _ => counted,
        };
        (state, now)
    }

    fn mode_of(&self, check: &str) -> Mode {
        self.sim.policy().effective(check)
    }

    /// Lets time pass.
    pub(super) fn pass(&mut self, seconds: u64) {
        let end = self.sim.now.boottime + Duration::from_secs(seconds);
        let boot = self.sim.boot;
        while self.sim.now.boottime < end && boot == self.sim.boot {
            let tick = Duration::from_secs(self.tick_at.max(self.now()));
            let deadline = self.sim.engine.next_deadline().unwrap_or(end);
            assert!(deadline > self.sim.now.boottime, "a deadline that is always due");
            let next = deadline.min(tick).min(end).max(self.sim.now.boottime);
            self.sim.sleep_until(next);
            if next >= tick {
                self.tick_at = tick.as_secs() + TICK;
                self.snapshot();
            } else {
                self.sim.tick();
            }
            self.check();
        }
    }

    fn snapshot(&mut self) {
        let now = self.now();
        if now >= self.minute {
            self.minute = now + 60;
            let result = match self.states[&Part::Command] {
                Some(true) => CommandResult::Healthy,
                Some(false) => CommandResult::Unhealthy,
                None => CommandResult::TimedOut,
            };
            self.sim.host.commands[0].ended(CommandRun {
                at: self.sim.now.boottime,
                took: Duration::from_millis(300),
                result,
                why: "exit code 1".to_owned(),
                line: "disk /scratch".to_owned(),
            });
        }
        for part in PARTS {
            let (state, at) = self.reading(part);
            let truth = self.truth.get_mut(&part).unwrap();
            truth.take(state, at, &part.pace());
        }
        self.sim.snapshot();
    }

    fn event(&mut self, body: EventBody) {
        let event = self.sim.event_of(body);
        self.events.push(event.clone());
        self.sim.input(Input::Event("kernel_log", &event));
    }

    /// The watcher of a new daemon delivers what is after the cursor.
    fn deliver_again(&mut self) {
        for event in self.events.clone() {
            self.sim.input(Input::Event("kernel_log", &event));
        }
    }

    fn after_start(&mut self) {
        self.started = self.now();
        for truth in self.truth.values_mut() {
            truth.restarted();
        }
        self.before.starts = self.sim.starts.len();
        self.before.counts = [0; 6];
        self.deliver_again();
    }

    pub(super) fn apply(&mut self, happens: &Happens) {
        use Happens as H;
        self.ordered = false;
        match happens.clone() {
            H::Pass(seconds) => self.pass(seconds),
            H::Set(part, state) => self.set(part, state),
            H::Xid(code) => self.event(EventBody::Xid(xid_of(code))),
            H::Verdict(none) => {
                let mut xid = xid_of(154);
                xid.recovery = Some(if none { Recovery::None } else { Recovery::GpuReset });
                self.event(EventBody::Xid(xid));
            }
            H::Line(id) => {
                let subject = match id {
                    "disk-io" => Subject::new(SubjectKind::Disk, "sda"),
                    _ => Subject::node(),
                };
                let row = id.to_owned();
                self.event(EventBody::Kernel(KernelLine { row, subject }));
            }
            H::Edac(count) => self.sim.host.edac = Some(count),
            H::KernelLog(on) => self.sim.host.kernel_log = on,
            H::Listing(on) => self.sim.host.readable = on,
            H::Clock(seconds) => {
                self.sim.now.wall += seconds;
                self.jumped = true;
            }
            H::Restart => {
                self.check_record();
                self.sim.restart();
            }
            H::RestartUnread => {
                self.sim.restart_unread();
                self.check();
                self.sim.log_is_read();
            }
            H::Reboot => self.reboot(),
            H::Wipe => {
                self.is_plain = false;
                self.wiped = true;
                // Lines before a first start are history.
                self.events.clear();
                for truth in self.truth.values_mut() {
                    *truth = Truth::default();
                    truth.excused = true;
                }
                self.sim.wipe();
            }
            H::DieBefore(effects) => {
                self.is_plain = false;
                self.sim.die_before = Some(self.sim.effects + effects);
            }
            H::Disk(on) => {
                self.is_plain = false;
                self.sim.disk_works = on;
            }
            H::Setting(setting) => self.configure(setting),
            H::PersonDrains => {
                if !self.sim.slurm.is_drained() {
                    self.sim.slurm.admin_drains("RMA 1234");
                }
            }
            H::PersonLifts => {
                self.excuse();
                self.sim.slurm.admin_resumes();
            }
            H::PersonTakes => self.sim.slurm.admin_drains("keep out"),
            H::SlurmReplaces => {
                if self.sim.slurm.is_drained() {
                    self.sim.slurm.reason =
                        Some("gres/gpu count reported lower than configured (1 < 2)".to_owned());
                    self.sim.slurm.user = "slurm".to_owned();
                }
            }
            H::Flag(flag, true) => {
                self.sim.slurm.flags.insert(flag);
            }
            H::Flag(flag, false) => {
                self.sim.slurm.flags.remove(&flag);
            }
            H::Base(base) => self.sim.slurm.base = base,
            H::Here(on) => self.sim.slurm.here = on,
            H::Readable(on) => self.sim.slurm.readable = on,
            H::Proven(on) => self.sim.slurm.proven = on,
            H::Trouble(trouble) => {
                self.is_plain = false;
                self.sim.slurm.trouble.push_back(trouble);
            }
            H::CatchUp => {
                let (drains, undrains) = (self.sim.slurm.drains, self.sim.slurm.undrains);
                self.sim.slurm.catch_up();
                self.before.drains += self.sim.slurm.drains - drains;
                self.before.undrains += self.sim.slurm.undrains - undrains;
                self.before.drained = self.sim.slurm.is_drained();
            }
            H::Lost => {
                self.is_plain = false;
                self.excuse();
                self.sim.slurm.controller_started = Some(self.sim.slurm.reason_at);
                self.sim.slurm.admin_resumes();
            }
            H::Held(by) => self.sim.slurm.held = by,
            H::Clear(n) => {
                let incidents = self.sim.engine.view().incidents;
                if let Some(id) = incidents.get(n).map(|i| i.id.clone()) {
                    self.excuse();
                    self.ordered = true;
                    self.sim.try_order(OrderVerb::Clear, &id);
                }
            }
            H::Ack => {
                if let Some(id) = self.sim.engine.view().incidents.first().map(|i| i.id.clone()) {
                    self.sim.try_order(OrderVerb::Ack, &id);
                }
            }
            H::Pause(seconds) => self.order(OrderVerb::Pause { seconds }),
            H::Resume => self.order(OrderVerb::Resume),
        }
        if self.sim.starts.len() != self.before.starts {
            self.after_start();
        }
        self.check();
    }

    fn order(&mut self, verb: OrderVerb) {
        self.sim.input(Input::Operator(Order {
            verb,
            reason: "work".to_owned(),
            by: "bob".to_owned(),
            uid: 1000,
        }));
    }

    fn reboot(&mut self) {
        self.events.clear();
        self.sim.reboot_unread();
        self.tick_at = self.now();
        self.minute = self.now();
        let run = CommandState::new(row(Mode::Drain).check(), row(Mode::Drain).max_age());
        self.sim.host.commands = vec![run];
        self.after_start();
        self.sim.log_is_read();
    }

    fn excuse(&mut self) {
        for truth in self.truth.values_mut() {
            truth.excused = true;
        }
    }

    fn configure(&mut self, setting: Setting) {
        use Setting as S;
        let config = &mut self.sim.config;
        match setting {
            S::Mode(mode) => config.mode = mode,
            S::Check(Part::Command, mode) => config.commands = vec![row(mode)],
            S::Check(part, mode) => {
                config.checks.insert(part.pace().check.to_owned(), mode);
            }
            S::Row(on) => config.commands = on.then(|| row(Mode::Drain)).into_iter().collect(),
            S::Memory(on) => config.expect.memory = on.then_some(1 << 40),
            S::Module(on) => {
                config.expect.modules = on.then(|| "nvidia_peermem".to_owned()).into_iter().collect();
            }
            S::Address(on) => config.gpu_addresses = on.then(|| pci(GPU2)).into_iter().collect(),
            S::Excluded(on) => {
                let pattern = || "mlx5_3".to_owned().try_into().unwrap();
                config.rdma.exclude = on.then(pattern).into_iter().collect();
            }
            S::Undrain(on) => config.scheduler.undrain = on,
            S::Hold(seconds) => config.scheduler.hold = Duration::from_secs(seconds),
            S::Maintenance(maintenance) => config.maintenance = maintenance,
            S::Settle(seconds) => config.settle = Duration::from_secs(seconds),
            S::Same => {}
        }
        self.sim.reload();
    }

    /// What people see. How findings of one subject are grouped depends on which comes first.
    pub(super) fn summary(&self) -> Vec<String> {
        let (view, slurm) = (self.sim.engine.view(), &self.sim.slurm);
        let mut lines = vec![
            format!("drained {}, {}", slurm.is_drained(), view.drain.state),
            format!("{:?}, comment {}", view.verdict.health, slurm.comment.is_some()),
        ];
        for incident in &self.sim.engine.book.incidents {
            let left = incident.findings.iter().filter(|seen| seen.resolved.is_none());
            // What only followed is not stored before its cause comes.
            let left = left.filter(|seen| seen.drains || seen.key.is_some());
            lines.extend(
                left.map(|seen| format!("{} {} {:?}", incident.subject, seen.detail, incident.status)),
            );
        }
        lines.sort_unstable();
        lines
    }

    /// Everything is well, readable and permitted again.
    fn calm(&mut self) {
        self.sim.die_before = None;
        self.sim.disk_works = true;
        for part in PARTS {
            self.set(part, Some(true));
        }
        self.sim.host.kernel_log = true;
        self.sim.host.readable = true;
        let slurm = &mut self.sim.slurm;
        slurm.trouble.clear();
        slurm.flags.retain(|flag| *flag == Flag::Drain);
        slurm.base = Base::Idle;
        (slurm.here, slurm.readable, slurm.proven) = (true, true, true);
        slurm.held = None;
        self.apply(&Happens::CatchUp);
        self.order(OrderVerb::Resume);
        let hold = self.sim.config.scheduler.hold;
        self.sim.config = settings();
        self.sim.config.scheduler.hold = hold;
        self.sim.reload();
        self.sim.log_is_read();
        self.check();
    }

    /// Lets a calm node rest, and checks that nothing is left but what only a reboot or a person ends.
    fn rest(&mut self) {
        self.calm();
        self.pass(1500);
        self.assert_ended(|seen| seen.key.as_ref().is_some_and(|key| Self::is_of_part(key)));
    }

    fn is_of_part(key: &str) -> bool {
        key == GPU2
            || PARTS.iter().any(|part| key.starts_with(part.pace().check))
            || key == "custom-check disk"
    }

    fn assert_ended(&self, which: impl Fn(&Seen) -> bool) {
        for incident in self
            .sim
            .engine
            .book
            .incidents
            .iter()
            .filter(|i| i.status != Status::Cleared)
        {
            for seen in incident.findings.iter().filter(|seen| seen.resolved.is_none()) {
                rule!("never-ends", !which(seen), "{seen:?} of {incident:?}");
            }
        }
    }

    /// The same after a reboot and hours of silence; a person then clears what is left, and lifts drains that are theirs.
    fn repair(&mut self) {
        self.rest();
        self.sim.host.edac = Some(0);
        self.reboot();
        self.check();
        self.pass(1500);
        self.assert_ended(|seen| seen.has_visible_end() && seen.needs.is_empty());
        for _ in 0..4 {
            let view = self.sim.engine.view();
            let open: Vec<String> = view
                .incidents
                .iter()
                .filter(|i| i.closed.is_none())
                .map(|i| i.id.clone())
                .collect();
            for id in open {
                self.excuse();
                self.sim.try_order(OrderVerb::Clear, &id);
            }
            self.pass(700);
            let drain = self.sim.engine.view().drain;
            if let Some(id) = drain.incident.filter(|_| drain.why.contains("an operator lifts")) {
                self.excuse();
                self.sim.by_root = true;
                self.sim.try_order(OrderVerb::Clear, &id);
                self.sim.by_root = false;
            }
            self.pass(60);
            let drain = self.sim.engine.view().drain.state;
            if drain == "none" && self.sim.engine.book.shown().next().is_none() {
                break;
            }
        }
        let view = self.sim.engine.view();
        let reason = self.sim.slurm.reason.clone().unwrap_or_default();
        let is_ours = self.sim.slurm.is_drained() && reason.starts_with("nodewarden:");
        let drain = &view.drain;
        let is_unproven = drain.state == "drained" && !drain.recorded;
        rule!(
            "never-lifted",
            !is_ours || is_unproven,
            "{reason} {drain:?} {:?}",
            view.incidents
        );
        let is_over = is_unproven || ["none", "overridden"].contains(&drain.state.as_str());
        rule!("left-over", is_over || self.sim.slurm.is_drained(), "{drain:?}");
        let comment = self.sim.slurm.comment.clone().unwrap_or_default();
        rule!(
            "comment-left",
            self.wiped || !comment.starts_with("nodewarden:"),
            "{comment}"
        );
        rule!(
            "unhealthy-left",
            view.verdict.health != Health::Unhealthy,
            "{:?}",
            view.verdict
        );
    }

    /// A fault that lasts drains the node.
    pub(super) fn breaks(&mut self, part: Part) {
        self.repair();
        if self.sim.slurm.is_drained() {
            self.sim.slurm.admin_resumes();
            self.pass(900);
        }
        self.set(part, Some(false));
        let pace = part.pace();
        self.pass(pace.bad.1 + 180);
        let view = self.sim.engine.view();
        rule!(
            "never-drains",
            self.sim.slurm.is_drained(),
            "{part:?} {:?} {:?}",
            view.drain,
            view.incidents
        );
        let reason = self.sim.slurm.reason.clone().unwrap_or_default();
        rule!(
            "drains-for",
            reason.starts_with(&format!("nodewarden:{}", pace.check)),
            "{part:?}: {reason}"
        );
    }
}
