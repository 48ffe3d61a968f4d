//! An RDMA port whose driver waits for its firmware.

use std::path::{Path, PathBuf};

use testkit::fuse_hang::FuseHang;
use testkit::{proc, tree};

use crate::common::{LONG, Node, value};

/// Puts the ten adapters of a recording beside the node's GPUs.
fn adapters(node: &Node) -> PathBuf {
    let recording = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/rdma/h100-ndr/root.tree");
    tree::lay(&recording, &node.path("root")).unwrap();
    node.path("root/sys/class/infiniband")
}

fn late(node: &Node) -> Option<f64> {
    let labels = [("collector", "rdma"), ("subject", "mlx5_4/1")];
    node.metric("nodewarden_device_late_seconds", &labels)
}

/// As a read of mlx5's does for a minute where its firmware does not answer: state D, and no signal ends it.
#[test]
fn a_port_that_does_not_answer_delays_nobody() {
    let mut node = Node::new();
    let class = adapters(&node);
    let hang = FuseHang::mount(node.path("root/firmware")).unwrap();
    let slow = class.join("mlx5_4/ports/1/state");
    std::fs::remove_file(&slow).unwrap();
    std::os::unix::fs::symlink(hang.add("state", "4: ACTIVE\n"), &slow).unwrap();
    node.start();
    node.until("all ports are read", |n| {
        let samples = n.try_metrics().unwrap_or_default();
        samples.iter().filter(|s| s.name == "rdma_port_state").count() == 10
    });
    let threads = |n: &Node| proc::tasks(n.worker_pid("rdma")).unwrap().len();
    let before = threads(&node);

    hang.freeze_file("state").unwrap();
    node.until("the port is late", |n| late(n).is_some());
    proc::wait_for_state(node.worker_pid("rdma"), 'D', LONG).unwrap();
    // Every other port still works: its counters change on the page.
    for count in 100..120 {
        for device in ["mlx5_0", "mlx5_3", "mlx5_5", "mlx5_9"] {
            let file = class.join(device).join("ports/1/counters/symbol_error");
            std::fs::write(file, format!("{count}\n")).unwrap();
        }
        node.until("all others are read", |n| {
            let samples = n.try_metrics().unwrap_or_default();
            ["mlx5_0", "mlx5_3", "mlx5_5", "mlx5_9"].iter().all(|device| {
                let labels = [("device", *device), ("port", "1")];
                value(&samples, "rdma_symbol_error_total", &labels) == Some(f64::from(count))
            })
        });
    }
    assert_eq!(
        node.metric("nodewarden_collector_up", &[("collector", "host")]),
        Some(1.0)
    );
    // One more for the stuck port, one that ends.
    assert!(threads(&node) <= before + 2, "{} threads", threads(&node));
    assert!(late(&node).is_some(), "it is late all the while");
    // Thirty seconds in one call, by readings a quarter of a minute apart.
    let found = || {
        let all = node.open_incidents();
        all.iter()
            .map(|i| i.to_string())
            .find(|i| i.contains("rdma-port-blocked"))
    };
    testkit::wait::until_true("a finding", 2 * LONG, || found().is_some()).unwrap();
    let incident = found().unwrap_or_default();
    for part in [
        "mlx5_4/1",
        "does not answer in read state",
        "nodewarden_device_late_seconds",
        "state D",
    ] {
        assert!(incident.contains(part), "{part}: {incident}");
    }

    hang.thaw();
    node.until("the port answers again", |n| {
        let labels = [("device", "mlx5_4"), ("port", "1")];
        late(n).is_none() && n.metric("rdma_port_state", &labels) == Some(4.0)
    });
}
