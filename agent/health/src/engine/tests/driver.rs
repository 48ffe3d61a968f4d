//! A GPU driver that does not work at all.

use collectors::gpu::metrics as m;
use model::snapshot::Presence;

use super::host::Driven;
use super::sim::*;
use crate::{Mode, OrderVerb};

const ID: &str = "gpu-driver-unusable";

fn failed(reason: &str) -> Presence {
    Presence::Failed(reason.to_owned(), format!("NVIDIA's driver: {reason}"))
}

/// A node whose driver has served its first GPU.
fn served() -> Sim {
    let mut sim = Sim::new(Mode::Drain);
    let info = vec!["nvidia", "H100", GPU, "0", "0", "", "", "", "580", "hopper"];
    sim.host.driven = vec![Driven {
        label: "GPU-1".to_owned(),
        series: vec![(&m::UP, vec![], 1), (&m::INFO, info, 1)],
        late: None,
        ..Driven::default()
    }];
    sim.pass(60);
    sim
}

/// No module is loaded: no GPU has a driver.
fn unload(sim: &mut Sim) {
    sim.host.driven.clear();
    sim.host.driver = Presence::NotHere;
    for (_, driver, _) in &mut sim.host.gpus {
        *driver = "";
    }
}

fn found(sim: &Sim) -> bool {
    let all = sim.incidents();
    let mut of = all.iter().filter(|i| i.contains("driver unusable"));
    of.any(|i| !i.ends_with("cleared"))
}

#[test]
fn a_library_that_cannot_be_initialised_is_a_finding_after_10_min_and_ends_with_the_driver() {
    for (reason, act) in [
        ("version_mismatch", "reboot"),
        ("unknown", "inspect"),
        ("no_driver", "inspect"),
    ] {
        let mut sim = served();
        sim.host.driven.clear();
        sim.host.driver = failed(reason);
        sim.pass(590);
        assert!(!found(&sim), "{reason}: as in an upgrade");
        sim.pass(60);
        let view = sim.engine.view();
        let incident = view.incidents.iter().find(|i| i.check == ID).unwrap();
        assert_eq!(incident.detail, format!("driver unusable: {reason}"));
        assert_eq!((incident.act.as_str(), incident.mode), (act, Mode::Comment));
        let evidence = &incident.findings[0].evidence[0];
        for part in ["NVIDIA's driver", "2 GPUs are bound to the driver"] {
            assert!(evidence.contains(part), "{part}: {evidence}");
        }
        sim.host.driver = Presence::Open;
        sim.pass(120);
        assert!(!found(&sim), "{:?}", sim.incidents());
    }
}

#[test]
fn a_site_may_drain_for_it_and_never_for_an_incomplete_installation() {
    for (reason, drains) in [
        ("unknown", true),
        ("no_permission", false),
        ("no_library", false),
        ("no_device_files", false),
    ] {
        let mut settings = config(Mode::Drain);
        settings.checks.insert(ID.to_owned(), Mode::Drain);
        let mut sim = Sim::with(settings, None);
        sim.host.driver = failed(reason);
        sim.pass(700);
        assert!(found(&sim), "{reason}");
        assert_eq!(sim.slurm.is_drained(), drains, "{reason}");
    }
}

/// The driver of these GPUs never served one: the first boot of an image whose library has another version.
#[test]
fn its_drain_stays_while_the_module_is_unloaded_for_the_repair() {
    for during in [Presence::Unknown, Presence::NotHere, failed("not_loaded")] {
        let mut settings = config(Mode::Drain);
        settings.checks.insert(ID.to_owned(), Mode::Drain);
        let mut sim = Sim::with(settings, None);
        sim.host.driver = failed("version_mismatch");
        sim.pass(700);
        assert!(sim.slurm.is_drained());
        unload(&mut sim);
        sim.host.driver = during;
        sim.pass(3600);
        assert!(sim.slurm.is_drained() && found(&sim), "{:?}", sim.host.driver);
    }
}

#[test]
fn a_release_and_a_call_that_blocks_are_not_this_fault() {
    for presence in [Presence::Unknown, failed("blocked"), failed("settings")] {
        let mut sim = served();
        sim.host.driven.clear();
        sim.host.driver = presence;
        sim.pass(3600);
        assert!(!found(&sim), "{:?}", sim.host.driver);
    }
}

#[test]
fn without_a_gpu_of_the_driver_there_is_no_fault() {
    let mut sim = Sim::new(Mode::Drain);
    sim.host.gpus.clear();
    sim.host.driver = failed("no_library");
    sim.pass(3600);
    assert!(!found(&sim));
}

#[test]
fn a_driver_that_is_not_loaded_is_a_finding_where_it_has_served_the_gpus_in_this_boot() {
    let mut sim = served();
    unload(&mut sim);
    sim.pass(300);
    sim.restart();
    sim.log_is_read();
    sim.pass(700);
    let view = sim.engine.view();
    let incident = view.incidents.iter().find(|i| i.check == ID).unwrap();
    assert_eq!(incident.detail, "driver unusable: not_loaded");
    // The second GPU had no driver at any time.
    let evidence = &incident.findings[0].evidence[0];
    assert!(evidence.contains(GPU) && !evidence.contains(GPU2), "{evidence}");
    // Assigned to virtual machines since.
    for (_, driver, _) in &mut sim.host.gpus {
        *driver = "vfio-pci";
    }
    sim.pass(120);
    assert!(!found(&sim), "{:?}", sim.incidents());
}

