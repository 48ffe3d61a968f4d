//! A finding that ends because its device is gone, and the check that takes over.

use collectors::lustre::metrics::{HEALTHY, NI_UP};
use collectors::{Subject, SubjectKind};

use super::host::Port;
use super::sim::*;
use crate::Mode;
use crate::verdict::Health;

/// Eight adapters, these checks at drain, and `slurm.hold` at its default.
fn node(checks: &[&str]) -> Sim {
    let mut config = config(Mode::Drain);
    config.scheduler.hold = std::time::Duration::from_secs(600);
    config.expect.mounts = vec!["/scratch".to_owned()];
    for check in checks {
        config.checks.insert((*check).to_owned(), Mode::Drain);
    }
    let mut sim = Sim::with(config, None);
    sim.host.ports = (0..8).map(Port::new).collect();
    let of = |p: &Port| (p.pci.clone(), "mlx5_core", Some(true));
    sim.host.networks = sim.host.ports.iter().map(of).collect();
    sim.host.machine.mounts = vec![("/", "xfs"), ("/scratch", "lustre")];
    sim.host.machine.whole = true;
    sim.pass(1000);
    sim
}

/// Until the finding has ended and the next one is open: the drain stays and the verdict is not healthy.
fn stays_drained(sim: &mut Sim, first: &str, next: &str) {
    for _ in 0..30 {
        sim.pass(15);
        assert!(sim.slurm.is_drained(), "{:?}", sim.incidents());
        assert_ne!(
            sim.engine.view().verdict.health,
            Health::Healthy,
            "{:?}",
            sim.incidents()
        );
    }
    assert!(
        sim.says(first, true) && sim.says(next, false),
        "{:?}",
        sim.incidents()
    );
    assert_eq!(sim.slurm.drains, 1);
}

/// A node whose site lets these checks drain, drained for a port that cannot be read.
fn drained_for_a_port(checks: &[&str]) -> Sim {
    let mut sim = node(checks);
    let port = &mut sim.host.ports[3];
    (port.state, port.physical, port.rate, port.error) = (None, None, None, Some("io"));
    sim.pass(1200);
    assert!(sim.slurm.is_drained());
    sim
}

/// The firmware of an adapter hangs; the reload of its driver fails.
#[test]
fn a_port_that_cannot_be_read_and_goes_stays_drained() {
    let mut sim = drained_for_a_port(&["rdma-port-unreadable", "rdma-missing"]);
    sim.host.ports.remove(3);
    sim.host.networks[3].2 = Some(false);
    stays_drained(&mut sim, "cannot be read: io", "mlx5_core has no RDMA device");
}

/// udev names the device again while it cannot be read.
#[test]
fn a_port_that_cannot_be_read_and_is_renamed_stays_drained() {
    let mut sim = drained_for_a_port(&["rdma-port-unreadable"]);
    sim.host.ports[3].device = "rocep19s0".to_owned();
    stays_drained(&mut sim, "cannot be read: io", "cannot be read: io");
}

/// `umount -lf`.
#[test]
fn a_mount_that_does_not_answer_and_is_unmounted_stays_drained() {
    let mut sim = node(&["mount-unresponsive", "mount-missing"]);
    let subject = Subject::new(SubjectKind::Mount, "/scratch");
    sim.host.others = vec![("mounts", subject, Err("stale"))];
    sim.pass(1200);
    assert!(sim.slurm.is_drained(), "{:?}", sim.incidents());
    sim.host.others.clear();
    sim.host.machine.mounts.pop();
    stays_drained(&mut sim, "cannot be read: stale", "/scratch not mounted");
}

/// `lnetctl lnet unconfigure`.
#[test]
fn a_network_of_lustre_that_is_down_and_leaves_with_its_mount_stays_drained() {
    let mut sim = node(&["lustre-lnet-down", "mount-missing"]);
    sim.host.lustre = vec![vec![
        (&HEALTHY, Vec::new(), 1),
        (&NI_UP, vec!["10.2.0.77@o2ib"], 1),
        (&NI_UP, vec!["10.3.0.77@o2ib1"], 0),
    ]];
    sim.pass(1200);
    assert!(sim.slurm.is_drained());
    sim.host.lustre = vec![vec![
        (&HEALTHY, Vec::new(), 1),
        (&NI_UP, vec!["10.2.0.77@o2ib"], 1),
    ]];
    sim.host.machine.mounts.pop();
    stays_drained(&mut sim, "LNet interface down", "/scratch not mounted");
}

/// What a check counts without a new reading, or with bad readings that end, holds the lift for a while only.
#[test]
fn bad_readings_that_end_do_not_hold_the_lift() {
    let mut sim = node(&["rdma-port-down", "rdma-missing"]);
    sim.host.ports[3].down();
    sim.pass(900);
    assert!(sim.slurm.is_drained());
    sim.host.ports[3].up();
    sim.pass(600);
    for _ in 0..4 {
        let port = sim.host.ports.remove(5);
        sim.host.networks[5].2 = Some(false);
        sim.pass(60);
        sim.host.ports.insert(5, port);
        sim.host.networks[5].2 = Some(true);
        sim.pass(60);
    }
    assert!(!sim.slurm.is_drained());
    assert_eq!(sim.engine.view().verdict.health, Health::Healthy);
}

/// A check that does not drain holds no lift.
#[test]
fn what_only_comments_does_not_hold_the_lift() {
    let mut sim = drained_for_a_port(&["rdma-port-unreadable"]);
    sim.host.ports.remove(3);
    sim.host.networks[3].2 = Some(false);
    sim.pass(300);
    assert!(!sim.slurm.is_drained());
}
