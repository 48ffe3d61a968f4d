//! From events and series to incidents.

use std::time::Duration;

use collectors::event::{Recovery, Sxid};
use collectors::gpu::metrics as m;
use collectors::host::metrics::{EDAC_CONTROLLER_INFO, EDAC_UNCORRECTED};
use collectors::{Block, BootId, EventBody, Subject, SubjectKind};

use super::gpus::{driven, well};
use super::kernel_lines::line;
use super::sim::*;
use crate::book::{MAX_DRAINING, MAX_OF_CHECK, MAX_OPEN};
use crate::engine::Engine;
use crate::finding::Finding;
use crate::{Input, Mode};

#[test]
fn an_unknown_code_is_an_event() {
    let mut sim = Sim::new(Mode::Drain);
    sim.xid(999);
    assert!(sim.incidents().is_empty());
    assert_eq!(
        sim.engine.view().ledger.xids[&format!("pci:{GPU}")][&999].count,
        1
    );
}

#[test]
fn an_unknown_code_is_evidence_beside_another_fault_of_its_gpu() {
    for drains in [true, false] {
        let mut sim = Sim::new(Mode::Drain);
        sim.xid(51);
        sim.pass(2);
        assert!(sim.incidents().is_empty());
        if drains {
            sim.verdict_154(Recovery::GpuReset);
        }
        sim.xid(999);
        let view = sim.engine.view();
        if !drains {
            assert!(view.incidents.is_empty());
            continue;
        }
        assert_eq!(sim.incidents(), ["xid154 open"]);
        let findings = &view.incidents[0].findings;
        let details: Vec<&str> = findings.iter().map(|f| f.detail.as_str()).collect();
        assert_eq!(details, ["xid154", "xid51", "xid999"]);
        assert_eq!(findings[1].evidence, ["line 1"]);
        sim.verdict_154(Recovery::None);
        sim.pass(60);
        assert_eq!(sim.incidents(), ["xid154 cleared"]);
    }
}

#[test]
fn the_programs_own_faults_are_counted_only() {
    let mut sim = Sim::new(Mode::Drain);
    for code in [13, 31, 43, 45, 94, 144, 150, 63, 171] {
        sim.xid(code);
    }
    sim.pass(300);
    assert!(sim.incidents().is_empty());
    assert_eq!(sim.slurm.drains, 0);
}

#[test]
fn the_root_names_what_follows_from_it() {
    for order in [[45, 79], [79, 45]] {
        let mut sim = Sim::new(Mode::Drain);
        for code in order {
            sim.xid(code);
        }
        let view = sim.engine.view();
        assert_eq!(view.incidents.len(), 1, "{order:?}");
        assert_eq!(view.incidents[0].detail, "xid79");
        assert_eq!(view.incidents[0].findings.len(), 2);
        assert_eq!(sim.slurm.drains, 1);
    }
}

#[test]
fn a_time_out_of_the_firmware_does_not_name_the_fault_before_it() {
    for (codes, root) in [
        (&[62, 45, 119][..], "xid62"),
        (&[62, 120], "xid62"),
        (&[48, 119], "xid48"),
        (&[95, 120], "xid95"),
        (&[140, 119], "xid140"),
        (&[119, 45], "xid119"),
        (&[119, 109], "xid119"),
        (&[119, 79], "xid79"),
    ] {
        let mut sim = Sim::new(Mode::Drain);
        for code in codes {
            sim.xid(*code);
            sim.pass(2);
        }
        assert_eq!(sim.incidents(), [format!("{root} open")], "{codes:?}");
    }
}

#[test]
fn a_cause_reported_after_its_consequence_names_the_incident_without_another_write() {
    let mut sim = Sim::new(Mode::Drain);
    sim.xid(95);
    let reason = sim.slurm.reason.clone();
    sim.xid(79);
    assert_eq!(sim.incidents(), ["xid79 open"]);
    assert_eq!((sim.slurm.drains, sim.slurm.reason.clone()), (1, reason));
}

#[test]
fn what_comes_after_the_settle_window_is_another_incident() {
    let mut sim = Sim::new(Mode::Drain);
    sim.xid(95);
    sim.pass(31);
    sim.xid(46);
    sim.xid(95);
    assert_eq!(sim.incidents(), ["xid95 open", "xid46 open"]);
    sim.pass(31);
    sim.xid(45);
    assert_eq!(sim.engine.view().incidents[0].findings.len(), 1);
}

