//! Check `pcie-degraded`, with the false alarms that it must not give.

use collectors::EventBody;

use super::host::Link;
use super::sim::*;
use crate::verdict::Health;
use crate::{Mode, OrderVerb};

const HCA: &str = "0000:19:00.0";

pub(super) fn link(pci: &str, function: &'static str) -> Link {
    Link {
        pci: pci.to_owned(),
        function,
        width: Some(16),
        width_max: 16,
        speed: Some(32e9),
        speed_max: 32e9,
    }
}

fn node() -> Sim {
    let mut sim = Sim::new(Mode::Drain);
    sim.host.links = vec![link(GPU, "gpu"), link(HCA, "rdma")];
    sim.pass(60);
    assert!(sim.incidents().is_empty());
    sim
}

#[test]
fn a_gpu_with_half_its_lanes_is_a_finding_about_that_gpu() {
    let mut sim = node();
    sim.event(EventBody::Identity {
        pci: pci(GPU),
        uuid: "GPU-1".to_owned(),
    });
    sim.host.links[0].width = Some(8);
    sim.pass(45);
    assert!(sim.incidents().is_empty(), "not for long enough");
    sim.pass(30);
    let view = sim.engine.view();
    assert_eq!(sim.incidents(), ["PCIe link x8 of x16 below 0000:0f:01.0 open"]);
    assert_eq!(view.incidents[0].subject, "gpu GPU-1");
    assert_eq!(view.incidents[0].act, "reboot");
    assert_eq!(
        view.incidents[0].findings[0].evidence,
        [format!(
            "host_pci_link_width{{pci=\"{GPU}\"}} 8, expected 16 (host_pci_link_width_max), 0.0 s old"
        )]
    );
    assert_eq!(sim.slurm.drains, 0, "it comments");
    assert_eq!(view.verdict.health, Health::Healthy);
    sim.host.links[0].width = Some(16);
    sim.pass(90);
    assert_eq!(
        sim.incidents(),
        ["PCIe link x8 of x16 below 0000:0f:01.0 cleared"]
    );
}

#[test]
fn the_uplink_of_a_switch_that_lost_lanes_is_shown_and_never_drains() {
    let mut settings = config(Mode::Drain);
    settings.checks.insert("pcie-degraded".to_owned(), Mode::Drain);
    let mut sim = Sim::with(settings, None);
    sim.host.links = vec![link(GPU, "gpu"), link("0000:10:00.0", "switch")];
    // An idle one lowers its speed.
    sim.host.links[1].speed = Some(2.5e9);
    sim.pass(60);
    assert!(sim.incidents().is_empty());
    sim.host.links[1].width = Some(8);
    sim.pass(120);
    assert_eq!(
        sim.incidents(),
        ["uplink of PCIe switch x8 of x16 below 0000:0f:01.0 open"]
    );
    assert_eq!(sim.engine.view().incidents[0].subject, "pci 0000:10:00.0");
    assert_eq!(sim.slurm.drains, 0);
    sim.host.links[1].width = Some(16);
    sim.pass(90);
    assert_eq!(
        sim.incidents(),
        ["uplink of PCIe switch x8 of x16 below 0000:0f:01.0 cleared"]
    );
}

#[test]
fn an_idle_gpu_slows_its_link_down() {
    let mut sim = node();
    sim.host.links[0].speed = Some(2.5e9);
    sim.pass(3600);
    assert!(sim.incidents().is_empty());
}

/// Levels of a Radeon in `pp_dpm_pcie`: `2.5GT/s, x1` and `8.0GT/s, x16`.
#[test]
fn an_idle_gpu_may_give_lanes_up_if_its_driver_does_that() {
    let idle = |driver| {
        let mut sim = node();
        sim.set_gpu(GPU, driver, Some(true));
        sim.host.links[0].width = Some(1);
        sim.host.links[0].speed = Some(2.5e9);
        sim.pass(3600);
        let links = |sim: &Sim| sim.incidents().iter().filter(|i| i.starts_with("PCIe")).count();
        let found = links(&sim);
        sim.host.links[0].speed = Some(8e9);
        sim.pass(120);
        assert_eq!(links(&sim), 1, "{driver}");
        found
    };
    assert_eq!([idle("amdgpu"), idle("nvidia")], [0, 1]);
}

