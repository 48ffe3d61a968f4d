//! Orders of operators have priority.

use collectors::EventBody;
use collectors::event::Recovery;

use super::host::Port;
use super::sim::*;
use crate::verdict::Health;
use crate::{Mode, OrderVerb};
use slurm::state::{Base, Flag};

#[test]
fn a_drain_that_was_lifted_twice_is_not_set_again_without_new_evidence() {
    let mut sim = Sim::new(Mode::Drain);
    sim.xid(79);
    sim.admin_insists();
    sim.pass(600);
    sim.restart();
    sim.pass(600);
    assert_eq!(sim.slurm.drains, 2);
    assert_eq!(sim.drain_state(), "overridden");
    assert_eq!(sim.incidents(), ["xid79 overridden"]);
    assert_eq!(sim.engine.view().overrides, 2);
    sim.xid(79);
    assert_eq!(sim.slurm.drains, 3);
    assert_eq!(sim.incidents(), ["xid79 open", "xid79 overridden"]);
}

#[test]
fn a_missing_gpu_is_no_new_evidence_after_an_override() {
    let mut config = config(Mode::Drain);
    config.gpu_addresses = vec![pci(GPU)];
    let mut sim = Sim::with(config, None);
    sim.pass(15);
    sim.xid(79);
    // The next reading of the node is between the first and the second reading without the GPU.
    sim.pass(20);
    sim.remove_gpu(GPU);
    sim.admin_insists();
    sim.pass(600);
    assert!(sim.incidents().contains(&"xid79 overridden".to_owned()));
    assert_eq!(sim.slurm.drains, 2);
    sim.set_gpu(GPU, "nvidia", Some(true));
    sim.pass(120);
    assert_eq!(sim.slurm.drains, 2);
    sim.remove_gpu(GPU);
    sim.pass(60);
    assert_eq!(sim.slurm.drains, 3, "it was back, and went again");
}

fn xid_of_the_other_gpu(sim: &mut Sim) {
    let mut xid = xid_of(79);
    xid.pci = pci(GPU2);
    sim.event(EventBody::Xid(xid));
}

#[test]
fn a_fault_between_a_lift_and_its_detection_is_new_evidence() {
    let mut sim = Sim::new(Mode::Drain);
    sim.xid(79);
    sim.pass(300);
    sim.slurm.admin_resumes();
    sim.pass(5);
    let looks = sim.looks;
    xid_of_the_other_gpu(&mut sim);
    assert_eq!(sim.looks, looks + 1, "seen at once");
    assert_eq!(sim.slurm.drains, 2);
    sim.pass(3600);
    assert_eq!((sim.drain_state().as_str(), sim.slurm.drains), ("drained", 2));
    assert_eq!(sim.incidents(), ["xid79 open", "xid79 open"]);
}

#[test]
fn a_fault_that_the_person_could_see_is_overridden_with_the_rest() {
    let mut sim = Sim::new(Mode::Drain);
    sim.xid(79);
    sim.pass(300);
    xid_of_the_other_gpu(&mut sim);
    sim.pass(1);
    sim.admin_insists();
    sim.pass(600);
    assert_eq!(sim.incidents(), ["xid79 overridden", "xid79 overridden"]);
    assert_eq!(sim.slurm.drains, 2);
}

#[test]
fn a_fault_while_slurm_is_unreadable_is_new_evidence() {
    let mut sim = Sim::new(Mode::Drain);
    sim.xid(79);
    sim.pass(300);
    sim.slurm.readable = false;
    sim.pass(60);
    sim.slurm.admin_resumes();
    xid_of_the_other_gpu(&mut sim);
    sim.pass(300);
    sim.slurm.readable = true;
    sim.pass(600);
    assert!(sim.slurm.is_drained());
    // The operator knew nothing of the second: it was lifted for the first time now.
    sim.slurm.admin_resumes();
    sim.pass(600);
    assert_eq!(sim.incidents(), ["xid79 open", "xid79 overridden"]);
    assert!(sim.slurm.reason.clone().unwrap().contains(GPU2));
    assert!(sim.slurm.is_drained());
}

