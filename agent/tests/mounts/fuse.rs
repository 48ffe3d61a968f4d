//! A filesystem whose statfs never answers.

use std::fs;
use std::time::{Duration, Instant};

use testkit::fuse_hang::FuseHang;
use testkit::wait::until_true;

use crate::common::{LONG, Node};

/// Probes begin 60 s after the worker's start.
const FIRST: Duration = Duration::from_secs(150);

/// The first probe, 125 s without an answer, 2 min of readings, and as much again.
const FOUND: Duration = Duration::from_secs(720);

/// The node's list of mounts: the root filesystem, and this folder as NFS, with this number of bind mounts of it elsewhere.
fn list_mounts(node: &Node, mount: &FuseHang, binds: usize) {
    let point = mount.dir().display();
    let device = mount.mounted().connection();
    // Only what this process sees at the same place is probed.
    let own = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let fields: Vec<&str> = own
        .lines()
        .map(|l| l.split(' ').collect())
        .rfind(|l: &Vec<&str>| l[4] == "/")
        .unwrap();
    let root = fields[2];
    let mut list = format!(
        "22 1 {root} / / rw,relatime - ext4 /dev/nvme0n1p2 rw\n70 22 0:{device} / {point} rw - nfs4 nas:/home rw,hard\n"
    );
    for n in 0..binds {
        let bind = 100 + n;
        list.push_str(&format!(
            "{bind} 22 0:{device} /home/{n} /binds/{n} rw - nfs4 nas:/home rw,hard\n"
        ));
    }
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

/// Threads of a process in state D.
fn blocked(pid: u32) -> usize {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let stats = tasks
        .flatten()
        .map(|task| fs::read_to_string(task.path().join("stat")).unwrap_or_default());
    stats.filter(|stat| stat.contains(") D ")).count()
}

#[test]
fn a_filesystem_that_does_not_answer_costs_only_its_own_values() {
    let mut node = Node::new();
    let mount = FuseHang::mount(node.path("mnt")).unwrap();
    let point = mount.dir().display().to_string();
    list_mounts(&node, &mount, 1000);
    mount.freeze();
    node.start();
    let is_read = || size(&node, "/").is_some() && mount.waiting() == 1;
    until_true("the other filesystem is read", FIRST, is_read).unwrap();
    node.until("healthy", |n| n.cli(&["check"]).0 == Some(0));
    let worker = node.worker_pid("mounts");

    // Scrapes and checks go on, and no further probe is sent, although the filesystem is mounted 1,001 times.
    let start = Instant::now();
    for _ in 0..20 {
        assert_eq!(size(&node, &point), None);
        assert_eq!(node.cli(&["check"]).0, Some(0));
    }
    assert!(start.elapsed() < LONG, "20 scrapes took {:?}", start.elapsed());
    assert_eq!((mount.waiting(), blocked(worker)), (1, 1));
    let (_, status, _) = node.cli(&["status"]);
    assert!(status.contains(&point), "{status}");

    // The next daemon starts at once beside the stuck worker.
    node.kill9_parent();
    node.start();
    node.until("one stuck slot", |n| stuck(n) == Some(1.0));
    assert_ne!(node.worker_pid("mounts"), worker);
    mount.thaw();
    let has_ended = || testkit::proc::Stat::read(worker).is_none_or(|s| !s.alive());
    until_true("the old worker has ended", LONG, has_ended).unwrap();
}

/// Takes minutes: the finding comes and ends.
#[test]
fn in_full_a_filesystem_that_does_not_answer_is_a_finding_until_it_answers() {
    let mut node = Node::new();
    let mount = FuseHang::mount(node.path("mnt")).unwrap();
    let point = mount.dir().display().to_string();
    list_mounts(&node, &mount, 0);
    mount.freeze();
    node.start();
    let finding = |node: &Node| {
        let open = node.open_incidents();
        let is_it =
            |i: &serde_json::Value| i["check"] == "mount-unresponsive" && i.to_string().contains(&point);
        open.iter().any(is_it)
    };
    until_true("a finding", FOUND, || finding(&node)).unwrap();
    mount.thaw();
    until_true("no finding", FOUND, || !finding(&node)).unwrap();
    assert!(size(&node, &point).is_some());
}
