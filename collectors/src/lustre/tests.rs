//! Readings of trees of files. The formats of each release are in fixtures/lustre.

#![allow(clippy::disallowed_methods, reason = "tests build the trees that they read")]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;

use tempfile::TempDir;

use super::*;
use crate::sys::kept::count;
use crate::{Block, Tier, Value};

mod cost;

const ID: &str = "ffff880812345678";
const OTHER: &str = "ffff880876543210";

/// A client whose files are all in /proc/fs/lustre.
struct Node(TempDir);

impl Node {
    /// A mount of `scratch` with one MDT and as many OSTs, on servers of 4 each.
    fn with_osts(osts: u32) -> Self {
        let node = Self(tempfile::tempdir().unwrap());
        node.mount(ID);
        for ost in 0..osts {
            node.target(ost, "FULL");
        }
        node
    }

    fn put(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn remove(&self, path: &str) {
        fs::remove_dir_all(self.0.path().join(path)).unwrap();
    }

    fn mount(&self, id: &str) {
        let llite = format!("proc/fs/lustre/llite/scratch-{id}");
        self.put(
            &format!("{llite}/stats"),
            &stats("read_bytes 5 samples [bytes] 1 9 50\n"),
        );
        self.put(
            &format!("{llite}/read_ahead_stats"),
            &stats("hits 3 samples [pages]\n"),
        );
        self.put(
            &format!("{llite}/max_cached_mb"),
            "max_cached_mb: 64\nused_mb: 2\nreclaim_count: 0\n",
        );
        self.put(&format!("{llite}/statahead_stats"), "statahead total: 1\n");
        let mdc = format!("proc/fs/lustre/mdc/scratch-MDT0000-mdc-{id}");
        self.put(&format!("{mdc}/state"), &state("FULL", &[]));
        self.put(&format!("{mdc}/import"), &import("FULL", "10.2.0.10@o2ib"));
        self.put(&format!("{mdc}/timeouts"), "last reply : 1700000000, 1s ago\n");
        self.put(
            &format!("{mdc}/stats"),
            &stats("obd_ping 1 samples [usec] 1 1 1 1\n"),
        );
        self.put(&format!("{mdc}/md_stats"), &stats("close 2 samples [regs]\n"));
        self.locks(&format!("scratch-MDT0000-mdc-{id}"));
        for file in ["version", "health_check"] {
            self.put(&format!("proc/fs/lustre/{file}"), "healthy\n");
        }
    }

    fn locks(&self, device: &str) {
        for file in ["lock_count", "lock_unused_count"] {
            self.put(&format!("proc/fs/lustre/ldlm/namespaces/{device}/{file}"), "1\n");
        }
    }

    fn target(&self, ost: u32, now: &str) {
        self.target_of(ID, ost, now, &[]);
    }

    fn target_of(&self, id: &str, ost: u32, now: &str, history: &[(u64, &str)]) {
        let device = format!("scratch-OST{ost:04x}-osc-{id}");
        let osc = format!("proc/fs/lustre/osc/{device}");
        self.put(&format!("{osc}/state"), &state(now, history));
        self.put(&format!("{osc}/import"), &import(now, &server(ost)));
        self.put(&format!("{osc}/timeouts"), "last reply : 1700000000, 1s ago\n");
        self.put(
            &format!("{osc}/rpc_stats"),
            "snapshot_time: 1.1 (secs.nsecs)\nread RPCs in flight:  1\n",
        );
        self.put(
            &format!("{osc}/stats"),
            &stats("read_bytes 2 samples [bytes] 1 9 10 9\n"),
        );
        self.put(&format!("{osc}/cur_dirty_bytes"), "4096\n");
        self.put(&format!("{osc}/cur_grant_bytes"), "8192\n");
        self.locks(&device);
    }

    fn scan(&self, with_targets: bool) -> Vec<Box<dyn Device>> {
        self.devices(with_targets).scan().unwrap()
    }

    fn devices(&self, with_targets: bool) -> Box<dyn Devices> {
        let settings = SPEC.settings(&format!("targets = {with_targets}\n")).unwrap();
        let source = open(&Env::with_sysroot(self.0.path()), &settings).unwrap();
        source.unwrap().devices
    }
}

fn stats(rows: &str) -> String {
    format!("snapshot_time 1700000000.000000001 secs.nsecs\n{rows}")
}

fn state(now: &str, history: &[(u64, &str)]) -> String {
    let mut text = format!("current_state: {now}\nstate_history:\n");
    for (at, state) in history {
        writeln!(text, " - [ {at}, {state} ]").unwrap();
    }
    text
}

fn server(ost: u32) -> String {
    format!("10.2.1.{}@o2ib", ost / 4)
}

fn import(state: &str, server: &str) -> String {
    format!(
        "import:\n    state: {state}\n    import_flags: [ pingable ]\n    connection:\n       current_connection: {server}\n       connection_attempts: 1\n    rpcs:\n       inflight: 2\n       timeouts: 3\n"
    )
}

fn read(device: &mut dyn Device) -> Block {
    let mut block = Block::default();
    device.read(&mut block).unwrap();
    block.finish();
    block
}

/// `METRIC LABELS`, without those that are absent.
fn lines(block: &Block) -> Vec<String> {
    let shown = block.iter().filter(|(_, value)| *value != Value::Absent);
    let line = |(series, value): (&crate::Series, Value)| {
        let number = match value {
            Value::U64(n) => n.to_string(),
            Value::F64(x) => x.to_string(),
            Value::Absent => String::new(),
        };
        format!("{} {} = {number}", series.metric.name, series.labels.join(" "))
    };
    shown.map(line).collect()
}

fn value(block: &Block, series: &str) -> Option<String> {
    let start = format!("{series} = ");
    lines(block)
        .iter()
        .find_map(|line| line.strip_prefix(&start).map(str::to_owned))
}

#[test]
fn without_its_modules_the_collector_is_absent() {
    let dir = tempfile::tempdir().unwrap();
    let settings = SPEC.settings("").unwrap();
    assert!(open(&Env::with_sysroot(dir.path()), &settings).unwrap().is_none());
    let node = Node::with_osts(1);
    let off = SPEC.settings("enabled = false\n").unwrap();
    assert!(open(&Env::with_sysroot(node.0.path()), &off).unwrap().is_none());
}

#[test]
fn a_row_that_is_left_out_is_0_and_a_file_that_is_not_read_is_absent() {
    let node = Node::with_osts(1);
    let mut device = node.scan(false).remove(0);
    let block = read(&mut *device);
    assert_eq!(
        value(&block, "lustre_client_write_bytes_total scratch").as_deref(),
        Some("0")
    );
    assert_eq!(
        value(&block, "lustre_client_ops_total scratch open").as_deref(),
        Some("0")
    );
    fs::remove_file(
        node.0
            .path()
            .join(format!("proc/fs/lustre/llite/scratch-{ID}/stats")),
    )
    .unwrap();
    let block = read(&mut *device);
    let gone = [
        "write_bytes_total scratch",
        "read_bytes_total scratch",
        "ops_total scratch open",
    ];
    for series in gone {
        assert_eq!(
            value(&block, &format!("lustre_client_{series}")),
            None,
            "{series}: a sum that stands still is old"
        );
    }
    let reason = value(&block, "lustre_source_unreadable scratch llite_stats absent");
    assert_eq!(reason.as_deref(), Some("1"));
}

#[test]
fn a_gauge_of_which_one_target_is_unknown_is_absent_and_a_counter_goes_on() {
    let node = Node::with_osts(3);
    let mut device = node.scan(false).remove(0);
    let block = read(&mut *device);
    assert_eq!(
        value(&block, "lustre_client_dirty_bytes scratch").as_deref(),
        Some("12288")
    );
    let osc = format!("proc/fs/lustre/osc/scratch-OST0001-osc-{ID}");
    node.put(&format!("{osc}/cur_dirty_bytes"), "many\n");
    node.put(&format!("{osc}/stats"), "?\n");
    node.put(
        &format!("proc/fs/lustre/osc/scratch-OST0002-osc-{ID}/stats"),
        &stats("read_bytes 3 samples [bytes] 1 9 15 9\n"),
    );
    let block = read(&mut *device);
    assert_eq!(value(&block, "lustre_client_dirty_bytes scratch"), None);
    assert_eq!(
        value(&block, "lustre_client_rpc_bytes_total scratch read").as_deref(),
        Some("35")
    );
    for source in ["cur_dirty_bytes", "target_stats"] {
        let series = format!("lustre_source_unreadable scratch {source} malformed");
        assert_eq!(value(&block, &series).as_deref(), Some("1"));
    }
}

#[test]
fn counters_go_on_over_an_unmount_while_another_mount_stands_and_over_a_scan() {
    let node = Node::with_osts(1);
    node.mount(OTHER);
    let mut devices = node.devices(false);
    let mut device = devices.scan().unwrap().remove(0);
    let bytes = "lustre_client_read_bytes_total scratch";
    assert_eq!(
        value(&read(&mut *device), bytes).as_deref(),
        Some("100"),
        "two mounts are summed"
    );
    node.remove(&format!("proc/fs/lustre/llite/scratch-{ID}"));
    assert!(devices.changed());
    let mut device = devices.scan().unwrap().remove(0);
    assert_eq!(value(&read(&mut *device), bytes).as_deref(), Some("100"));
    assert!(!devices.changed());
    node.remove(&format!("proc/fs/lustre/llite/scratch-{OTHER}"));
    assert_eq!(lines(&read(&mut *device)), [""; 0], "not mounted");
    assert_eq!(devices.scan().unwrap().len(), 1, "LNet stays");
}

/// The kernel counts messages in 32 bits. A total carried over a wrap would fall to a value above 0 with the next worker, which
/// Prometheus takes for growth.
#[test]
fn counters_of_lnet_are_shown_as_the_kernel_counts_them() {
    let node = Node::with_osts(0);
    let mut device = node.scan(false).pop().unwrap();
    for (sent, bytes) in [(u32::MAX, 1000), (9, 2000), (3, 300)] {
        let line = format!("1 2 {sent} {sent} 0 0 0 {bytes} 0 0 0\n");
        node.put("proc/sys/lnet/stats", &line);
        let block = read(&mut *device);
        let of = |series: &str| value(&block, &format!("lustre_lnet_{series}_total "));
        assert_eq!(of("send_count"), Some(sent.to_string()));
        assert_eq!(of("errors"), Some(sent.to_string()));
        assert_eq!(of("send_bytes"), Some(bytes.to_string()));
    }
}

const MOUNTINFO: &str = "90 1 0:52 / /scratch rw - lustre 10.2.0.40@o2ib:/scratch rw,flock\n";

/// The mount points that are shown, by instance.
fn points(block: &Block) -> Vec<String> {
    let info = block.iter().filter(|(s, _)| s.metric == &metrics::CLIENT_INFO);
    info.map(|(series, _)| series.labels[2].to_string()).collect()
}

#[test]
fn the_mount_point_of_one_of_two_instances_is_not_shown_for_both() {
    let node = Node::with_osts(0);
    node.put("proc/1/mountinfo", MOUNTINFO);
    let mut devices = node.devices(false);
    assert_eq!(
        points(&read(&mut *devices.scan().unwrap().remove(0))),
        ["/scratch"]
    );
    // In the mount namespace of a container: not in the list of process 1.
    node.mount(OTHER);
    assert!(devices.changed());
    assert_eq!(points(&read(&mut *devices.scan().unwrap().remove(0))), ["", ""]);
}

#[test]
fn a_client_that_is_found_before_its_mount_is_complete_gets_its_mount_point_later() {
    let node = Node::with_osts(0);
    let mut devices = node.devices(false);
    assert_eq!(points(&read(&mut *devices.scan().unwrap().remove(0))), [""]);
    assert!(!devices.changed());
    node.put("proc/1/mountinfo", MOUNTINFO);
    assert!(devices.changed());
    assert_eq!(
        points(&read(&mut *devices.scan().unwrap().remove(0))),
        ["/scratch"]
    );
    assert!(!devices.changed());
}

#[test]
fn an_eviction_before_the_first_reading_is_no_news_and_a_later_one_is_one() {
    let node = Node::with_osts(0);
    let before = [(1, "CONNECTING"), (1, "FULL"), (5, "EVICTED"), (6, "FULL")];
    node.target_of(ID, 0, "FULL", &before);
    let mut device = node.scan(false).remove(0);
    let evictions = "lustre_client_evictions_total scratch";
    let last = "lustre_client_last_eviction_timestamp_seconds scratch";
    let block = read(&mut *device);
    assert_eq!(
        (
            value(&block, evictions).as_deref(),
            value(&block, last).as_deref()
        ),
        (Some("0"), Some("5"))
    );
    let after = [
        &before[..],
        // The server does not answer the first connect request.
        &[
            (9, "DISCONN"),
            (9, "CONNECTING"),
            (9, "DISCONN"),
            (9, "CONNECTING"),
        ],
        &[(9, "EVICTED"), (9, "RECOVER"), (9, "FULL")],
    ]
    .concat();
    node.target_of(ID, 0, "FULL", &after);
    for _ in 0..2 {
        let block = read(&mut *device);
        assert_eq!(
            (
                value(&block, evictions).as_deref(),
                value(&block, last).as_deref()
            ),
            (Some("1"), Some("9"))
        );
        assert_eq!(
            value(&block, "lustre_client_disconnects_total scratch").as_deref(),
            Some("1")
        );
    }
}

/// `lctl set_param osc.*.active=0`, then 1: the client marks its own import EVICTED, and no server threw it out.
#[test]
fn a_target_that_is_switched_on_again_was_not_evicted() {
    let node = Node::with_osts(0);
    let mut history = vec![(1, "CONNECTING"), (1, "FULL")];
    node.target_of(ID, 0, "FULL", &history);
    let mut device = node.scan(false).remove(0);
    let evictions = |block: &Block| {
        [
            "evictions_total scratch",
            "last_eviction_timestamp_seconds scratch",
        ]
        .map(|name| value(block, &format!("lustre_client_{name}")))
    };
    let some = |count: &str, last: Option<&str>| [Some(count.to_owned()), last.map(str::to_owned)];
    assert_eq!(evictions(&read(&mut *device)), some("0", None));
    history.push((5, "DISCONN"));
    node.target_of(ID, 0, "DISCONN", &history);
    let import_file = format!("proc/fs/lustre/osc/scratch-OST0000-osc-{ID}/import");
    let off = import("DISCONN", &server(0)).replace("[ pingable ]", "[ invalid, deactive, pingable ]");
    node.put(&import_file, &off);
    assert_eq!(evictions(&read(&mut *device)), some("0", None));
    history.extend([(9, "CONNECTING"), (9, "EVICTED"), (9, "RECOVER"), (9, "FULL")]);
    node.target_of(ID, 0, "FULL", &history);
    for _ in 0..2 {
        assert_eq!(evictions(&read(&mut *device)), some("0", None));
    }
    // A server's.
    history.extend([(19, "DISCONN"), (19, "CONNECTING"), (19, "EVICTED"), (19, "FULL")]);
    node.target_of(ID, 0, "FULL", &history);
    assert_eq!(evictions(&read(&mut *device)), some("1", Some("19")));
}

#[test]
fn a_target_without_a_state_file_has_that_of_its_import() {
    let node = Node::with_osts(1);
    let osc = format!("proc/fs/lustre/osc/scratch-OST0000-osc-{ID}");
    fs::remove_file(node.0.path().join(format!("{osc}/state"))).unwrap();
    node.put(&format!("{osc}/import"), &import("DISCONN", "10.2.1.0@o2ib"));
    let mut device = node.scan(false).remove(0);
    let block = read(&mut *device);
    let series = "lustre_client_target_state scratch scratch-OST0000 DISCONN 10.2.1.0@o2ib";
    assert_eq!(value(&block, series).as_deref(), Some("1"));
}

#[test]
fn a_target_that_two_mounts_miss_is_named_once() {
    let node = Node::with_osts(0);
    node.mount(OTHER);
    for id in [ID, OTHER] {
        node.target_of(id, 0, "DISCONN", &[]);
    }
    let block = read(&mut *node.scan(true).remove(0));
    let all = lines(&block);
    let names: BTreeSet<&str> = all.iter().filter_map(|line| line.split(" = ").next()).collect();
    assert_eq!(names.len(), all.len(), "no series twice");
    let named = all
        .iter()
        .filter(|line| line.starts_with("lustre_client_target_state "))
        .count();
    assert_eq!(named, 1);
    assert_eq!(
        value(&block, "lustre_client_targets scratch ost DISCONN").as_deref(),
        Some("2")
    );
}

#[test]
fn the_figures_of_a_target_are_sums_over_its_mounts() {
    let node = Node::with_osts(1);
    node.mount(OTHER);
    node.target_of(OTHER, 0, "FULL", &[]);
    let osc = |id: &str| format!("proc/fs/lustre/osc/scratch-OST0000-osc-{id}");
    node.put(
        &format!("{}/stats", osc(OTHER)),
        &stats("read_bytes 2 samples [bytes] 1 9 5000 9\n"),
    );
    let mut devices = node.devices(true);
    let mut figures = || {
        let block = read(&mut *devices.scan().unwrap().remove(0));
        let of = |series: &str| value(&block, &format!("lustre_client_target_{series}"));
        [
            of("rpc_bytes_total scratch scratch-OST0000 read"),
            of("rpc_timeouts_total scratch scratch-OST0000"),
            of("requests_in_flight scratch scratch-OST0000"),
        ]
    };
    let some = |values: [&str; 3]| values.map(|value| Some(value.to_owned()));
    assert_eq!(figures(), some(["5010", "6", "4"]));
    node.remove(&format!("proc/fs/lustre/llite/scratch-{ID}"));
    node.remove(&osc(ID));
    assert_eq!(figures(), some(["5010", "6", "2"]));
}
