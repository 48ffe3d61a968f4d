//! A drain that the cluster's limit holds.

use super::sim::*;
use crate::{Mode, OrderVerb};
use collectors::EventBody;
use collectors::event::Recovery;
use model::scheduler::HeldBy;

fn held_by(by: HeldBy) -> Sim {
    let mut sim = Sim::new(Mode::Drain);
    sim.slurm.held = Some(by);
    sim.xid(119);
    assert_eq!(sim.drain_state(), "held");
    sim
}

#[test]
fn a_held_drain_is_tried_again_at_growing_times_and_written_when_a_slot_is_free() {
    let mut sim = held_by(HeldBy::Guard);
    assert_eq!(sim.slurm.tries, 1);
    sim.pass(3600);
    // With full jitter over 15 s to 5 min: 150 s apart on average.
    assert!((12..60).contains(&sim.slurm.tries), "{}", sim.slurm.tries);
    sim.slurm.held = None;
    sim.pass(301);
    assert!(sim.slurm.is_drained());
    assert_eq!((sim.drain_state().as_str(), sim.slurm.drains), ("drained", 1));
}

#[test]
fn while_a_drain_is_held_the_node_is_not_read_and_evidence_makes_no_try() {
    let mut sim = held_by(HeldBy::Standing);
    sim.pass(600);
    let (looks, tries) = (sim.looks, sim.slurm.tries);
    for _ in 0..200 {
        sim.xid(119);
    }
    assert_eq!(sim.slurm.tries, tries, "no time has passed");
    sim.pass(300);
    assert_eq!(sim.looks, looks);
}

#[test]
fn what_was_repaired_while_it_was_held_is_not_drained() {
    let mut sim = held_by(HeldBy::Guard);
    sim.verdict_154(Recovery::GpuReset);
    sim.verdict_154(Recovery::None);
    let tries = sim.slurm.tries;
    sim.slurm.held = None;
    sim.pass(700);
    assert_eq!((sim.slurm.tries, sim.slurm.drains), (tries, 0));
    assert_eq!(sim.drain_state(), "none");
}

#[test]
fn a_fault_of_one_device_does_not_wait_behind_another_that_is_held() {
    let mut sim = held_by(HeldBy::Guard);
    sim.slurm.device_held = false;
    sim.pass(40);
    assert!(!sim.slurm.is_drained());
    sim.event(EventBody::Xid(xid_of(79)));
    assert!(sim.slurm.is_drained(), "at once");
    let reason = sim.slurm.reason.clone().unwrap();
    assert!(reason.starts_with("nodewarden:xid"), "{reason}");
}

#[test]
fn incidents_that_are_held_have_their_turns() {
    let mut sim = Sim::expecting(GPU2);
    sim.slurm.held = Some(HeldBy::Guard);
    sim.remove_gpu(GPU2);
    sim.pass(60);
    let first = sim.engine.view().drain.incident;
    assert!(first.is_some());
    sim.xid(119);
    assert_ne!(
        sim.engine.view().drain.incident,
        first,
        "a new incident is tried at once"
    );
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..60 {
        sim.pass(60);
        seen.insert(sim.engine.view().drain.incident);
    }
    assert_eq!(seen.len(), 2, "each has its turn");
    assert_eq!(sim.slurm.comments, 1, "the comment does not follow the turns");
    assert!(sim.slurm.tries < 80, "{}", sim.slurm.tries);
}

#[test]
fn a_reboot_while_held_finds_slurmd_late_and_drains_all_the_same() {
    let mut sim = held_by(HeldBy::Guard);
    sim.slurm.here = false;
    sim.restart();
    sim.pass(120);
    sim.slurm.held = None;
    sim.slurm.here = true;
    sim.pass(3);
    assert!(sim.slurm.is_drained());
}

#[test]
fn a_person_s_drain_meanwhile_is_not_shown_as_held() {
    let mut sim = held_by(HeldBy::Guard);
    sim.slurm.admin_drains("network work");
    sim.slurm.held = None;
    sim.pass(301);
    assert_eq!(sim.engine.view().drain.held, None);
}

#[test]
fn a_restart_while_held_waits_before_its_first_try() {
    let mut sim = held_by(HeldBy::Guard);
    sim.pass(600);
    let (tries, looks) = (sim.slurm.tries, sim.looks);
    sim.restart();
    assert_eq!((sim.slurm.tries, sim.looks), (tries, looks));
    assert_eq!(sim.drain_state(), "held");
    sim.slurm.held = None;
    sim.pass(60);
    assert!(sim.slurm.is_drained());
}

#[test]
fn the_comment_of_a_held_node_says_so_and_goes_with_the_drain() {
    let mut sim = held_by(HeldBy::Guard);
    sim.pass(15);
    let comment = sim.slurm.comment.clone().unwrap();
    assert!(comment.contains("held by the limit on drains"), "{comment}");
    sim.slurm.held = None;
    sim.pass(301);
    assert_eq!(sim.slurm.comment, None);
}

#[test]
fn a_person_clears_a_held_incident() {
    let mut sim = held_by(HeldBy::Standing);
    let id = sim.engine.view().incidents[0].id.clone();
    sim.order(OrderVerb::Clear, &id).unwrap();
    sim.slurm.held = None;
    sim.pass(700);
    assert_eq!((sim.slurm.drains, sim.drain_state().as_str()), (0, "none"));
}

#[test]
fn a_drain_of_a_person_meanwhile_is_left_alone() {
    let mut sim = held_by(HeldBy::Guard);
    sim.slurm.admin_drains("network work");
    sim.slurm.held = None;
    sim.pass(301);
    assert_eq!((sim.slurm.drains, sim.drain_state().as_str()), (0, "foreign"));
}

#[test]
fn a_lift_needs_no_slot() {
    let mut sim = Sim::new(Mode::Drain);
    sim.xid(119);
    assert!(sim.slurm.is_drained());
    sim.slurm.held = Some(HeldBy::Guard);
    sim.verdict_154(Recovery::GpuReset);
    sim.verdict_154(Recovery::None);
    sim.pass(130);
    assert!(!sim.slurm.is_drained());
}

#[test]
fn a_drain_is_wanted_since_its_first_attempt() {
    let since = |sim: &Sim| sim.engine.view().drain.since;
    let mut sim = Sim::new(Mode::Drain);
    sim.slurm.trouble = vec![Trouble::Failed; 20].into();
    sim.xid(119);
    let first = since(&sim);
    assert_eq!(first, Some(sim.now.wall));
    sim.pass(60);
    assert_eq!((sim.drain_state().as_str(), since(&sim)), ("wanted", first));
    sim.slurm.held = Some(HeldBy::Guard);
    sim.slurm.trouble.clear();
    sim.pass(60);
    assert_eq!((sim.drain_state().as_str(), since(&sim)), ("held", first));
    sim.slurm.held = None;
    sim.pass(400);
    assert_eq!(sim.drain_state(), "drained");
    assert!(since(&sim) > first, "the time of the drain itself");
}

#[test]
fn the_limit_that_was_read_is_shown_until_its_slots_have_ended() {
    let mut sim = Sim::new(Mode::Drain);
    sim.slurm.slot = Some("nodewarden-gpu-xid79-0".to_owned());
    sim.xid(119);
    assert_eq!(sim.drain_state(), "drained");
    sim.pass(590);
    assert!(sim.engine.view().drain.guard.is_some());
    sim.pass(30);
    assert!(sim.engine.view().drain.guard.is_none());
    let mut sim = held_by(HeldBy::Guard);
    sim.pass(1800);
    assert!(sim.engine.view().drain.guard.is_some(), "it is read at each try");
}
