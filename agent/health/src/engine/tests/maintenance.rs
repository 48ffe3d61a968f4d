//! Drains during a maintenance.

use collectors::event::Recovery;

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
