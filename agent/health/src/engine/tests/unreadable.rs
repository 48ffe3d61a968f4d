//! Ports and GPUs that are there and cannot be read.

use std::time::Duration;

use collectors::gpu::metrics as m;

use super::host::{Driven, Port};
use super::ports_down::node;
use super::sim::*;
use crate::Mode;

const PORT: &str = "rdma-port-unreadable";

pub(super) fn gpu(unavailable: Option<&'static str>) -> Driven {
    let info = vec!["nvidia", "H100", GPU, "0", "0", "", "", "", "580", "hopper"];
    let mut series = vec![
        (&m::UP, vec![], u64::from(unavailable.is_none())),
        (&m::INFO, info, 1),
    ];
    series.extend(unavailable.map(|reason| (&m::UNAVAILABLE_INFO, vec![reason], 1)));
    Driven {
        label: "GPU-1".to_owned(),
        series,
        error: unavailable,
        ..Driven::default()
    }
}

fn with_a_gpu() -> Sim {
    let mut sim = Sim::new(Mode::Drain);
    sim.host.driven = vec![gpu(None)];
    sim.pass(900);
    sim
}

fn with_a_gpu_that_may_drain() -> Sim {
    let mut settings = config(Mode::Drain);
    settings.checks.insert("gpu-unreadable".to_owned(), Mode::Drain);
    let mut sim = Sim::with(settings, None);
    sim.host.driven = vec![gpu(None)];
    sim.pass(900);
    sim
}

/// Every file of an adapter returns EIO.
#[test]
fn a_port_that_was_in_use_and_fails_in_every_file_is_a_finding_with_the_reason() {
    let mut sim = node(4);
    let port = &mut sim.host.ports[1];
    (port.state, port.physical, port.rate) = (None, None, None);
    port.error = Some("io");
    sim.pass(110);
    assert!(sim.incidents().is_empty(), "as in the reset of an adapter");
    sim.pass(60);
    let view = sim.engine.view();
    let incident = &view.incidents[0];
    assert_eq!((incident.check.as_str(), incident.mode), (PORT, Mode::Comment));
    assert_eq!(incident.subject_name, "mlx5_1/1");
    assert_eq!(incident.detail, "cannot be read: io");
    assert!(incident.findings[0].evidence[0].contains("nodewarden_device_error_info"));
    sim.restart();
    sim.log_is_read();
    sim.pass(300);
    assert_eq!(sim.incidents(), ["cannot be read: io open"]);
    sim.host.ports[1] = Port::new(1);
    sim.pass(120);
    assert_eq!(sim.incidents(), ["cannot be read: io cleared"]);
}

#[test]
fn a_port_that_was_never_in_use_left_or_is_gone_is_none() {
    let mut sim = node(4);
    let mut unused = Port::new(9);
    unused.state = None;
    unused.error = Some("io");
    sim.host.ports.push(unused);
    sim.host.ports[0].error = Some("gone");
    sim.pass(3600);
    assert!(sim.incidents().is_empty(), "{:?}", sim.incidents());

    let mut sim = node(4);
    sim.host.ports[0].error = Some("io");
    sim.pass(300);
    assert_eq!(sim.incidents(), ["cannot be read: io open"]);
    sim.host.ports.remove(0);
    sim.pass(120);
    assert_eq!(sim.incidents(), ["cannot be read: io cleared"]);
}

#[test]
fn a_site_may_drain_for_a_port_and_never_for_a_missing_permission() {
    for (reason, drains) in [("io", true), ("denied", false), ("slow", false)] {
        let mut settings = config(Mode::Drain);
        settings.checks.insert(PORT.to_owned(), Mode::Drain);
        let mut sim = Sim::with(settings, None);
        sim.host.ports = (0..4).map(Port::new).collect();
        sim.pass(900);
        sim.host.ports[0].error = Some(reason);
        sim.pass(300);
        assert_eq!(sim.incidents(), [format!("cannot be read: {reason} open")]);
        assert_eq!(sim.slurm.is_drained(), drains, "{reason}");
    }
}

#[test]
fn a_gpu_whose_state_is_unknown_is_a_finding_and_one_that_is_down_is_that_alone() {
    for reason in ["unknown", "timeout", "no_permission"] {
        let mut sim = with_a_gpu();
        sim.host.driven = vec![gpu(Some(reason))];
        sim.pass(300);
        assert_eq!(sim.incidents(), [format!("cannot be read: {reason} open")]);
        sim.host.driven = vec![gpu(None)];
        sim.pass(120);
        assert_eq!(sim.incidents(), [format!("cannot be read: {reason} cleared")]);
    }
    for (reason, found) in [
        ("lost", vec!["down: lost open"]),
        ("busy", vec![]),
        ("no_driver", vec![]),
    ] {
        let mut sim = with_a_gpu();
        sim.host.driven = vec![gpu(Some(reason))];
        sim.pass(900);
        assert_eq!(sim.incidents(), found, "{reason}");
    }
}

#[test]
fn a_gpu_that_does_not_answer_is_a_finding_when_its_last_values_are_too_old_and_a_busy_node_is_none() {
    for (state, found) in [('S', vec!["cannot be read: no answer open"]), ('R', vec![])] {
        let mut sim = with_a_gpu();
        let since = sim.now.boottime;
        sim.host.driven[0].late = Some((state, "futex_wait", since));
        sim.host.driven[0].read_at = Some(since);
        sim.pass(300);
        assert_eq!(sim.incidents(), found, "{state}");
    }
}

#[test]
fn a_gpu_whose_readings_take_4_s_is_a_finding() {
    let mut sim = with_a_gpu();
    sim.host.driven[0].took = Duration::from_secs(4);
    sim.host.driven[0].late = Some(('S', "msleep", sim.now.boottime));
    sim.pass(300);
    assert_eq!(sim.incidents(), ["cannot be read: slow open"]);
}

#[test]
fn a_fault_that_follows_late_readings_drains_where_the_site_permits_it() {
    let mut sim = with_a_gpu_that_may_drain();
    let since = sim.now.boottime;
    sim.host.driven[0].late = Some(('S', "futex_wait", since));
    sim.host.driven[0].read_at = Some(since);
    sim.pass(300);
    assert_eq!(sim.incidents(), ["cannot be read: no answer open"]);
    assert!(!sim.slurm.is_drained());
    sim.host.driven = vec![gpu(Some("timeout"))];
    sim.pass(110);
    assert!(!sim.slurm.is_drained(), "as in a reset");
    sim.pass(60);
    assert!(sim.slurm.is_drained(), "{:?}", sim.incidents());
    // The next reading is late: the last one still failed.
    sim.host.driven[0].late = Some(('S', "futex_wait", sim.now.boottime));
    sim.pass(300);
    assert!(sim.slurm.is_drained());
    sim.host.driven = vec![gpu(None)];
    sim.pass(120);
    assert_eq!(sim.engine.book.open().count(), 0, "{:?}", sim.incidents());
    assert!(!sim.slurm.is_drained());
}

#[test]
fn one_failed_reading_of_a_gpu_that_hangs_afterwards_does_not_drain() {
    let mut sim = with_a_gpu_that_may_drain();
    let since = sim.now.boottime;
    sim.host.driven = vec![gpu(Some("timeout"))];
    sim.host.driven[0].late = Some(('S', "futex_wait", since));
    sim.host.driven[0].read_at = Some(since);
    sim.pass(900);
    assert!(!sim.slurm.is_drained(), "{:?}", sim.incidents());
}
