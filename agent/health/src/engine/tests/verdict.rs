//! The text of the verdict: open incidents are named also where the node is healthy or unknown.

use collectors::gpu::metrics as m;

use super::host::Driven;
use super::sim::*;
use crate::verdict::Health;
use crate::{Mode, OrderVerb};

/// A node with this number of GPUs that are too hot, which never drains.
fn hot(gpus: usize) -> Sim {
    let mut sim = Sim::new(Mode::Drain);
    sim.host.driven = (1..=gpus)
        .map(|n| Driven {
            label: format!("GPU-{n}"),
            series: vec![(&m::UP, vec![], 1), (&m::CLOCK_EVENT, vec!["hw_thermal"], 1)],
            late: None,
            ..Driven::default()
        })
        .collect();
    sim.pass(600);
    sim
}

fn verdict(sim: &Sim) -> (Health, String) {
    let verdict = sim.engine.view().verdict;
    (verdict.health, verdict.text)
}

#[test]
fn a_healthy_node_with_open_incidents_names_the_first_three() {
    for (gpus, text) in [
        (0, "nothing is wrong"),
        (1, "1 open incident: gpu-slowdown gpu GPU-1"),
        (
            2,
            "2 open incidents: gpu-slowdown gpu GPU-1, gpu-slowdown gpu GPU-2",
        ),
        (
            5,
            "5 open incidents: gpu-slowdown gpu GPU-1, gpu-slowdown gpu GPU-2, gpu-slowdown gpu GPU-3, ...",
        ),
    ] {
        assert_eq!(verdict(&hot(gpus)), (Health::Healthy, text.to_owned()));
    }
}

#[test]
fn an_unknown_verdict_names_them_behind_its_reason() {
    let mut sim = hot(1);
    sim.host.kernel_log = false;
    sim.pass(30);
    let text = "kernel_log: no CAP_SYSLOG; 1 open incident: gpu-slowdown gpu GPU-1";
    assert_eq!(verdict(&sim), (Health::Unknown, text.to_owned()));
    assert_eq!(sim.engine.view().verdict.blind, Some("kernel_log"));
}

#[test]
fn only_an_unknown_verdict_names_a_collector_that_cannot_be_read() {
    let mut sim = Sim::new(Mode::Observe);
    assert_eq!(sim.engine.view().verdict.blind, None);
    sim.host.kernel_log = false;
    sim.xid(119);
    sim.pass(30);
    let verdict = sim.engine.view().verdict;
    assert_eq!((verdict.health, verdict.blind), (Health::Unhealthy, None));
}

/// The age of a drain that stands, in seconds, as the verdict shows it.
fn drained(sim: &Sim) -> Option<u64> {
    let verdict = sim.engine.view().verdict;
    Some((verdict.at_ms - verdict.drained_ms?) / 1000)
}

#[test]
fn a_verdict_says_since_when_a_drain_stands_and_only_then() {
    for mode in [Mode::Observe, Mode::Comment] {
        let mut sim = Sim::new(mode);
        sim.xid(119);
        sim.pass(60);
        assert_eq!((verdict(&sim).0, drained(&sim)), (Health::Unhealthy, None));
    }
    let mut sim = Sim::new(Mode::Drain);
    sim.order_all(OrderVerb::Pause { seconds: 7200 }).unwrap();
    sim.xid(119);
    sim.pass(60);
    assert_eq!(
        (verdict(&sim).0, drained(&sim)),
        (Health::Unhealthy, None),
        "paused"
    );
    sim.order_all(OrderVerb::Resume).unwrap();
    sim.pass(1);
    assert!(drained(&sim).is_some_and(|age| age <= 2), "{:?}", drained(&sim));
    sim.pass(600);
    sim.restart();
    sim.pass(60);
    assert!(drained(&sim).is_some_and(|age| age > 600), "{:?}", drained(&sim));
    sim.reboot();
    sim.pass(15);
    assert_eq!(drained(&sim), None, "it is older than this boot");
}

#[test]
fn a_drain_whose_reason_a_person_replaced_is_not_nodewardens() {
    let mut sim = Sim::new(Mode::Drain);
    sim.xid(119);
    sim.pass(10);
    assert!(drained(&sim).is_some());
    sim.slurm.admin_drains("ticket 4711");
    sim.pass(60);
    assert_eq!((verdict(&sim).0, drained(&sim)), (Health::Unhealthy, None));
}

#[test]
fn a_drain_of_a_later_time_than_now_has_no_age() {
    let mut sim = Sim::new(Mode::Drain);
    sim.xid(119);
    sim.pass(10);
    sim.now.wall -= 3600;
    sim.pass(60);
    assert_eq!((sim.drain_state().as_str(), drained(&sim)), ("drained", None));
}