#[test]
fn a_driver_that_was_not_loaded_in_this_boot_is_a_finding_only_for_configured_gpus() {
    let mut sim = served();
    sim.reboot();
    unload(&mut sim);
    sim.pass(3600);
    assert!(!found(&sim), "{:?}", sim.incidents());
    sim.config.gpu_addresses = vec![pci(GPU)];
    sim.reload();
    sim.pass(700);
    assert!(found(&sim));
}

#[test]
fn a_gpu_that_no_driver_ever_had_ends_as_a_fault_when_it_leaves_the_configuration() {
    for beside in [true, false] {
        let mut sim = served();
        if !beside {
            (sim.host.driven, sim.host.driver) = (Vec::new(), Presence::NotHere);
            sim.remove_gpu(GPU);
        }
        sim.set_gpu(GPU2, "", Some(true));
        sim.config.gpu_addresses = vec![pci(GPU2)];
        sim.reload();
        sim.pass(700);
        assert!(found(&sim), "{:?}", sim.incidents());
        sim.config.gpu_addresses = Vec::new();
        sim.reload();
        sim.pass(120);
        assert!(!found(&sim), "{beside}: {:?}", sim.incidents());
    }
}

#[test]
fn a_fault_that_an_operator_closed_is_not_reported_again() {
    let mut sim = served();
    sim.host.driven.clear();
    sim.host.driver = failed("unknown");
    sim.pass(700);
    let id = sim.engine.view().incidents[0].id.clone();
    sim.order(OrderVerb::Clear, &id).unwrap();
    sim.pass(1200);
    assert!(!found(&sim), "{:?}", sim.incidents());
}

/// Two GPUs of the driver. The second is found by its address alone, or was served, or is expected.
fn two(expects: &str) -> Sim {
    let mut sim = match expects {
        "served" | "earlier boot" => {
            let mut sim = served();
            let info = vec!["nvidia", "H100", GPU2, "1", "1", "", "", "", "580", "hopper"];
            sim.host.driven.push(Driven {
                label: "GPU-2".to_owned(),
                series: vec![(&m::UP, vec![], 1), (&m::INFO, info, 1)],
                ..Driven::default()
            });
            sim.pass(60);
            sim.host.driven.pop();
            sim
        }
        _ => served(),
    };
    match expects {
        "address" => sim.config.gpu_addresses = vec![pci(GPU), pci(GPU2)],
        "count" => sim.config.expect.gpus = Some(2),
        _ => {}
    }
    sim.reload();
    sim
}

#[test]
fn a_gpu_without_a_driver_beside_others_is_a_finding_where_it_is_expected() {
    for expects in ["served", "address", "count", "earlier boot", ""] {
        for driver in ["", "nouveau", "vfio-pci", "nvgrace_gpu_vfio_pci"] {
            let case = format!("{expects} {driver}");
            let mut sim = two(expects);
            sim.set_gpu(GPU2, driver, (driver.is_empty()).then_some(true));
            if expects == "earlier boot" {
                sim.reboot();
            }
            sim.pass(590);
            assert!(!found(&sim), "{case}: as in an upgrade");
            sim.pass(80);
            let is_fault = !expects.is_empty() && !driver.contains("vfio");
            assert_eq!(found(&sim), is_fault, "{case}: {:?}", sim.incidents());
            assert!(!sim.slurm.is_drained(), "{case}");
            if !is_fault {
                continue;
            }
            let view = sim.engine.view();
            let incident = view.incidents.iter().find(|i| i.check == ID).unwrap();
            assert_eq!(
                (incident.detail.as_str(), incident.mode),
                ("driver unusable: not_bound", Mode::Comment)
            );
            let evidence = &incident.findings[0].evidence[0];
            assert!(
                evidence.contains(GPU2) && evidence.contains(&format!("driver={driver:?}")),
                "{evidence}"
            );
            // An address that no place expects any more ends with what is there, not with the reboot.
            sim.reboot();
            sim.pass(700);
            assert!(found(&sim), "{case}");
            sim.set_gpu(GPU2, "nvidia", Some(true));
            sim.pass(120);
            assert!(!found(&sim), "{case}: {:?}", sim.incidents());
        }
    }
}

#[test]
fn a_gpu_without_a_driver_ends_as_a_fault_when_it_is_given_away_or_taken_out() {
    for (driver, ended) in [(Some("vfio-pci"), true), (None, true), (Some("nouveau"), false)] {
        let mut sim = two("served");
        sim.set_gpu(GPU2, "", Some(true));
        sim.pass(700);
        assert!(found(&sim));
        match driver {
            Some(driver) => sim.set_gpu(GPU2, driver, None),
            None => sim.remove_gpu(GPU2),
        }
        sim.pass(120);
        assert_eq!(!found(&sim), ended, "{driver:?}: {:?}", sim.incidents());
    }
}

/// After an update of the kernel without its module and its blacklist.
#[test]
fn gpus_that_another_kernel_driver_took_are_not_given_away() {
    for driver in ["nouveau", "NovaCore"] {
        let mut sim = two("address");
        sim.reboot();
        unload(&mut sim);
        sim.pass(700);
        assert!(found(&sim));
        for (_, of, responding) in &mut sim.host.gpus {
            (*of, *responding) = (driver, None);
        }
        sim.pass(300);
        assert!(found(&sim), "{driver}: {:?}", sim.incidents());
        let mut sim = two("count");
        sim.reboot();
        unload(&mut sim);
        for (_, of, responding) in &mut sim.host.gpus {
            (*of, *responding) = (driver, None);
        }
        sim.pass(700);
        assert!(found(&sim), "{driver}: {:?}", sim.incidents());
    }
}
