//! What drains again after an operator's lift, how soon, and what is never lifted automatically.

use std::time::Duration;

use collectors::EventBody;
use collectors::event::Recovery;

use super::sim::*;
use crate::{Mode, OrderVerb};
use slurm::state::{Base, Flag};

/// The reason of the drain in place.
fn reason(sim: &Sim) -> String {
    assert!(sim.slurm.is_drained());
    sim.slurm.reason.clone().unwrap()
}

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
    assert!(reason(&sim).ends_with(" again-after-lift"), "{}", reason(&sim));
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
    assert!(!reason(&sim).contains("after-lift"), "it is new evidence");
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
    let mut config = config(Mode::Drain);
    config.gpu_addresses = vec![pci(GPU)];
    let mut sim = Sim::with(config, None);
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
    assert!(reason(&sim).ends_with(" again-after-lift"));
}

#[test]
fn an_operators_own_drain_that_ends_is_followed_by_ours_within_2_s() {
    let mut sim = Sim::new(Mode::Drain);
    sim.slurm.admin_drains("fan");
    sim.pass(60);
    sim.xid(79);
    sim.pass(500);
    sim.slurm.admin_resumes();
    sim.pass(2);
    assert!(reason(&sim).ends_with(" again-after-lift"));
    sim.slurm.admin_resumes();
    sim.pass(60);
    assert_eq!(sim.drain_state(), "overridden", "the second lift within an hour");
}

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
    let mut sim = Sim::new(Mode::Drain);
    sim.xid(79);
    crash(&mut sim, 2);
    sim.pass(15);
    assert_eq!((sim.slurm.drains, sim.engine.view().overrides), (2, 0));
    assert!(!reason(&sim).contains("after-lift"));
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

fn holding() -> Sim {
    let mut config = config(Mode::Drain);
    config.scheduler.hold = Duration::from_secs(600);
    Sim::with(config, None)
}

#[test]
fn a_fault_that_comes_and_goes_is_one_drain_not_six() {
    let mut sim = holding();
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
fn a_finding_after_the_remedy_starts_the_quiet_minute_anew() {
    let mut sim = holding();
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
    sim.pass(30);
    assert!(!sim.slurm.is_drained());
}

#[test]
fn the_third_automatic_lift_of_a_day_is_a_persons() {
    let mut sim = holding();
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
fn a_comment_that_was_not_replaced_is_removed_with_its_incident() {
    let mut sim = Sim::new(Mode::Comment);
    sim.xid(119);
    let first = sim.slurm.comment.clone().unwrap();
    let mut other = xid_of(119);
    other.pci = pci(GPU2);
    sim.event(EventBody::Xid(other.clone()));
    sim.slurm.trouble.push_back(Trouble::Failed);
    sim.verdict_154(Recovery::None);
    assert_eq!(
        sim.slurm.comment.as_ref(),
        Some(&first),
        "the other's text was refused"
    );
    (other.code, other.recovery) = (154, Some(Recovery::None));
    sim.event(EventBody::Xid(other));
    sim.pass(1200);
    assert_eq!(sim.slurm.comment, None);
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

fn missing_gpu(hold: bool) -> Sim {
    let mut config = config(Mode::Drain);
    config.gpu_addresses = vec![pci(GPU)];
    if hold {
        config.maintenance = crate::settings::Maintenance::Hold;
    }
    let mut sim = Sim::with(config, None);
    sim.slurm.flags.insert(Flag::Maint);
    sim.remove_gpu(GPU);
    sim.pass(60);
    sim
}

#[test]
fn in_maintenance_a_condition_that_stands_drains_at_once_and_both_flags_stay() {
    let sim = missing_gpu(false);
    assert_eq!(sim.drain_state(), "drained");
    assert!(sim.slurm.is_drained() && sim.slurm.flags.contains(&Flag::Maint));
}

#[test]
fn in_maintenance_a_site_may_hold_every_drain_until_its_end() {
    let mut sim = missing_gpu(true);
    assert_eq!((sim.slurm.drains, sim.drain_state().as_str()), (0, "withheld"));
    sim.slurm.flags.remove(&Flag::Maint);
    sim.pass(2);
    assert_eq!(sim.slurm.drains, 1);
}

#[test]
fn in_maintenance_a_condition_that_cannot_be_read_waits() {
    let mut config = config(Mode::Drain);
    config.gpu_addresses = vec![pci(GPU)];
    let mut sim = Sim::with(config, None);
    sim.slurm.flags.insert(Flag::RebootIssued);
    sim.remove_gpu(GPU);
    sim.pass(60);
    sim.host.readable = false;
    sim.pass(60);
    sim.slurm.flags = [Flag::Maint].into();
    sim.pass(60);
    assert_eq!(sim.slurm.drains, 0);
    sim.host.readable = true;
    sim.pass(15);
    assert_eq!(sim.slurm.drains, 1);
}

#[test]
fn in_maintenance_an_event_waits_and_is_dropped_when_its_remedy_is_seen() {
    let mut sim = Sim::new(Mode::Drain);
    sim.slurm.flags.insert(Flag::Maint);
    sim.xid(119);
    sim.pass(600);
    assert_eq!((sim.slurm.drains, sim.drain_state().as_str()), (0, "withheld"));
    sim.verdict_154(Recovery::None);
    sim.slurm.flags.remove(&Flag::Maint);
    sim.pass(600);
    assert_eq!(sim.slurm.drains, 0);
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
fn a_node_that_is_down_or_failed_is_not_lifted_by_anybody() {
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
        assert!(!reason(&sim).contains("after-lift"), "{}", reason(&sim));
    }
}

#[test]
fn in_maintenance_with_another_obstacle_nothing_is_attempted() {
    for obstacle in [Some(Flag::RebootIssued), Some(Flag::InvalidReg), None] {
        let mut config = config(Mode::Drain);
        config.gpu_addresses = vec![pci(GPU)];
        let mut sim = Sim::with(config, None);
        sim.slurm.flags.insert(Flag::Maint);
        sim.slurm.flags.extend(obstacle);
        if obstacle.is_none() {
            sim.slurm.admin_drains("RMA");
        }
        sim.remove_gpu(GPU);
        sim.pass(600);
        assert_eq!(sim.slurm.drains, 0);
        assert!(sim.acts <= 1, "{} acts", sim.acts);
    }
}

#[test]
fn in_maintenance_a_condition_drains_although_an_event_came_first() {
    let mut config = config(Mode::Drain);
    config.gpu_addresses = vec![pci(GPU2)];
    let mut sim = Sim::with(config, None);
    sim.slurm.flags.insert(Flag::Maint);
    sim.xid(119);
    sim.pass(60);
    assert_eq!(sim.slurm.drains, 0);
    sim.remove_gpu(GPU2);
    sim.pass(60);
    assert_eq!(sim.slurm.drains, 1);
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
    let mut sim = holding();
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

#[test]
fn a_lifted_condition_does_not_hold_the_drain_of_another_incident() {
    let mut config = config(Mode::Drain);
    config.gpu_addresses = vec![pci(GPU2)];
    let mut sim = Sim::with(config, None);
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
fn the_quiet_minute_starts_again_with_the_daemon() {
    let mut sim = holding();
    sim.xid(119);
    sim.pass(620);
    sim.verdict_154(Recovery::None);
    sim.restart();
    sim.pass(45);
    assert!(sim.slurm.is_drained());
    sim.pass(45);
    assert!(!sim.slurm.is_drained());
}
