//! AMD GPUs: no recording of real hardware has proven their checks, so none of them drains.

use collectors::EventBody;
use collectors::amd::metrics as a;
use collectors::event::KernelLine;
use collectors::gpu::metrics as m;
use collectors::kernel_log::lines::{Ends, Meaning, Row, rows};
use collectors::{Subject, SubjectKind};

use super::gpus::{cases, driven};
use super::host::{AMD_UNBOUND, Driven};
use super::sim::*;
use crate::Mode;
use crate::verdict::Health;
use model::snapshot::Presence;

/// A node long after boot with AMD's GPUs at both addresses, on which every check drains that may.
fn node(mode: Mode) -> Sim {
    let mut config = config(mode);
    for check in crate::checks::configurable() {
        if check.may.at_most() == Mode::Drain {
            config.checks.insert(check.id.to_owned(), Mode::Drain);
        }
    }
    config.gpu_addresses = vec![pci(GPU)];
    let mut sim = Sim::with(config, None);
    for gpu in &mut sim.host.gpus {
        gpu.1 = "amdgpu";
    }
    sim.pass(900);
    assert!(sim.incidents().is_empty(), "{:?}", sim.incidents());
    sim
}

/// The incidents are shown, with a comment, and the node stays in service.
fn comments(sim: &mut Sim, what: &str) {
    sim.pass(600);
    let view = sim.engine.view();
    assert!(!view.incidents.is_empty(), "{what}");
    assert!(view.incidents.iter().all(|i| !i.drains), "{what}");
    assert_eq!(
        (sim.slurm.drains, view.verdict.health),
        (0, Health::Healthy),
        "{what}"
    );
}

#[test]
fn what_drains_for_another_gpu_is_a_comment_for_one_of_amd() {
    for case in cases() {
        let mut sim = node(Mode::Drain);
        // What a number means may depend on the driver's release, which the case then has.
        let (of_case, bad): (Vec<_>, Vec<_>) =
            (case.bad.into_iter()).partition(|(metric, ..)| *metric == &m::INFO);
        let driver = of_case.first().map_or("6.12", |(_, labels, _)| labels[8]);
        let info = vec!["amd", "MI300X", GPU, "0", "128", "", "", "", driver, "gfx942"];
        let mut series = vec![(&m::INFO, info, 1)];
        if bad.iter().all(|(metric, ..)| *metric != &m::UP) {
            series.push((&m::UP, vec![], 1));
        }
        series.extend(bad);
        sim.host.driven = vec![driven(series)];
        comments(&mut sim, case.found);
        if case.drains {
            assert!(sim.slurm.comment.is_some(), "{}", case.found);
        }
    }
}

#[test]
fn a_gpu_of_amd_that_leaves_the_bus_does_not_drain_after_a_reboot_either() {
    let mut sim = node(Mode::Drain);
    sim.host.gpus.remove(0);
    comments(&mut sim, "in the same boot");
    sim.reboot();
    comments(&mut sim, "in the next boot");
}

/// `amdgpu_ras_reset_error_count()` leaves the driver's sum, which sysfs shows.
#[test]
fn uncorrected_errors_of_a_gpu_of_amd_end_with_a_reload_of_its_driver_and_not_with_a_reset() {
    let mut sim = node(Mode::Drain);
    let show = |sim: &mut Sim, count: u64| {
        let info = vec!["amd", "MI300X", GPU, "0", "128", "", "", "", "6.12", "gfx942"];
        let errors = (&m::ECC_ERRORS, vec!["uncorrected", "volatile"], count);
        sim.host.driven = vec![driven(vec![(&m::INFO, info, 1), (&m::UP, vec![], 1), errors])];
        sim.pass(120);
    };
    show(&mut sim, 0);
    show(&mut sim, 1);
    let open = sim.engine.view().incidents[0].clone();
    assert_eq!((open.state.as_str(), open.act.as_str()), ("open", "reboot"));
    sim.event(EventBody::Kernel(KernelLine {
        row: "amdgpu-reset-done".to_owned(),
        subject: Subject::new(SubjectKind::Pci, GPU),
    }));
    show(&mut sim, 1);
    assert_eq!(sim.incidents(), ["uncorrected memory errors open"]);
    show(&mut sim, 0);
    assert_eq!(sim.incidents(), ["uncorrected memory errors cleared"]);
}

/// Drains for a line about the PCI function, after a first start without a record, on a node whose bus was never read.
fn drains_for(row: &str) -> u32 {
    let mut config = config(Mode::Drain);
    for check in ["gpu-driver-error", "pcie-error"] {
        config.checks.insert(check.to_owned(), Mode::Drain);
    }
    let mut sim = Sim::with(config, None);
    sim.host.readable = false;
    sim.event(EventBody::Kernel(KernelLine {
        row: row.to_owned(),
        subject: Subject::new(SubjectKind::Pci, GPU),
    }));
    sim.pass(600);
    assert!(!sim.incidents().is_empty(), "{row}");
    sim.slurm.drains
}

