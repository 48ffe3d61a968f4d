//! Check gpfs-daemon-down.

use collectors::gpfs::metrics::DAEMON_UP;
use collectors::{Block, Subject};

use super::sim::*;
use crate::Mode;

/// The next reading of mmfsd.
fn reading(sim: &mut Sim, read: Result<u64, &'static str>) {
    let block = read.map(|up| {
        let mut block = Block::default();
        block.u64(&DAEMON_UP, &[], up);
        block
    });
    sim.host.others = vec![("gpfs", Subject::node(), block)];
}

#[test]
fn a_daemon_that_ran_and_ended_is_a_finding_and_never_drains_by_default() {
    let mut sim = Sim::new(Mode::Drain);
    reading(&mut sim, Ok(1));
    sim.pass(60);
    reading(&mut sim, Ok(0));
    sim.pass(90);
    assert_eq!(sim.incidents(), [""; 0], "a restart takes a moment");
    sim.pass(60);
    assert!(sim.says("mmfsd does not run", false), "{:?}", sim.incidents());
    assert_eq!((sim.slurm.drains, sim.slurm.undrains), (0, 0));
    reading(&mut sim, Ok(1));
    sim.pass(120);
    assert!(sim.says("mmfsd does not run", true), "{:?}", sim.incidents());
}

#[test]
fn a_daemon_that_does_not_answer_is_a_finding() {
    let mut sim = Sim::new(Mode::Drain);
    reading(&mut sim, Ok(1));
    sim.pass(60);
    reading(&mut sim, Err("timeout"));
    sim.pass(180);
    assert!(sim.says("mmfsd does not answer", false), "{:?}", sim.incidents());
}

#[test]
fn a_daemon_that_was_never_started_and_a_missing_permission_are_no_finding() {
    for read in [Ok(0), Err("denied"), Err("timeout")] {
        let mut sim = Sim::new(Mode::Drain);
        reading(&mut sim, read);
        sim.pass(900);
        assert_eq!(sim.incidents(), [""; 0], "{read:?}");
    }
}

#[test]
fn that_it_ran_is_known_over_a_restart_and_forgotten_at_a_reboot() {
    let mut sim = Sim::new(Mode::Drain);
    reading(&mut sim, Ok(1));
    sim.pass(60);
    reading(&mut sim, Ok(0));
    sim.restart();
    sim.pass(180);
    assert!(sim.says("mmfsd does not run", false), "{:?}", sim.incidents());
    sim.reboot();
    sim.pass(900);
    assert!(sim.says("mmfsd does not run", false), "unknown ends no incident");
    assert_eq!(sim.slurm.drains, 0);
}
