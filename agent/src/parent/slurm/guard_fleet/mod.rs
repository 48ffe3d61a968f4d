//! The limit on drains over many nodes: the code of production against a model of the controller. The test chooses the
//! order of all commands, and which of them are lost, late, or the last of their agent.

mod agent;
mod controller;

use std::time::Duration;

use model::scheduler::{Action, IncidentId, Outcome, Reason};
use proptest::prelude::*;
use slurm::Settings;
use slurm::guard;
use slurm::guard::limits::Standing;
use sys::spawn::{CommandOutput, SpawnError};

pub(in super::super) use agent::Line;
use agent::{Agent, Said};
use controller::{Controller, Refusal, Write};

const HOST: &str = "host1";
const BOOT: i64 = 1_795_225_274;
const WINDOW: i64 = 600;
/// The time-out of a command, in seconds.
const TIMEOUT: i64 = 5;

/// No command takes effect later than this (seconds): a slot that ends within 60 s is not given back. A slurmctld that is
/// stopped for longer does not end slots either.
const LATEST: i64 = 60 - 2 * TIMEOUT;

/// What becomes of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Answered,
    /// It is done, and the answer is lost.
    Mute,
    /// The answer is lost, and it is done later.
    Late,
    /// It is never done, and there is no answer.
    Lost,
    /// The agent crashes, and the command is never done.
    CrashBefore,
    /// It is done, and the agent crashes before the answer.
    CrashAfter,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// The node begins to drain, or its command meets its fate. `true`: an answer that is lost is a text of scontrol, not
    /// a time-out.
    Go(usize, Fate, bool),
    /// The node's drain is lifted, if no act is under way.
    Lift(usize),
    /// A late command is done.
    Late(usize),
    /// This many seconds pass.
    Pass(i64),
    Save,
    /// The controller crashes, and starts again as it was saved.
    Crash,
}

struct Node {
    name: String,
    cause: usize,
    agent: Agent,
    /// The command that waits, and for how long (seconds).
    asks: Option<(Vec<String>, i64)>,
    is_lifting: bool,
    /// The slot that it asked for last.
    slot: Option<String>,
    /// The controller crashed during the act, or during that of a node that gave a slot of this name back: it may be lost.
    may_lack_slot: bool,
}

/// A command that takes effect later.
struct Late {
    node: usize,
    write: Write,
    /// Seconds since it was sent.
    age: i64,
    may_lack_slot: bool,
}

struct Fleet {
    controller: Controller,
    nodes: Vec<Node>,
    late: Vec<Late>,
    /// Drains that were written without their slot after a crash of the controller, at most one for each act of that time.
    without_slot: usize,
    has_crashed: bool,
}

fn limits(drains: u64, per_code: u64, standing: u64) -> guard::Settings {
    guard::Settings {
        on: true,
        drains,
        percent: 100,
        per_code,
        standing: Standing::Nodes(standing),
        window: Duration::from_secs(WINDOW.unsigned_abs()),
        stop_files: Vec::new(),
    }
}

impl Fleet {
    fn new(causes: &[usize], guard: &guard::Settings) -> Self {
        let node = |(at, cause): (usize, &usize)| {
            let name = format!("n{at}");
            let settings = Settings {
                node_name: Some(name.clone()),
                scontrol: Some("/model/scontrol".into()),
                conf: None,
                timeout: Duration::from_secs(TIMEOUT.unsigned_abs()),
                mirror: false,
                guard: guard.clone(),
            };
            Node {
                name,
                cause: *cause,
                agent: Agent::start(settings),
                asks: None,
                is_lifting: false,
                slot: None,
                may_lack_slot: false,
            }
        };
        Self {
            controller: Controller::default(),
            nodes: causes.iter().enumerate().map(node).collect(),
            late: Vec::new(),
            without_slot: 0,
            has_crashed: false,
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Go(at, fate, is_text) => self.go(at % self.nodes.len(), fate, is_text),
            Step::Lift(at) => self.lift(at % self.nodes.len()),
            Step::Late(at) => {
                if let Some(at) = at.checked_rem(self.late.len()) {
                    let late = self.late.remove(at);
                    self.apply(late.write, late.may_lack_slot).ok();
                }
            }
            Step::Pass(seconds) => self.pass(seconds),
            Step::Save => self.controller.save(),
            Step::Crash => {
                self.has_crashed = true;
                self.controller.crash();
                self.late.clear();
                for node in &mut self.nodes {
                    node.may_lack_slot |= node.asks.is_some();
                }
            }
        }
    }

