//! Drains during a maintenance.

use collectors::event::Recovery;
use collectors::gpu::metrics as m;
use model::scheduler::HeldBy;

use super::sim::*;
use crate::Mode;
use slurm::state::Flag;

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
    let mut sim = Sim::expecting(GPU);
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
fn in_maintenance_with_another_obstacle_nothing_is_attempted() {
    for obstacle in [Some(Flag::RebootIssued), Some(Flag::InvalidReg), None] {
        let mut sim = Sim::expecting(GPU);
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
    let mut sim = Sim::expecting(GPU2);
    sim.slurm.flags.insert(Flag::Maint);
    sim.xid(119);
    sim.pass(60);
    assert_eq!(sim.slurm.drains, 0);
    sim.remove_gpu(GPU2);
    sim.pass(60);
    assert_eq!(sim.slurm.drains, 1);
}

/// An event that waits for the end of a maintenance.
fn waiting() -> Sim {
    let mut sim = Sim::new(Mode::Drain);
    sim.host.driven = vec![super::host::Driven {
        label: "GPU-1".to_owned(),
        series: vec![
            (&m::UP, vec![], 1),
            (
                &m::INFO,
                vec!["nvidia", "H100", GPU, "0", "0", "", "", "", "580", "hopper"],
                1,
            ),
            (&m::ENERGY, vec![], 5000),
        ],
        late: None,
        ..super::host::Driven::default()
    }];
    sim.slurm.flags.insert(Flag::Maint);
    sim.pass(60);
    sim.xid(119);
    sim.pass(600);
    assert_eq!((sim.slurm.drains, sim.drain_state().as_str()), (0, "withheld"));
    sim
}

/// Ends a maintenance that an event waits for.
pub(super) fn drains_1_min_after_the_end(sim: &mut Sim) {
    sim.slurm.flags.remove(&Flag::Maint);
    sim.pass(50);
    assert_eq!(sim.slurm.drains, 0);
    sim.pass(60);
    assert_eq!(sim.slurm.drains, 1);
}

#[test]
fn an_event_of_a_maintenance_is_dropped_where_a_reset_or_driver_reload_just_before_its_end_is_seen() {
    let mut sim = waiting();
    sim.host.driven[0].series[2].2 = 10;
    sim.slurm.flags.remove(&Flag::Maint);
    sim.pass(600);
    assert_eq!(sim.slurm.drains, 0);
    assert_eq!(sim.incidents(), ["xid119 cleared"]);
}

#[test]
fn an_event_of_a_maintenance_is_dropped_where_it_ended_with_a_reboot() {
    for slurmd_is_late in [false, true] {
        let mut sim = waiting();
        sim.slurm.flags.remove(&Flag::Maint);
        sim.slurm.here = !slurmd_is_late;
        sim.reboot();
        sim.pass(10);
        sim.slurm.here = true;
        sim.pass(600);
        assert_eq!(sim.slurm.drains, 0, "{slurmd_is_late}");
        assert_eq!(sim.incidents(), ["xid119 cleared"]);
    }
}

#[test]
fn an_event_of_a_maintenance_that_no_remedy_followed_drains_1_min_after_its_end_and_a_new_one_at_once() {
    drains_1_min_after_the_end(&mut waiting());
    let mut sim = waiting();
    sim.slurm.flags.remove(&Flag::Maint);
    sim.pass(15);
    sim.xid(119);
    sim.pass(2);
    assert_eq!(sim.slurm.drains, 1);
}

/// A person's drain beside a maintenance is the usual way to have one.
#[test]
fn an_event_of_a_maintenance_is_not_drained_sooner_where_a_person_drained_too() {
    for is_first in [true, false] {
        let mut sim = Sim::new(Mode::Drain);
        if is_first {
            sim.slurm.admin_drains("firmware update");
        }
        sim.slurm.flags.insert(Flag::Maint);
        sim.pass(60);
        sim.xid(119);
        sim.pass(60);
        if !is_first {
            sim.slurm.admin_drains("firmware update");
        }
        sim.pass(600);
        assert_eq!(sim.drain_state(), "foreign");
        sim.slurm.flags.remove(&Flag::Maint);
        sim.slurm.admin_resumes();
        sim.pass(50);
        assert_eq!(sim.slurm.drains, 0, "{is_first}");
        sim.pass(60);
        assert_eq!(sim.slurm.drains, 1, "{is_first}");
    }
}

/// The minute of judgement is not over with the daemon.
#[test]
fn an_event_of_a_maintenance_is_not_drained_sooner_after_a_restart() {
    let mut sim = waiting();
    sim.slurm.flags.remove(&Flag::Maint);
    sim.pass(15);
    sim.restart();
    sim.pass(30);
    assert_eq!(sim.slurm.drains, 0);
    sim.pass(60);
    assert_eq!(sim.slurm.drains, 1);
}

#[test]
fn in_maintenance_a_node_without_a_slot_for_its_cause_takes_one_for_nodes_in_maintenance() {
    let mut sim = Sim::expecting(GPU);
    sim.slurm.held = Some(HeldBy::Guard);
    sim.slurm.maintenance_free = true;
    sim.slurm.flags.insert(Flag::Maint);
    sim.remove_gpu(GPU);
    sim.pass(75);
    assert_eq!(sim.slurm.drains, 1);
    // One that is not in maintenance is read once for it.
    let mut sim = Sim::expecting(GPU);
    sim.slurm.held = Some(HeldBy::Guard);
    sim.slurm.maintenance_free = true;
    sim.remove_gpu(GPU);
    sim.pass(75);
    let looks = sim.looks;
    assert_eq!((sim.slurm.drains, sim.drain_state().as_str()), (0, "held"));
    sim.pass(240);
    assert_eq!(sim.looks, looks);
}

#[test]
fn a_drain_that_waits_for_the_judgement_after_a_maintenance_says_so_and_is_not_withdrawn() {
    let mut sim = waiting();
    let since = sim.trail().len();
    sim.slurm.flags.remove(&Flag::Maint);
    sim.pass(50);
    let drain = sim.engine.view().drain;
    assert_eq!(drain.state, "wanted");
    assert!(drain.why.starts_with("a maintenance ended"), "{}", drain.why);
    sim.pass(60);
    assert_eq!(sim.slurm.drains, 1);
    assert_eq!(sim.trail()[since..], ["Written Drain"]);
}
