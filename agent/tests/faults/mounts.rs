//! A filesystem whose statfs never answers.

use std::fs;
use std::time::{Duration, Instant};

use testkit::fuse_hang::FuseHang;

use crate::common::{LONG, Node};

/// A node whose list of mounts has the root filesystem and this folder as NFS.
fn node_with(mount: &FuseHang, node: &Node) {
    let point = mount.dir().display();
    let list = format!(
        "22 1 259:2 / / rw,relatime - ext4 /dev/nvme0n1p2 rw\n70 22 0:{} / {point} rw - nfs4 nas:/home rw,hard\n",
        mount.mounted().connection()
    );
    for pid in ["1", "self"] {
        let folder = node.path("root/proc").join(pid);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("mountinfo"), &list).unwrap();
    }
}

fn size(node: &Node, point: &str) -> Option<f64> {
    node.metric("mount_size_bytes", &[("mountpoint", point)])
}

fn stuck(node: &Node) -> Option<f64> {
    node.metric("nodewarden_worker_stuck_slots", &[("worker", "mounts")])
}

#[test]
fn a_filesystem_that_does_not_answer_costs_only_its_own_values() {
    let mut node = Node::new();
    let mount = FuseHang::mount(node.path("mnt")).unwrap();
    let point = mount.dir().display().to_string();
    node_with(&mount, &node);
    mount.freeze();
    node.start();
    node.until("the other filesystem is read", |n| size(n, "/").is_some());
    node.until("the probe waits", |_| mount.waiting() == 1);
    let worker = node.worker_pid("mounts");

    // Scrapes and checks go on, and no further probe is sent.
    let start = Instant::now();
    for _ in 0..20 {
        assert_eq!(size(&node, &point), None);
        assert_eq!(node.cli(&["check"]).0, Some(0));
    }
    assert!(start.elapsed() < LONG, "20 scrapes took {:?}", start.elapsed());
    assert_eq!(mount.waiting(), 1);
    let in_d = |pid: u32| {
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        let stat = |t: fs::DirEntry| fs::read_to_string(t.path().join("stat")).unwrap_or_default();
        tasks.flatten().map(stat).filter(|s| s.contains(") D ")).count()
    };
    assert_eq!(in_d(worker), 1, "one thread waits");
    let (_, status, _) = node.cli(&["status"]);
    assert!(status.contains(&point), "{status}");

    // The next daemon starts at once beside the stuck worker.
    node.kill9_parent();
    let start = Instant::now();
    node.start();
    assert!(start.elapsed() < LONG);
    node.until("one stuck slot", |n| stuck(n) == Some(1.0));
    node.until("the new worker reads", |n| size(n, "/").is_some());
    assert_ne!(node.worker_pid("mounts"), worker);

    mount.thaw();
    node.until("the old worker has ended", |n| stuck(n) == Some(0.0));
    testkit::wait::until_true("the filesystem is read", Duration::from_secs(120), || {
        size(&node, &point).is_some()
            || node
                .metric("mount_probe_duration_seconds_count", &[("mountpoint", &point)])
                .is_some()
    })
    .unwrap();
}
