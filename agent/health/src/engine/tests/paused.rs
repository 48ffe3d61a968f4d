//! A pause by a person: of this node, or of the whole cluster.

use super::sim::*;
use crate::{Mode, OrderVerb};
use collectors::event::Recovery;
use model::scheduler::HeldBy;

fn paused() -> Sim {
    let mut sim = Sim::new(Mode::Drain);
    sim.order_all(OrderVerb::Pause { seconds: 7200 }).unwrap();
    sim
}

#[test]
fn nothing_is_written_while_the_node_is_paused_and_the_drain_comes_when_a_person_ends_it() {
    let mut sim = paused();
    sim.xid(119);
    sim.pass(3600);
    assert_eq!((sim.acts, sim.drain_state().as_str()), (0, "held"));
    assert!(sim.engine.view().drain.why.contains("paused by bob: replaced"));
    assert!(sim.slurm.comment.is_none());
    sim.order_all(OrderVerb::Resume).unwrap();
    assert!(sim.slurm.is_drained());
}

#[test]
fn a_held_drain_has_a_time_also_after_its_first_incident_ended() {
    let mut sim = paused();
    sim.xid(119);
    sim.host.edac = Some(1);
    sim.pass(600);
    let first = sim.engine.view().drain.incident.unwrap();
    sim.order(OrderVerb::Clear, &first).unwrap();
    sim.pass(60);
    let drain = sim.engine.view().drain;
    assert_eq!(drain.state, "held");
    assert!(
        drain.since.is_some() && drain.incident != Some(first),
        "{drain:?}"
    );
}

#[test]
fn a_pause_ends_by_itself_also_over_a_restart() {
    let mut sim = paused();
    sim.xid(119);
    sim.pass(3600);
    sim.restart();
    assert_eq!(sim.drain_state(), "held");
    sim.pass(3590);
    assert!(!sim.slurm.is_drained());
    sim.pass(30);
    assert!(sim.slurm.is_drained());
}

#[test]
fn a_paused_node_is_not_lifted_by_itself_but_by_a_person() {
    let mut sim = Sim::new(Mode::Drain);
    sim.xid(119);
    let id = sim.engine.view().drain.incident.unwrap();
    sim.order_all(OrderVerb::Pause { seconds: 7200 }).unwrap();
    sim.verdict_154(Recovery::GpuReset);
    sim.verdict_154(Recovery::None);
    sim.pass(1200);
    assert!(sim.slurm.is_drained());
    assert!(sim.engine.view().drain.why.contains("paused"));
    sim.order(OrderVerb::Clear, &id).unwrap();
    sim.pass(1);
    assert!(!sim.slurm.is_drained());
}

#[test]
fn without_a_pause_there_is_none_to_end() {
    let mut sim = Sim::new(Mode::Drain);
    assert!(sim.order_all(OrderVerb::Resume).is_err());
}

#[test]
fn a_pause_of_the_cluster_holds_drains_and_lifts_and_no_order() {
    let mut sim = Sim::new(Mode::Drain);
    sim.xid(119);
    let id = sim.engine.view().drain.incident.unwrap();
    sim.slurm.held = Some(HeldBy::Pause);
    sim.verdict_154(Recovery::GpuReset);
    sim.verdict_154(Recovery::None);
    sim.pass(700);
    assert!(sim.slurm.is_drained());
    assert_eq!(sim.drain_state(), "drained");
    sim.order(OrderVerb::Clear, &id).unwrap();
    sim.pass(1);
    assert!(!sim.slurm.is_drained());
}