#[test]
fn a_flood_is_one_incident_and_one_drain() {
    let mut sim = Sim::new(Mode::Drain);
    let mut event = sim.event_of(EventBody::Xid(xid_of(95)));
    event.count = 800_000;
    sim.input(Input::Event("kernel_log", &event));
    for _ in 0..100 {
        sim.xid(95);
    }
    let view = sim.engine.view();
    assert_eq!(view.incidents.len(), 1);
    assert_eq!(view.incidents[0].findings[0].count, 800_100);
    assert_eq!(
        view.incidents[0].findings[0].evidence,
        ["line 1", "line 2", "line 3", "line 101"]
    );
    assert_eq!(view.ledger.xids[&format!("pci:{GPU}")][&95].count, 800_100);
    assert_eq!(sim.slurm.drains, 1);
}

#[test]
fn forged_lines_about_countless_gpus_fill_no_memory() {
    let mut sim = Sim::new(Mode::Observe);
    for bus in 0..600_u32 {
        let mut xid = xid_of(79);
        xid.pci = pci(&format!("{:04x}:{:02x}:00.0", bus / 256, bus % 256));
        let event = sim.event_of(EventBody::Xid(xid));
        sim.engine.step(sim.now, Input::Event("kernel_log", &event));
    }
    for code in 0..1000 {
        let event = sim.event_of(EventBody::Xid(xid_of(code)));
        sim.engine.step(sim.now, Input::Event("kernel_log", &event));
    }
    sim.xid(79);
    sim.pass(2);
    let view = sim.engine.view();
    assert_eq!(view.incidents.len(), MAX_OPEN + MAX_DRAINING);
    assert_eq!(view.ledger.xids.len(), 128);
    assert!(view.ledger.uncounted > 0);
    assert!(sim.disk.unwrap().len() < 500_000);
}

#[test]
fn duplicates_and_other_boots_count_nothing() {
    let mut sim = Sim::new(Mode::Drain);
    sim.xid(13);
    let mut again = sim.event_of(EventBody::Xid(xid_of(79)));
    again.seq = 1;
    sim.input(Input::Event("kernel_log", &again));
    let mut other = sim.event_of(EventBody::Xid(xid_of(79)));
    other.boot = BootId("boot-9".to_owned());
    sim.input(Input::Event("kernel_log", &other));
    assert_eq!(sim.slurm.drains, 0);
    assert_eq!(sim.engine.cursors()["kernel_log"].seq, 1);
    assert!(!sim.engine.view().ledger.xids[&format!("pci:{GPU}")].contains_key(&79));
}

#[test]
fn the_line_without_a_code_says_the_same_as_79() {
    let mut sim = Sim::new(Mode::Drain);
    sim.event(EventBody::FallenOffBus { pci: pci(GPU) });
    sim.xid(79);
    let view = sim.engine.view();
    assert_eq!(sim.incidents(), ["xid79 open"]);
    assert_eq!(view.incidents[0].findings[0].count, 2);
    assert_eq!(view.ledger.xids[&format!("pci:{GPU}")][&79].count, 1);
    assert_eq!(view.ledger.fallen_off_bus[&format!("pci:{GPU}")].count, 1);
}

#[test]
fn the_drivers_verdict_decides_on_154() {
    for (verdict, act) in [
        (Recovery::DrainP2p, "reset-gpu"),
        (Recovery::DrainAndReset, "reset-gpu"),
        (Recovery::GpuReset, "reset-gpu"),
        (Recovery::NodeReboot, "reboot"),
    ] {
        let mut sim = Sim::new(Mode::Drain);
        sim.verdict_154(verdict);
        assert_eq!(sim.slurm.drains, 1, "{verdict:?}");
        assert_eq!(sim.engine.view().incidents[0].act, act);
    }
    let mut sim = Sim::new(Mode::Drain);
    sim.xid(154);
    sim.verdict_154(Recovery::None);
    assert!(sim.incidents().is_empty());
}

