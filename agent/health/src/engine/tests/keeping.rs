//! What keeps a repaired node drained, and who lifts it then.

use std::time::Duration;

use collectors::EventBody;
use collectors::event::Recovery;

use super::sim::*;
use crate::{Mode, OrderVerb};
use slurm::state::{Base, Flag};

#[test]
fn a_fault_that_comes_and_goes_is_one_drain_not_six() {
    let mut sim = Sim::holding();
    for _ in 0..6 {
        sim.xid(119);
        sim.verdict_154(Recovery::GpuReset);
        sim.verdict_154(Recovery::None);
        sim.pass(2);
    }
    assert_eq!((sim.slurm.drains, sim.slurm.undrains), (1, 0));
    assert_eq!(sim.drain_state(), "drained");
    assert!(sim.engine.view().drain.why.contains("slurm.hold"));
    sim.pass(615);
    assert_eq!((sim.slurm.drains, sim.slurm.undrains), (1, 1));
}

#[test]
fn a_finding_after_the_remedy_starts_the_quiet_minute_again() {
    let mut sim = Sim::holding();
    sim.xid(119);
    sim.pass(590);
    sim.verdict_154(Recovery::None);
    sim.pass(45);
    assert!(sim.slurm.is_drained(), "quiet for less than a minute");
    sim.event(EventBody::Xid(xid_of(31)));
    sim.pass(45);
    assert!(
        sim.slurm.is_drained(),
        "the program's own fault, but on a GPU that was just repaired"
    );
    let why = sim.engine.view().drain.why;
    let names_it = why.contains("without a further finding; the last one: xid, ") && why.ends_with(", xid31");
    assert!(names_it, "{why}");
    sim.pass(30);
    assert!(!sim.slurm.is_drained());
}

#[test]
fn the_third_automatic_lift_of_a_day_is_a_persons() {
    let mut sim = Sim::holding();
    for _ in 0..3 {
        sim.xid(119);
        sim.pass(15);
        sim.verdict_154(Recovery::None);
        sim.pass(700);
        sim.restart();
        sim.pass(60);
    }
    assert_eq!((sim.slurm.drains, sim.slurm.undrains), (3, 2));
    let drain = sim.engine.view().drain;
    assert!(drain.why.contains("lifted 2 drains in 24 h"), "{}", drain.why);
    sim.order(OrderVerb::Clear, &drain.incident.unwrap()).unwrap();
    assert!(!sim.slurm.is_drained(), "a person may always lift");
    sim.sleep_until(sim.now.boottime + Duration::from_secs(25 * 3600));
    sim.xid(119);
    sim.verdict_154(Recovery::None);
    sim.pass(700);
    assert!(!sim.slurm.is_drained(), "another day");
}

#[test]
fn a_repaired_device_that_no_test_verified_waits_for_a_person() {
    for code in [79, 48, 74, 95, 140] {
        let mut sim = Sim::new(Mode::Drain);
        sim.xid(code);
        sim.pass(60);
        sim.reboot();
        sim.pass(1200);
        assert_eq!(sim.slurm.undrains, 0, "{code}");
    }
    let mut sim = Sim::new(Mode::Drain);
    sim.xid(79);
    sim.reboot();
    sim.pass(120);
    sim.restart();
    sim.pass(120);
    assert_eq!(sim.incidents(), ["xid79 cleared"]);
    sim.clear_repaired();
    assert!(!sim.slurm.is_drained());
    assert_eq!(sim.slurm.base, Base::Idle);
}

#[test]
fn a_clear_of_one_incident_orders_no_lift_for_another() {
    let mut sim = Sim::new(Mode::Drain);
    sim.xid(119);
    let first = sim.engine.view().incidents[0].id.clone();
    let mut other = xid_of(119);
    other.pci = pci(GPU2);
    sim.event(EventBody::Xid(other.clone()));
    sim.order(OrderVerb::Clear, &first).unwrap();
    sim.host.kernel_log = false;
    sim.pass(60);
    // The other ends while the kernel log cannot be read.
    (other.code, other.recovery) = (154, Some(Recovery::None));
    sim.event(EventBody::Xid(other));
    sim.pass(600);
    assert!(sim.incidents().iter().all(|i| i.ends_with(" cleared")));
    assert!(sim.slurm.is_drained(), "no order covers it");
}

#[test]
fn an_incident_that_began_during_a_lift_has_no_drain_behind_it() {
    let mut sim = Sim::new(Mode::Drain);
    sim.xid(119);
    sim.slurm.trouble.push_back(Trouble::TimeoutLate);
    sim.verdict_154(Recovery::None);
    sim.xid(119);
    sim.slurm.flags.insert(Flag::RebootIssued);
    sim.slurm.catch_up();
    sim.pass(60);
    let id = sim.engine.view().incidents[0].id.clone();
    assert_eq!(sim.drain_state(), "withheld");
    let answer = sim.order(OrderVerb::Clear, &id).unwrap();
    assert!(!answer.contains("drain"), "{answer}");
}

#[test]
fn root_lifts_a_drain_of_ours_whose_record_was_lost_by_its_id() {
    let mut sim = Sim::new(Mode::Drain);
    sim.xid(119);
    let id = sim.engine.view().incidents[0].id.clone();
    sim.wipe();
    sim.pass(15);
    assert_eq!(sim.drain_state(), "drained");
    assert!(sim.order(OrderVerb::Clear, &id).is_err(), "not root");
    sim.by_root = true;
    assert!(sim.order(OrderVerb::Clear, "aaaaaaaa").is_err(), "another id");
    sim.order(OrderVerb::Clear, &id).unwrap();
    assert!(!sim.slurm.is_drained());
    assert_eq!(sim.drain_state(), "none");
}

#[test]
fn after_a_wipe_the_incident_of_the_same_fault_goes_on_under_the_id_in_the_reason() {
    let mut sim = Sim::new(Mode::Drain);
    sim.xid(119);
    let id = sim.engine.view().incidents[0].id.clone();
    for code in [109, 119] {
        sim.wipe();
        sim.xid(code);
        sim.pass(60);
        let now = sim.engine.view().incidents[0].id.clone();
        assert_eq!(now == id, code == 119, "another fault has an id of its own");
    }
    assert_eq!(sim.slurm.drains, 1);
    sim.by_root = true;
    sim.order(OrderVerb::Clear, &id).unwrap();
    sim.pass(1);
    assert!(!sim.slurm.is_drained());
}

#[test]
fn only_root_lifts_a_drain_that_could_not_be_recorded() {
    for root in [false, true] {
        let mut sim = Sim::new(Mode::Drain);
        sim.disk_works = false;
        sim.by_root = root;
        sim.xid(119);
        let id = sim.engine.view().incidents[0].id.clone();
        let answer = sim.order(OrderVerb::Clear, &id).unwrap();
        assert_eq!(answer.contains("no record proves"), !root, "{answer}");
        sim.pass(600);
        assert_eq!(sim.slurm.is_drained(), !root);
    }
}

#[test]
fn the_quiet_minute_starts_again_with_the_daemon() {
    let mut sim = Sim::holding();
    sim.xid(119);
    sim.pass(620);
    sim.verdict_154(Recovery::None);
    sim.restart();
    sim.pass(45);
    assert!(sim.slurm.is_drained());
    sim.pass(45);
    assert!(!sim.slurm.is_drained());
}
