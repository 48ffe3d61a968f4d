//! Check `values-unread`: single values of a device fail.

use collectors::gpu::metrics as m;
use collectors::rdma::metrics::PORT_UNREADABLE_FILES;

use super::gpus::{driven, node, well};
use super::host::Port;
use super::sim::*;
use crate::Mode;
use crate::verdict::Health;

fn fail(sim: &mut Sim, reason: &'static str, count: u64) {
    let mut series = well();
    if count > 0 {
        series.push((&m::UNREAD_VALUES, vec![reason], count));
    }
    sim.host.driven = vec![driven(series)];
}

fn with_ports() -> Sim {
    let mut sim = Sim::new(Mode::Drain);
    sim.host.ports = (0..4).map(Port::new).collect();
    sim.pass(900);
    sim
}

fn fail_port(sim: &mut Sim, reason: &'static str, count: f64) {
    sim.host.ports[2].series = vec![(&PORT_UNREADABLE_FILES, vec![reason], count)];
}

const OPEN: &str = "values cannot be read open";
const CLEARED: &str = "values cannot be read cleared";

#[test]
fn values_of_a_gpu_that_fail_are_a_finding_that_does_not_drain() {
    let mut sim = node(Mode::Drain, vec![driven(well())]);
    fail(&mut sim, "unknown", 2);
    sim.pass(110);
    assert!(sim.incidents().is_empty(), "not for long enough");
    sim.pass(60);
    assert_eq!(sim.incidents(), [OPEN]);
    let incident = &sim.engine.view().incidents[0];
    assert_eq!(
        (incident.check.as_str(), incident.mode),
        ("values-unread", Mode::Observe)
    );
    assert!(incident.findings[0].evidence[0].contains("gpu_unread_values"));
    assert_eq!(
        (sim.slurm.drains, sim.engine.verdict().health),
        (0, Health::Healthy)
    );
    fail(&mut sim, "unknown", 0);
    sim.pass(120);
    assert_eq!(sim.incidents(), [CLEARED]);
}

#[test]
fn files_of_a_port_that_fail_are_a_finding_and_rejected_ones_are_none() {
    for (reason, found) in [("io", vec![OPEN]), ("rejected", vec![]), ("denied", vec![])] {
        let mut sim = with_ports();
        fail_port(&mut sim, reason, 5.0);
        sim.pass(300);
        assert_eq!(sim.incidents(), found, "{reason}");
        sim.host.ports[2].series = Vec::new();
        sim.pass(120);
        assert!(!sim.incidents().contains(&OPEN.to_owned()), "{reason}");
    }
}

/// A driver may fail for ever where it should say that it does not support a value.
#[test]
fn values_that_never_could_be_read_are_none() {
    let mut sim = Sim::new(Mode::Drain);
    fail(&mut sim, "unknown", 1);
    sim.pass(1800);
    assert!(sim.incidents().is_empty(), "{:?}", sim.incidents());
    fail(&mut sim, "unknown", 2);
    sim.pass(300);
    assert_eq!(sim.incidents(), [OPEN], "one more");
    fail(&mut sim, "unknown", 1);
    sim.pass(300);
    assert_eq!(sim.incidents(), [CLEARED]);
}

#[test]
fn a_restart_ends_no_finding_and_finds_none_again() {
    let mut sim = node(Mode::Drain, vec![driven(well())]);
    fail(&mut sim, "timeout", 3);
    sim.pass(300);
    sim.restart();
    sim.log_is_read();
    sim.pass(600);
    assert_eq!(sim.incidents(), [OPEN]);
    fail(&mut sim, "timeout", 0);
    sim.pass(120);
    assert_eq!(sim.incidents(), [CLEARED]);
}

#[test]
fn a_busy_gpu_and_a_dead_one_are_none_of_this_check() {
    let mut sim = node(Mode::Drain, vec![driven(well())]);
    fail(&mut sim, "busy", 5);
    sim.pass(900);
    assert!(sim.incidents().is_empty());
}