    fn begin(&mut self, at: usize, action: Action) {
        let node = &mut self.nodes[at];
        node.is_lifting = matches!(action, Action::Undrain { .. });
        node.may_lack_slot = false;
        let said = node.agent.act(action);
        self.said(at, said);
    }

    fn said(&mut self, at: usize, said: Said) {
        let node = &mut self.nodes[at];
        match said {
            Said::Asks(args) => {
                assert!(
                    !node.is_lifting || args[0] != "create",
                    "a lift takes a slot: {args:?}"
                );
                if args[0] == "create" {
                    let name = args.iter().find_map(|arg| arg.strip_prefix("ReservationName="));
                    node.slot = name.map(str::to_owned);
                }
                node.asks = Some((args, 0));
            }
            Said::Over(outcome) => {
                node.asks = None;
                let is_held = matches!(outcome.as_deref(), Some(Outcome::Held(_)));
                assert!(!(node.is_lifting && is_held), "a lift waits: {outcome:?}");
            }
        }
    }

    fn go(&mut self, at: usize, fate: Fate, is_text: bool) {
        let node = &self.nodes[at];
        let Some((args, _)) = node.asks.clone() else {
            // The engine waits for the lift.
            let is_lift = |late: &Late| late.node == at && matches!(late.write, Write::Lift(_));
            if self.late.iter().any(is_lift) {
                return;
            }
            let reason = format!("nodewarden:check-{} node found id=abcdefg2", node.cause);
            return self.begin(
                at,
                Action::Drain {
                    incident: IncidentId::parse("abcdefg2").unwrap(),
                    reason: Reason::new(&reason).unwrap(),
                    in_maintenance: false,
                    is_device: false,
                },
            );
        };
        let may_lack_slot = node.may_lack_slot;
        let answer = match self.controller.change(&args, node.slot.as_deref()) {
            Some(write) => match fate {
                Fate::Answered | Fate::Mute | Fate::CrashAfter => self.apply(write, may_lack_slot),
                Fate::Late => {
                    self.late.push(Late {
                        node: at,
                        write,
                        age: 0,
                        may_lack_slot,
                    });
                    Ok(())
                }
                Fate::Lost | Fate::CrashBefore => Ok(()),
            }
            .map(|()| String::new()),
            None => Ok(self.controller.read(&args, self.nodes.len().max(100))),
        };
        let answer = match fate {
            Fate::Answered => Some(Ok(match answer {
                Ok(text) => output(0, &text, ""),
                Err(said) => output(1, "", said),
            })),
            Fate::CrashBefore | Fate::CrashAfter => None,
            Fate::Mute | Fate::Late | Fate::Lost if is_text => {
                Some(Ok(output(1, "", "scontrol error: Unexpected message received")))
            }
            Fate::Mute | Fate::Late | Fate::Lost => Some(Err(SpawnError::TimedOut(Duration::from_secs(
                TIMEOUT.unsigned_abs(),
            )))),
        };
        let said = self.nodes[at].agent.answer(answer);
        self.said(at, said);
    }

    fn apply(&mut self, write: Write, may_lack_slot: bool) -> Result<(), &'static str> {
        if let Write::Delete(name) = &write
            && may_lack_slot
        {
            self.lacks_slot_too(name);
        }
        // After a crash a slot's name may be taken again while the request that gives the lost one back is under way.
        let is_old = self.has_crashed && matches!(write, Write::Delete(_));
        match self.controller.apply(write) {
            Ok(()) => Ok(()),
            Err(Refusal::Said(text)) => Err(text),
            Err(Refusal::Never(_)) if may_lack_slot || is_old => {
                self.without_slot += 1;
                Ok(())
            }
            Err(Refusal::Never(why)) => panic!("{why}, after {:#?}", self.controller.history),
        }
    }

    /// A slot was lost in the crash, and the node that gives it back now does not know that another took its name since.
    fn lacks_slot_too(&mut self, slot: &str) {
        let holder = self.controller.holder(slot);
        for (at, node) in self.nodes.iter_mut().enumerate() {
            if Some(&node.name) == holder.as_ref() {
                node.may_lack_slot = true;
                let late = self.late.iter_mut().filter(|late| late.node == at);
                late.for_each(|late| late.may_lack_slot = true);
            }
        }
    }

    /// The engine waits for a drain that is late.
    fn lift(&mut self, at: usize) {
        let is_late = self.late.iter().any(|late| late.node == at);
        if self.nodes[at].asks.is_none() && !is_late {
            let incident = IncidentId::parse("abcdefg2").unwrap();
            self.begin(
                at,
                Action::Undrain {
                    incident,
                    is_ordered: false,
                    lifts: Vec::new(),
                },
            );
        }
    }

    /// No command waits longer than its time-out.
    fn pass(&mut self, seconds: i64) {
        let mut left = seconds;
        while left > 0 {
            let now = left.min(TIMEOUT);
            left -= now;
            self.controller.pass(now);
            self.late.retain_mut(|late| {
                late.age += now;
                late.age <= LATEST
            });
            for at in 0..self.nodes.len() {
                let Some((_, waited)) = &mut self.nodes[at].asks else {
                    continue;
                };
                *waited += now;
                if *waited >= TIMEOUT {
                    self.go(at, Fate::Lost, false);
                }
            }
        }
    }

    /// All faults are over: every node tries until each is drained, as long as slots of the time before may stand.
    fn settle(&mut self) {
        for step in std::iter::repeat_n(Step::Late(0), self.late.len()) {
            self.step(step);
        }
        for _ in 0..3 * WINDOW / 60 {
            for at in 0..self.nodes.len() {
                self.go(at, Fate::Answered, false);
                while self.nodes[at].asks.is_some() {
                    self.go(at, Fate::Answered, false);
                }
            }
            self.pass(60);
        }
    }

    fn drained(&self) -> usize {
        let nodes = self.nodes.iter();
        nodes
            .filter(|node| self.controller.is_drained(&node.name))
            .count()
    }
}

