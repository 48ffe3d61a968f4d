//! What ends an Xid: a reset, a reboot, and what the driver must show then.

use std::time::Duration;

use collectors::EventBody;
use collectors::event::Recovery;
use collectors::gpu::metrics as m;
use collectors::nvidia::metrics as n;

use super::gpus::{NAME, Series, driven, energy, node, show, well};
use super::host::Driven;
use super::sim::*;
use crate::Mode;

fn has(sim: &Sim, incident: &str) -> bool {
    sim.incidents().iter().any(|found| found == incident)
}

#[test]
fn what_such_a_gpu_does_not_have_need_not_be_shown() {
    let info = |architecture| {
        let info = vec!["nvidia", "", GPU, "0", "0", "", "", "", "580", architecture];
        vec![(&m::INFO, info, 1)]
    };
    let with = |mut series: Vec<Series>, more: Vec<Series>| {
        series.extend(more);
        series
    };
    let mig = vec![(&m::MIG_MODE, vec![], 1), (&m::ECC_SRAM_THRESHOLD, vec![], 0)];
    let unread = vec![(&m::UNREAD_VALUES, vec!["unknown"], 1)];
    let lacking = vec![
        (&m::ECC_SRAM_LACKING, vec![], 1),
        (&m::ROW_REMAP_FAILURE, vec![], 0),
    ];
    let failed = vec![
        (&m::ECC_SRAM_LACKING, vec![], 1),
        (&m::ROW_REMAP_FAILURE, vec![], 1),
    ];
    for (series, ended) in [
        (info("volta"), true),
        (info("turing"), true),
        (info("ampere"), false),
        (with(info("hopper"), mig.clone()), true),
        (with(with(info("hopper"), mig), unread), false),
        // Drivers before R535 have no function for it.
        (with(info("ampere"), lacking), true),
        (with(info("ampere"), failed), false),
    ] {
        for code in [48, 64] {
            let mut sim = node(Mode::Drain, vec![driven(well())]);
            sim.xid(code);
            sim.reboot();
            show(&mut sim, series.clone());
            sim.pass(600);
            let state = if ended { "cleared" } else { "open" };
            assert_eq!(sim.incidents()[0], format!("xid{code} {state}"), "{series:?}");
        }
    }
}

#[test]
fn links_that_a_board_does_not_use_need_not_be_up() {
    let gpus = |up: [u64; 4], first: u64| {
        let gpu = |(at, up): (usize, &u64)| {
            let address = ["0000:17:00.0", "0000:18:00.0", "0000:19:00.0", "0000:1a:00.0"][at];
            let address = if at == 0 { GPU } else { address };
            let info = vec![
                "nvidia", "H100 NVL", address, "0", "0", "", "", "", "580", "hopper",
            ];
            Driven {
                label: ["GPU-1", "GPU-2", "GPU-3", "GPU-4"][at].to_owned(),
                ..driven(vec![
                    (&m::UP, vec![], 1),
                    (&m::INFO, info, 1),
                    (&n::NVLINK_LINKS, vec![], if at == 0 { first } else { 18 }),
                    (&n::NVLINK_LINKS_UP, vec![], *up),
                ])
            }
        };
        up.iter().enumerate().map(gpu).collect::<Vec<_>>()
    };
    for (before, up, first, state) in [
        ([12; 4], [12; 4], 18, "cleared"),
        ([12; 4], [11, 12, 12, 12], 18, "open"),
        ([12; 4], [11; 4], 18, "open"),
        // Its driver counts fewer than before, and all of those are up.
        ([18; 4], [17, 18, 18, 18], 17, "open"),
        ([18; 4], [18; 4], 18, "cleared"),
    ] {
        let mut sim = node(Mode::Drain, gpus(before, 18));
        sim.xid(74);
        sim.reboot();
        sim.host.driven = gpus(up, first);
        sim.pass(300);
        let is_so = has(&sim, &format!("xid74 {state}"));
        assert!(is_so, "{up:?} {:?}", sim.incidents());
    }
}