/// An idle Vera Rubin, as its driver shows it: x2 of x16 at generation 6.
#[test]
fn a_link_of_generation_six_may_turn_lanes_off_while_it_is_idle() {
    let found = |speed| {
        let mut sim = node();
        for link in &mut sim.host.links {
            (link.width, link.speed, link.speed_max) = (Some(2), Some(speed), speed);
        }
        sim.pass(3600);
        sim.incidents().len()
    };
    assert_eq!([found(64e9), found(32e9)], [0, 2]);
}

#[test]
fn what_kind_of_function_it_is_must_be_known_before_its_speed_is_judged() {
    for function in ["", "nvswitch"] {
        let mut sim = node();
        sim.host.links = vec![link(HCA, function)];
        sim.host.links[0].speed = Some(2.5e9);
        sim.pass(3600);
        assert!(sim.incidents().is_empty());
    }
}

#[test]
fn an_adapter_that_runs_slower_is_a_finding() {
    let mut sim = node();
    sim.host.links[1].speed = Some(16e9);
    sim.host.links[1].width = Some(4);
    sim.pass(120);
    assert_eq!(
        sim.incidents(),
        ["PCIe link x4 of x16 at 16 of 32 GT/s below 0000:0f:01.0 open"]
    );
    assert_eq!(sim.engine.view().incidents[0].subject, format!("pci {HCA}"));
}

#[test]
fn a_link_that_was_narrow_since_boot_counts() {
    let mut sim = Sim::new(Mode::Drain);
    sim.host.links = vec![link(HCA, "rdma")];
    sim.host.links[0].width = Some(8);
    sim.pass(120);
    assert_eq!(sim.incidents(), ["PCIe link x8 of x16 below 0000:0f:01.0 open"]);
    sim.reboot();
    sim.pass(3600);
    assert_eq!(sim.incidents(), ["PCIe link x8 of x16 below 0000:0f:01.0 open"]);
}

#[test]
fn a_reset_is_over_before_it_counts() {
    let mut sim = node();
    for _ in 0..10 {
        sim.host.links[0].width = Some(1);
        sim.pass(30);
        sim.host.links[0].width = Some(16);
        sim.pass(15);
    }
    assert!(sim.incidents().is_empty());
}

#[test]
fn what_makes_no_sense_or_cannot_be_read_neither_begins_nor_ends() {
    let silent = |sim: &mut Sim| {
        for width in [Some(0), None, Some(63)] {
            sim.host.links[0].width = width;
            sim.pass(300);
        }
        sim.host.links[0].width = Some(16);
        sim.host.readable = false;
        sim.pass(300);
        sim.host.readable = true;
        // Asleep, or in a virtual machine.
        sim.host.links[0].width = Some(1);
        sim.set_gpu(GPU, "nvidia", Some(false));
        sim.pass(300);
        sim.set_gpu(GPU, "vfio-pci", None);
        sim.pass(300);
        sim.set_gpu(GPU, "nvidia", Some(true));
    };
    let mut sim = node();
    silent(&mut sim);
    assert!(
        !sim.incidents().iter().any(|i| i.starts_with("PCIe")),
        "{:?}",
        sim.incidents()
    );
    let mut sim = node();
    sim.host.links[0].width = Some(8);
    sim.pass(120);
    silent(&mut sim);
    sim.host.links[0].width = None;
    sim.pass(300);
    assert!(
        sim.incidents()
            .contains(&"PCIe link x8 of x16 below 0000:0f:01.0 open".to_owned())
    );
}

#[test]
fn links_below_one_port_name_it_each() {
    let mut sim = node();
    for link in &mut sim.host.links {
        link.width = Some(8);
    }
    sim.pass(120);
    let incidents = sim.incidents();
    assert_eq!(incidents.len(), 2);
    assert!(incidents.iter().all(|i| i.contains("below 0000:0f:01.0")));
}

#[test]
fn a_person_who_clears_a_narrow_link_has_not_said_that_the_gpu_is_gone() {
    let mut config = config(Mode::Drain);
    config.gpu_addresses = vec![pci(GPU)];
    let mut sim = Sim::with(config, None);
    sim.host.links = vec![link(GPU, "gpu")];
    sim.host.links[0].width = Some(8);
    sim.pass(120);
    let id = sim.engine.view().incidents[0].id.clone();
    sim.order(OrderVerb::Clear, &id).unwrap();
    sim.remove_gpu(GPU);
    sim.pass(60);
    assert_eq!(sim.slurm.drains, 1);
}
