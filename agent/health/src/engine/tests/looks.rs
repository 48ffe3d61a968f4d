//! How soon a required drain stands, and how often the controller is asked for it.

use std::time::Duration;

use collectors::event::Recovery;

use super::sim::*;
use crate::{Mode, OrderVerb};
use slurm::state::Flag;

#[test]
fn a_cancelled_reboot_is_followed_within_2_s() {
    let mut sim = Sim::new(Mode::Drain);
    sim.slurm.flags.insert(Flag::RebootIssued);
    sim.xid(79);
    sim.pass(300);
    assert_eq!(sim.slurm.drains, 0);
    sim.slurm.flags.remove(&Flag::RebootIssued);
    sim.pass(2);
    assert_eq!(sim.slurm.drains, 1);
}

#[test]
fn a_drain_that_must_wait_is_looked_for_every_10_s_after_ten_minutes() {
    let mut sim = Sim::new(Mode::Drain);
    sim.slurm.admin_drains("RMA");
    sim.xid(79);
    sim.pass(600);
    let looks = sim.looks;
    assert!((300..=410).contains(&looks), "{looks}");
    sim.pass(600);
    assert!((60..=81).contains(&(sim.looks - looks)), "{}", sim.looks - looks);
}

#[test]
fn a_node_that_is_not_proven_is_asked_for_rarely_also_where_a_drain_is_required_or_recorded() {
    for is_drained in [false, true] {
        let mut sim = Sim::new(Mode::Drain);
        if is_drained {
            sim.xid(79);
            sim.slurm.proven = false;
            sim.restart();
        } else {
            sim.slurm.proven = false;
            sim.xid(79);
        }
        let looks = sim.looks;
        sim.pass(30);
        assert!((3..=7).contains(&(sim.looks - looks)), "{}", sim.looks - looks);
        sim.pass(3570);
        assert!((30..60).contains(&(sim.looks - looks)), "{}", sim.looks - looks);
        sim.slurm.proven = true;
        sim.pass(120);
        assert_eq!((sim.drain_state().as_str(), sim.slurm.drains), ("drained", 1));
    }
}

#[test]
fn the_next_slurmd_is_proven_at_once_after_one_that_was_not() {
    let mut sim = Sim::new(Mode::Drain);
    sim.slurm.proven = false;
    sim.xid(79);
    sim.pass(3600);
    sim.slurm.here = false;
    sim.pass(121);
    (sim.slurm.here, sim.slurm.proven) = (true, true);
    sim.pass(2);
    assert_eq!(sim.slurm.drains, 1);
}

#[test]
fn a_controller_that_does_not_answer_is_asked_ever_more_rarely() {
    let mut sim = Sim::new(Mode::Drain);
    sim.slurm.admin_drains("RMA");
    sim.xid(79);
    sim.slurm.readable = false;
    let looks = sim.looks;
    sim.pass(3600);
    assert!(sim.looks - looks < 30, "{}", sim.looks - looks);
}

#[test]
fn a_flood_of_evidence_costs_one_look_each_2_s() {
    let mut sim = Sim::new(Mode::Drain);
    sim.xid(79);
    let looks = sim.looks;
    for _ in 0..600 {
        sim.xid(79);
        sim.sleep_until(sim.now.boottime + Duration::from_millis(100));
        sim.tick();
    }
    assert!((25..=45).contains(&(sim.looks - looks)), "{}", sim.looks - looks);
    assert_eq!(sim.slurm.drains, 1);
}

/// The controller lost the drain in a crash, and started later.
fn crash(sim: &mut Sim, after: i64) {
    sim.slurm.flags.remove(&Flag::Drain);
    sim.slurm.reason = None;
    sim.slurm.controller_started = Some(1_700_000_000 + after);
}

#[test]
fn a_drain_that_the_controller_lost_in_a_crash_is_set_again_and_is_no_override() {
    // The last: a backup took over, and the start of its process counts as later than any other.
    for after in [0, 2, i64::MAX - 1_700_000_000] {
        let mut sim = Sim::new(Mode::Drain);
        sim.xid(79);
        crash(&mut sim, after);
        sim.pass(15);
        assert_eq!((sim.slurm.drains, sim.engine.view().overrides), (2, 0), "{after}");
        assert!(!sim.reason().contains("after-lift"));
    }
}