#[test]
fn a_gpu_in_the_place_of_another_need_not_show_what_that_one_had_to() {
    let mut sim = node(Mode::Drain, vec![driven(well())]);
    sim.xid(48);
    sim.reboot();
    let other = |up| Driven {
        label: "GPU-2".to_owned(),
        ..driven(vec![(&m::UP, vec![], up), well()[1].clone()])
    };
    sim.host.driven = vec![other(0)];
    sim.pass(300);
    assert!(has(&sim, "xid48 open"), "{:?}", sim.incidents());
    // The one that it was about is elsewhere, and does not answer.
    let elsewhere = vec![
        "nvidia",
        "H100",
        "0000:99:00.0",
        "1",
        "1",
        "",
        "",
        "",
        "580",
        "hopper",
    ];
    sim.host.driven = vec![
        other(1),
        driven(vec![(&m::UP, vec![], 0), (&m::INFO, elsewhere, 1)]),
    ];
    sim.pass(300);
    assert!(has(&sim, "xid48 open"), "{:?}", sim.incidents());
    sim.host.driven = vec![other(1)];
    sim.pass(300);
    assert!(has(&sim, "xid48 cleared"), "{:?}", sim.incidents());
}

/// This GPU, up at this address.
fn at(label: &str, address: &'static str) -> Driven {
    let info = vec!["nvidia", "H100", address, "1", "1", "", "", "", "580", "hopper"];
    Driven {
        label: label.to_owned(),
        ..driven(vec![(&m::UP, vec![], 1), (&m::INFO, info, 1)])
    }
}

/// The firmware numbers the buses again when a port or a card comes or goes.
#[test]
fn a_gpu_of_this_node_that_moved_to_the_address_of_another_ends_nothing_of_it() {
    for code in [79, 119, 48] {
        for (name, ended) in [("GPU-2", false), ("GPU-3", true)] {
            let mut sim = node(Mode::Drain, vec![at(NAME, GPU), at("GPU-2", GPU2)]);
            sim.xid(code);
            sim.remove_gpu(GPU2);
            sim.host.driven = vec![at(name, GPU)];
            sim.reboot();
            sim.pass(300);
            let detail = format!("xid{code}");
            assert!(sim.says(&detail, ended), "{code} {name}: {:?}", sim.incidents());
            // It stays the fault of the one that is gone, also over a start of the daemon.
            sim.restart();
            sim.pass(900);
            assert!(sim.says(&detail, ended), "{code} {name}: {:?}", sim.incidents());
        }
    }
}

/// After an upgrade of the kernel without the driver's module.
#[test]
fn a_gpu_that_another_driver_of_the_kernel_took_at_a_reboot_is_not_shown_to_be_repaired() {
    let mut sim = node(Mode::Drain, vec![at(NAME, GPU)]);
    sim.xid(119);
    let served = std::mem::take(&mut sim.host.driven);
    sim.set_gpu(GPU, "nouveau", Some(true));
    sim.reboot();
    sim.pass(300);
    assert!(sim.says("xid119", false) && sim.slurm.is_drained());
    sim.host.driven = served;
    sim.set_gpu(GPU, "nvidia", Some(true));
    sim.reboot();
    sim.pass(300);
    assert!(sim.says("xid119", true), "{:?}", sim.incidents());
}

#[test]
fn a_gpu_that_a_reboot_brought_back_at_another_address_is_back() {
    for code in [79, 119] {
        let mut sim = node(Mode::Drain, vec![at(NAME, GPU)]);
        sim.xid(code);
        sim.remove_gpu(GPU);
        sim.remove_gpu(GPU2);
        sim.host.driven.clear();
        sim.reboot();
        sim.pass(300);
        let detail = format!("xid{code}");
        assert!(sim.says(&detail, false), "{code}: {:?}", sim.incidents());
        sim.set_gpu(GPU2, "nvidia", Some(true));
        sim.host.driven = vec![at(NAME, GPU2)];
        sim.reboot();
        sim.pass(300);
        assert!(sim.says(&detail, true), "{code}: {:?}", sim.incidents());
    }
}

/// A GPU that the driver takes back has no verdict, so no line says that it became None (gpu.c).
#[test]
fn a_reset_ends_a_verdict_that_asks_for_one_and_no_other() {
    for (verdict, state) in [
        (Recovery::GpuReset, "cleared"),
        (Recovery::DrainAndReset, "cleared"),
        (Recovery::NodeReboot, "open"),
    ] {
        let mut sim = node(Mode::Drain, vec![driven(well())]);
        show(&mut sim, energy(5000));
        sim.pass(60);
        sim.verdict_154(verdict);
        show(&mut sim, energy(10));
        sim.pass(60);
        assert_eq!(sim.incidents(), [format!("xid154 {state}")], "{verdict:?}");
    }
    // The later verdict counts.
    let mut sim = node(Mode::Drain, vec![driven(well())]);
    show(&mut sim, energy(5000));
    sim.pass(60);
    sim.verdict_154(Recovery::GpuReset);
    sim.verdict_154(Recovery::NodeReboot);
    show(&mut sim, energy(10));
    sim.pass(60);
    assert_eq!(sim.incidents(), ["xid154 open"]);
    assert_eq!(
        sim.engine.view().ledger.last_xid(NAME),
        None,
        "the page knows of the reset"
    );
    let stores = sim.stores;
    sim.pass(600);
    assert_eq!(sim.stores, stores, "a reset is noted once");
}

