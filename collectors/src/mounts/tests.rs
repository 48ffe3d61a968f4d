#![allow(clippy::disallowed_methods, reason = "a test writes its own recording")]

use std::fs;
use std::os::unix::fs::symlink;

use testkit::fuse_hang::FuseHang;

use super::*;
use crate::Block;
use crate::block::{Part, Value};
use crate::mounts::metrics::{INODES, NFS_REQUESTS, OMITTED, PROBE_DURATION, READ_ONLY, SIZE};
use crate::runner::Runner;

/// A recorded node.
struct Node {
    dir: tempfile::TempDir,
    source: Source,
}

impl Node {
    fn new(mountinfo: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let env = Env::recorded(dir.path());
        let source = open(&env, &Settings::default()).unwrap().unwrap();
        let node = Self { dir, source };
        node.mounts(mountinfo);
        node
    }

    fn write(&self, path: &str, text: &str) {
        let path = Env::recorded(self.dir.path()).path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn mounts(&self, mountinfo: &str) {
        self.write("/proc/1/mountinfo", mountinfo);
    }

    /// Probes of this mount point do not return.
    fn hangs(&self, point: &str, hang: &FuseHang) {
        let folder = Env::recorded(self.dir.path()).path(&format!("/statfs{point}"));
        fs::create_dir_all(&folder).unwrap();
        symlink(hang.dir().join("figures"), folder.join("figures")).unwrap();
    }

    fn runner(&mut self) -> Runner {
        Runner::new(&SPEC, &mut self.source).unwrap()
    }

    fn scan(&mut self) -> Vec<Box<dyn Device>> {
        self.source.devices.scan().unwrap()
    }
}

fn read(device: &mut Box<dyn Device>) -> Result<Block, Error> {
    let mut block = Block::default();
    device.read(&mut block)?;
    block.finish();
    Ok(block)
}

fn value(block: &Block, metric: &'static crate::Metric, labels: &[&str]) -> Option<Value> {
    let is_it = |s: &crate::Series| s.metric == metric && *s.labels == *labels;
    block.iter().find(|(s, _)| is_it(s)).map(|(_, value)| value)
}

fn line(n: usize, options: &str) -> String {
    format!("{n} 1 0:{n} / /m{n:02} rw - nfs4 nas:/m{n} {options}\n")
}

#[test]
fn each_filesystem_is_a_device_beside_the_list() {
    let mut node = Node::new(&(line(10, "rw") + &line(11, "ro")));
    node.write("/statfs/m10/figures", "1000 600 500 100 90");
    let mut devices = node.scan();
    assert_eq!(devices.len(), 3);
    let list = read(&mut devices[0]).unwrap();
    assert_eq!(value(&list, &READ_ONLY, &["/m10"]), Some(Value::U64(0)));
    assert_eq!(value(&list, &READ_ONLY, &["/m11"]), Some(Value::U64(1)));
    let first = read(&mut devices[1]).unwrap();
    assert_eq!(value(&first, &SIZE, &["/m10"]), Some(Value::U64(1000)));
    assert_eq!(read(&mut devices[2]).unwrap_err().reason(), "not_recorded");
}

/// The tree of another machine: its `/` and `/tmp` exist here too, and are other filesystems.
#[test]
fn filesystems_of_another_tree_are_listed_and_not_probed() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::with_sysroot(dir.path());
    let folder = env.path("/proc/1");
    fs::create_dir_all(&folder).unwrap();
    let list = "1 0 4095:1 / / rw - ext4 /dev/sda1 rw\n2 1 4095:2 / /tmp rw - xfs /dev/sdb1 rw\n";
    fs::write(folder.join("mountinfo"), list).unwrap();
    let mut source = open(&env, &Settings::default()).unwrap().unwrap();
    let mut devices = source.devices.scan().unwrap();
    assert_eq!(devices.len(), 1, "the list alone");
    let block = read(&mut devices[0]).unwrap();
    assert_eq!(value(&block, &READ_ONLY, &["/tmp"]), Some(Value::U64(0)));
    assert_eq!(value(&block, &OMITTED, &["hidden"]), Some(Value::U64(2)));
    fs::remove_file(folder.join("mountinfo")).unwrap();
    assert_eq!(
        source.devices.scan().map(drop).unwrap_err().reason(),
        "not_recorded"
    );
}

