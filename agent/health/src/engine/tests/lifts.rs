//! What drains again after an operator's lift.

use collectors::event::Recovery;

use super::sim::*;
use crate::Mode;
use slurm::state::{Base, Flag};

#[test]
fn the_same_xid_between_a_lift_and_its_discovery_drains_at_once() {
    let mut sim = Sim::new(Mode::Drain);
    sim.xid(79);
    sim.pass(300);
    sim.slurm.admin_resumes();
    sim.pass(3);
    let looks = sim.looks;
    sim.xid(79);
    assert_eq!(sim.looks, looks + 1);
    assert_eq!(sim.slurm.drains, 2);
    assert!(sim.reason().ends_with(" again-after-lift"), "{}", sim.reason());
}

#[test]
fn another_xid_within_the_settle_window_of_a_lifted_drain_drains_at_once() {
    for code in [95, 119, 62, 109] {
        let mut sim = Sim::new(Mode::Drain);
        sim.xid(79);
        sim.slurm.admin_resumes();
        sim.pass(5);
        sim.xid(code);
        sim.pass(2);
        assert_eq!(sim.slurm.drains, 2, "{code}");
    }
}

#[test]
fn a_second_lift_within_an_hour_silences_what_was_known_and_nothing_else() {
    let mut sim = Sim::new(Mode::Drain);
    sim.xid(119);
    sim.admin_insists();
    assert_eq!((sim.slurm.drains, sim.slurm.is_drained()), (2, false));
    sim.pass(7200);
    assert_eq!(sim.slurm.drains, 2);
    sim.xid(119);
    assert_eq!(sim.slurm.drains, 3);
    assert!(!sim.reason().contains("after-lift"), "it is new evidence");
}

#[test]
fn a_second_lift_after_more_than_an_hour_counts_as_the_first() {
    let mut sim = Sim::new(Mode::Drain);
    sim.xid(119);
    sim.slurm.admin_resumes();
    sim.pass(3700);
    assert_eq!(sim.slurm.drains, 2);
    sim.slurm.admin_resumes();
    sim.pass(60);
    assert_eq!(sim.slurm.drains, 3);
}

#[test]
fn evidence_after_a_second_lift_opens_an_incident_of_its_own() {
    let mut sim = Sim::new(Mode::Drain);
    sim.xid(119);
    sim.slurm.admin_resumes();
    sim.pass(60);
    sim.slurm.admin_resumes();
    sim.pass(3);
    sim.xid(119);
    sim.pass(2);
    assert_eq!(sim.slurm.drains, 3);
    assert_eq!(sim.incidents(), ["xid119 open", "xid119 overridden"]);
}

#[test]
fn what_only_an_operator_ends_is_ended_by_the_lift() {
    let row = "[[xid]]\ncode = 63\nmeaning = \"site\"\nclass = \"gpu\"\naction = \"drain-now\"\nclears = [\"person\"]\n";
    let mut config = config(Mode::Drain);
    config.xids = Some("/etc/nodewarden/xids.toml".into());
    let mut sim = Sim::with(config, Some(row));
    sim.xid(63);
    sim.slurm.admin_resumes();
    sim.pass(600);
    assert_eq!((sim.slurm.drains, sim.drain_state().as_str()), (1, "overridden"));
}

#[test]
fn a_condition_drains_again_only_after_a_reading_after_the_lift() {
    let mut sim = Sim::expecting(GPU);
    sim.remove_gpu(GPU);
    sim.pass(60);
    sim.slurm.admin_resumes();
    // Nothing is read.
    sim.host.readable = false;
    sim.pass(120);
    assert_eq!((sim.slurm.drains, sim.drain_state().as_str()), (1, "overridden"));
    sim.host.readable = true;
    sim.pass(30);
    assert_eq!(sim.slurm.drains, 2);
    assert!(sim.reason().ends_with(" again-after-lift"));
}

/// `scontrol reboot ASAP nextstate=RESUME`: Slurm ends the drain when the node registers.
#[test]
fn reboots_that_end_the_drain_silence_no_fault_that_is_still_there() {
    let mut sim = Sim::expecting(GPU);
    sim.remove_gpu(GPU);
    sim.pass(60);
    for drains in 2..6 {
        sim.slurm.admin_resumes();
        sim.reboot();
        sim.pass(120);
        assert_eq!(sim.slurm.drains, drains);
        assert!(sim.slurm.is_drained());
    }
}

#[test]
fn a_foreign_drain_that_ends_is_no_lift_of_ours_and_ours_follows_within_2_s() {
    let mut sim = Sim::new(Mode::Drain);
    sim.slurm
        .admin_drains("NHC: check_fs_mount: /scratch not mounted");
    sim.pass(60);
    sim.xid(79);
    sim.pass(500);
    assert_eq!(sim.drain_state(), "foreign");
    sim.slurm.admin_resumes();
    sim.pass(2);
    assert!(!sim.reason().contains("after-lift"), "{}", sim.reason());
    assert_eq!(sim.engine.view().overrides, 0);
    // The first lift of a person who sees the reason.
    sim.slurm.admin_resumes();
    sim.pass(60);
    assert!(sim.reason().ends_with(" again-after-lift"), "{}", sim.reason());
    sim.slurm.admin_resumes();
    sim.pass(60);
    assert_eq!(sim.drain_state(), "overridden", "the second lift within an hour");
}