/// NTP corrects a clock that was ahead at the boot.
#[test]
fn a_clock_that_is_set_back_hides_no_reset_and_lets_an_old_one_end_no_new_fault() {
    let mut sim = node(Mode::Drain, vec![driven(well())]);
    show(&mut sim, energy(5000));
    sim.pass(60);
    show(&mut sim, energy(100));
    sim.pass(60);
    sim.now.wall -= 3600;
    sim.xid(119);
    sim.pass(60);
    assert_eq!(sim.incidents(), ["xid119 open"], "the reset was before it");
    sim.now.wall -= 3600;
    show(&mut sim, energy(10));
    sim.pass(60);
    assert_eq!(sim.incidents(), ["xid119 cleared"]);
}

#[test]
fn what_the_driver_must_show_is_looked_for_after_its_verdict_and_after_a_reboot() {
    let links =
        |up| -> Vec<Series> { vec![(&n::NVLINK_LINKS, vec![], 18), (&n::NVLINK_LINKS_UP, vec![], up)] };
    for reboots in [false, true] {
        let mut sim = node(Mode::Drain, vec![driven(well())]);
        sim.xid(74);
        assert!(sim.slurm.is_drained());
        show(&mut sim, links(17));
        sim.pass(60);
        if reboots {
            sim.reboot();
        } else {
            sim.verdict_154(Recovery::None);
        }
        sim.pass(600);
        assert!(sim.slurm.is_drained(), "a link is still down");
        show(&mut sim, links(18));
        sim.pass(60);
        assert_eq!(sim.incidents(), ["xid74 cleared"]);
        sim.clear_repaired();
    }
}

/// Series of a GPU for which the driver asks for a reset (NVML field 230: 1), or for nothing (0).
fn asking(action: u64, joules: u64) -> Vec<Series> {
    let mut series = energy(joules);
    series.push((&m::RECOVERY_ACTION, vec![], action));
    series
}

fn unanswered(reason: &'static str) -> Vec<Series> {
    vec![(&m::UP, vec![], 0), (&m::UNAVAILABLE_INFO, vec![reason], 1)]
}

/// Shows each of these for a minute.
fn show_each(sim: &mut Sim, all: Vec<Vec<Series>>) {
    for series in all {
        show(sim, series);
        sim.pass(60);
    }
}

#[test]
fn a_reset_that_the_driver_asked_for_ends_the_fault_behind_it() {
    let mut sim = node(Mode::Drain, vec![driven(well())]);
    show_each(&mut sim, vec![energy(5000)]);
    sim.sleep_until(sim.now.boottime + Duration::from_secs(5));
    sim.xid(119);
    show_each(&mut sim, vec![asking(1, 6000), asking(1, 7000)]);
    assert!(sim.says("xid119", false), "{:?}", sim.incidents());
    // The action is taken back one minute after the counters fell.
    show_each(&mut sim, vec![asking(1, 10), asking(0, 20)]);
    assert!(sim.says("xid119", true), "{:?}", sim.incidents());
    assert_eq!(sim.engine.view().ledger.last_xid(NAME), None);
    sim.pass(600);
    assert_eq!(sim.slurm.drains, 1);
    assert!(!sim.slurm.is_drained());
}

#[test]
fn a_fault_after_a_reset_that_left_the_drivers_request_is_not_ended_by_it() {
    let mut sim = node(Mode::Drain, vec![driven(well())]);
    show_each(&mut sim, vec![energy(5000)]);
    sim.xid(119);
    show_each(&mut sim, vec![asking(1, 6000), asking(1, 10)]);
    sim.xid(119);
    show_each(&mut sim, vec![asking(1, 20), asking(0, 30), asking(0, 40)]);
    assert!(sim.says("xid119", false), "{:?}", sim.incidents());
}

