//! The limit on drains over a fleet: a wrong rule that drains many nodes at once, and agents that are held for an hour.

use std::thread;
use std::time::{Duration, Instant};

use model::scheduler::{Action, Held, HeldBy, IncidentId, LookError, NodeState, Outcome, Reason};
use slurm::guard::Settings;
use slurm::guard::limits::Standing;
use testkit::exec::which;
use testkit::slurm::Slurm;

use crate::agents::{Agents, Parents};
use crate::costs::{controller, drained_nodes};
use crate::figures::{AFTER, limits_count};
use crate::node::Node;

/// Nodes that a wrong rule finds broken.
const WRONG: usize = 200;
/// Agents that are held for an hour, and one real node for each of these.
const AGENTS: usize = 1000;
const EVERY: usize = 50;
const HOUR: Duration = Duration::from_secs(3600);

fn limits() -> Settings {
    Settings {
        on: true,
        drains: 10,
        percent: 5,
        per_code: 3,
        standing: Standing::Percent(5),
        window: Duration::from_secs(600),
        stop_files: Vec::new(),
    }
}

fn drain(check: &str) -> Action {
    Action::Drain {
        incident: IncidentId::parse("abcdefg2").unwrap(),
        reason: Reason::new(&format!("nodewarden:{check} node found act=reboot id=abcdefg2")).unwrap(),
        in_maintenance: false,
        is_device: false,
    }
}

/// Every node asks that many times or until it is drained, all at the same time.
fn all_at_once(nodes: &mut [Node], tries: u32, check: impl Fn(usize) -> String + Sync) {
    thread::scope(|scope| {
        for (at, node) in nodes.iter_mut().enumerate() {
            let check = &check;
            scope.spawn(move || {
                for _ in 0..tries {
                    match node.act(&drain(&check(at))) {
                        Outcome::Done(_) | Outcome::Already(_) => return,
                        Outcome::Held(Held { by, .. }) => {
                            assert!(matches!(by, HeldBy::Guard | HeldBy::Standing), "{by:?}");
                        }
                        // Another node was first, or the one machine of all is too slow.
                        Outcome::Failed(_) | Outcome::NotBegun(_) | Outcome::Unknown(_) => {}
                        other => panic!("{other:?}"),
                    }
                    thread::sleep(Duration::from_millis(500));
                }
            });
        }
    });
}

#[test]
fn a_wrong_rule_drains_exactly_the_slots() {
    let mut slurm = controller();
    let names = slurm.register_absent(WRONG).unwrap();
    let with = |name: &String| Node::with(name, &slurm.conf(), which("scontrol").unwrap(), limits());
    let mut nodes: Vec<Node> = names.iter().map(with).collect();
    all_at_once(&mut nodes, 20, |_| "rule-a".to_owned());
    assert_eq!(drained_nodes(&slurm), 3, "per_code");
    // And with as many causes as nodes, the limit of the partition.
    all_at_once(&mut nodes, 20, |at| format!("rule-{at}"));
    assert_eq!(drained_nodes(&slurm), 10, "drains");
    println!("a wrong rule on {WRONG} nodes: 3 drains of one cause, 10 of {WRONG} causes");
    let share = an_hour_of_held_agents(&mut slurm, nodes);
    if limits_count() {
        assert!(share < 5.0, "{share:.2} % of a core of slurmctld");
    }
}

/// The window of the next test, in seconds. With 1165, its three windows are an hour.
fn window() -> Duration {
    let given = std::env::var("NODEWARDEN_WINDOW").ok();
    Duration::from_secs(given.map_or(60, |seconds| seconds.parse().unwrap()))
}

/// The wrong rule goes on: each window lets more drains through, until as many stand as may.
#[test]
fn in_full_over_several_windows_never_more_stand_than_may() {
    const STANDING: u64 = 14;
    let mut slurm = controller();
    let limits = Settings {
        standing: Standing::Nodes(STANDING),
        window: window(),
        ..limits()
    };
    let names = slurm.register_absent(WRONG / 4).unwrap();
    let with = |name: &String| Node::with(name, &slurm.conf(), which("scontrol").unwrap(), limits.clone());
    let mut nodes: Vec<Node> = names.iter().map(with).collect();
    let (start, mut seen) = (Instant::now(), Vec::new());
    // A slot keeps its name for up to 35 s after its end.
    while start.elapsed() < 3 * (window() + Duration::from_secs(35)) {
        all_at_once(&mut nodes, 2, |at| format!("rule-{at}"));
        seen.push(drained_nodes(&slurm));
        thread::sleep(window() / 60);
        if seen.last().is_some_and(|n| *n as u64 > STANDING) {
            break;
        }
    }
    println!("drained nodes over three windows: {seen:?}");
    assert!(seen.contains(&10), "the first window ends at its slots: {seen:?}");
    assert_eq!(seen.last().map(|n| *n as u64), Some(STANDING), "{seen:?}");
}

/// Engines in virtual time; a sample of them asks the real slurmctld, whose slots are all taken.
struct Holding {
    real: Vec<Node>,
    tries: u32,
    commands: u32,
}

impl Parents for Holding {
    fn look(&mut self, _: usize) -> Result<NodeState, LookError> {
        Err(LookError::Failed("a held agent does not look".to_owned()))
    }

    fn act(&mut self, node: usize, action: &Action) -> Outcome {
        if matches!(action, Action::Drain { .. }) {
            self.tries += 1;
            if node.is_multiple_of(EVERY) {
                self.commands += 1;
                let outcome = self.real[node / EVERY].act(action);
                assert!(matches!(outcome, Outcome::Held(_)), "{outcome:?}");
                return outcome;
            }
        }
        Outcome::Held(Held {
            by: HeldBy::Guard,
            why: "no slot".to_owned(),
            guard: None,
        })
    }
}

/// Returns the share of a core of slurmctld, in percent.
fn an_hour_of_held_agents(slurm: &mut Slurm, mut nodes: Vec<Node>) -> f64 {
    let real = nodes.split_off(nodes.len() - AGENTS / EVERY);
    let parents = Holding {
        real,
        tries: 0,
        commands: 0,
    };
    let mut agents = Agents::new(AGENTS, &["health.mode=\"drain\""], parents);
    slurm.wait_idle().unwrap();
    let cpu = slurm.controller_cpu().unwrap();
    for node in 0..AGENTS {
        agents.break_gpu(node);
    }
    agents.pass(HOUR);
    thread::sleep(AFTER);
    let cpu = slurm.controller_cpu().unwrap() - cpu;
    let Holding { tries, commands, .. } = agents.parents;
    assert!((0..AGENTS).all(|node| agents.drain_state(node) == "held"));
    // 150 s apart on average, and the first ones sooner.
    let each = f64::from(tries) / AGENTS as f64;
    assert!(
        (15.0..50.0).contains(&each),
        "{each} tries of an agent in an hour"
    );
    let share = cpu.as_secs_f64() / f64::from(commands) * f64::from(tries) / HOUR.as_secs_f64() * 100.0;
    println!(
        "{AGENTS} held agents: {each:.1} tries each in an hour, {share:.2} % of a core of slurmctld ({commands} real tries)"
    );
    share
}