/// Xid 54: the power cable. Only `clear` ends it.
#[test]
fn a_program_that_lifts_its_own_drain_ends_no_fault_that_only_an_operator_ends() {
    let mut sim = Sim::new(Mode::Drain);
    sim.slurm
        .admin_drains("NHC: check_fs_mount: /scratch not mounted");
    sim.xid(54);
    sim.pass(4);
    sim.slurm.admin_resumes();
    sim.pass(2);
    assert_eq!(sim.incidents(), ["xid54 open"]);
    assert!(sim.reason().contains("xid54"), "{}", sim.reason());
    sim.slurm.admin_resumes();
    sim.pass(600);
    assert_eq!((sim.slurm.drains, sim.drain_state().as_str()), (1, "overridden"));
}

#[test]
fn the_end_of_down_or_fail_is_no_lift() {
    for flag in [None, Some(Flag::Fail)] {
        let mut sim = Sim::new(Mode::Drain);
        sim.slurm.reason = Some("Node unexpectedly rebooted".to_owned());
        sim.slurm.base = if flag.is_none() { Base::Down } else { Base::Idle };
        sim.slurm.flags.extend(flag);
        sim.xid(119);
        sim.pass(300);
        assert_eq!(sim.drain_state(), "foreign");
        assert_eq!(sim.incidents(), ["xid119 open"]);
        // The administrator returns it to service.
        sim.slurm.base = Base::Idle;
        sim.slurm.flags.clear();
        sim.pass(2);
        assert!(!sim.reason().contains("after-lift"), "{}", sim.reason());
    }
}

/// Slurm 22.05: ResumeTimeout has passed since `scontrol reboot`. Later releases do so to nodes that were powered up.
#[test]
fn a_drain_that_slurmctld_drops_with_a_node_that_did_not_boot_in_time_is_no_lift() {
    let mut sim = Sim::new(Mode::Drain);
    sim.xid(119);
    for drains in 2..4 {
        let ours = sim.reason();
        sim.slurm.flags.remove(&Flag::Drain);
        sim.slurm.base = Base::Down;
        sim.slurm.reason = Some(format!("{ours} : reboot issued : reboot timed out"));
        sim.pass(600);
        assert_eq!(
            (sim.slurm.drains, sim.drain_state().as_str()),
            (drains, "drained")
        );
        assert!(!sim.reason().contains("after-lift"), "{}", sim.reason());
        assert_eq!(sim.engine.view().overrides, 0);
        sim.slurm.base = Base::Idle;
    }
    // A person's lift is the first one.
    sim.slurm.admin_resumes();
    sim.pass(600);
    assert!(sim.reason().ends_with(" again-after-lift"), "{}", sim.reason());
}

/// UNDRAIN ends DRAIN alone: the node stays DOWN, with our reason.
#[test]
fn a_person_who_undrains_a_node_that_is_down_is_obeyed_the_second_time() {
    let mut sim = Sim::new(Mode::Drain);
    sim.xid(119);
    sim.slurm.base = Base::Down;
    for (drains, state) in [(2, "drained"), (2, "overridden")] {
        sim.slurm.flags.remove(&Flag::Drain);
        sim.pass(600);
        assert_eq!((sim.slurm.drains, sim.drain_state().as_str()), (drains, state));
    }
}

#[test]
fn a_drain_that_an_operator_took_over_and_slurmctld_dropped_is_no_lift() {
    let mut sim = Sim::new(Mode::Drain);
    sim.xid(119);
    sim.slurm.admin_drains("RMA 4711");
    sim.pass(600);
    sim.slurm.flags.remove(&Flag::Drain);
    sim.slurm.base = Base::Down;
    sim.slurm.reason = Some("RMA 4711 : reboot issued : reboot timed out".to_owned());
    sim.pass(600);
    assert_eq!((sim.slurm.drains, sim.drain_state().as_str()), (1, "foreign"));
    sim.slurm.base = Base::Idle;
    sim.pass(2);
    assert_eq!((sim.slurm.drains, sim.engine.view().overrides), (2, 0));
    assert!(!sim.reason().contains("after-lift"), "{}", sim.reason());
}

#[test]
fn a_lifted_condition_does_not_hold_the_drain_of_another_incident() {
    let mut sim = Sim::expecting(GPU2);
    sim.remove_gpu(GPU2);
    sim.pass(60);
    sim.host.readable = false;
    sim.slurm.admin_resumes();
    sim.pass(60);
    sim.xid(119);
    assert_eq!(sim.slurm.drains, 2);
    sim.verdict_154(Recovery::None);
    sim.pass(60);
    assert!(
        !sim.slurm.is_drained(),
        "nothing was read of the other since the lift"
    );
}

#[test]
fn an_incident_whose_drain_was_lifted_twice_is_counted_and_named_and_acts_no_more() {
    let mut sim = Sim::new(Mode::Drain);
    sim.xid(119);
    sim.admin_insists();
    let view = sim.engine.view();
    assert_eq!(sim.incidents(), ["xid119 overridden"]);
    assert_eq!(view.verdict.health, crate::verdict::Health::Healthy);
    assert_eq!(view.verdict.incidents, 1);
    let subject = &view.incidents[0].subject;
    assert_eq!(
        view.verdict.text,
        format!("1 open incident: xid {subject} (an operator lifted its drain)")
    );
    assert!(!view.incidents[0].acts && !view.incidents[0].drains);
}
