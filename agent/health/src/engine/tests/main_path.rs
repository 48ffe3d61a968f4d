//! The main path: fault, drain, repair, undrain.

use std::time::Duration;

use super::sim::*;
use crate::Mode;
use crate::verdict::Health;

#[test]
fn xid_79_drains_at_once_and_the_record_goes_first() {
    let mut sim = Sim::new(Mode::Drain);
    sim.snapshot();
    sim.xid(79);
    assert!(sim.slurm.is_drained());
    assert_eq!(sim.drain_state(), "drained");
    assert!(sim.engine.view().drain.recorded);
    let view = sim.engine.view();
    assert_eq!(view.incidents[0].detail, "xid79");
    let reason = sim.slurm.reason.clone().unwrap();
    assert_eq!(
        reason,
        format!(
            "nodewarden:xid gpu pci:{GPU} xid79 act=reboot id={}",
            view.incidents[0].id
        )
    );
    assert_eq!(view.verdict.health, Health::Unhealthy);
    assert_eq!(
        view.verdict.text,
        format!("xid79 gpu pci:{GPU} act=reboot id={}", view.incidents[0].id)
    );
    assert_eq!(view.drains, [("xid".to_owned(), 1)]);
}

#[test]
fn a_healthy_node_is_looked_at_and_left_alone() {
    let mut sim = Sim::new(Mode::Drain);
    sim.pass(3600);
    assert_eq!(sim.slurm.drains, 0);
    assert_eq!(sim.engine.view().verdict.health, Health::Healthy);
    assert_eq!(sim.looks, 1, "at the start: nothing waits for another");
}

#[test]
fn a_site_may_have_the_node_read_regularly() {
    let mut config = config(Mode::Drain);
    config.scheduler.poll = Duration::from_secs(300);
    let mut sim = Sim::with(config, None);
    sim.pass(3600);
    assert!((6..=12).contains(&sim.looks), "{}", sim.looks);
}

#[test]
fn a_drain_is_watched_and_written_once() {
    let mut sim = Sim::new(Mode::Drain);
    sim.xid(79);
    sim.xid(79);
    sim.xid(119);
    sim.pass(300);
    sim.xid(46);
    sim.pass(300);
    assert_eq!(sim.slurm.drains, 1);
    assert_eq!(sim.incidents(), ["xid79 open", "xid46 open"]);
    assert!((20..42).contains(&sim.looks), "{}", sim.looks);
}

#[test]
fn the_verdict_is_unknown_until_everything_needed_was_read() {
    let mut sim = Sim::new(Mode::Drain);
    let health = |sim: &Sim| sim.engine.view().verdict.health;
    assert_eq!(health(&sim), Health::Unknown);
    sim.snapshot();
    assert_eq!(health(&sim), Health::Healthy);
    sim.host.kernel_log = false;
    sim.snapshot();
    assert_eq!(health(&sim), Health::Unknown);
    assert_eq!(sim.engine.view().verdict.text, "kernel_log: no CAP_SYSLOG");
    sim.host.kernel_log = true;
    sim.host.readable = false;
    sim.snapshot();
    assert_eq!(health(&sim), Health::Unknown);
    sim.host.readable = true;
    sim.snapshot();
    assert_eq!(health(&sim), Health::Healthy);
    sim.sleep_until(sim.now.boottime + Duration::from_secs(61));
    sim.tick();
    assert_eq!(health(&sim), Health::Unknown);
    // A known fault persists, whatever else is unreadable.
    sim.xid(79);
    assert_eq!(health(&sim), Health::Unhealthy);
}

#[test]
fn unknown_neither_drains_nor_undrains() {
    let mut sim = Sim::new(Mode::Drain);
    sim.host.kernel_log = false;
    sim.host.readable = false;
    sim.pass(1200);
    assert_eq!(sim.slurm.drains, 0);
    sim.xid(79);
    sim.reboot();
    sim.pass(1200);
    assert_eq!((sim.slurm.drains, sim.slurm.undrains), (1, 0));
}
