//! What the node must have and no reading answers: the verdict is unknown, and only then.

use collectors::gpu::metrics as m;

use super::host::{Driven, Machine, Port};
use super::sim::*;
use crate::Mode;
use crate::settings::Settings;
use crate::verdict::Health;

/// No /sys, or none with a PCI bus.
fn hide(sim: &mut Sim) {
    sim.host.listed = false;
    sim.host.gpus.clear();
    sim.host.networks.clear();
    sim.host.machine.cpus = None;
}

fn doubt(sim: &Sim) -> Option<String> {
    let verdict = sim.engine.view().verdict;
    (verdict.health != Health::Healthy).then_some(verdict.text)
}

fn no_listing(what: &str) -> Option<String> {
    let text = "host: no complete listing of /sys/bus/pci/devices to look for";
    Some(format!("{text} {what}"))
}

/// A node of these settings that never had a /sys.
fn hidden(change: fn(&mut Settings)) -> Sim {
    let mut settings = config(Mode::Drain);
    change(&mut settings);
    let mut sim = Sim::with(settings, None);
    sim.host.machine = Machine::default();
    hide(&mut sim);
    sim.pass(15);
    sim
}

#[test]
fn what_is_configured_and_cannot_be_looked_for_is_unknown_from_the_first_reading() {
    type Case = (fn(&mut Settings), Option<String>);
    let cases: [Case; 7] = [
        (
            |s| s.gpu_addresses = vec![pci(GPU)],
            no_listing("the GPU at 0000:3b:00.0 of health.gpu_addresses"),
        ),
        (
            |s| s.expect.gpus = Some(8),
            no_listing("8 GPUs of health.expect.gpus"),
        ),
        (
            |s| {
                s.rdma.addresses = vec![pci("0000:13:00.0")];
                s.checks.insert("rdma-missing".to_owned(), Mode::Drain);
            },
            no_listing("the RDMA adapter at 0000:13:00.0 of health.rdma.addresses"),
        ),
        (
            |s| {
                s.expect.cpus = Some(224);
                s.checks.insert("cpu-missing".to_owned(), Mode::Drain);
            },
            Some("host: no number of CPUs to compare with health.expect.cpus".to_owned()),
        ),
        // Findings of these checks only comment: they leave a node healthy, and so does their absence.
        (
            |s| {
                s.rdma.addresses = vec![pci("0000:13:00.0")];
                s.expect.cpus = Some(224);
            },
            None,
        ),
        (
            |s| {
                s.expect.gpus = Some(8);
                s.checks.insert("gpu-missing".to_owned(), Mode::Comment);
            },
            None,
        ),
        // A virtual machine, a container, or a node without GPUs.
        (|_| {}, None),
    ];
    for (change, want) in cases {
        let mut sim = hidden(change);
        assert_eq!(doubt(&sim), want, "at the first reading");
        sim.pass(1200);
        assert_eq!(doubt(&sim), want);
        assert!(sim.incidents().is_empty() && sim.slurm.drains == 0, "{want:?}");
    }
}

#[test]
fn a_listing_that_is_lost_is_unknown_after_a_minute_and_healthy_when_it_is_back() {
    let mut sim = Sim::expecting(GPU);
    sim.pass(60);
    let before = sim.host.clone();
    hide(&mut sim);
    sim.pass(45);
    assert_eq!(doubt(&sim), None, "a bus is being scanned");
    sim.pass(45);
    let what = "the GPU at 0000:3b:00.0 of health.gpu_addresses";
    assert_eq!(doubt(&sim), no_listing(what));
    sim.host = before;
    sim.pass(15);
    assert_eq!(doubt(&sim), None);
}

#[test]
fn one_function_that_is_unreadable_hides_only_what_the_rest_of_the_listing_lacks() {
    let mut sim = Sim::expecting(GPU);
    sim.config.expect.gpus = Some(2);
    sim.reload();
    sim.host.listed = false;
    sim.pass(300);
    assert_eq!(doubt(&sim), None, "both are listed");
    sim.remove_gpu(GPU2);
    sim.pass(300);
    assert_eq!(doubt(&sim), no_listing("2 GPUs of health.expect.gpus"));
}

/// A GPU that its driver reads.
fn driven(sim: &mut Sim) {
    let info = vec!["nvidia", "H100", GPU, "0", "0", "", "", "96.00", "580", "hopper"];
    sim.host.driven = vec![Driven {
        label: "GPU-1".to_owned(),
        series: vec![(&m::UP, vec![], 1), (&m::INFO, info, 1)],
        ..Driven::default()
    }];
}

#[test]
fn a_gpu_that_its_driver_reads_needs_no_listing() {
    let mut sim = Sim::expecting(GPU);
    hide(&mut sim);
    driven(&mut sim);
    sim.pass(300);
    assert_eq!(doubt(&sim), None);
}

#[test]
fn gpus_that_were_seen_before_are_missed_where_neither_bus_nor_driver_shows_one() {
    let mut sim = Sim::new(Mode::Drain);
    driven(&mut sim);
    sim.pass(60);
    hide(&mut sim);
    sim.pass(300);
    assert_eq!(doubt(&sim), None, "the driver shows it");
    sim.host.driven.clear();
    sim.pass(300);
    assert_eq!(doubt(&sim), no_listing("GPUs that were seen before"));
    // A card that was taken out.
    sim.host.listed = true;
    sim.pass(300);
    assert_eq!(doubt(&sim), None);
}

#[test]
fn adapters_that_were_seen_in_this_boot_are_missed_where_they_drain() {
    let mut settings = config(Mode::Drain);
    settings.checks.insert("rdma-missing".to_owned(), Mode::Drain);
    let mut sim = Sim::with(settings, None);
    sim.host.ports = vec![Port::new(0)];
    sim.host.networks = vec![(sim.host.ports[0].pci.clone(), "mlx5_core", Some(true))];
    sim.pass(60);
    hide(&mut sim);
    sim.pass(300);
    assert_eq!(doubt(&sim), None, "the port is visible");
    sim.host.ports.clear();
    sim.pass(300);
    assert_eq!(
        doubt(&sim),
        no_listing("RDMA adapters that were seen in this boot")
    );
    sim.reboot();
    sim.pass(300);
    assert_eq!(doubt(&sim), None, "this boot has not had them");
}
