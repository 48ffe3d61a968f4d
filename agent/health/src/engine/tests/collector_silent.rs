//! Check `collector-silent`.

use std::time::Duration;

use super::host::Port;
use super::ports_down::node;
use super::sim::*;
use crate::Mode;
use crate::verdict::Health;
use model::snapshot::Presence;

/// `kill -STOP` of the worker: its last readings grow old.
#[test]
fn a_worker_that_is_stopped_is_an_open_incident_until_it_goes_on() {
    let mut sim = node(4);
    sim.host.stopped = Some(sim.now.boottime);
    sim.pass(300);
    assert_eq!(
        sim.incidents(),
        Vec::<String>::new(),
        "as in a change of its driver"
    );
    sim.pass(200);
    assert_eq!(sim.incidents(), ["no current reading open"]);
    let view = sim.engine.view();
    assert_eq!(view.incidents[0].subject_name, "ports of a test");
    assert!(
        view.verdict.text.contains("collector-silent"),
        "{}",
        view.verdict.text
    );
    let evidence = &view.incidents[0].findings[0].evidence[0];
    assert!(
        evidence.contains("the last reading is") && evidence.contains("s old"),
        "{evidence}"
    );
    assert_eq!((view.verdict.health, sim.slurm.drains), (Health::Healthy, 0));
    sim.host.stopped = None;
    sim.pass(120);
    assert_eq!(sim.incidents(), ["no current reading cleared"]);
}

#[test]
fn a_collector_that_cannot_open_its_source_or_never_reports_is_one_and_one_of_another_node_is_not() {
    let failed = Presence::Failed("denied".to_owned(), "no right to read cgroups".to_owned());
    for (presence, open) in [
        (failed, true),
        (Presence::Unknown, true),
        (Presence::NotHere, false),
        (Presence::Open, false),
    ] {
        let mut sim = Sim::new(Mode::Drain);
        sim.host.slurm = presence.clone();
        sim.pass(900);
        assert_eq!(sim.incidents().len(), usize::from(open), "{presence:?}");
    }
}

/// Check gpu-driver-unusable judges it.
#[test]
fn a_driver_that_cannot_be_used_is_not_a_silent_collector() {
    let mut sim = Sim::new(Mode::Drain);
    sim.host.driver = Presence::Failed("init".to_owned(), "code 999".to_owned());
    sim.pass(900);
    assert!(
        !sim.incidents()
            .iter()
            .any(|text| text.starts_with("no current reading"))
    );
}

#[test]
fn single_devices_that_cannot_be_read_are_other_findings() {
    let mut sim = node(4);
    sim.host.ports = (0..4).map(Port::new).collect();
    for port in &mut sim.host.ports {
        (port.state, port.error) = (None, Some("io"));
    }
    sim.pass(Duration::from_secs(900).as_secs());
    assert!(
        !sim.incidents()
            .iter()
            .any(|text| text.starts_with("no current reading"))
    );
    // Their errors are no reading for ever.
    sim.host.stopped = Some(sim.now.boottime);
    sim.pass(500);
    assert!(sim.says("no current reading", false), "{:?}", sim.incidents());
}

/// One failed reading, and none after it.
#[test]
fn a_reading_that_failed_before_its_worker_stopped_is_no_finding_of_the_device() {
    let mut sim = node(4);
    (sim.host.ports[1].state, sim.host.ports[1].error) = (None, Some("io"));
    sim.pass(15);
    sim.host.stopped = Some(sim.now.boottime);
    sim.pass(900);
    assert_eq!(sim.incidents(), ["no current reading open"]);
}