#[test]
fn an_overridden_incident_ends_like_any_other() {
    let mut sim = Sim::new(Mode::Drain);
    sim.xid(79);
    sim.admin_insists();
    sim.reboot();
    sim.pass(60);
    assert_eq!(sim.incidents(), ["xid79 cleared"]);
    assert_eq!(sim.drain_state(), "none");
}

#[test]
fn a_foreign_drain_is_left_alone_until_it_is_gone() {
    let mut sim = Sim::new(Mode::Drain);
    sim.slurm.admin_drains("fan");
    sim.xid(79);
    assert_eq!(sim.drain_state(), "foreign");
    assert_eq!(sim.slurm.reason.as_deref(), Some("fan"));
    sim.pass(600);
    assert_eq!(sim.slurm.drains, 0);
    sim.slurm.admin_resumes();
    sim.pass(60);
    assert_eq!((sim.slurm.drains, sim.drain_state().as_str()), (1, "drained"));
}

#[test]
fn a_foreign_drain_is_not_lifted_when_ours_is_over() {
    let mut sim = Sim::new(Mode::Drain);
    sim.slurm.admin_drains("fan");
    sim.xid(79);
    sim.reboot();
    sim.pass(60);
    assert_eq!(sim.incidents(), ["xid79 cleared"]);
    assert_eq!((sim.slurm.undrains, sim.drain_state().as_str()), (0, "none"));
    assert!(sim.slurm.is_drained());
}

#[test]
fn a_reason_written_over_ours_makes_the_drain_a_persons() {
    let mut sim = Sim::new(Mode::Drain);
    sim.xid(79);
    sim.slurm.admin_drains("I am looking at it");
    sim.pass(60);
    assert_eq!(sim.drain_state(), "foreign");
    sim.reboot();
    sim.pass(120);
    assert_eq!(sim.incidents(), ["xid79 cleared"]);
    assert!(sim.slurm.is_drained());
    assert_eq!(sim.slurm.undrains, 0);
}

#[test]
fn lifting_a_drain_that_was_taken_over_is_an_override_too() {
    let mut sim = Sim::new(Mode::Drain);
    sim.xid(79);
    sim.slurm.admin_drains("I am looking at it");
    sim.pass(60);
    sim.admin_insists();
    sim.pass(600);
    assert_eq!((sim.slurm.drains, sim.drain_state().as_str()), (2, "overridden"));
}

fn health(sim: &Sim) -> Health {
    sim.engine.view().verdict.health
}

/// slurmstepd drains the node when a task outlives SIGKILL, and a cron script resumes such nodes.
fn task_outlives_its_job(sim: &mut Sim) {
    sim.slurm.admin_drains("Kill task failed");
    sim.slurm.user = "root".to_owned();
}

#[test]
fn the_end_of_a_drain_of_slurmstepd_over_ours_is_no_lift_of_ours() {
    for is_seen in [true, false] {
        let mut sim = Sim::new(Mode::Drain);
        sim.xid(54);
        sim.pass(60);
        for drains in 2..5 {
            task_outlives_its_job(&mut sim);
            if is_seen {
                sim.pass(600);
                let drain = sim.engine.view().drain;
                assert_eq!(
                    (drain.state.as_str(), drain.why.as_str()),
                    ("foreign", "Kill task failed by root")
                );
            }
            assert_eq!(health(&sim), Health::Unhealthy);
            // 24.11 keeps printing the old reason.
            sim.slurm.admin_resumes();
            sim.pass(if is_seen { 10 } else { 600 });
            assert_eq!((sim.slurm.drains, sim.slurm.is_drained()), (drains, true));
            assert!(!sim.reason().contains("after-lift"));
        }
        assert_eq!(sim.engine.view().overrides, 0);
        sim.admin_insists();
        assert_eq!(sim.drain_state(), "overridden", "a person's lift counts");
    }
}

#[test]
fn a_drain_of_slurmstepd_over_ours_stays_when_ours_is_over() {
    let mut sim = Sim::new(Mode::Drain);
    sim.xid(119);
    sim.pass(60);
    task_outlives_its_job(&mut sim);
    sim.pass(600);
    sim.reboot();
    sim.pass(1200);
    assert_eq!(sim.incidents(), ["xid119 cleared"]);
    assert_eq!((sim.slurm.undrains, sim.drain_state().as_str()), (0, "none"));
    assert_eq!(sim.slurm.reason.as_deref(), Some("Kill task failed"));
    assert!(sim.slurm.is_drained());
}