#[test]
fn a_gpu_that_answers_again_after_it_had_to_be_reset_was_reset() {
    for (reason, ended) in [
        ("reset_required", true),
        ("lost", true),
        // It may have been reset before the fault, without an answer since.
        ("timeout", false),
        ("no_driver", false),
    ] {
        let mut sim = node(Mode::Drain, vec![driven(well())]);
        show_each(&mut sim, vec![energy(5000)]);
        sim.sleep_until(sim.now.boottime + Duration::from_secs(5));
        sim.xid(119);
        show_each(&mut sim, vec![unanswered(reason), energy(10)]);
        assert!(sim.says("xid119", ended), "{reason}: {:?}", sim.incidents());
    }
}

/// The collector asks again for a GPU that it lost every 10 s (scan.rs), so it may show a state from before the reset.
#[test]
fn a_fault_while_a_gpu_is_lost_may_be_one_after_its_reset_and_stays() {
    let mut sim = node(Mode::Drain, vec![driven(well())]);
    show_each(&mut sim, vec![energy(5000)]);
    sim.xid(119);
    show(&mut sim, unanswered("reset_required"));
    sim.pass(30);
    sim.xid(119);
    sim.pass(15);
    show_each(&mut sim, vec![energy(10)]);
    assert!(sim.says("xid119", false), "{:?}", sim.incidents());
}

#[test]
fn cleared_error_counts_are_no_reset() {
    let errors = |count| -> Series { (&m::ECC_ERRORS, vec!["corrected", "volatile"], count) };
    let uncorrected = |count| -> Series { (&m::ECC_ERRORS, vec!["uncorrected", "volatile"], count) };
    let gpu = |joules: Option<u64>, count| {
        let mut series = joules.map(energy).unwrap_or_default();
        series.extend([errors(count), uncorrected(0)]);
        series
    };
    for (before, after, ended) in [
        (vec![Some(5000)], vec![Some(6000), Some(7000)], false),
        // Not readable for a while, before, in between and after.
        (vec![Some(5000)], vec![None, None], false),
        (
            vec![Some(5000), None],
            vec![None, None, Some(6000), Some(7000)],
            false,
        ),
        (vec![None], vec![Some(6000), Some(7000)], false),
        (vec![Some(5000)], vec![None, Some(10), Some(20)], true),
        // A driver that never shows it.
        (vec![None], vec![None, None], true),
    ] {
        let mut sim = node(Mode::Drain, vec![driven(well())]);
        let case = format!("{before:?} {after:?}");
        show_each(
            &mut sim,
            before.into_iter().map(|joules| gpu(joules, 7)).collect(),
        );
        sim.xid(119);
        show_each(&mut sim, after.into_iter().map(|joules| gpu(joules, 0)).collect());
        assert!(sim.says("xid119", ended), "{case}: {:?}", sim.incidents());
    }
}

/// An Xid, a reading after it, and a stop of this many seconds, in which the energy decreases.
fn stopped(code: u32, seconds: u64, joules: u64) -> Sim {
    let mut sim = node(Mode::Drain, vec![driven(well())]);
    show_each(&mut sim, vec![energy(5000)]);
    sim.xid(code);
    show_each(&mut sim, vec![energy(6000)]);
    sim.sleep_until(sim.now.boottime + Duration::from_secs(seconds));
    show(&mut sim, energy(joules));
    sim
}

#[test]
fn a_reset_while_nodewarden_did_not_run_ends_what_a_reset_ends() {
    for (code, joules, ended) in [
        (119, 10, true),
        (119, 7000, false),
        // A reset brings no lost GPU back, and no power: a reload of the driver sets the energy back too.
        (79, 10, false),
        (54, 10, false),
    ] {
        for repeats in [1, 2] {
            let mut sim = stopped(code, 3600, joules);
            for _ in 0..repeats {
                sim.restart();
            }
            sim.pass(60);
            let case = format!("{code} {joules}: {:?}", sim.incidents());
            assert!(sim.says(&format!("xid{code}"), ended), "{case}");
            sim.pass(600);
            assert_eq!((sim.slurm.drains, sim.slurm.is_drained()), (1, !ended), "{case}");
        }
    }
}

#[test]
fn a_node_that_was_returned_after_such_a_reset_is_not_drained_again() {
    let mut sim = stopped(119, 3600, 10);
    sim.restart();
    sim.pass(60);
    sim.slurm.admin_resumes();
    sim.pass(1200);
    assert_eq!(sim.slurm.drains, 1, "{:?}", sim.incidents());
}