#[test]
fn a_contained_error_drains_only_where_the_driver_asks_for_a_reset() {
    for (verdict, expected, drains) in [
        (None, &[][..], 0),
        (Some(Recovery::DrainAndReset), &["xid94 open"], 1),
    ] {
        let mut sim = Sim::new(Mode::Drain);
        let mut xid = xid_of(94);
        xid.recovery = verdict;
        sim.event(EventBody::Xid(xid));
        assert_eq!(sim.incidents(), expected);
        assert_eq!(sim.slurm.drains, drains);
        let view = sim.engine.view();
        assert!(view.incidents.iter().all(|i| i.act == "reset-gpu"));
    }
}

#[test]
fn an_nvswitch_error_is_counted_only() {
    let mut sim = Sim::new(Mode::Drain);
    sim.event(EventBody::Sxid(Sxid {
        pci: pci(GPU2),
        code: 12028,
        fatal: Some(true),
        link: Some(3),
    }));
    assert!(sim.incidents().is_empty());
    assert_eq!(
        sim.engine.view().ledger.sxids[&format!("pci:{GPU2}")][&12028].count,
        1
    );
}

#[test]
fn a_sites_row_may_drain_on_63() {
    let row = "[[xid]]\ncode = 63\nmeaning = \"row remap\"\nclass = \"gpu\"\naction = \"drain-now\"\n";
    let mut sim = Sim::with(config(Mode::Drain), Some(row));
    assert_eq!(sim.slurm.drains, 0);
    sim.xid(63);
    assert_eq!(sim.slurm.drains, 0, "the file is not named in the configuration");
    let mut config = config(Mode::Drain);
    config.xids = Some("/etc/nodewarden/xids.toml".into());
    let mut sim = Sim::with(config, Some(row));
    sim.xid(63);
    assert_eq!(sim.slurm.drains, 1);
    assert_eq!(sim.engine.view().incidents[0].clears, "xid63: `nodewarden clear`");
}

#[test]
fn memory_errors_drain_once_and_again_when_they_grow() {
    let mut sim = Sim::new(Mode::Drain);
    sim.host.edac = Some(2);
    sim.pass(60);
    assert_eq!(sim.slurm.drains, 1);
    let view = sim.engine.view();
    assert_eq!(view.incidents[0].subject, "memory_controller mc0");
    assert_eq!(view.incidents[0].findings[0].count, 2);
    sim.admin_insists();
    assert_eq!((sim.slurm.drains, sim.drain_state().as_str()), (2, "overridden"));
    sim.host.edac = Some(3);
    sim.pass(15);
    assert_eq!(sim.slurm.drains, 3);
}

#[test]
fn the_memory_of_a_gpu_that_edac_counts_is_not_the_hosts() {
    for (name, drains) in [("MI200", 0), ("F19h_M90h", 1), ("F19h_M30h", 1)] {
        let mut sim = Sim::new(Mode::Drain);
        let mut block = Block::default();
        block.u64(&EDAC_UNCORRECTED, &["mc3"], 1);
        block.info(&EDAC_CONTROLLER_INFO, &["mc3", name]);
        let subject = Subject::new(SubjectKind::MemoryController, "mc3");
        sim.host.others.push(("host", subject, Ok(block)));
        sim.pass(60);
        assert_eq!(sim.slurm.drains, drains, "{name}");
    }
}

fn watched() -> Sim {
    let mut config = config(Mode::Drain);
    config.gpu_addresses = vec![pci(GPU), pci(GPU2)];
    let mut sim = Sim::with(config, None);
    sim.snapshot();
    sim
}

#[test]
fn a_configured_gpu_that_leaves_drains_after_two_readings() {
    let mut sim = watched();
    sim.remove_gpu(GPU);
    sim.pass(15);
    assert_eq!(sim.slurm.drains, 0);
    sim.pass(15);
    assert_eq!(sim.slurm.drains, 1);
    assert_eq!(sim.engine.view().incidents[0].check, "gpu-missing");
}

#[test]
fn one_reading_looked_at_twice_is_one_reading() {
    let mut sim = watched();
    sim.remove_gpu(GPU);
    sim.sleep_until(sim.now.boottime + Duration::from_secs(15));
    sim.snapshot();
    sim.snapshot();
    sim.snapshot();
    assert_eq!(sim.slurm.drains, 0);
}