/// The prolog of the next job fails on the broken GPU seconds after a person's lift.
#[test]
fn a_prolog_error_right_after_a_persons_lift_is_called_slurmctlds_drain() {
    let mut sim = Sim::new(Mode::Drain);
    sim.xid(119);
    sim.pass(60);
    sim.slurm.admin_resumes();
    sim.slurm.admin_drains("Prolog error");
    sim.slurm.user = "root".to_owned();
    sim.pass(600);
    let drain = sim.engine.view().drain;
    assert_eq!(
        (drain.state.as_str(), drain.why.as_str()),
        (
            "foreign",
            "slurmctld drained the node after the drain was lifted: Prolog error by root"
        )
    );
    assert_eq!(health(&sim), Health::Unhealthy);
    sim.slurm.admin_resumes();
    sim.pass(600);
    assert_eq!((sim.slurm.drains, sim.slurm.is_drained()), (2, true));
    sim.slurm.admin_resumes();
    sim.pass(600);
    assert_eq!((sim.slurm.drains, sim.drain_state().as_str()), (2, "overridden"));
}

#[test]
fn a_reason_that_arrives_just_before_the_lift_stops_it() {
    let mut sim = Sim::new(Mode::Drain);
    sim.xid(79);
    sim.pass(29);
    sim.slurm.admin_drains("keep out");
    sim.reboot();
    sim.pass(300);
    assert!(sim.slurm.is_drained());
    assert_eq!(sim.slurm.undrains, 0);
}

#[test]
fn slurmctlds_own_text_over_ours_is_still_ours() {
    let mut sim = Sim::new(Mode::Drain);
    sim.xid(119);
    sim.slurm.reason = Some("gres/gpu count reported lower than configured (1 < 2)".to_owned());
    sim.slurm.user = "slurm".to_owned();
    sim.slurm.flags.insert(Flag::InvalidReg);
    sim.pass(300);
    assert_eq!(sim.drain_state(), "drained");
    sim.reboot();
    sim.pass(60);
    assert!(sim.slurm.is_drained(), "withheld: INVALID_REG");
    assert_eq!(sim.drain_state(), "lifting");
    sim.slurm.flags.remove(&Flag::InvalidReg);
    sim.pass(60);
    assert!(!sim.slurm.is_drained());
}

#[test]
fn a_person_clears_and_acknowledges() {
    let mut sim = Sim::new(Mode::Drain);
    sim.xid(48);
    let id = sim.engine.view().incidents[0].id.clone();
    assert!(sim.order(OrderVerb::Clear, "aaaaaaaa").is_err());
    sim.order(OrderVerb::Ack, &id).unwrap();
    assert_eq!(sim.engine.view().incidents[0].ack.as_ref().unwrap().0, "bob");
    assert!(sim.slurm.is_drained());
    let answer = sim.order(OrderVerb::Clear, &id).unwrap();
    assert!(answer.ends_with("the drain is being lifted"), "{answer}");
    sim.pass(1);
    assert!(!sim.slurm.is_drained());
    assert!(sim.order(OrderVerb::Clear, &id).is_err());
}

#[test]
fn a_clear_promises_no_lift_of_a_drain_that_an_operator_took_over() {
    let mut sim = Sim::new(Mode::Drain);
    sim.xid(48);
    let id = sim.engine.view().incidents[0].id.clone();
    sim.slurm.admin_drains("RMA 4711");
    sim.pass(600);
    let answer = sim.order(OrderVerb::Clear, &id).unwrap();
    assert!(
        answer.ends_with("; the drain stays, because its reason was replaced: lift it with scontrol"),
        "{answer}"
    );
    sim.pass(600);
    assert!(sim.slurm.is_drained());
}

