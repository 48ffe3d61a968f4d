//! RDMA ports that do not answer, answer late, or fail in every file.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

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

/// Replaces the state file of mlx5_4 by one of this filesystem.
fn state_of_its_own(class: &Path, hang: &FuseHang) {
    let state = class.join("mlx5_4/ports/1/state");
    std::fs::remove_file(&state).unwrap();
    std::os::unix::fs::symlink(hang.add("state", "4: ACTIVE\n"), &state).unwrap();
}

fn ports_shown(node: &Node) -> usize {
    let samples = node.try_metrics().unwrap_or_default();
    samples.iter().filter(|s| s.name == "rdma_port_state").count()
}

/// As a read of mlx5's does for a minute where its firmware does not answer: state D, and no signal ends it.
#[test]
fn a_port_that_does_not_answer_delays_nobody() {
    let mut node = Node::new();
    let class = adapters(&node);
    let hang = FuseHang::mount(node.path("root/firmware")).unwrap();
    state_of_its_own(&class, &hang);
    node.start();
    node.until("all ports are read", |n| ports_shown(n) == 10);
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

#[test]
fn a_port_that_answers_after_2_s_is_on_every_page() {
    let mut node = Node::new();
    let class = adapters(&node);
    let hang = FuseHang::mount(node.path("root/firmware")).unwrap();
    state_of_its_own(&class, &hang);
    node.start();
    node.until("all ports are read", |n| ports_shown(n) == 10);
    hang.slow_file("state", Duration::from_secs(2)).unwrap();
    node.until("the port is late", |n| late(n).is_some());
    let labels = [("collector", "rdma"), ("subject", "mlx5_4/1")];
    let good = (0..15).filter(|_| {
        let is_up = node.metric("nodewarden_device_up", &labels) == Some(1.0);
        let has_age = node.metric("nodewarden_device_age_seconds", &labels).is_some();
        ports_shown(&node) == 10 && is_up && has_age
    });
    assert_eq!(good.count(), 15);
    let rdma = [("collector", "rdma")];
    assert_eq!(node.metric("nodewarden_collector_up", &rdma), Some(1.0));
}

/// As of an adapter whose firmware is dead: the kernel still lists it, and every read of a file fails.
#[test]
fn a_port_whose_files_all_fail_is_not_up_and_the_others_are() {
    let mut node = Node::new();
    let class = adapters(&node);
    let hang = FuseHang::mount(node.path("root/firmware")).unwrap();
    hang.take(&std::fs::canonicalize(class.join("mlx5_4")).unwrap())
        .unwrap();
    node.start();
    node.until("all ports are read", |n| ports_shown(n) == 10);
    hang.fail();
    let up = |n: &Node, port| {
        n.metric(
            "nodewarden_device_up",
            &[("collector", "rdma"), ("subject", port)],
        )
    };
    node.until("the port is not up", |n| up(n, "mlx5_4/1") == Some(0.0));
    assert_eq!(up(&node, "mlx5_5/1"), Some(1.0));
    let why = [("subject", "mlx5_4/1"), ("reason", "io")];
    assert_eq!(node.metric("nodewarden_device_error_info", &why), Some(1.0));
    let rdma = [("collector", "rdma")];
    assert_eq!(node.metric("nodewarden_collector_up", &rdma), Some(0.0));
    hang.thaw();
    node.until("it is up again", |n| up(n, "mlx5_4/1") == Some(1.0));
}

/// The worker is another user than the owner of the folder.
#[test]
fn a_folder_that_cannot_be_listed_is_counted_and_is_one_line_of_the_worker() {
    let mut node = Node::new();
    let folder = adapters(&node).join("mlx5_0/ports/1/hw_counters");
    std::fs::set_permissions(folder, Permissions::from_mode(0o700)).unwrap();
    node.start();
    node.until("the reason is counted", |n| {
        let page = n.try_get("/metrics?tier=detail");
        let line = "rdma_port_unreadable_files{device=\"mlx5_0\",port=\"1\",reason=\"denied\"} 1\n";
        page.is_some_and(|page| page.text().unwrap().contains(line))
    });
    let line = "counters cannot be listed";
    node.until(line, |n| n.daemon().stderr().contains(line));
    // Each reading looks for it again.
    for _ in 0..5 {
        assert_eq!(ports_shown(&node), 10);
    }
    assert_eq!(node.daemon().stderr().matches(line).count(), 1);
}