#[test]
fn a_gpu_given_to_a_virtual_machine_is_not_missing() {
    let mut sim = watched();
    sim.set_gpu(GPU, "vfio-pci", Some(false));
    sim.pass(300);
    assert_eq!(sim.slurm.drains, 0);
    assert!(sim.incidents().is_empty());
}

#[test]
fn a_listing_that_cannot_be_read_says_nothing() {
    let mut sim = watched();
    sim.remove_gpu(GPU);
    sim.host.readable = false;
    sim.pass(600);
    assert_eq!(sim.slurm.drains, 0);
}

#[test]
fn a_missing_gpu_joins_the_xid_that_explains_it() {
    let mut sim = watched();
    sim.xid(79);
    sim.remove_gpu(GPU);
    sim.pass(90);
    assert_eq!(sim.incidents(), ["xid79 open"]);
    let view = sim.engine.view();
    assert_eq!(
        view.incidents[0].findings.len(),
        3,
        "79, gpu-missing and Slurm's count"
    );
}

#[test]
fn slurms_count_alone_never_drains() {
    let mut sim = Sim::new(Mode::Drain);
    sim.remove_gpu(GPU);
    sim.pass(600);
    assert_eq!(sim.slurm.drains, 0);
    assert_eq!(sim.incidents(), ["fewer GPUs on the PCI bus than Gres has open"]);
    assert_ne!(
        sim.engine.view().verdict.health,
        crate::verdict::Health::Unhealthy
    );
    sim.set_gpu(GPU, "nvidia", Some(true));
    sim.pass(120);
    assert_eq!(
        sim.incidents(),
        ["fewer GPUs on the PCI bus than Gres has cleared"]
    );
}

#[test]
fn a_gpu_keeps_the_name_that_its_driver_gave_it() {
    let uuid = "GPU-6f1c2f0e-7a4d-4c55-9b7e-3d1a8e52c0f4";
    let mut sim = Sim::new(Mode::Drain);
    sim.xid(79);
    let before = sim.engine.view().incidents[0].subject_name.clone();
    assert!(before.starts_with("pci:"), "{before}");
    sim.event(EventBody::Identity {
        pci: xid_of(79).pci,
        uuid: uuid.to_owned(),
    });
    assert_eq!(sim.engine.view().incidents[0].subject_name, uuid);
    // Also after a restart, and for later findings.
    sim.pass(2);
    sim.restart();
    sim.xid(79);
    let view = sim.engine.view();
    assert_eq!(view.incidents.len(), 1);
    let counts = view
        .ledger
        .xids
        .iter()
        .map(|(gpu, codes)| (gpu.as_str(), codes[&79].count));
    assert_eq!(counts.collect::<Vec<_>>(), [(uuid, 2)]);
}

#[test]
fn an_xid_is_dated_by_its_line_where_it_is_read_late_and_else_by_its_reading() {
    let mut sim = Sim::new(Mode::Drain);
    sim.pass(600);
    sim.restart_unread();
    let mut event = sim.event_of(EventBody::Xid(xid_of(31)));
    event.at_us -= 100 * 1_000_000;
    let now = sim.now.wall;
    sim.input(Input::Event("kernel_log", &event));
    assert_eq!(
        sim.engine.view().ledger.xids[&format!("pci:{GPU}")][&31].last,
        now - 100
    );
    // The log is read live: a time difference is only clock drift.
    sim.log_is_read();
    sim.pass(60);
    let mut event = sim.event_of(EventBody::Xid(xid_of(31)));
    event.at_us -= 100 * 1_000_000;
    let now = sim.now.wall;
    sim.input(Input::Event("kernel_log", &event));
    assert_eq!(
        sim.engine.view().ledger.xids[&format!("pci:{GPU}")][&31].last,
        now
    );
}