/// Slurm 24.11 keeps DRAIN when ResumeTimeout has passed.
#[test]
fn a_node_that_did_not_boot_in_time_keeps_our_drain_until_it_is_cleared() {
    let mut sim = Sim::new(Mode::Drain);
    sim.xid(48);
    let id = sim.engine.view().incidents[0].id.clone();
    sim.slurm.base = Base::Down;
    sim.slurm.reason = Some(format!("{} : reboot issued : reboot timed out", sim.reason()));
    sim.pass(600);
    assert_eq!(sim.drain_state(), "drained");
    sim.slurm.base = Base::Idle;
    sim.order(OrderVerb::Clear, &id).unwrap();
    sim.pass(60);
    assert!(!sim.slurm.is_drained());
}

#[test]
fn a_clear_hides_no_condition_that_is_not_found_yet() {
    let mut config = config(Mode::Drain);
    let check = "rdma-port-down".to_owned();
    config.checks.insert(check, Mode::Drain);
    let mut sim = Sim::with(config, None);
    sim.host.ports = (0..8).map(Port::new).collect();
    sim.pass(2000);
    for falls in 1..=5 {
        sim.host.ports[3].link_downed = Some(falls);
        sim.pass(60);
    }
    let incident = sim.engine.view().incidents[0].clone();
    assert_eq!(incident.findings.len(), 1, "only that it flaps");
    // Cleared while the port has been down for less than 240 s.
    sim.host.ports[3].down();
    sim.pass(120);
    sim.order(OrderVerb::Clear, &incident.id).unwrap();
    sim.pass(225);
    assert_eq!(sim.slurm.drains, 0, "the count restarts");
    sim.pass(60);
    assert_eq!(sim.slurm.drains, 1);
    assert_eq!(sim.incidents()[0], "link down at 0000:13:00.0 open");
}

#[test]
fn clearing_what_is_still_bad_is_an_override() {
    let mut config = config(Mode::Drain);
    config.gpu_addresses = vec![pci(GPU)];
    let mut sim = Sim::with(config, None);
    sim.remove_gpu(GPU);
    sim.pass(60);
    let id = sim.engine.view().incidents[0].id.clone();
    let answer = sim.order(OrderVerb::Clear, &id).unwrap();
    assert!(
        answer.ends_with("is still bad. The node is not drained for it again until a reading is good"),
        "{answer}"
    );
    sim.pass(600);
    assert_eq!((sim.slurm.drains, sim.slurm.is_drained()), (1, false));
}

/// A fault that is counted over time.
#[test]
fn a_clear_of_what_is_counted_again_says_so_and_of_an_event_says_nothing() {
    let mut sim = Sim::new(Mode::Drain);
    sim.host.ports = (0..8).map(Port::new).collect();
    sim.pass(2000);
    for falls in 1..=5 {
        sim.host.ports[3].link_downed = Some(falls);
        sim.pass(60);
    }
    let id = sim.engine.view().incidents[0].id.clone();
    let answer = sim.order(OrderVerb::Clear, &id).unwrap();
    assert!(
        answer.contains("Warning: the last reading of rdma-port-flapping (")
            && answer.contains("It is counted from 0"),
        "{answer}"
    );
    let mut sim = Sim::new(Mode::Drain);
    sim.xid(79);
    let id = sim.engine.view().incidents[0].id.clone();
    let answer = sim.order(OrderVerb::Clear, &id).unwrap();
    assert!(!answer.contains("Warning"), "an event has no reading: {answer}");
}

/// A node with 2 GPUs expected, of which one has a fault and the other leaves the bus: one incident shows both.
fn faulty_and_one_short() -> (Sim, String) {
    let mut config = config(Mode::Drain);
    config.expect.gpus = Some(2);
    let mut sim = Sim::with(config, None);
    sim.verdict_154(Recovery::NodeReboot);
    sim.remove_gpu(GPU2);
    sim.pass(60);
    let id = one_short(&sim);
    (sim, id)
}

/// The only incident, which shows the number of GPUs beside a fault.
fn one_short(sim: &Sim) -> String {
    let incidents = sim.engine.view().incidents;
    assert_eq!(incidents.len(), 1);
    let mut found = incidents[0].findings.iter().map(|f| f.detail.as_str());
    assert!(found.any(|f| f == "GPUs on the PCI bus: 1 found, 2 expected"));
    assert_eq!(incidents[0].subject_kind, "gpu");
    incidents[0].id.clone()
}

