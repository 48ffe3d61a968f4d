#![allow(clippy::disallowed_methods, reason = "a test writes its own recording")]

use std::fs;
use std::path::Path;

use super::*;
use crate::block::Value;
use crate::gpfs::metrics::{CACHE_READS, OPERATIONS, READ_BYTES};

/// A node whose mmfsd gives this reply to `gfis`, or to `fis`.
struct Node {
    dir: tempfile::TempDir,
    device: Box<dyn Device>,
    block: Block,
}

impl Node {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let env = Env::recorded(dir.path());
        fs::create_dir_all(env.path("/var/mmfs/mmpmon")).unwrap();
        let source = open(&env, &Settings::default()).unwrap();
        let device = source.unwrap().devices.scan().unwrap().remove(0);
        Self {
            dir,
            device,
            block: Block::default(),
        }
    }

    fn replies(&self, request: &str, lines: &str) {
        let text = format!("_response_ begin mmpmon {request}\n{lines}_response_ end\n");
        fs::write(self.socket(), text).unwrap();
    }

    fn socket(&self) -> std::path::PathBuf {
        Env::recorded(self.dir.path()).path(mmpmon::SOCKET)
    }

    fn read(&mut self) -> Result<(), Error> {
        self.block.clear();
        self.device.read(&mut self.block)?;
        self.block.finish();
        Ok(())
    }

    fn value(&self, metric: &'static crate::Metric, labels: &[&str]) -> Option<Value> {
        let is_it = |s: &crate::Series| s.metric == metric && *s.labels == *labels;
        self.block.iter().find(|(s, _)| is_it(s)).map(|(_, value)| value)
    }

    fn number(&self, metric: &'static crate::Metric, labels: &[&str]) -> Option<u64> {
        match self.value(metric, labels) {
            Some(Value::U64(value)) => Some(value),
            _ => None,
        }
    }
}

fn line(request: &str, fs: &str, figures: &str) -> String {
    format!(
        "_mmpmon::{request}_ _n_ 10.1.0.7 _nn_ gpu07 _rc_ 0 _t_ 1 _tu_ 2 _cl_ store.example _fs_ {fs} _d_ 48 {figures}\n"
    )
}

const SCRATCH: [&str; 2] = ["store.example", "scratch"];
const READS: [&str; 3] = ["store.example", "scratch", "reads"];

#[test]
fn a_node_without_gpfs_has_no_source() {
    let dir = tempfile::tempdir().unwrap();
    let source = open(&Env::recorded(dir.path()), &Settings::default()).unwrap();
    assert!(source.is_none());
}

#[test]
fn each_mounted_filesystem_has_its_figures() {
    let mut node = Node::new();
    let lines = line("gfis", "scratch", "_br_ 1000 _bw_ 2 _c_ 5 _rdc_ 7")
        + &line("gfis", "home", "_br_ 9 _bw_ 0 _rdc_ 1");
    node.replies("gfis", &lines);
    node.read().unwrap();
    assert_eq!(node.number(&DAEMON_UP, &[]), Some(1));
    assert_eq!(node.number(&READ_BYTES, &SCRATCH), Some(1000));
    assert_eq!(node.number(&READ_BYTES, &["store.example", "home"]), Some(9));
    assert_eq!(node.number(&OPERATIONS, &READS), Some(7));
    assert_eq!(node.number(&CACHE_READS, &SCRATCH), Some(5));
    assert!(node.block.fault().is_none());
}

#[test]
fn two_clusters_may_have_a_filesystem_of_the_same_name() {
    let mut node = Node::new();
    let other = line("gfis", "scratch", "_br_ 4 _bw_ 0").replace("store.example", "other.example");
    node.replies("gfis", &(line("gfis", "scratch", "_br_ 3 _bw_ 0") + &other));
    node.read().unwrap();
    assert_eq!(node.number(&READ_BYTES, &SCRATCH), Some(3));
    assert_eq!(node.number(&READ_BYTES, &["other.example", "scratch"]), Some(4));
}

#[test]
fn a_daemon_that_knows_only_fis_is_asked_for_that() {
    let mut node = Node::new();
    node.replies("fis", &line("fis", "scratch", "_br_ 5 _bw_ 6 _rdc_ 7"));
    node.read().unwrap();
    assert_eq!(node.number(&READ_BYTES, &SCRATCH), Some(5));
    assert_eq!(node.value(&CACHE_READS, &SCRATCH), Some(Value::Absent));
}

