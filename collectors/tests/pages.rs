//! Every row of the compatibility pages: names, kinds and units of the other exporter.
//!
//! `dcgm-fields.tsv` has the fields of GPUs in DCGM by their names before 4.6, with the unit in which DCGM stores each.

use std::collections::BTreeMap;

use collectors::{Alias, Kind, Metric, Unit, metrics};

/// Fields with a unit that the table does not state, or with a name that DCGM has only as an alias.
const MORE: [(&str, &str); 1] = [("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "bitmask")];

/// The rows of a page.
fn rows(page: &str) -> impl Iterator<Item = (&'static Metric, &'static Alias)> {
    metrics().flat_map(move |m| {
        let of_page = m.aliases.iter().filter(move |a| a.page == page);
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
        let name = alias.name;
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
        let by = alias.join.map_or(&[][..], |join| join.by);
        for label in metric.labels.iter().filter(|l| !by.contains(l)) {
            let is_chosen = alias.only.iter().any(|(chosen, _)| chosen == label);
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
        let name = alias.name;
        assert!(name.starts_with("node_infiniband_"), "{name}");
        let theirs: Vec<&str> = alias.labels.iter().map(|(their, _)| *their).collect();
        let of_device = ["board_id", "device", "firmware_version", "hca_type"];
        if name == "node_infiniband_info" {
            assert_eq!(theirs, of_device);
            assert_eq!(seen.insert(name, metric.name), None);
            continue;
        }
        // A label of ours that the row leaves out would give several series with the same labels.
        for label in metric.labels {
            let is_left_out = alias.labels.iter().all(|(_, our)| our != label);
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
