//! A real Prometheus scrapes; promtool and Prometheus' own Python parser have nothing to say against the pages.
//!
//! Needs Debian's prometheus, prometheus-alertmanager and python3-venv, and node_exporter: see peer.rs.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    unreachable_pub,
    missing_docs,
    reason = "a test fails by panicking, and looks at the process from outside"
)]

mod access;
mod alerts;
#[path = "../common/mod.rs"]
mod common;
mod formats;
mod peer;
mod selection;
mod sums;

use common::{GPUS, LONG, Node};
use testkit::prometheus::{Prometheus, PrometheusOptions, Target};

#[test]
fn prometheus_has_the_target_up_and_the_series() {
    let mut node = Node::new();
    node.start();
    node.xid(3, 79);
    node.until("an incident", |n| n.open_incidents().len() == 1);
    let address = node.address().unwrap();
    let prometheus = Prometheus::start(&PrometheusOptions {
        targets: vec![Target::new("nodewarden", &address)],
        ..Default::default()
    })
    .unwrap();
    prometheus.wait_up(1, LONG).unwrap();
    let gpu = format!("pci:{}", GPUS[3]);
    let workers = collectors::DOMAINS
        .iter()
        .filter(|d| d.only_with.is_empty())
        .count();
    for (expr, expected) in [
        (format!("gpu_xid_errors_total{{gpu={gpu:?},xid=\"79\"}}"), 1.0),
        ("nodewarden_incidents_open".to_owned(), 1.0),
        ("nodewarden_verdict{verdict=\"unhealthy\"}".to_owned(), 1.0),
        ("count(nodewarden_worker_up == 1)".to_owned(), workers as f64),
        ("host_pci_gpus{vendor=\"nvidia\"}".to_owned(), 8.0),
        (
            "count(nodewarden_incident_info{check=\"xid\"} and on (incident) nodewarden_incident_remedy{act=\"reboot\"})".to_owned(),
            1.0,
        ),
    ] {
        prometheus
            .wait_query(
                &expr,
                |rows| rows.first().is_some_and(|(_, value)| *value == expected),
                LONG,
            )
            .unwrap_or_else(|e| panic!("{expr}: {e:#}\n{}", node.metrics_text()));
    }
}

#[test]
fn promtool_and_a_strict_parser_accept_the_page_in_every_state() {
    let mut node = Node::new();
    node.start();
    for step in 0..3 {
        match step {
            1 => {
                node.xid(3, 79);
                node.kmsg.push(
                    3,
                    "nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Non-fatal, Link 32 egress \"x\\y\"",
                );
                node.until("an incident", |n| n.open_incidents().len() == 1);
            }
            2 => {
                node.unplug(0);
                std::fs::write(
                    node.path("root/sys/devices/system/edac/mc/mc0/ue_count"),
                    "nonsense\n",
                )
                .unwrap();
            }
            _ => {}
        }
        for tier in ["", "?tier=detail", "?tier=debug"] {
            let page = node.try_get(&format!("/metrics{tier}")).unwrap();
            assert_eq!(page.status, 200);
            assert_eq!(
                page.header("content-type"),
                Some("text/plain; version=0.0.4; charset=utf-8")
            );
            let text = page.text().unwrap();
            testkit::promtool::check_metrics(text).unwrap_or_else(|e| panic!("{e:#}\n{text}"));
            let samples = testkit::exposition::check(text).unwrap();
            assert!(samples.len() > 20);
        }
    }
}

#[test]
fn healthy_and_ready_are_about_the_daemon() {
    let mut node = Node::new();
    node.start();
    assert_eq!(node.try_get("/-/healthy").unwrap().status, 200);
    assert_eq!(node.try_get("/-/ready").unwrap().status, 200);
    assert_eq!(node.try_get("/nothing").unwrap().status, 404);
    assert_eq!(node.try_get("/").unwrap().status, 200);
}

/// `nodewarden metrics` reads without the daemon and shows the same node.
#[test]
fn one_exposition_on_stdout() {
    let node = Node::new();
    let output = std::process::Command::new(common::program())
        .args(["metrics", "--only", "host", "--sysroot"])
        .arg(node.path("root"))
        .output()
        .unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    testkit::promtool::check_metrics(&text).unwrap();
    assert!(text.contains("host_pci_gpus{vendor=\"nvidia\"} 8"), "{text}");
}