#[test]
fn one_odd_reply_costs_one_reading_only() {
    let mut node = Node::new();
    node.replies("gfis", "");
    assert!(node.read().is_err());
    node.replies("gfis", &line("gfis", "scratch", "_br_ 5 _bw_ 6 _c_ 7"));
    node.read().unwrap();
    assert_eq!(node.number(&CACHE_READS, &SCRATCH), Some(7));
}

/// A total that the worker carries over a wrap would fall to a value above 0 when it starts again, which Prometheus takes for
/// growth; the wrap itself it takes for a counter reset.
#[test]
fn a_counter_of_32_bits_is_shown_as_mmfsd_counts_it() {
    let mut node = Node::new();
    for reads in [4_294_967_290, 4] {
        let figures = format!("_br_ 10 _bw_ 0 _rdc_ {reads}");
        node.replies("gfis", &line("gfis", "scratch", &figures));
        node.read().unwrap();
        assert_eq!(node.number(&OPERATIONS, &READS), Some(reads));
    }
}

#[test]
fn an_unmounted_filesystem_has_no_series() {
    let mut node = Node::new();
    node.replies("gfis", &line("gfis", "scratch", "_br_ 10 _bw_ 0 _rdc_ 9"));
    node.read().unwrap();
    node.replies("gfis", &line("gfis", "home", "_br_ 1 _bw_ 0 _rdc_ 1"));
    node.read().unwrap();
    assert_eq!(node.value(&READ_BYTES, &SCRATCH), None);
}

#[test]
fn rc_1_means_that_no_filesystem_is_mounted() {
    let mut node = Node::new();
    node.replies(
        "gfis",
        "_mmpmon::gfis_ _n_ 10.1.0.7 _nn_ gpu07 _rc_ 1 _t_ 1 _tu_ 2 _cl_ - _fs_ -\n",
    );
    node.read().unwrap();
    assert_eq!(node.number(&DAEMON_UP, &[]), Some(1));
    assert_eq!(node.value(&READ_BYTES, &["-", "-"]), None);
    assert!(node.block.fault().is_none());
}

#[test]
fn another_result_is_a_failed_reading() {
    let mut node = Node::new();
    node.replies(
        "gfis",
        "_mmpmon::gfis_ _n_ 10.1.0.7 _nn_ gpu07 _rc_ 668 _t_ 1 _tu_ 2\n",
    );
    node.read().unwrap();
    let fault = node.block.fault().unwrap();
    assert!(fault.text.contains("668"), "{}", fault.text);
}

#[test]
fn a_line_that_is_not_understood_costs_only_its_filesystem() {
    let mut node = Node::new();
    let lines = line("gfis", "scratch", "_br_ 5 _bw_ 6") + "_mmpmon::gfis_ _rc_ 0 _fs_ home _br_\n";
    node.replies("gfis", &lines);
    node.read().unwrap();
    assert_eq!(node.number(&READ_BYTES, &SCRATCH), Some(5));
    assert_eq!(node.block.fault().unwrap().reason, "parse");
}

#[test]
fn a_daemon_that_does_not_run_is_down_and_has_no_filesystem() {
    let mut node = Node::new();
    node.replies("gfis", &line("gfis", "scratch", "_br_ 5 _bw_ 6"));
    node.read().unwrap();
    fs::remove_file(node.socket()).unwrap();
    node.read().unwrap();
    assert_eq!(node.number(&DAEMON_UP, &[]), Some(0));
    assert_eq!(node.value(&READ_BYTES, &SCRATCH), None);
}

/// mmpmon prints a figure that is not a number only if it is broken; the others are shown.
#[test]
fn a_figure_that_is_no_number_is_absent() {
    let mut node = Node::new();
    node.replies("gfis", &line("gfis", "scratch", "_br_ ? _bw_ 6"));
    node.read().unwrap();
    assert_eq!(node.value(&READ_BYTES, &SCRATCH), Some(Value::Absent));
}

#[test]
fn the_socket_is_below_the_sysroot() {
    let env = Env::recorded(Path::new("/r"));
    assert_eq!(
        env.path(mmpmon::SOCKET),
        Path::new("/r/root/var/mmfs/mmpmon/mmpmonSocket")
    );
}