#[test]
fn a_stored_reading_from_before_the_fault_ends_nothing() {
    let mut sim = node(Mode::Drain, vec![driven(well())]);
    show_each(&mut sim, vec![energy(5000)]);
    sim.sleep_until(sim.now.boottime + Duration::from_secs(5));
    sim.xid(119);
    show(&mut sim, energy(10));
    sim.restart();
    sim.pass(600);
    assert!(sim.says("xid119", false), "{:?}", sim.incidents());
}

/// Lines older than 15 min open nothing, and lost ones are not known: each may be a fault after the reset.
#[test]
fn a_line_from_the_time_of_the_stop_keeps_what_a_reset_before_it_would_end() {
    let overrun = EventBody::Overrun { lost: Some(3) };
    for (age, body) in [
        (1800, EventBody::Xid(xid_of(119))),
        (60, EventBody::Xid(xid_of(119))),
        (1800, overrun),
    ] {
        let mut sim = stopped(119, 3600, 10);
        sim.restart_unread();
        sim.event_behind(age, body.clone());
        sim.log_is_read();
        sim.pass(1200);
        assert!(sim.says("xid119", false), "{age} {body:?}: {:?}", sim.incidents());
        assert!(sim.slurm.is_drained());
    }
}

#[test]
fn a_stop_without_the_kernel_log_or_with_persistence_mode_off_shows_no_reset() {
    for is_off in [false, true] {
        let mut sim = stopped(119, 3600, 10);
        sim.restart_unread();
        if is_off {
            sim.log_is_read();
            let mut off = energy(10);
            off.push((&m::PERSISTENCE_MODE, vec![], 0));
            show_each(&mut sim, vec![off, energy(20)]);
        } else {
            sim.pass(60);
            sim.log_is_read();
        }
        sim.pass(600);
        assert!(sim.says("xid119", false), "{is_off}: {:?}", sim.incidents());
    }
}

#[test]
fn a_reading_of_an_earlier_boot_and_a_record_without_readings_show_no_reset() {
    // An uncorrectable error ends with a reset or a reboot, once the driver shows no failed remap.
    let mut sim = stopped(64, 60, 10);
    sim.reboot();
    sim.pass(60);
    let mut known = energy(20);
    known.push((&m::RECOVERY_ACTION, vec![], 0));
    show(&mut sim, known);
    sim.pass(60);
    assert!(sim.says("xid64", false), "{:?}", sim.incidents());

    let mut sim = stopped(119, 3600, 10);
    let mut record = sim.record();
    let stored = record["checks"].as_object_mut().unwrap().remove("xid").unwrap();
    assert_eq!(stored["resets"][NAME]["counters"]["energy"], 6000.0);
    record["checks"]["xid"] = serde_json::json!({"pending": [], "repeated": {}});
    sim.set_record(&record);
    sim.restart();
    assert!(sim.engine.lost().is_empty());
    sim.pass(600);
    assert!(sim.says("xid119", false), "{:?}", sim.incidents());
}

/// An image without nvidia-persistenced, on which the driver asks for a reset of a GPU in between.
#[test]
fn a_fault_that_has_ended_leaves_its_incident_the_remedy_of_the_others() {
    let gpu = |action| -> Vec<Series> {
        vec![
            (&m::PERSISTENCE_MODE, vec![], 0),
            (&m::RECOVERY_ACTION, vec![], action),
        ]
    };
    let mut sim = node(Mode::Drain, vec![driven(well())]);
    for (action, named, act, acts) in [
        (0, "gpu-persistence-off", "inspect", false),
        (1, "gpu-recovery-action", "reset-gpu", true),
        (0, "gpu-persistence-off", "inspect", false),
    ] {
        show(&mut sim, gpu(action));
        sim.pass(600);
        let view = sim.engine.view();
        let [i] = view.incidents.as_slice() else {
            panic!("{:?}", sim.incidents());
        };
        assert_eq!(
            (i.state.as_str(), i.check.as_str(), i.act.as_str()),
            ("open", named, act)
        );
        assert_eq!((i.acts, i.drains, i.cause.as_str()), (acts, acts, named));
        assert_eq!(i.findings[0].check, "gpu-persistence-off");
    }
    show(&mut sim, vec![(&m::PERSISTENCE_MODE, vec![], 1)]);
    sim.pass(600);
    assert_eq!(
        sim.engine.view().incidents[0].act,
        "reset-gpu",
        "closed: the strongest of all"
    );
}