#[test]
fn a_finding_that_drains_has_room_beside_256_that_do_not_and_one_without_room_is_found_later() {
    let mut sim = Sim::expecting(GPU2);
    let fill = |sim: &mut Sim, n: usize, drains: bool| {
        for n in 0..n {
            let subject = Subject::new(SubjectKind::Mount, format!("/{drains}/{n}"));
            let finding = Finding {
                drains,
                ..Finding::of_condition(format!("check-{}", n % 5), subject)
            };
            let settle = Duration::from_secs(30);
            let frame = Engine::frame(&sim.engine.boot, sim.now, settle);
            sim.engine.book.take(finding, frame, drains);
        }
    };
    fill(&mut sim, MAX_OPEN + 9, false);
    assert_eq!(
        (sim.engine.book.open().count(), sim.engine.book.dropped),
        (MAX_OPEN, 9)
    );
    fill(&mut sim, MAX_DRAINING, true);
    assert_eq!(sim.engine.book.dropped, 9);
    sim.remove_gpu(GPU2);
    sim.pass(60);
    assert_eq!(sim.slurm.drains, 0, "no room");
    assert!(sim.engine.book.dropped > 9);
    sim.engine.book.incidents.clear();
    sim.pass(60);
    assert_eq!(sim.slurm.drains, 1);
}

/// Each client of a filesystem with hundreds of servers logs a line for each of them.
#[test]
fn an_outage_of_many_servers_leaves_places_for_other_faults() {
    let mut sim = Sim::new(Mode::Observe);
    sim.pass(60);
    for n in 0..300 {
        sim.event(line("lustre-lost", &format!("scratch-OST{n:04x}")));
    }
    sim.event(line("ext4-error", "nvme0n1p1"));
    sim.pass(60);
    assert_eq!(sim.engine.book.open().count(), MAX_OF_CHECK + 1);
    let view = sim.engine.view();
    assert!(view.incidents.iter().any(|i| i.subject == "filesystem nvme0n1p1"));
    assert!(view.dropped >= 300 - MAX_OF_CHECK as u64, "{}", view.dropped);
}

/// The reason in Slurm names it for days or weeks.
#[test]
fn the_incident_that_a_drain_names_outlives_others() {
    let mut sim = Sim::new(Mode::Observe);
    let frame = Engine::frame(&sim.engine.boot, sim.now, Duration::from_secs(30));
    let book = &mut sim.engine.book;
    for n in 0..80 {
        let subject = Subject::new(SubjectKind::Mount, format!("/{n}"));
        book.take(
            Finding::of_condition(format!("check-{}", n % 5), subject),
            frame,
            false,
        );
    }
    for (at, incident) in (0..).zip(&mut book.incidents) {
        incident.close(at, "repaired".to_owned());
    }
    let named = book.incidents[0].id.clone();
    book.forget_old(Some(&named));
    assert_eq!((book.incidents.len(), &book.incidents[0].id), (51, &named));
    book.forget_old(None);
    assert!(book.incidents.len() == 50 && book.incidents[0].id != named);
}

/// Slurm counts each MIG instance, and each partition of AMD, under a type of the site's choice or under none.
#[test]
fn a_gres_that_counts_the_instances_of_divided_gpus_is_no_finding() {
    let mut sim = Sim::new(Mode::Observe);
    let mut divided = well();
    divided.push((&m::INSTANCE_INFO, vec!["1/0", "", ""], 1));
    sim.host.driven = vec![driven(divided)];
    sim.slurm.gres = "gpu:small:14".to_owned();
    sim.pass(300);
    assert!(sim.incidents().is_empty(), "{:?}", sim.incidents());
    // Nothing is known of the instances while the driver does not answer.
    sim.host.driven.clear();
    sim.pass(300);
    assert!(!sim.says("fewer GPUs on the PCI bus than Gres has", false));
    sim.host.driven = vec![driven(well())];
    sim.pass(300);
    assert!(
        sim.says("fewer GPUs on the PCI bus than Gres has", false),
        "whole again"
    );
}

#[test]
fn a_gres_that_no_longer_counts_whole_gpus_ends_the_finding_about_it() {
    for (gres, ended) in [("gpu:h100:4", false), ("gpu:1g.10gb:14", true), ("(null)", true)] {
        let mut config = config(Mode::Observe);
        config.scheduler.poll = Duration::from_secs(60);
        let mut sim = Sim::with(config, None);
        sim.slurm.gres = "gpu:h100:4".to_owned();
        sim.pass(300);
        assert_eq!(sim.incidents(), ["fewer GPUs on the PCI bus than Gres has open"]);
        sim.slurm.gres = gres.to_owned();
        sim.pass(900);
        assert!(
            sim.says("fewer GPUs on the PCI bus than Gres has", ended),
            "{gres}"
        );
    }
}
