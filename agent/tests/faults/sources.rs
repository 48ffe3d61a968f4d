//! An Xid that the kernel log and NVIDIA's library both report.

use std::fs;
use std::path::Path;

use testkit::nvml::FakeNvml;

use crate::common::{GPUS, KERN_ERR, Node};

/// The GPU of the first address in [`Node`], and its index in the library.
const GPU: usize = 0;

/// The buses of the library's GPUs.
const THEIRS: [&str; 8] = ["1B", "43", "52", "61", "9D", "C3", "D1", "DF"];

/// Installs the stand-in library with the GPUs of the node's PCI bus.
pub fn install(node: &mut Node) -> FakeNvml {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/nvidia/h100/nvml.toml");
    let mut scenario = fs::read_to_string(file).unwrap();
    for (theirs, ours) in THEIRS.iter().zip(GPUS) {
        let ours = ours.to_uppercase();
        scenario = scenario.replace(&format!("00000000:{theirs}:00.0"), &format!("0000{ours}"));
    }
    let dir = node.path("driver");
    fs::create_dir(&dir).unwrap();
    let driver = FakeNvml::install_text(&dir, &scenario).unwrap();
    node.set(&format!("nvidia.library={:?}", driver.library()));
    driver
}

/// Waits until this many GPUs are up.
pub fn wait_up(node: &Node, many: usize) {
    node.until("the GPUs are up", |n| {
        let page = n.metrics();
        let up = page.iter().filter(|s| s.name == "gpu_up" && s.value == 1.0);
        up.count() == many
    });
}

/// A node whose kernel log and library are both watched.
fn node() -> (Node, FakeNvml) {
    let mut node = Node::new();
    let driver = install(&mut node);
    node.start();
    wait_up(&node, 8);
    (node, driver)
}

fn reports(node: &Node, source: &str) -> Option<f64> {
    node.metric("gpu_xid_reports_total", &[("xid", "119"), ("source", source)])
}

fn counted(node: &Node) -> Option<f64> {
    node.metric("gpu_xid_errors_total", &[("xid", "119")])
}

fn incidents(node: &Node) -> usize {
    let all = node.open_incidents();
    all.iter().filter(|incident| incident["check"] == "xid").count()
}

#[test]
fn a_fault_that_both_report_is_counted_once_and_is_one_incident() {
    let (node, driver) = node();
    node.xid(GPU, 119);
    driver.xid(u32::try_from(GPU).unwrap(), 119).unwrap();
    node.until("both reports", |n| {
        reports(n, "kernel_log") == Some(1.0) && reports(n, "nvml") == Some(1.0)
    });
    assert_eq!(counted(&node), Some(1.0));
    assert_eq!(incidents(&node), 1);

    // The library reports a second fault first.
    driver.xid(u32::try_from(GPU).unwrap(), 119).unwrap();
    node.until("the library's report", |n| reports(n, "nvml") == Some(2.0));
    node.xid(GPU, 119);
    node.until("the log's report", |n| reports(n, "kernel_log") == Some(2.0));
    assert_eq!(counted(&node), Some(2.0));
    assert_eq!(incidents(&node), 1);
}

#[test]
fn a_gpu_that_the_driver_does_not_start_is_an_incident() {
    let node = {
        let mut node = Node::new();
        node.start();
        node
    };
    let line = "NVRM: GPU 0000:1b:00.0: RmInitAdapter failed! (0x24:0x72:1568)";
    node.kmsg.push(KERN_ERR, line);
    node.until("counted", |n| {
        n.metric("host_kernel_events_total", &[("event", "nvidia-not-started")]) == Some(1.0)
    });
    node.until("an incident", |n| {
        let all = n.open_incidents();
        all.iter().any(|incident| incident["check"] == "gpu-driver-error")
    });
    // A program writes the same.
    node.kmsg.push(8 + 3, line);
    node.until("ignored", |n| {
        n.metric("nodewarden_kernel_log_ignored_total", &[("reason", "user_space")]) == Some(1.0)
    });
}
