//! Checks of the driver's GPU series: when each fires, ignores and clears.

use std::time::Duration;

use collectors::Metric;
use collectors::event::Recovery;
use collectors::gpu::metrics as m;
use collectors::nvidia::metrics as n;

use super::host::Driven;
use super::sim::*;
use crate::verdict::Health;
use crate::{Mode, OrderVerb};

pub(super) type Series = (&'static Metric, Vec<&'static str>, u64);

pub(super) const NAME: &str = "GPU-1";

/// The identity of the GPU at the first address.
fn identity(driver: &'static str) -> Vec<&'static str> {
    vec!["nvidia", "H100", GPU, "0", "0", "", "", "", driver, "hopper"]
}

/// A healthy GPU at the first address.
pub(super) fn well() -> Vec<Series> {
    vec![(&m::UP, vec![], 1), (&m::INFO, identity("580"), 1)]
}

pub(super) fn driven(series: Vec<Series>) -> Driven {
    Driven {
        label: NAME.to_owned(),
        series,
        late: None,
        ..Driven::default()
    }
}

/// A node long after boot, with these GPUs.
pub(super) fn node(mode: Mode, driven: Vec<Driven>) -> Sim {
    let mut sim = Sim::new(mode);
    sim.host.driven = driven;
    sim.pass(900);
    assert!(sim.incidents().is_empty(), "{:?}", sim.incidents());
    sim
}

pub(super) fn show(sim: &mut Sim, more: Vec<Series>) {
    let mut series = well();
    series.retain(|(metric, ..)| more.iter().all(|(other, ..)| other != metric));
    series.extend(more);
    sim.host.driven = vec![driven(series)];
}

/// A bad series, a good series, and the finding.
pub(super) struct Case {
    pub(super) bad: Vec<Series>,
    good: Vec<Series>,
    pub(super) found: &'static str,
    pub(super) drains: bool,
}

fn one(
    metric: &'static Metric,
    labels: &[&'static str],
    bad: u64,
    good: u64,
    found: &'static str,
    drains: bool,
) -> Case {
    Case {
        bad: vec![(metric, labels.to_vec(), bad)],
        good: vec![(metric, labels.to_vec(), good)],
        found,
        drains,
    }
}

pub(super) fn cases() -> Vec<Case> {
    let pair =
        |a: &'static Metric, b: &'static Metric, bad: (u64, u64), good: (u64, u64), found, drains| Case {
            bad: vec![(a, vec![], bad.0), (b, vec![], bad.1)],
            good: vec![(a, vec![], good.0), (b, vec![], good.1)],
            found,
            drains,
        };
    let down = |reason, found| Case {
        bad: vec![(&m::UP, vec![], 0), (&m::UNAVAILABLE_INFO, vec![reason], 1)],
        good: vec![(&m::UP, vec![], 1)],
        found,
        drains: true,
    };
    let fabric = |metric: &'static Metric, labels: &[&'static str], (bad, good), found| Case {
        bad: vec![(metric, labels.to_vec(), bad), (&n::FABRIC_STATE, vec![], 3)],
        good: vec![(metric, labels.to_vec(), good), (&n::FABRIC_STATE, vec![], 3)],
        found,
        drains: false,
    };
    // What the number 5 asks for depends on the driver's release.
    let asks_5 = |driver, found, drains| Case {
        bad: vec![(&m::RECOVERY_ACTION, vec![], 5), (&m::INFO, identity(driver), 1)],
        good: vec![(&m::RECOVERY_ACTION, vec![], 0)],
        found,
        drains,
    };
    vec![
        down("lost", "down: lost"),
        down("reset_required", "down: reset_required"),
        one(&m::RECOVERY_ACTION, &[], 1, 0, "driver wants a GPU reset", true),
        one(&m::RECOVERY_ACTION, &[], 2, 0, "driver wants a reboot", true),
        one(&m::RECOVERY_ACTION, &[], 3, 0, "driver wants peers drained", true),
        one(
            &m::RECOVERY_ACTION,
            &[],
            4,
            0,
            "driver wants a drain and a reset",
            true,
        ),
        asks_5("580.95.05", "driver wants a bus reset", true),
        asks_5("595.45.04", "driver wants the IMEX domain recovered", false),
        one(&m::ROW_REMAP_PENDING, &[], 1, 0, "row remap pending", true),
        one(&m::ROW_REMAP_FAILURE, &[], 1, 0, "row remap failed", true),
        one(
            &m::RETIRED_PAGES_PENDING,
            &[],
            1,
            0,
            "page retirement pending",
            true,
        ),
        one(
            &m::REPAIR_PENDING,
            &["channel"],
            1,
            0,
            "memory channel repair pending",
            false,
        ),
        one(&m::REPAIR_PENDING, &["tpc"], 1, 0, "TPC repair pending", false),
        one(&m::INFOROM_VALID, &[], 0, 1, "InfoROM corrupted", false),
        one(
            &m::ECC_SRAM_THRESHOLD,
            &[],
            1,
            0,
            "SRAM error threshold exceeded",
            true,
        ),
        one(
            &m::CLOCK_EVENT,
            &["hw_thermal"],
            1,
            0,
            "hardware slowdown by heat",
            false,
        ),
        one(
            &m::CLOCK_EVENT,
            &["hw_power_brake"],
            1,
            0,
            "hardware slowdown by power brake",
            false,
        ),
        pair(
            &m::TEMPERATURE,
            &m::TEMPERATURE_SLOWDOWN,
            (90, 87),
            (60, 87),
            "too hot",
            false,
        ),
        pair(
            &m::MEMORY_TEMPERATURE,
            &m::MEMORY_TEMPERATURE_MAX,
            (95, 95),
            (60, 95),
            "memory too hot",
            false,
        ),
        one(&m::PERSISTENCE_MODE, &[], 0, 1, "persistence mode off", false),
        one(&n::FABRIC_STATE, &[], 2, 3, "fabric: not joined", false),
        pair(
            &n::FABRIC_STATE,
            &n::FABRIC_STATUS,
            (3, 10),
            (3, 0),
            "fabric: registration failed",
            false,
        ),
        fabric(
            &n::FABRIC_UNHEALTHY,
            &["partition_unassigned"],
            (1, 0),
            "fabric: partition unassigned",
        ),
        // No aspect that this release knows is unhealthy.
        fabric(&n::FABRIC_HEALTH_SUMMARY, &[], (2, 1), "fabric: unhealthy"),
        fabric(&n::FABRIC_HEALTH_SUMMARY, &[], (3, 1), "fabric: limited capacity"),
    ]
}

#[test]
fn each_check_finds_what_lasts_keeps_it_while_nothing_is_known_and_ends_with_it() {
    for case in cases() {
        let found = case.found;
        let mut sim = node(Mode::Drain, vec![driven(well())]);
        show(&mut sim, case.bad.clone());
        sim.pass(600);
        assert_eq!(sim.incidents(), [format!("{found} open")]);
        assert_eq!(sim.slurm.drains > 0, case.drains, "{found}");
        assert!(sim.engine.view().incidents[0].findings[0].evidence[0].contains("expected"));

        // The GPU is late, then its series is absent.
        for _ in 0..3 {
            sim.host.driven[0].late = Some(('R', "", sim.now.boottime));
            sim.pass(200);
        }
        show(&mut sim, vec![]);
        if case.bad[0].0 != &m::UP {
            sim.pass(600);
        }
        assert_eq!(sim.incidents(), [format!("{found} open")]);

        show(&mut sim, case.good);
        sim.pass(600);
        assert_eq!(sim.incidents(), [format!("{found} cleared")]);
    }
}

#[test]
fn nothing_is_found_where_nothing_can_be_seen() {
    for case in cases() {
        let mut sim = node(Mode::Drain, vec![driven(well())]);
        show(&mut sim, case.bad);
        // A job that uses every core: the reading is late, and its thread is runnable.
        sim.host.driven[0].late = Some(('R', "", sim.now.boottime));
        sim.pass(1200);
        assert_eq!(
            sim.incidents(),
            ["reading does not return open"],
            "{}",
            case.found
        );
        assert_eq!(sim.slurm.drains, 0);
    }
}

#[test]
fn what_passes_quickly_is_not_found() {
    for case in cases() {
        let mut sim = node(Mode::Drain, vec![driven(well())]);
        for _ in 0..10 {
            show(&mut sim, case.bad.clone());
            sim.pass(10);
            show(&mut sim, case.good.clone());
            sim.pass(50);
        }
        assert!(sim.incidents().is_empty(), "{}", case.found);
    }
}

#[test]
fn a_driver_that_is_gone_says_nothing_about_its_gpus() {
    for reason in ["no_driver", "no_permission", "timeout", "unknown"] {
        let mut sim = node(Mode::Drain, vec![driven(well())]);
        show(
            &mut sim,
            vec![(&m::UP, vec![], 0), (&m::UNAVAILABLE_INFO, vec![reason], 1)],
        );
        sim.pass(600);
        assert!(sim.incidents().is_empty(), "{reason}");
    }
}

#[test]
fn an_unknown_recovery_action_is_no_finding() {
    let mut sim = node(Mode::Drain, vec![driven(well())]);
    show(&mut sim, vec![(&m::RECOVERY_ACTION, vec![], 99)]);
    sim.pass(600);
    assert!(sim.incidents().is_empty());
    // R590 defines no action 5.
    let info = (&m::INFO, identity("590.48.01"), 1);
    show(&mut sim, vec![(&m::RECOVERY_ACTION, vec![], 5), info]);
    sim.pass(600);
    assert!(sim.incidents().is_empty());
}

/// A counter's series, by its growth.
type Counted = fn(u64) -> Vec<Series>;

fn ecc(kind: &'static str, count: u64) -> Vec<Series> {
    vec![(&m::ECC_ERRORS, vec![kind, "volatile"], count)]
}

#[test]
fn uncorrected_errors_are_found_when_they_grow_and_end_when_a_reset_takes_them_back() {
    let mut sim = node(Mode::Drain, vec![driven(well())]);
    show(&mut sim, ecc("uncorrected", 3));
    sim.pass(600);
    assert!(sim.incidents().is_empty(), "the errors may be old");
    show(&mut sim, ecc("uncorrected", 4));
    sim.pass(600);
    assert_eq!(sim.incidents(), ["uncorrected memory errors open"]);
    assert_eq!(sim.slurm.drains, 0);
    show(&mut sim, ecc("uncorrected", 0));
    sim.pass(600);
    assert_eq!(sim.incidents(), ["uncorrected memory errors cleared"]);
}

#[test]
fn uncorrected_errors_that_come_after_a_person_cleared_earlier_ones_are_found() {
    let mut sim = node(Mode::Drain, vec![driven(well())]);
    for count in [3, 4] {
        show(&mut sim, ecc("uncorrected", count));
        sim.pass(60);
    }
    let id = sim.engine.view().incidents[0].id.clone();
    sim.order(OrderVerb::Clear, &id).unwrap();
    sim.pass(600);
    assert_eq!(sim.incidents(), ["uncorrected memory errors cleared"]);
    show(&mut sim, ecc("uncorrected", 5));
    sim.pass(60);
    let mut incidents = sim.incidents();
    incidents.sort();
    assert_eq!(
        incidents,
        [
            "uncorrected memory errors cleared",
            "uncorrected memory errors open"
        ]
    );
}

#[test]
fn a_driver_that_forgets_its_counts_of_an_idle_gpu_ends_nothing() {
    let mut sim = node(Mode::Observe, vec![driven(well())]);
    let count = |count| {
        let mut series = ecc("uncorrected", count);
        series.push((&m::PERSISTENCE_MODE, vec![], 0));
        series
    };
    for errors in [3, 4, 0] {
        show(&mut sim, count(errors));
        sim.pass(600);
    }
    assert!(
        sim.incidents()
            .contains(&"uncorrected memory errors open".to_owned()),
        "{:?}",
        sim.incidents()
    );
}

#[test]
fn an_hour_that_was_not_watched_is_no_hour_without_bursts() {
    let mut sim = node(Mode::Drain, vec![driven(well())]);
    for count in 1..5 {
        show(&mut sim, ecc("corrected", count * 1000));
        sim.pass(60);
    }
    let found = "many corrected memory errors";
    assert_eq!(sim.incidents(), [format!("{found} open")]);
    // Nothing is read for 2 h, and the driver resets its counter.
    sim.host.driven = vec![];
    sim.pass(2 * 3600);
    show(&mut sim, ecc("corrected", 0));
    sim.pass(1800);
    assert_eq!(sim.incidents(), [format!("{found} open")]);
    sim.pass(2400);
    assert_eq!(sim.incidents(), [format!("{found} cleared")]);
}

#[test]
fn mig_takes_the_links_of_an_a100_down() {
    let links = |up, mig| -> Vec<Series> {
        vec![
            (&n::NVLINK_LINKS, vec![], 12),
            (&n::NVLINK_LINKS_UP, vec![], up),
            (&m::MIG_MODE, vec![], mig),
        ]
    };
    let info = |architecture| {
        let info = vec!["nvidia", "", GPU, "0", "0", "", "", "", "580", architecture];
        vec![(&m::INFO, info, 1)]
    };
    for (architecture, mig, found) in [("ampere", 1, 0), ("ampere", 0, 1), ("hopper", 1, 1)] {
        let mut sim = node(Mode::Drain, vec![driven(well())]);
        let show = |sim: &mut Sim, links: Vec<Series>| {
            show(sim, [info(architecture), links].concat());
            sim.pass(600);
        };
        show(&mut sim, links(12, 0));
        show(&mut sim, links(0, mig));
        assert_eq!(sim.incidents().len(), found, "{:?}", sim.incidents());
        // MIG after the fault is no fault either.
        show(&mut sim, links(0, 1));
        let open = sim.incidents().iter().filter(|i| i.ends_with("open")).count();
        assert_eq!(
            open,
            usize::from(architecture == "hopper"),
            "{:?}",
            sim.incidents()
        );
    }
}

#[test]
fn a_slowdown_without_a_known_cause_is_a_finding_of_its_own() {
    let reasons = |all, heat| -> Vec<Series> {
        vec![
            (&m::CLOCK_EVENT, vec!["hw_slowdown"], all),
            (&m::CLOCK_EVENT, vec!["hw_thermal"], heat),
            (&m::CLOCK_EVENT, vec!["hw_power_brake"], 0),
        ]
    };
    for (heat, found) in [
        (0, "hardware slowdown, neither by heat nor by power brake open"),
        (1, "hardware slowdown by heat open"),
    ] {
        let mut sim = node(Mode::Drain, vec![driven(well())]);
        show(&mut sim, reasons(1, heat));
        sim.pass(600);
        assert_eq!(sim.incidents(), [found]);
    }
}

#[test]
fn a_gpu_without_a_limit_is_too_hot_by_its_margin() {
    let mut sim = node(Mode::Drain, vec![driven(well())]);
    let margin = |sim: &mut Sim, celsius: i32, limit: Option<u64>| {
        let mut gpu = driven(well());
        gpu.series
            .extend(limit.map(|limit| (&m::TEMPERATURE_SLOWDOWN, vec![], limit)));
        gpu.margin = Some(celsius);
        sim.host.driven = vec![gpu];
        sim.pass(120);
    };
    margin(&mut sim, -1, None);
    assert!(sim.incidents().is_empty());
    margin(&mut sim, -5, Some(90));
    assert!(sim.incidents().is_empty(), "its limit decides");
    margin(&mut sim, -2, None);
    assert_eq!(sim.incidents(), ["too hot open"]);
    margin(&mut sim, 20, Some(90));
    assert_eq!(sim.incidents(), ["too hot cleared"], "the driver has a limit now");
    let mut sim = node(Mode::Drain, vec![driven(well())]);
    for (margin, expected) in [(-2, &[][..]), (-3, &["too hot open"])] {
        sim.host.driven[0].margin = Some(margin);
        sim.host.driven[0].slowdown_margin = Some(-3);
        sim.pass(120);
        assert_eq!(sim.incidents(), expected, "{margin}");
    }
}

#[test]
fn what_is_only_observed_keeps_no_node_drained() {
    let mut sim = node(Mode::Drain, vec![driven(well())]);
    show(&mut sim, vec![(&m::PERSISTENCE_MODE, vec![], 0)]);
    sim.xid(119);
    sim.pass(600);
    assert!(sim.slurm.is_drained());
    let found = &sim.engine.view().incidents[0].findings;
    assert!(found.iter().any(|f| f.detail == "persistence mode off"));
    sim.verdict_154(Recovery::None);
    sim.pass(60);
    assert!(!sim.slurm.is_drained());
}

#[test]
fn a_fault_in_the_second_after_a_verdict_is_not_ended_by_it() {
    let links: Vec<Series> = vec![(&n::NVLINK_LINKS, vec![], 18), (&n::NVLINK_LINKS_UP, vec![], 18)];
    let mut sim = node(Mode::Drain, vec![driven(well())]);
    show(&mut sim, links);
    sim.verdict_154(Recovery::None);
    sim.xid(74);
    sim.pass(600);
    assert_eq!(sim.incidents(), ["xid74 open"]);
}

#[test]
fn corrected_errors_and_replays_are_found_in_bursts_only() {
    let burst: [(Counted, &str); 6] = [
        (
            |count| vec![(&n::NVLINK_ERRORS, vec!["recovery"], count)],
            "many NVLink errors: recovery",
        ),
        (
            |count| vec![(&n::NVLINK_ERRORS, vec!["crc_flit"], count * 1500)],
            "many NVLink errors: crc_flit",
        ),
        (
            |count| vec![(&n::NVLINK_ERRORS, vec!["recovery_attempted"], count)],
            "many NVLink errors: recovery_attempted",
        ),
        (
            |count| vec![(&n::NVLINK_ERRORS, vec!["crc"], count * 1500)],
            "many NVLink errors: crc",
        ),
        (
            |count| ecc("corrected", count * 1000),
            "many corrected memory errors",
        ),
        (
            |count| vec![(&m::PCIE_REPLAYS, vec![], count * 100)],
            "many PCIe replays",
        ),
    ];
    for (series, found) in burst {
        let mut sim = node(Mode::Drain, vec![driven(well())]);
        for count in 1..4 {
            assert!(sim.incidents().is_empty(), "{found} {count}");
            show(&mut sim, series(count));
            sim.pass(60);
        }
        show(&mut sim, series(4));
        sim.pass(60);
        assert_eq!(sim.incidents(), [format!("{found} open")]);
        assert_eq!(sim.slurm.drains, 0);
        sim.pass(2 * 3600);
        assert_eq!(sim.incidents(), [format!("{found} cleared")]);
    }
}

/// A link of 16 lanes, of a GPU of at least generation 5.
fn link(generation: u64, lanes: u64, busy: u64) -> Vec<Series> {
    vec![
        (&m::PCIE_GENERATION, vec![], generation),
        (&m::PCIE_GENERATION_MAX, vec![], generation.max(5)),
        (&m::PCIE_WIDTH, vec![], lanes),
        (&m::PCIE_WIDTH_MAX, vec![], 16),
        (&m::UTILIZATION, vec![], busy),
    ]
}

#[test]
fn a_link_is_as_good_as_its_slot_and_unknown_where_a_virtual_machine_does_not_show_it() {
    let slot = |lanes, speed| super::host::Link {
        width_max: lanes,
        speed_max: speed,
        width: None,
        speed: None,
        ..super::pcie::link(GPU, "gpu")
    };
    let found = ["PCIe link below its best under load open"];
    for (generation, lanes, bus, expected) in [
        (5, 8, None, &[][..]),
        (4, 16, None, &[]),
        (5, 8, Some(slot(8, 32e9)), &[]),
        (5, 8, Some(slot(16, 32e9)), &found),
        (4, 16, Some(slot(16, 16e9)), &[]),
        (4, 16, Some(slot(16, 32e9)), &found),
        (3, 16, Some(slot(16, 16e9)), &found),
        // Lanes of generation 6 may be off because no transfer needs them.
        (6, 2, Some(slot(16, 64e9)), &[]),
        (6, 2, None, &[]),
    ] {
        let mut sim = node(Mode::Drain, vec![driven(well())]);
        sim.host.links = bus.into_iter().collect();
        show(&mut sim, link(generation, lanes, 1));
        sim.pass(600);
        assert_eq!(
            sim.incidents(),
            expected,
            "{generation} {lanes} {:?}",
            sim.host.links
        );
    }
}

#[test]
fn a_slow_link_counts_only_while_work_runs() {
    let link = |generation, busy| link(generation, 16, busy);
    let mut sim = node(Mode::Drain, vec![driven(well())]);
    sim.host.links = vec![super::pcie::link(GPU, "gpu")];
    show(&mut sim, link(1, 0));
    sim.pass(3600);
    assert!(
        sim.incidents().is_empty(),
        "an idle GPU lowers its link automatically"
    );
    show(&mut sim, link(4, 1));
    sim.pass(600);
    assert_eq!(sim.incidents(), ["PCIe link below its best under load open"]);
    show(&mut sim, link(1, 0));
    sim.pass(600);
    assert_eq!(sim.incidents(), ["PCIe link below its best under load open"]);
    show(&mut sim, link(5, 1));
    sim.pass(600);
    assert_eq!(sim.incidents(), ["PCIe link below its best under load cleared"]);
}

/// GPUs with these numbers of 18 NVLinks up.
pub(super) fn energy(joules: u64) -> Vec<Series> {
    vec![(&m::ENERGY, vec![], joules)]
}

#[test]
fn a_reset_that_is_seen_ends_what_a_reset_ends() {
    let mut sim = node(Mode::Drain, vec![driven(well())]);
    show(&mut sim, energy(5000));
    sim.pass(60);
    sim.xid(95);
    assert_eq!(sim.incidents(), ["xid95 open"]);
    show(&mut sim, energy(6000));
    sim.pass(3600);
    assert_eq!(sim.incidents(), ["xid95 open"], "time alone ends nothing");
    show(&mut sim, energy(10));
    sim.pass(60);
    assert_eq!(sim.incidents(), ["xid95 cleared"]);
}

#[test]
fn a_reset_ends_nothing_while_the_driver_still_asks_for_something_or_what_must_be_known_is_not() {
    let mut sim = node(Mode::Observe, vec![driven(well())]);
    show(&mut sim, energy(5000));
    sim.pass(60);
    sim.xid(64);
    show(&mut sim, energy(10));
    sim.pass(60);
    assert_eq!(
        sim.incidents(),
        ["xid64 open"],
        "whether a remap failed is not known"
    );
    let mut known = energy(5);
    known.push((&m::ROW_REMAP_FAILURE, vec![], 0));
    show(&mut sim, known);
    sim.pass(60);
    assert_eq!(sim.incidents(), ["xid64 cleared"]);

    sim.xid(95);
    sim.pass(30);
    let mut asks = energy(1);
    asks.push((&m::RECOVERY_ACTION, vec![], 1));
    show(&mut sim, asks);
    sim.pass(5);
    sim.snapshot();
    assert!(
        sim.incidents().contains(&"xid95 open".to_owned()),
        "{:?}",
        sim.incidents()
    );
}

#[test]
fn a_fault_after_the_reset_is_not_ended_by_it() {
    let mut sim = node(Mode::Drain, vec![driven(well())]);
    show(&mut sim, energy(5000));
    sim.pass(60);
    show(&mut sim, energy(10));
    sim.sleep_until(sim.now.boottime + Duration::from_secs(5));
    sim.xid(95);
    sim.pass(60);
    assert_eq!(sim.incidents(), ["xid95 open"]);
}

#[test]
fn the_driver_names_the_gpu_of_a_line_that_has_an_address_only() {
    let mut sim = node(Mode::Drain, vec![driven(well())]);
    sim.xid(95);
    let view = sim.engine.view();
    assert_eq!(view.incidents[0].subject, format!("gpu {NAME}"));
}

#[test]
fn clearing_what_is_still_off_the_bus_makes_no_node_healthy() {
    let mut config = config(Mode::Drain);
    config.gpu_addresses = vec![pci(GPU)];
    let mut sim = Sim::with(config, None);
    sim.remove_gpu(GPU);
    sim.pass(60);
    let view = sim.engine.view();
    assert_eq!(view.verdict.health, Health::Unhealthy);
    sim.order(OrderVerb::Clear, &view.incidents[0].id).unwrap();
    sim.pass(600);
    let verdict = sim.engine.view().verdict;
    assert_eq!(verdict.health, Health::Unknown);
    assert!(verdict.text.contains(GPU), "{}", verdict.text);

    sim.set_gpu(GPU, "nvidia", Some(true));
    sim.pass(120);
    assert_eq!(sim.engine.view().verdict.health, Health::Healthy);
}

#[test]
fn a_gpu_that_leaves_the_configuration_ends_its_finding() {
    let mut sim = Sim::expecting(GPU2);
    sim.remove_gpu(GPU2);
    sim.pass(60);
    assert!(sim.slurm.is_drained());
    sim.config.gpu_addresses.clear();
    sim.reload();
    sim.pass(180);
    let stands = sim.engine.book.open().any(|i| i.standing().next().is_some());
    assert!(!stands, "{:?}", sim.incidents());
    assert!(sim.slurm.is_drained(), "no test has verified the repair");
}

#[test]
fn the_number_of_gpus_joins_the_incident_of_a_gpu_that_a_reboot_brings_back_and_no_other_one() {
    for (code, incidents) in [(79, 1), (119, 2)] {
        let mut settings = config(Mode::Drain);
        settings.expect.gpus = Some(2);
        let mut sim = Sim::with(settings, None);
        sim.xid(code);
        sim.pass(60);
        sim.remove_gpu(GPU2);
        sim.pass(60);
        let open = sim.engine.book.open().count();
        assert_eq!(open, incidents, "{code}: {:?}", sim.incidents());
    }
}
