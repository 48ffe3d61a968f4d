//! The engines of many nodes in one process, in virtual time: an hour of a fleet takes seconds. Who answers their looks
//! and acts decides which commands are real.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use collectors::event::Xid;
use collectors::{BootId, Event, EventBody, PciAddress};
use health::engine::Engine;
use health::policy::Policy;
use health::{Effect, Input, Now};
use model::scheduler::{Action, LookError, NodeState, Outcome};
use nodewarden::config::Config;

const GPU: &str = "0000:3b:00.0";
/// An arbitrary time, long after boot.
const START: Duration = Duration::from_secs(10_000);

/// In place of the parent of each node.
pub trait Parents {
    fn look(&mut self, node: usize) -> Result<NodeState, LookError>;
    fn act(&mut self, node: usize, action: &Action) -> Outcome;
}

/// The requests of the engines so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    pub looks: u32,
    pub acts: u32,
}

struct Agent {
    engine: Engine,
    boot: BootId,
    /// Its next deadline; an older entry of the queue is out of date.
    due: Option<Duration>,
}

/// The agents of nodes 0, 1, ...
pub struct Agents<P> {
    agents: Vec<Agent>,
    queue: BinaryHeap<Reverse<(Duration, usize)>>,
    now: Now,
    pub parents: P,
    pub requests: Requests,
}

impl<P: Parents> Agents<P> {
    /// Agents that start together with these settings (`health.mode="drain"`) beside the defaults, and have read the
    /// kernel log.
    pub fn new(count: usize, sets: &[&str], parents: P) -> Self {
        let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
        // An empty file in place of the default, so that the machine's own configuration has no effect.
        let empty = tempfile::NamedTempFile::with_suffix(".toml").unwrap();
        let config = Config::load(Some(empty.path()), &sets, &[]).unwrap().config;
        let now = Now {
            boottime: START,
            wall: 1_800_000_000,
        };
        let agent = |node: usize| {
            let boot = BootId(format!("boot-{node}"));
            let policy = Policy::new(&config.health, None).unwrap();
            Agent {
                engine: Engine::new(policy, boot.clone(), None, now).unwrap(),
                boot,
                due: None,
            }
        };
        let mut agents = Self {
            agents: (0..count).map(agent).collect(),
            queue: BinaryHeap::new(),
            now,
            parents,
            requests: Requests::default(),
        };
        for node in 0..count {
            agents.input(node, Input::Tick);
            agents.event(node, 0, EventBody::Progress);
        }
        agents
    }

    /// Xid 119 on this node: a fault that many nodes can have for one cause.
    pub fn break_gpu(&mut self, node: usize) {
        let xid = Xid {
            pci: PciAddress::parse(GPU).unwrap(),
            code: 119,
            ..Xid::default()
        };
        self.event(node, 1, EventBody::Xid(xid));
    }

    /// `count`: 0 at the end of the log.
    fn event(&mut self, node: usize, count: u64, body: EventBody) {
        let event = Event {
            boot: self.agents[node].boot.clone(),
            seq: count,
            at_us: u64::try_from(self.now.boottime.as_micros()).unwrap(),
            history: false,
            count,
            text: "a line".to_owned(),
            body,
        };
        self.input(node, Input::Event("kernel_log", &event));
    }

    /// Lets time pass: every engine steps at its deadlines.
    pub fn pass(&mut self, time: Duration) {
        let end = self.now.boottime + time;
        while let Some(Reverse((due, node))) = self.queue.peek().copied().filter(|next| next.0.0 <= end) {
            self.queue.pop();
            if self.agents[node].due == Some(due) {
                self.sleep_until(due.max(self.now.boottime));
                self.input(node, Input::Tick);
            }
        }
        self.sleep_until(end);
    }

    fn sleep_until(&mut self, next: Duration) {
        let gone = next.as_secs() - self.now.boottime.as_secs();
        self.now.boottime = next;
        self.now.wall += i64::try_from(gone).unwrap();
    }

    fn input(&mut self, node: usize, input: Input<'_>) {
        let mut queue = VecDeque::from(self.agents[node].engine.step(self.now, input));
        while let Some(effect) = queue.pop_front() {
            let more = self.carry_out(node, effect);
            queue.extend(more);
        }
        let agent = &mut self.agents[node];
        agent.due = agent.engine.next_deadline();
        self.queue.extend(agent.due.map(|due| Reverse((due, node))));
    }

    fn carry_out(&mut self, node: usize, effect: Effect) -> Vec<Effect> {
        let (engine, now) = (&mut self.agents[node].engine, self.now);
        match effect {
            Effect::Store(record) => engine.step(now, Input::Stored(record.number, true)),
            Effect::Look(_) => {
                self.requests.looks += 1;
                let seen = self.parents.look(node);
                engine.step(now, Input::Scheduler(seen.as_ref()))
            }
            Effect::Act(id, action) => {
                self.requests.acts += 1;
                let outcome = self.parents.act(node, &action);
                engine.step(now, Input::Done(id, &outcome))
            }
            Effect::Audit(_) | Effect::Publish(_) | Effect::Answer(_) => Vec::new(),
        }
    }

    /// `none`, `drained`, ... of this node.
    pub fn drain_state(&self, node: usize) -> String {
        self.agents[node].engine.view().drain.state
    }
}