#[test]
fn a_filesystem_without_a_fixed_number_of_inodes_has_none() {
    let mut node = Node::new(&line(10, "rw"));
    node.write("/statfs/m10/figures", "1000 600 500 0 0");
    let block = read(&mut node.scan()[1]).unwrap();
    assert_eq!(value(&block, &INODES, &["/m10"]), Some(Value::Absent));
}

#[test]
fn a_stale_handle_is_a_reason_of_its_own() {
    let mut node = Node::new(&line(10, "rw"));
    node.write("/statfs/m10/figures", "ESTALE");
    assert_eq!(read(&mut node.scan()[1]).unwrap_err().reason(), "stale");
}

#[test]
fn at_most_16_filesystems_are_probed_and_the_others_are_counted() {
    let all: String = (10..30).map(|n| line(n, "rw")).collect();
    let mut node = Node::new(&all);
    let mut devices = node.scan();
    assert_eq!(devices.len(), 1 + MOST);
    let list = read(&mut devices[0]).unwrap();
    assert_eq!(value(&list, &OMITTED, &["limit"]), Some(Value::U64(4)));
    assert_eq!(value(&list, &OMITTED, &["hidden"]), Some(Value::U64(0)));
}

/// As a user makes them with fusermount: the type is an option of theirs.
fn of_a_user(n: usize, point: &str) -> String {
    format!("{n} 1 0:{n} / {point} rw - fuse.ceph x rw,user_id=1000,group_id=1000,allow_other\n")
}

#[test]
fn filesystems_of_a_user_are_listed_and_never_probed() {
    let users: String = (100..116).map(|n| of_a_user(n, &format!("/a{n}"))).collect();
    let scratch = "10 1 0:10 / /scratch rw - lustre 10.2.0.40@o2ib:/scratch rw\n";
    let mut node = Node::new(&(users + scratch));
    let mut devices = node.scan();
    let names: Vec<&str> = devices.iter().map(|d| d.subject().name.as_str()).collect();
    assert_eq!(names, ["", "/scratch"]);
    let list = read(&mut devices[0]).unwrap();
    assert_eq!(value(&list, &READ_ONLY, &["/a100"]), Some(Value::U64(0)));
    for (reason, count) in [("user", 16), ("limit", 0), ("hidden", 0)] {
        assert_eq!(
            value(&list, &OMITTED, &[reason]),
            Some(Value::U64(count)),
            "{reason}"
        );
    }
}

/// rpc.gssd answers a user without a ticket with EACCES, whatever the server does.
#[test]
fn nfs_with_kerberos_is_listed_and_not_probed() {
    let nfs = |n: usize, sec: &str| {
        format!("{n} 1 0:{n} / /h{n} rw,noatime - nfs4 nas:/h{n} rw,vers=4.2,hard,proto=tcp,sec={sec}\n")
    };
    let all = ["sys", "krb5", "krb5i", "krb5p"].iter().zip(10..);
    let mut node = Node::new(&all.map(|(sec, n)| nfs(n, sec)).collect::<String>());
    let mut devices = node.scan();
    let names: Vec<&str> = devices.iter().map(|d| d.subject().name.as_str()).collect();
    assert_eq!(names, ["", "/h10"]);
    let list = read(&mut devices[0]).unwrap();
    assert_eq!(value(&list, &OMITTED, &["kerberos"]), Some(Value::U64(3)));
    assert_eq!(value(&list, &READ_ONLY, &["/h13"]), Some(Value::U64(0)));
}