#[test]
fn a_gpu_that_every_reading_shows_is_not_called_missing_after_a_clear() {
    let mut sim = Sim::expecting(GPU);
    sim.pass(60);
    sim.xid(79);
    sim.pass(60);
    let id = sim.engine.view().incidents[0].id.clone();
    sim.order(OrderVerb::Clear, &id).unwrap();
    for _ in 0..2 {
        let verdict = sim.engine.view().verdict;
        let text =
            format!("gpu pci:{GPU}: its incident was cleared, and readings do not yet confirm the repair");
        assert_eq!((verdict.health, verdict.text), (Health::Unknown, text));
        sim.pass(15);
    }
    sim.pass(90);
    assert_eq!(sim.engine.view().verdict.health, Health::Healthy);

    // One that is gone.
    sim.xid(79);
    sim.remove_gpu(GPU);
    sim.pass(60);
    let id = sim.engine.view().incidents[0].id.clone();
    sim.order(OrderVerb::Clear, &id).unwrap();
    sim.pass(60);
    let text = sim.engine.view().verdict.text;
    assert!(text.contains("is not on the PCI bus"), "{text}");
}

#[test]
fn a_clear_of_one_gpu_does_not_hide_that_another_is_missing() {
    let (mut sim, id) = faulty_and_one_short();
    sim.order(OrderVerb::Clear, &id).unwrap();
    sim.pass(60);
    let incidents = sim.incidents();
    assert_eq!(incidents.len(), 2);
    assert_eq!(incidents[0], "GPUs on the PCI bus: 1 found, 2 expected open");
    assert!(sim.slurm.is_drained());
    assert_eq!(sim.engine.view().verdict.health, Health::Unhealthy);
}

#[test]
fn fewer_gpus_than_expected_are_not_healthy_after_a_clear() {
    let (mut sim, id) = faulty_and_one_short();
    sim.order(OrderVerb::Clear, &id).unwrap();
    sim.pass(60);
    // Now an operator clears the missing one, too.
    let id = sim.engine.view().incidents[0].id.clone();
    sim.order(OrderVerb::Clear, &id).unwrap();
    sim.pass(600);
    assert!(!sim.slurm.is_drained());
    let verdict = sim.engine.view().verdict;
    assert_eq!(
        (verdict.health, verdict.text.as_str()),
        (
            Health::Unknown,
            "fewer than 2 GPUs are on the PCI bus, although the incident was cleared"
        )
    );
    sim.set_gpu(GPU2, "nvidia", Some(true));
    sim.pass(120);
    assert_eq!(sim.engine.view().verdict.health, Health::Healthy, "it is back");
    sim.remove_gpu(GPU2);
    sim.pass(60);
    assert!(sim.slurm.is_drained(), "and is found again");
}

#[test]
fn fewer_gpus_than_expected_after_a_clear_of_the_gpu_that_left_the_bus_are_unknown() {
    let mut config = config(Mode::Drain);
    config.expect.gpus = Some(2);
    let mut sim = Sim::with(config, None);
    sim.xid(79);
    sim.remove_gpu(GPU);
    sim.pass(60);
    let id = one_short(&sim);
    sim.order(OrderVerb::Clear, &id).unwrap();
    sim.pass(600);
    assert!(!sim.slurm.is_drained());
    assert_eq!(sim.engine.view().verdict.health, Health::Unknown);
}

#[test]
fn a_clear_of_the_count_of_gres_makes_no_other_count_bad() {
    let mut config = config(Mode::Drain);
    config.expect.gpus = Some(2);
    let mut sim = Sim::with(config, None);
    sim.slurm.gres = "gpu:h100:3".to_owned();
    sim.pass(120);
    assert_eq!(sim.incidents(), ["fewer GPUs on the PCI bus than Gres has open"]);
    let id = sim.engine.view().incidents[0].id.clone();
    sim.order(OrderVerb::Clear, &id).unwrap();
    assert_eq!(sim.engine.view().verdict.health, Health::Healthy);
}
