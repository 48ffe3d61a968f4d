//! `/metrics/node_exporter` beside the real node_exporter, which reads the same trees.
//!
//! `NODEWARDEN_NODE_EXPORTER` is the path of that program; `cargo xtask e2e` downloads it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use testkit::daemon::Daemon;
use testkit::exposition::{self, Sample};
use testkit::{http, tree};

use crate::common::{self, LONG};

/// A series: its name and its labels.
type Series = (String, BTreeMap<String, String>);

/// InfiniBand series of one page.
#[derive(Default)]
struct Page {
    values: BTreeMap<Series, f64>,
    types: BTreeSet<String>,
    /// Whether the collector `infiniband` succeeded.
    success: Option<f64>,
    /// How long that took, in seconds.
    duration: Option<f64>,
}

impl Page {
    fn of(text: &str) -> Self {
        let ours = |s: &Sample| s.name.starts_with("node_infiniband_");
        let samples = exposition::check(text).unwrap_or_else(|e| panic!("{e:#}\n{text}"));
        let is_ours = |l: &&str| {
            l.starts_with("# TYPE node_infiniband_") || l.starts_with("# TYPE node_scrape_collector_")
        };
        let types = text.lines().filter(is_ours);
        let of_scrape = |name: &str| {
            let of_collector = |s: &&Sample| s.name == name && s.labels["collector"] == "infiniband";
            samples.iter().find(of_collector).map(|s| s.value)
        };
        Self {
            success: of_scrape("node_scrape_collector_success"),
            duration: of_scrape("node_scrape_collector_duration_seconds"),
            values: samples
                .into_iter()
                .filter(ours)
                .map(|s| ((s.name, s.labels), s.value))
                .collect(),
            types: types.map(str::to_owned).collect(),
        }
    }
}

fn theirs(root: &Path) -> Page {
    let program = std::env::var("NODEWARDEN_NODE_EXPORTER").expect("cargo xtask e2e sets it");
    let mut command = Command::new(program);
    command
        .arg(format!("--path.sysfs={}", root.join("sys").display()))
        .args(["--collector.disable-defaults", "--collector.infiniband"])
        .arg("--web.listen-address=127.0.0.1:0");
    let daemon = Daemon::start(command).unwrap();
    let line = daemon.wait_for_line("127.0.0.1:", LONG).unwrap();
    let (_, rest) = line.split_once("127.0.0.1:").expect(&line);
    let port: String = rest.chars().take_while(char::is_ascii_digit).collect();
    let page = http::get(&format!("127.0.0.1:{port}"), "/metrics", &[], LONG).unwrap();
    Page::of(page.ok().unwrap())
}

fn ours(root: &Path) -> Page {
    let output = Command::new(common::program())
        .args([
            "metrics",
            "--only",
            "rdma",
            "--page",
            "node_exporter",
            "--sysroot",
        ])
        .arg(root)
        .output()
        .unwrap();
    assert!(output.status.success());
    Page::of(&String::from_utf8(output.stdout).unwrap())
}

/// What node_exporter shows and we do not, and why not.
fn is_left_out(case: &str, (name, labels): &Series) -> bool {
    match case {
        // The driver reports 100 Gb/s for every link.
        "efa" => name == "node_infiniband_rate_bytes_per_second",
        // Flits that it calls words of four bytes, and zeros that are wired.
        "hfi1" => ["_port_data_", "_unicast_packets_", "_symbol_error_"]
            .iter()
            .any(|part| name.contains(part)),
        // Their second link is down, and software has no word for that.
        "rxe-captured" | "siw-captured" => {
            name == "node_infiniband_rate_bytes_per_second" && labels["device"].ends_with('1')
        }
        // Virtual functions show the counters of their parent again.
        "sriov" => labels["device"] != "mlx5_0",
        // So do the planes of a port.
        "port-degraded" => labels["device"] == "smi1" && labels.contains_key("port"),
        _ => false,
    }
}

/// Nodes of which node_exporter shows nothing: a port without the file `rate`, or one that cannot be read.
const REFUSED: [&str; 3] = ["broken", "mana", "refused"];

fn cases() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/rdma");
    let mut cases: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|case| case.join("root.tree").is_file())
        .collect();
    cases.sort();
    cases
}

#[test]
fn what_node_exporter_shows_of_infiniband_we_show_with_its_names_labels_types_and_values() {
    let (mut shown, mut refused) = (0, Vec::new());
    for case in cases() {
        let name = case.file_name().unwrap().to_str().unwrap().to_owned();
        let root = tempfile::tempdir().unwrap();
        tree::lay(&case.join("root.tree"), root.path()).unwrap();
        let (theirs, ours) = (theirs(root.path()), ours(root.path()));
        // Where node_exporter reads nothing, we may: one unreadable file hides no device here.
        assert_eq!(ours.success, Some(1.0), "{name}");
        assert!(theirs.duration.is_some_and(|s| s >= 0.0), "{name}");
        assert!(ours.duration.is_some_and(|s| s >= 0.0), "{name}");
        if theirs.success != Some(1.0) {
            // After one unreadable file it shows no device at all.
            assert_eq!(theirs.success, Some(0.0), "{name}: its collector has not run");
            assert!(theirs.values.is_empty(), "{name}: {:?}", theirs.values);
            refused.push(name);
            continue;
        }
        for (series, value) in &theirs.values {
            if is_left_out(&name, series) {
                assert_eq!(ours.values.get(series), None, "{name}: {series:?}");
            } else if series.0 == "node_infiniband_lifespan_seconds" {
                // Whole milliseconds divided by a thousand as whole numbers: its value is always 0.
                assert_eq!(*value, 0.0, "{name}: {series:?}");
                assert!(ours.values.contains_key(series), "{name}: {series:?}");
            } else {
                assert_eq!(ours.values.get(series), Some(value), "{name}: {series:?}");
                shown += 1;
            }
        }
        let named = |line: &&String| {
            let is_shown = ours.values.keys().any(|(n, _)| line.split(' ').any(|w| w == n));
            is_shown || line.contains(" node_scrape_collector_")
        };
        for line in theirs.types.iter().filter(named) {
            assert!(ours.types.contains(line), "{name}: {line}");
        }
    }
    assert!(shown > 1000, "{shown} series compared");
    assert_eq!(refused, REFUSED);
}