/// The controller crashed before it saved the lift.
#[test]
fn a_drain_that_is_back_after_its_lift_is_seen_within_15_s_and_root_lifts_it() {
    let mut sim = Sim::new(Mode::Drain);
    sim.by_root = true;
    sim.xid(119);
    sim.pass(60);
    let (id, reason) = (sim.engine.view().incidents[0].id.clone(), sim.reason());
    sim.verdict_154(Recovery::None);
    assert!(!sim.slurm.is_drained());
    sim.slurm.admin_drains(&reason);
    sim.slurm.user = "root".to_owned();
    sim.pass(15);
    let drain = sim.engine.view().drain;
    assert_eq!((drain.state.as_str(), drain.recorded), ("drained", false));
    sim.order(OrderVerb::Clear, &id).unwrap();
    assert_eq!((sim.slurm.is_drained(), sim.slurm.undrains), (false, 2));
    let looks = sim.looks;
    sim.pass(3600);
    assert_eq!(sim.looks, looks + 1);
}

#[test]
fn a_drain_that_the_controller_had_saved_was_lifted_by_a_person() {
    let mut sim = Sim::new(Mode::Drain);
    sim.xid(79);
    sim.pass(60);
    crash(&mut sim, 60);
    sim.pass(60);
    assert_eq!(sim.engine.view().overrides, 1);
    let mut sim = Sim::new(Mode::Drain);
    sim.xid(79);
    crash(&mut sim, -3600);
    sim.pass(60);
    assert_eq!(sim.engine.view().overrides, 1, "it did not restart");
}

#[test]
fn a_drain_does_not_come_before_the_line_that_says_the_fault_is_over() {
    let mut sim = Sim::new(Mode::Observe);
    sim.xid(119);
    sim.config.mode = Mode::Drain;
    sim.restart_unread();
    assert_eq!(sim.slurm.drains, 0);
    sim.verdict_154(Recovery::None);
    sim.log_is_read();
    sim.pass(60);
    assert_eq!(sim.slurm.drains, 0);
}

#[test]
fn the_cause_stays_shown_while_a_drain_is_not_begun_and_looks_succeed() {
    let mut sim = Sim::new(Mode::Drain);
    sim.slurm.trouble.extend(vec![Trouble::NotBegun; 20]);
    sim.xid(79);
    for _ in 0..20 {
        sim.pass(7);
        let why = sim.engine.view().drain.why;
        assert!(why.contains("nothing was written: sinfo: timed out"), "{why}");
        assert_eq!(sim.drain_state(), "wanted", "no write whose outcome is unknown");
    }
    sim.slurm.trouble.clear();
    sim.pass(300);
    assert_eq!(sim.drain_state(), "drained");
}

#[test]
fn new_evidence_does_not_wait_for_the_back_off_of_earlier_failures() {
    let mut sim = Sim::new(Mode::Drain);
    sim.slurm.trouble.extend(vec![Trouble::TimeoutLost; 20]);
    sim.xid(119);
    sim.pass(1200);
    sim.slurm.trouble.clear();
    sim.xid(119);
    sim.pass(2);
    assert_eq!(sim.drain_state(), "drained");
}

#[test]
fn a_node_that_cannot_be_proven_is_asked_for_ever_more_rarely() {
    let mut sim = Sim::new(Mode::Drain);
    sim.slurm.proven = false;
    sim.restart();
    let looks = sim.looks;
    sim.pass(4 * 3600);
    assert!(sim.looks - looks < 20, "{}", sim.looks - looks);
}

#[test]
fn a_drain_whose_answer_was_lost_lasts_as_long_as_any_other() {
    let mut sim = Sim::holding();
    sim.slurm.trouble.push_back(Trouble::TimeoutDone);
    sim.xid(119);
    sim.pass(5);
    assert_eq!(sim.drain_state(), "drained");
    sim.verdict_154(Recovery::None);
    sim.pass(300);
    assert!(sim.slurm.is_drained());
    crash(&mut sim, 3);
    let mut sim = Sim::new(Mode::Drain);
    sim.slurm.trouble.push_back(Trouble::TimeoutDone);
    sim.xid(119);
    crash(&mut sim, 3);
    sim.pass(15);
    assert_eq!((sim.slurm.drains, sim.engine.view().overrides), (2, 0));
}

#[test]
fn evidence_is_not_forgotten_when_its_look_fails() {
    let mut sim = Sim::new(Mode::Drain);
    sim.config.scheduler.watch = Duration::from_secs(3600);
    sim.reload();
    sim.xid(119);
    sim.pass(60);
    sim.slurm.admin_resumes();
    sim.slurm.readable = false;
    sim.xid(119);
    sim.pass(3);
    sim.slurm.readable = true;
    sim.pass(4);
    assert_eq!(sim.slurm.drains, 2);
}