#[test]
fn a_thousand_filesystems_of_a_user_leave_room_for_the_series_of_the_node() {
    for (length, listed) in [(100, 256), (1500, 88)] {
        let point = |n: usize| format!("/{n:0length$}");
        let users: String = (100..1100).map(|n| of_a_user(n, &point(n))).collect();
        let mut node = Node::new(&(users + &line(10, "rw")));
        node.write("/statfs/m10/figures", "1000 600 500 100 90");
        let mut devices = node.scan();
        let list = read(&mut devices[0]).unwrap();
        let labels = list.iter().flat_map(|(series, _)| series.labels.iter());
        let bytes: usize = labels.map(|label| label.len()).sum();
        assert!(bytes < crate::block::MAX_LABEL_BYTES / 2, "{bytes}");
        let found = list.iter().filter(|(s, _)| s.metric == &READ_ONLY).count();
        assert_eq!(found, listed);
        let unlisted = value(&list, &OMITTED, &["unlisted"]);
        assert_eq!(unlisted, Some(Value::U64(1001 - listed as u64)));
        assert_eq!(value(&list, &READ_ONLY, &["/m10"]), Some(Value::U64(0)));
    }
}

/// As of login nodes with an export for each home.
#[test]
fn nfs_mounts_leave_room_for_probes() {
    // Mounts, length of their names, operations, and how many mounts have totals.
    for (mounts, length, operations, totals) in [(256, 4, 30, 256), (100, 45, 25, 100), (256, 400, 20, 233)] {
        let points: Vec<String> = (0..mounts).map(|n| format!("/{n:0length$}")).collect();
        let of = |n: usize, point: &str| format!("{n} 1 0:{n} / {point} rw - nfs4 nas:/m rw\n");
        let all: String = points
            .iter()
            .enumerate()
            .map(|(n, point)| of(n + 10, point))
            .collect();
        let mut node = Node::new(&all);
        let used: String = (0..operations)
            .map(|n| format!("\tOP{n}: 1 1 0 1 1 1 1 1 0\n"))
            .collect();
        let stats = points.iter();
        let stats =
            stats.map(|p| format!("device nas:/m mounted on {p} with fstype nfs4 statvers=1.1\n{used}"));
        node.write("/proc/self/mountstats", &stats.collect::<String>());
        let list = read(&mut node.scan()[0]).unwrap();
        let labels = list.iter().flat_map(|(series, _)| series.labels.iter());
        let bytes: usize = labels.map(|label| label.len()).sum();
        let shown = list.iter().filter(|(s, _)| s.metric == &NFS_REQUESTS).count();
        let listed = list.iter().filter(|(s, _)| s.metric == &READ_ONLY).count();
        let case = format!(
            "{mounts} {length}: {shown} of {listed}, {bytes} bytes, {} refused",
            list.refused()
        );
        assert!(
            list.values().len() + MOST * 20 < crate::block::MAX_SERIES,
            "{case}"
        );
        assert!(
            bytes + MOST * 16 * length < crate::block::MAX_LABEL_BYTES,
            "{case}"
        );
        let wanted = 2 * listed + listed * (8 + 4 * operations) + 5;
        assert_eq!(
            list.values().len() as u64 + list.refused(),
            wanted as u64,
            "{case}"
        );
        assert_eq!(shown, totals.min(listed), "{case}");
        assert_eq!(list.refused() == 0, mounts == 100, "{case}");
    }
}

#[test]
fn a_new_mount_and_one_that_is_gone_are_noticed() {
    let mut node = Node::new(&line(10, "rw"));
    assert_eq!(node.scan().len(), 2);
    assert!(!node.source.devices.changed());
    node.mounts(&(line(10, "rw") + &line(11, "rw")));
    assert!(node.source.devices.changed());
    assert_eq!(node.scan().len(), 3);
    node.mounts("");
    assert!(node.source.devices.changed());
    assert_eq!(node.scan().len(), 1);
}

