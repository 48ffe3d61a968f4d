//! Every row of the compatibility pages: names, kinds and units of the other exporter.
//!
//! `dcgm-fields.tsv` has the fields of GPUs in DCGM by their names before 4.6, with the unit in which DCGM stores each.
//! `amd-metrics.tsv` has the metrics of AMD's device-metrics-exporter.

use std::collections::{BTreeMap, BTreeSet};

use collectors::{Alias, Kind, Metric, Unit, metrics};

/// Fields with a unit that the table does not state, or with a name that DCGM has only as an alias.
const MORE: [(&str, &str); 1] = [("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "bitmask")];

/// The rows of a page.
fn rows(page: &str) -> impl Iterator<Item = (&'static Metric, &'static Alias)> {
    metrics().flat_map(move |m| {
        let of_page = m.aliases.iter().filter(move |a| &*a.page == page);
        of_page.map(move |alias| (m, alias))
    })
}

/// DCGM's units by the names of its fields.
fn fields() -> BTreeMap<&'static str, &'static str> {
    let lines = include_str!("dcgm-fields.tsv").lines();
    let table = lines.filter_map(|line| line.split_once('\t'));
    table.chain(MORE).collect()
}

/// What our value is multiplied by to get DCGM's unit, and whether the result is a whole number there. `None`: no row of
/// ours has that unit.
fn conversion(name: &str, unit: &str) -> Option<(Unit, f64, bool)> {
    Some(match (name, unit) {
        // DCGM divides KiB by 1000.
        ("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", "MB/s") => (Unit::BytesPerSecond, 1.0 / 1_024_000.0, true),
        (_, "MB/s") => (Unit::BytesPerSecond, 1e-6, true),
        (_, "bytes/s") => (Unit::BytesPerSecond, 1.0, true),
        (_, "bytes") => (Unit::Bytes, 1.0, false),
        (_, "MiB") => (Unit::Bytes, 1.0 / 1_048_576.0, true),
        (_, "MHz") => (Unit::Hertz, 1e-6, true),
        (_, "%") => (Unit::Ratio, 100.0, true),
        (_, "ratio") => (Unit::Ratio, 1.0, false),
        (_, "C") => (Unit::Celsius, 1.0, false),
        (_, "W") => (Unit::Watts, 1.0, false),
        (_, "mJ") => (Unit::Joules, 1e3, true),
        (_, "ns") => (Unit::Seconds, 1e9, true),
        (_, "count" | "bool" | "enum" | "bitmask" | "generation" | "lanes" | "") => (Unit::None, 1.0, false),
        _ => return None,
    })
}

#[test]
fn every_row_of_the_dcgm_page_has_the_name_and_the_unit_of_a_field_of_dcgm() {
    let fields = fields();
    let mut seen = BTreeMap::new();
    for (metric, alias) in rows("dcgm") {
        let name = alias.name.as_str();
        let unit = fields
            .get(name)
            .unwrap_or_else(|| panic!("DCGM has no field {name}"));
        let (ours, scale, whole) = conversion(name, unit).expect(unit);
        assert_eq!(metric.unit, ours, "{name} is in {unit:?}, {} is not", metric.name);
        assert_eq!(
            (alias.scale, alias.whole),
            (scale, whole),
            "{name} is in {unit:?}"
        );
        assert!(alias.join.is_some(), "{name} lacks dcgm-exporter's labels");
        assert_eq!(seen.insert(name, metric.name), None, "{name} is there twice");
        // A label that DCGM lacks would give several series with the same labels.
        let by = alias.join.map_or(&[][..], |join| join.row().by);
        for label in metric.labels.iter().filter(|l| !by.contains(l)) {
            let is_chosen = alias.only.iter().any(|(chosen, _)| chosen == *label);
            assert!(
                is_chosen,
                "{name} has one series for each {label} of {}",
                metric.name
            );
        }
        let is_counter = metric.kind == Kind::Counter;
        if is_counter {
            assert_eq!(alias.kind, Kind::Counter, "{name}");
        }
    }
    assert!(seen.len() > 150, "{}", seen.len());
}

#[test]
fn every_row_of_the_node_exporter_page_has_its_labels_and_the_unit_that_its_name_says() {
    let mut seen = BTreeMap::new();
    for (metric, alias) in rows("node_exporter") {
        let name = alias.name.as_str();
        assert!(name.starts_with("node_infiniband_"), "{name}");
        let theirs: Vec<&str> = alias.labels.iter().map(|(their, _)| their).collect();
        let of_device = ["board_id", "device", "firmware_version", "hca_type"];
        if name == "node_infiniband_info" {
            assert_eq!(theirs, of_device);
            assert_eq!(seen.insert(name, metric.name), None);
            continue;
        }
        // A label of ours that the row leaves out would give several series with the same labels.
        for label in metric.labels {
            let is_left_out = alias.labels.iter().all(|(_, our)| our != *label);
            assert!(!is_left_out, "{name} lacks the label {label} of {}", metric.name);
        }
        assert_eq!(theirs, ["device", "port"], "{name}");
        assert_eq!((alias.scale, alias.whole), (1.0, false), "{name}");
        assert_eq!(alias.kind == Kind::Counter, name.ends_with("_total"), "{name}");
        let stem = name.trim_end_matches("_total");
        let unit = [Unit::BytesPerSecond, Unit::Bytes, Unit::Seconds, Unit::None];
        let named = unit.into_iter().find(|u| stem.ends_with(u.suffix()));
        assert_eq!(Some(metric.unit), named, "{name} of {}", metric.name);
        assert_eq!(seen.insert(name, metric.name), None, "{name} is there twice");
    }
    assert!(seen.len() > 50, "{}", seen.len());
}

/// Metrics of the amd page that the daemon adds (agent/src/own/amd.rs).
const BY_DAEMON: [&str; 2] = ["gpu_health", "gpu_nodes_total"];

/// The metrics of AMD's exporter: name, unit, and the reason why our page lacks it.
fn amd_metrics() -> BTreeMap<&'static str, (&'static str, Option<&'static str>)> {
    let lines = include_str!("amd-metrics.tsv").lines();
    let rows = lines.filter(|line| !line.starts_with('#')).map(|line| {
        let mut columns = line.split('\t');
        let mut next = || columns.next().unwrap_or_default();
        let (name, unit, reason) = (next(), next(), next());
        (name, (unit, (reason != "-").then_some(reason)))
    });
    rows.collect()
}

/// What our value is multiplied by to get the unit of AMD's exporter, and whether the result is a whole number there.
fn amd_conversion(unit: &str) -> Option<(Unit, f64, bool)> {
    Some(match unit {
        "W" => (Unit::Watts, 1.0, false),
        "C" => (Unit::Celsius, 1.0, false),
        "%" => (Unit::Ratio, 100.0, true),
        "MHz" => (Unit::Hertz, 1e-6, true),
        "MB" => (Unit::Bytes, 1.0 / 1_048_576.0, true),
        "KB" => (Unit::Bytes, 1e-3, true),
        "uJ" => (Unit::Joules, 1e6, true),
        "GT/s" => (Unit::TransfersPerSecond, 1e-9, false),
        "count" => (Unit::None, 1.0, false),
        _ => return None,
    })
}

#[test]
fn every_row_of_the_amd_page_has_the_name_and_the_unit_of_a_metric_of_amds_exporter() {
    let metrics = amd_metrics();
    let mut seen = BTreeMap::new();
    for (metric, alias) in rows("amd") {
        let name = alias.name.as_str();
        let (unit, reason) = metrics
            .get(name)
            .unwrap_or_else(|| panic!("AMD's exporter has no metric {name}"));
        assert_eq!(*reason, None, "{name} is on the page");
        let (ours, scale, whole) = amd_conversion(unit).expect(unit);
        assert_eq!(metric.unit, ours, "{name} is in {unit:?}, {} is not", metric.name);
        assert_eq!(
            (alias.scale, alias.whole),
            (scale, whole),
            "{name} is in {unit:?}"
        );
        assert_eq!(
            alias.kind,
            Kind::Gauge,
            "the exporter declares nothing else: {name}"
        );
        let by = alias.join.map_or(&[][..], |join| join.row().by);
        assert_eq!(by, ["gpu", "gpu_instance"], "{name} lacks the exporter's labels");
        // Another row of the same name needs another label, and so does each of several series of ours.
        assert!(
            seen.insert((name, alias.fixed), metric.name).is_none(),
            "{name} is there twice"
        );
        for label in metric.labels.iter().filter(|l| !by.contains(l)) {
            let is_chosen = alias.only.iter().any(|(chosen, _)| chosen == *label);
            let is_shown = alias.labels.iter().any(|(_, ours)| ours == *label);
            assert!(
                is_chosen || is_shown,
                "{name} has one series for each {label} of {}",
                metric.name
            );
        }
    }
    let served: BTreeSet<&str> = seen.keys().map(|(name, _)| *name).chain(BY_DAEMON).collect();
    for (name, (_, reason)) in &metrics {
        assert_eq!(
            served.contains(name),
            reason.is_none(),
            "{name}: on the page, or a reason"
        );
    }
    assert_eq!((served.len(), metrics.len()), (104, 216));
}

/// The metrics of the five Grafana dashboards of the exporter: GPU, node, overview, job, system. `true`: on our page.
const DASHBOARDS: [(&str, bool); 28] = [
    ("gpu_average_package_power", true),
    ("gpu_ecc_correct_total", true),
    ("gpu_ecc_uncorrect_total", true),
    ("gpu_edge_temperature", true),
    ("gpu_energy_consumed", true),
    ("gpu_gfx_activity", true),
    ("gpu_gfx_busy_instantaneous", true),
    ("gpu_hbm_temperature", true),
    ("gpu_health", true),
    ("gpu_junction_temperature", true),
    ("gpu_memory_temperature", true),
    ("gpu_nodes_total", true),
    ("gpu_package_power", true),
    ("gpu_prof_gui_util_percent", false),
    ("gpu_prof_occupancy_per_active_cu", false),
    ("gpu_prof_occupancy_per_cu", false),
    ("gpu_prof_simd_utilization", false),
    ("gpu_prof_sm_active", false),
    ("gpu_prof_tensor_active_percent", false),
    ("gpu_total_vram", true),
    ("gpu_used_vram", true),
    ("pcie_bandwidth", false),
    ("pcie_max_speed", true),
    ("pcie_nack_received_count", true),
    ("pcie_nack_sent_count", true),
    ("pcie_recovery_count", true),
    ("pcie_replay_count", true),
    ("pcie_replay_rollover_count", true),
];

/// Labels by which these dashboards select, group or name. Those of jobs, pods and the cluster are missing: docs/gpus.md.
const DASHBOARD_LABELS: [&str; 8] = [
    "card_model",
    "card_series",
    "driver_version",
    "gpu_id",
    "gpu_partition_id",
    "gpu_uuid",
    "hostname",
    "serial_number",
];

#[test]
fn the_dashboards_of_amds_exporter_find_their_metrics_and_labels() {
    let metrics = amd_metrics();
    for (name, is_served) in DASHBOARDS {
        let (_, reason) = metrics.get(name).unwrap_or_else(|| panic!("{name}"));
        assert_eq!(reason.is_none(), is_served, "{name}: {reason:?}");
    }
    for (_, alias) in rows("amd") {
        let joined = alias.join.map_or(&[][..], |join| join.row().labels);
        for label in DASHBOARD_LABELS {
            let is_there = joined.iter().any(|(theirs, _)| *theirs == label);
            assert!(is_there, "{} has no label {label}", alias.name);
        }
    }
}
