//! The page `/metrics/amd` of every fixture, compared with its `expected.amd`. `UPDATE_GOLDEN=1` writes it again.

use std::fs;
use std::path::{Path, PathBuf};

use testkit::tree;

use super::{Node, fixture};

/// The page in the last state of a case. Each state lasts three minutes.
fn page(case: &Path, name: &'static str) -> String {
    let mut node = Node::of(case);
    node.ticks();
    for step in tree::steps(case).unwrap() {
        tree::lay_step(&step, node.dir.path()).unwrap();
        node.ticks();
    }
    node.page(Some(name))
}

fn cases() -> Vec<PathBuf> {
    let entries = fs::read_dir(fixture("")).unwrap();
    let mut cases: Vec<PathBuf> = entries.map(|e| e.unwrap().path()).collect();
    cases.sort();
    cases
}

#[test]
fn every_fixture_has_the_expected_page_of_amds_exporter() {
    let mut wrong = Vec::new();
    for case in cases() {
        let found = page(&case, "amd");
        testkit::exposition::check(&found).unwrap();
        let path = case.join("expected.amd");
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(&path, &found).unwrap();
        } else if fs::read_to_string(&path).unwrap_or_default() != found {
            wrong.push(format!("{}:\n{found}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn two_mi300x_have_the_names_labels_and_units_of_amds_exporter() {
    let found = page(&fixture("mi300x"), "amd");
    let labels = "gpu_id=\"0\",gpu_uuid=\"5dff74a1-0000-1000-800e-0000aa000001\",gpu_partition_id=\"0\",\
                  gpu_compute_partition_type=\"spx\",gpu_memory_partition_type=\"nps1\",\
                  card_series=\"AMD Instinct MI300X OAM\",card_model=\"102-G30211-00\"";
    for (name, value) in [
        ("gpu_package_power", "141"),
        ("gpu_total_vram", "196592"),
        ("gpu_gfx_activity", "97"),
        ("gpu_ecc_deferred_umc", "2"),
        ("gpu_violation_ppt_residency_accumulated", "3000"),
        ("pcie_speed", "32"),
    ] {
        let start = format!("{name}{{{labels}");
        let line = found.lines().find(|l| l.starts_with(&start));
        let line = line.unwrap_or_else(|| panic!("no {start}\n{found}"));
        assert_eq!(line.rsplit(' ').next(), Some(value), "{line}");
    }
    assert!(!found.contains("gpu_average_package_power{"), "of MI200 only");
    // The first GPU has an uncorrected error, the second an XGMI link that is down.
    let unhealthy = found
        .lines()
        .filter(|l| l.starts_with("gpu_health{") && l.ends_with(" 0"));
    assert_eq!(unhealthy.count(), 2, "{found}");
    assert!(
        found.contains("gpu_nodes_total{hostname=\"node-1\"} 2\n"),
        "{found}"
    );
}

#[test]
fn each_partition_has_its_own_number_as_a_gpu() {
    let found = page(&fixture("mi300x-cpx"), "amd");
    let busy = found
        .lines()
        .filter(|l| l.starts_with("gpu_gfx_busy_instantaneous{"));
    let ids: Vec<&str> = busy
        .map(|l| l.split("gpu_id=\"").nth(1).unwrap().split('"').next().unwrap())
        .collect();
    assert_eq!(ids, ["0", "1", "2", "3", "4", "5", "6", "7"]);
    let power = found.lines().filter(|l| l.starts_with("gpu_package_power{"));
    assert_eq!(power.count(), 1, "physical sensors stand on the first partition");
    assert!(
        found.contains("\ngpu_nodes_total{hostname=\"node-1\"} 8\n"),
        "{found}"
    );
    let health = found.lines().filter(|l| l.starts_with("gpu_health{"));
    assert_eq!(health.count(), 8);
}

#[test]
fn an_amd_gpu_is_not_on_the_page_of_dcgm() {
    for case in cases() {
        let found = page(&case, "dcgm");
        assert_eq!(
            found.lines().filter(|l| !l.starts_with('#')).count(),
            0,
            "{found}"
        );
    }
}