#[test]
fn another_mount_sets_no_duration_back() {
    let count = |block: &Block| {
        let is_it = |s: &crate::Series| s.metric == &PROBE_DURATION && s.part == Part::Count;
        block.iter().find(|(s, _)| is_it(s)).map(|(_, value)| value)
    };
    let mut node = Node::new(&line(10, "rw"));
    node.write("/statfs/m10/figures", "1000 600 500 100 90 4");
    let mut devices = node.scan();
    for reading in 1..=3 {
        let block = read(&mut devices[1]).unwrap();
        assert_eq!(count(&block), Some(Value::U64(reading)));
    }
    node.mounts(&(line(10, "rw") + &line(11, "rw")));
    let mut devices = node.scan();
    assert_eq!(count(&read(&mut devices[1]).unwrap()), Some(Value::U64(4)));
}

#[test]
fn figures_of_nfs_that_cannot_be_read_cost_no_mount() {
    let mut node = Node::new(&line(10, "rw"));
    fs::create_dir_all(Env::recorded(node.dir.path()).path("/proc/self/mountstats")).unwrap();
    let block = read(&mut node.scan()[0]).unwrap();
    assert_eq!(value(&block, &READ_ONLY, &["/m10"]), Some(Value::U64(0)));
    assert!(block.fault().is_some());
}

#[test]
fn counters_of_nfs_are_those_of_the_mount_that_covers_the_others() {
    let cover = "80 10 0:80 / /m10 rw - nfs4 nas:/new rw\n";
    let mut node = Node::new(&(line(10, "rw") + cover));
    let stats = |source: &str, requests: u32| {
        format!(
            "device nas:/{source} mounted on /m10 with fstype nfs4 statvers=1.1\n\t READ: {requests} {requests} 0 1 1 1 1 1 0\n"
        )
    };
    node.write(
        "/proc/self/mountstats",
        &(stats("m10", 5) + &stats("new", 6) + &stats("new", 7)),
    );
    let block = read(&mut node.scan()[0]).unwrap();
    let requests = block.iter().filter(|(s, _)| s.metric == &NFS_REQUESTS);
    let requests: Vec<_> = requests.map(|(_, value)| value).collect();
    assert_eq!(requests, [Value::U64(7)]);
}

/// A filesystem that does not answer. `None`: only root can mount it.
fn hang() -> Option<(tempfile::TempDir, FuseHang)> {
    let is_root = nix::unistd::geteuid().is_root();
    is_root.then(|| {
        let dir = tempfile::tempdir().unwrap();
        let hang = FuseHang::mount(dir.path().join("mnt")).unwrap();
        hang.freeze();
        (dir, hang)
    })
}

/// The mount points that answer one reading.
fn answers(runner: &mut Runner) -> Vec<String> {
    let mut answers = Vec::new();
    runner.read(|reading, _| {
        if reading.result.is_ok() && reading.subject.kind == crate::SubjectKind::Mount {
            answers.push(reading.subject.name.clone());
        }
    });
    answers
}

#[test]
fn a_probe_that_hangs_does_not_stop_that_of_the_next_filesystem_at_its_mount_point() {
    let Some((_dir, hang)) = hang() else { return };
    let mut node = Node::new(&line(10, "rw"));
    node.hangs("/m10", &hang);
    let mut runner = node.runner();
    assert_eq!(answers(&mut runner), [""; 0]);
    assert_eq!(runner.busy().count(), 1);
    // umount -l, and a mount from another server.
    node.mounts("11 1 0:11 / /m10 rw - nfs4 other:/m10 rw\n");
    let figures = Env::recorded(node.dir.path()).path("/statfs/m10/figures");
    fs::remove_file(figures).unwrap();
    node.write("/statfs/m10/figures", "1000 600 500 100 90");
    assert_eq!(answers(&mut runner), ["/m10"]);
    assert_eq!(runner.subjects().len(), 2, "the list, and one filesystem");
    assert_eq!(runner.busy().count(), 1, "the first probe still has its thread");
}