fn output(code: i32, stdout: &str, stderr: &str) -> CommandOutput {
    CommandOutput {
        code,
        stdout: stdout.into(),
        stderr: stderr.into(),
        truncated: false,
    }
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        20 => Just(Fate::Answered),
        1 => Just(Fate::Mute),
        1 => Just(Fate::Late),
        1 => Just(Fate::Lost),
        1 => Just(Fate::CrashBefore),
        1 => Just(Fate::CrashAfter),
    ]
}

fn go() -> impl Strategy<Value = Step> {
    (0_usize..12, fate(), any::<bool>()).prop_map(|(at, fate, is_text)| Step::Go(at, fate, is_text))
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        40 => go(),
        2 => (0_usize..12).prop_map(Step::Lift),
        1 => (0_usize..12).prop_map(Step::Late),
        1 => (1_i64..200).prop_map(Step::Pass),
    ]
}

fn step_or_crash() -> impl Strategy<Value = Step> {
    prop_oneof![
        40 => step(),
        2 => Just(Step::Save),
        1 => Just(Step::Crash),
    ]
}

proptest! {
    #[test]
    fn every_drain_has_a_slot_of_its_own_and_never_more_stand_than_may(
        causes in proptest::collection::vec(0_usize..4, 6..12),
        steps in proptest::collection::vec(step(), 0..500),
        (drains, per_code, standing) in (2_u64..6, 1_u64..4, 2_u64..7),
    ) {
        let guard = limits(drains, per_code, standing);
        let mut fleet = Fleet::new(&causes, &guard);
        for next in steps {
            fleet.step(next);
        }
        let controller = &fleet.controller;
        prop_assert!(controller.most_of_cause as u64 <= per_code.min(drains));
        prop_assert!(controller.most as u64 <= drains);
        prop_assert!(controller.most_standing as u64 <= standing);
    }

    #[test]
    fn a_crash_of_the_controller_adds_at_most_the_drains_that_were_being_written(
        causes in proptest::collection::vec(0_usize..4, 6..12),
        steps in proptest::collection::vec(step_or_crash(), 0..500),
        (drains, per_code, standing) in (2_u64..6, 1_u64..4, 2_u64..7),
    ) {
        let guard = limits(drains, per_code, standing);
        let mut fleet = Fleet::new(&causes, &guard);
        for next in steps {
            fleet.step(next);
        }
        let controller = &fleet.controller;
        prop_assert!(controller.most as u64 <= drains);
        prop_assert!(controller.most_standing as u64 <= standing + fleet.without_slot as u64);
    }

    #[test]
    fn with_fewer_faults_than_slots_every_node_drains_in_the_end(
        causes in proptest::collection::vec(0_usize..2, 1..=4),
        steps in proptest::collection::vec(step_or_crash(), 0..300),
    ) {
        let guard = limits(4, 4, 4);
        let mut fleet = Fleet::new(&causes, &guard);
        for next in steps {
            fleet.step(next);
        }
        fleet.settle();
        prop_assert_eq!(fleet.drained(), causes.len());
    }
}