#[test]
fn a_line_of_its_driver_does_not_drain_before_the_bus_is_read() {
    let is_fault = |row: &&Row| matches!(row.meaning, Meaning::Fault { .. }) && row.about == SubjectKind::Pci;
    for row in rows()
        .filter(is_fault)
        .filter(|row| row.id.starts_with("amdgpu-"))
    {
        assert_eq!(drains_for(row.id), 0, "{}", row.id);
    }
    // A line of the same form about another function drains.
    let drains = |row: &&Row| {
        let lasts = matches!(
            row.meaning,
            Meaning::Fault {
                check: "pcie-error",
                ends: Ends::Reboot
            }
        );
        lasts && row.about == SubjectKind::Pci
    };
    let other = rows().find(drains).unwrap();
    assert_eq!(drains_for(other.id), 1, "{}", other.id);
}

#[test]
fn a_driver_of_it_that_is_not_loaded_does_not_drain() {
    let mut sim = node(Mode::Drain);
    for gpu in &mut sim.host.gpus {
        gpu.1 = AMD_UNBOUND;
    }
    sim.host.driver = Presence::NotHere;
    sim.pass(700);
    comments(&mut sim, "driver unusable");
}

#[test]
fn a_gpu_of_another_maker_at_its_address_drains() {
    let mut sim = node(Mode::Drain);
    for gpu in &mut sim.host.gpus {
        gpu.1 = "nvidia";
    }
    sim.pass(60);
    sim.host.gpus.remove(0);
    sim.pass(60);
    assert_eq!(sim.slurm.drains, 1);
}

/// Two cards of AMD, exchanged for two of NVIDIA in other slots.
fn exchanged() -> Sim {
    let mut config = config(Mode::Drain);
    config.expect.gpus = Some(2);
    config
        .checks
        .insert("gpu-driver-unusable".to_owned(), Mode::Drain);
    let mut sim = Sim::with(config, None);
    for gpu in &mut sim.host.gpus {
        gpu.1 = "amdgpu";
    }
    sim.pass(900);
    sim.host.gpus.clear();
    for slot in ["0000:86:00.0", "0000:af:00.0"] {
        sim.set_gpu(slot, "nvidia", Some(true));
    }
    sim.reboot();
    sim.pass(900);
    assert!(sim.incidents().is_empty(), "{:?}", sim.incidents());
    sim
}

#[test]
fn gpus_of_another_maker_at_other_addresses_drain() {
    let mut sim = exchanged();
    sim.restart();
    sim.host.gpus.remove(0);
    sim.pass(60);
    assert_eq!(sim.slurm.drains, 1);
    assert_eq!(sim.engine.view().verdict.health, Health::Unhealthy);
    let mut sim = exchanged();
    sim.host.driver = Presence::Failed("version_mismatch".to_owned(), String::new());
    sim.pass(700);
    assert_eq!(sim.slurm.drains, 1, "driver unusable: {:?}", sim.incidents());
}

#[test]
fn one_that_leaves_a_node_with_gpus_of_both_makers_does_not_drain() {
    let mut config = config(Mode::Drain);
    config.expect.gpus = Some(2);
    let mut sim = Sim::with(config, None);
    sim.host.gpus[0].1 = "amdgpu";
    sim.pass(900);
    sim.host.gpus.remove(0);
    sim.restart();
    comments(&mut sim, "one of AMD is missing");
}

#[test]
fn the_number_of_its_gpus_is_no_drain() {
    let mut config = config(Mode::Drain);
    config.expect.gpus = Some(2);
    let mut sim = Sim::with(config, None);
    for gpu in &mut sim.host.gpus {
        gpu.1 = "amdgpu";
    }
    sim.pass(900);
    sim.host.gpus.remove(1);
    comments(&mut sim, "fewer than expected");
}

#[test]
fn a_gpu_with_an_xgmi_link_down_is_found_by_its_peers() {
    let mut sim = node(Mode::Drain);
    let gpu = |number: usize, up| {
        let names = ["GPU-1", "GPU-2", "GPU-3", "GPU-4", "GPU-5"];
        Driven {
            label: names[number].to_owned(),
            series: vec![
                (&m::UP, vec![], 1),
                (&a::XGMI_LINKS, vec![], 7),
                (&a::XGMI_LINKS_UP, vec![], up),
            ],
            ..Driven::default()
        }
    };
    sim.host.driven = (0..5).map(|number| gpu(number, 7)).collect();
    sim.pass(300);
    assert!(sim.incidents().is_empty(), "{:?}", sim.incidents());
    sim.host.driven[2] = gpu(2, 6);
    sim.pass(300);
    assert_eq!(sim.incidents(), ["6 of 7 XGMI links up open"]);
    assert_eq!(sim.slurm.drains, 0);
    sim.host.driven[2] = gpu(2, 7);
    sim.pass(300);
    assert_eq!(sim.incidents(), ["6 of 7 XGMI links up cleared"]);
}