#[test]
fn filesystems_that_hang_and_are_gone_take_no_place_and_at_most_32_threads() {
    let Some((_dir, hang)) = hang() else { return };
    let mut node = Node::new("");
    node.write("/statfs/m99/figures", "1000 600 500 100 90");
    let mut runner = node.runner();
    for n in 10..10 + MOST {
        node.hangs(&format!("/m{n}"), &hang);
        node.mounts(&line(n, "rw"));
        answers(&mut runner);
    }
    assert_eq!(runner.busy().count(), MOST);
    node.mounts(&line(99, "rw"));
    assert_eq!(answers(&mut runner), ["/m99"]);
    for n in 30..30 + MOST_STUCK {
        node.hangs(&format!("/m{n}"), &hang);
        node.mounts(&line(n, "rw"));
        answers(&mut runner);
    }
    assert_eq!(runner.busy().count(), MOST_STUCK);
    node.mounts(&line(99, "rw"));
    assert_eq!(answers(&mut runner), [""; 0], "no thread is left for it");
    hang.thaw();
    let start = std::time::Instant::now();
    while answers(&mut runner) != ["/m99"] {
        assert!(start.elapsed() < Duration::from_secs(60));
    }
}

#[test]
fn of_two_mounts_with_long_paths_both_are_probed_and_named_in_their_errors() {
    let folder = format!("/{}", "seg/".repeat(80));
    let points = ["run-a", "run-b"].map(|end| format!("{folder}{end}"));
    let lines = (10..).zip(&points);
    let lines = lines.map(|(n, point)| format!("{n} 1 0:{n} / {point} rw - nfs4 nas:/m{n} rw\n"));
    let mut node = Node::new(&lines.collect::<String>());
    node.write(&format!("/statfs{}/figures", points[1]), "ESTALE");
    let mut devices = node.scan();
    let names: Vec<String> = devices.iter().map(|d| d.subject().name.clone()).collect();
    assert!(names.len() == 3 && names[1] != names[2], "{names:?}");
    let list = read(&mut devices[0]).unwrap();
    for name in &names[1..] {
        assert_eq!(value(&list, &READ_ONLY, &[name]), Some(Value::U64(0)));
    }
    // The daemon takes the name of the device off the text.
    let stale = devices
        .iter_mut()
        .find_map(|d| read(d).err().filter(|e| e.reason() == "stale"));
    assert_eq!(
        stale.unwrap().to_string(),
        format!("{}: stale file handle", names[2])
    );
}

/// The daemon closes the link to a worker whose device has a name that could steer a terminal, or that has no end.
#[test]
fn a_mount_point_of_any_bytes_has_a_name_that_the_daemon_takes() {
    let long = "x".repeat(300);
    let points = ["/tab\\011dir", "/line\\012feed", "/\x1b[2J", &long];
    let lines = (10..)
        .zip(points)
        .map(|(n, point)| format!("{n} 1 0:{n} / {point} rw - nfs4 nas:/m{n} rw\n"));
    let mut node = Node::new(&lines.collect::<String>());
    let mut devices = node.scan();
    assert_eq!(devices.len(), 1 + points.len());
    for device in &devices {
        let name = &device.subject().name;
        assert!(
            crate::text::is_printable(name, crate::subject::MAX_NAME),
            "{name:?}"
        );
    }
    let list = devices
        .iter_mut()
        .find(|d| d.subject().kind != crate::SubjectKind::Mount);
    let list = read(list.unwrap()).unwrap();
    assert_eq!(value(&list, &READ_ONLY, &["/tab\\x09dir"]), Some(Value::U64(0)));
}
