#![allow(clippy::disallowed_methods, reason = "a test writes its own files")]

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;

use super::*;
use crate::block::Value;
use crate::gpfs::command_metrics::{
    COMPONENT_EVENT, COMPONENT_HAS_STATUS, COMPONENT_STATUS, LONGEST_WAIT, LONGEST_WAITER, NODE_STATE,
    WAITERS, WAITERS_BY_THREAD,
};
use crate::{Metric, Series};

const STATE: &str = "mmgetstate::HEADER:version:reserved:reserved:nodeName:nodeNumber:state:quorum:\n";
const WAIT: &str =
    "mmdiag:waiters:HEADER:version:reserved:reserved:threadId:threadName:waitTime:condVarReason:auxReason:\n";
const HEALTH: &str = "mmhealth:Event:HEADER:version:reserved:reserved:node:component:entityname:entitytype:event:ishidden:\n\
                      mmhealth:State:HEADER:version:reserved:reserved:node:component:entityname:entitytype:status:\n";

/// A folder, and the last reading of it.
struct Folder {
    dir: tempfile::TempDir,
    block: Block,
}

impl Folder {
    fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
            block: Block::default(),
        }
    }

    /// With these files.
    fn with(files: &[(&str, &str)]) -> Self {
        let mut folder = Self::new();
        for (name, text) in files {
            fs::write(folder.dir.path().join(name), text).unwrap();
        }
        folder.read();
        folder
    }

    fn waiters(rows: &str) -> Self {
        Self::with(&[("mmdiag-waiters.y", &format!("{WAIT}{rows}"))])
    }

    fn health(rows: &str) -> Self {
        Self::with(&[("mmhealth.y", &format!("{HEALTH}{rows}"))])
    }

    fn read(&mut self) {
        self.block.clear();
        let env = Env::with_sysroot("/");
        let folder = self.dir.path().to_str().unwrap().to_owned();
        Replies::new(&env, &folder).read(&mut self.block).unwrap();
        self.block.finish();
    }

    fn all(&self, metric: &'static Metric) -> Vec<(Vec<String>, Value)> {
        let of = |(s, value): (&Series, Value)| {
            (s.metric == metric).then(|| (s.labels.iter().map(ToString::to_string).collect(), value))
        };
        self.block.iter().filter_map(of).collect()
    }

    fn value(&self, metric: &'static Metric, labels: &[&str]) -> Option<Value> {
        let mut all = self.all(metric).into_iter();
        all.find(|(found, _)| found == labels).map(|(_, value)| value)
    }

    fn number(&self, metric: &'static Metric, labels: &[&str]) -> Option<u64> {
        match self.value(metric, labels) {
            Some(Value::U64(value)) => Some(value),
            _ => None,
        }
    }

    fn reasons(&self, command: &str) -> Vec<String> {
        let all = self.all(&UNREADABLE).into_iter().map(|(labels, _)| labels);
        all.filter(|labels| labels[0] == command)
            .map(|labels| labels[1].clone())
            .collect()
    }

    fn state(&self) -> Vec<String> {
        let all = self.all(&NODE_STATE).into_iter();
        all.filter(|(_, value)| *value == Value::U64(1))
            .map(|(labels, _)| labels[0].clone())
            .collect()
    }
}

fn state(word: &str) -> Folder {
    Folder::with(&[(
        "mmgetstate.y",
        &format!("{STATE}mmgetstate::0:1:::gpu07:7:{word}:4:\n"),
    )])
}

#[test]
fn the_state_of_the_node_is_one_of_five() {
    for word in ["active", "arbitrating", "down", "unknown", "unresponsive"] {
        let folder = state(word);
        assert_eq!(folder.state(), [word]);
        assert_eq!(folder.all(&NODE_STATE).len(), 5);
        assert_eq!(folder.reasons("mmgetstate"), [""; 0]);
    }
}

#[test]
fn a_state_of_a_later_release_is_unknown_and_reported() {
    let folder = state("hibernating");
    assert_eq!(folder.state(), ["unknown"]);
    assert_eq!(folder.reasons("mmgetstate"), ["malformed"]);
}

#[test]
fn rows_of_several_nodes_are_no_state_of_this_one() {
    let rows = format!("{STATE}mmgetstate::0:1:::gpu07:7:active:4:\nmmgetstate::0:1:::gpu08:8:down:4:\n");
    let folder = Folder::with(&[("mmgetstate.y", &rows)]);
    assert_eq!(folder.state(), [""; 0]);
    assert_eq!(folder.reasons("mmgetstate"), ["malformed"]);
}

#[test]
fn threads_that_always_wait_are_no_waiters() {
    let folder = Folder::waiters(
        "mmdiag:waiters:0:1:::1:FsckClientReaperThread:6861.7395::reap:\n\
         mmdiag:waiters:0:1:::2:EventsExporterSenderThread:44.3::poll:\n\
         mmdiag:waiters:0:1:::3:NSDThread:12.5::for I/O completion:\n\
         mmdiag:waiters:0:1:::4:NSDThread:301.25:waiting for a token::\n",
    );
    assert_eq!(folder.number(&WAITERS, &[]), Some(2));
    assert_eq!(folder.value(&LONGEST_WAIT, &[]), Some(Value::F64(301.25)));
    assert_eq!(
        folder.number(&LONGEST_WAITER, &["NSDThread", "waiting for a token"]),
        Some(1)
    );
    assert_eq!(folder.all(&WAITERS_BY_THREAD).len(), 1);
    assert_eq!(folder.number(&WAITERS_BY_THREAD, &["NSDThread"]), Some(2));
}

#[test]
fn no_waiter_is_zero_and_no_header_is_no_figure() {
    let none = Folder::waiters("");
    assert_eq!(none.number(&WAITERS, &[]), Some(0));
    assert_eq!(none.value(&LONGEST_WAIT, &[]), Some(Value::F64(0.0)));
    let unread = Folder::with(&[("mmdiag-waiters.y", "mmdiag: mmfsd is not running\n")]);
    assert_eq!(unread.all(&WAITERS), []);
    assert_eq!(unread.reasons("mmdiag-waiters"), ["malformed"]);
}

#[test]
fn a_wait_that_is_no_number_is_counted_and_never_zero_seconds() {
    for time in ["foo", "", "-1", "inf", "NaN"] {
        let folder = Folder::waiters(&format!("mmdiag:waiters:0:1:::1:NSDThread:{time}:::\n"));
        assert_eq!(folder.number(&WAITERS, &[]), Some(1), "{time}");
        assert_eq!(folder.value(&LONGEST_WAIT, &[]), Some(Value::Absent), "{time}");
        assert_eq!(folder.reasons("mmdiag-waiters"), ["malformed"], "{time}");
    }
}

#[test]
fn names_of_threads_are_bounded_and_those_with_most_waiters_stay() {
    let row = |name: usize| format!("mmdiag:waiters:0:1:::1:Thread{name}:1.5:::\n");
    let rows: String = (0..40).map(row).chain([row(39)]).collect();
    let folder = Folder::waiters(&rows);
    assert_eq!(folder.number(&WAITERS, &[]), Some(41));
    assert_eq!(folder.all(&WAITERS_BY_THREAD).len(), 32);
    assert_eq!(folder.number(&WAITERS_BY_THREAD, &["Thread39"]), Some(2));
    assert_eq!(folder.reasons("mmdiag-waiters"), ["limit"]);
}

#[test]
fn a_component_has_one_status_and_an_event_once() {
    let folder = Folder::health(
        "mmhealth:State:0:1:::gpu07:GPFS:gpu07:NODE:DEGRADED:\n\
         mmhealth:State:0:1:::gpu07:NETWORK:mlx5_0/1:IB_RDMA:SLEEPY:\n\
         mmhealth:Event:0:1:::gpu07:GPFS:gpu07:NODE:cluster_connections_down:no:text:STATE_CHANGE:WARNING:\n\
         mmhealth:Event:0:1:::gpu07:GPFS:gpu07:NODE:cluster_connections_down:no:other text:STATE_CHANGE:WARNING:\n\
         mmhealth:Event:0:1:::gpu07:GPFS:gpu07:NODE:gpfs_pagepool_small:yes:\n",
    );
    let gpfs = ["GPFS", "gpu07", "NODE"];
    let with = |status| [gpfs[0], gpfs[1], gpfs[2], status];
    assert_eq!(folder.number(&COMPONENT_STATUS, &with("DEGRADED")), Some(1));
    assert_eq!(folder.number(&COMPONENT_HAS_STATUS, &with("DEGRADED")), Some(1));
    assert_eq!(folder.number(&COMPONENT_HAS_STATUS, &with("HEALTHY")), Some(0));
    let network = ["NETWORK", "mlx5_0/1", "IB_RDMA", "UNKNOWN"];
    assert_eq!(folder.number(&COMPONENT_STATUS, &network), Some(1));
    assert_eq!(folder.all(&COMPONENT_STATUS).len(), 2);
    let events = folder.all(&COMPONENT_EVENT);
    assert_eq!(events.len(), 1, "{events:?}");
    let event = [gpfs[0], gpfs[1], gpfs[2], "cluster_connections_down", "WARNING"];
    assert_eq!(folder.number(&COMPONENT_EVENT, &event), Some(1));
    assert_eq!(
        folder.reasons("mmhealth"),
        ["malformed"],
        "the status of a later release"
    );
}

/// The severities of the events of a header and one row each.
fn events(columns: &str, rows: &[&str]) -> (Vec<[String; 2]>, Vec<String>) {
    let header =
        "mmhealth:Event:HEADER:version:reserved:reserved:node:component:entityname:entitytype:event:";
    let row = |row: &&str| format!("mmhealth:Event:0:1:::gpu07:GPFS:gpu07:NODE:{row}\n");
    let rows: String = rows.iter().map(row).collect();
    let text =
        format!("{HEALTH}mmhealth:State:0:1:::gpu07:GPFS:gpu07:NODE:DEGRADED:\n{header}{columns}\n{rows}");
    let folder = Folder::with(&[("mmhealth.y", &text)]);
    let found = folder.all(&COMPONENT_EVENT).into_iter();
    let found = found.map(|(labels, _)| [labels[3].clone(), labels[4].clone()]);
    (found.collect(), folder.reasons("mmhealth"))
}

#[test]
fn the_severity_is_found_behind_a_header_that_ends_with_ishidden() {
    let (found, reasons) = events(
        "arguments:activesince:identifier:ishidden:",
        &[
            "deadlock_detection_off::2020-01-07 16%3A47%3A43.892296 EST::no:It is off.:TIP:TIP:",
            "no_text::2020-01-07 16%3A47%3A43.892296 EST::no:",
        ],
    );
    let expected = [["deadlock_detection_off", "TIP"], ["no_text", ""]];
    assert_eq!(
        (found, reasons),
        (expected.map(|e| e.map(str::to_owned)).into(), vec![])
    );
}

#[test]
fn a_time_whose_colons_are_not_escaped_shifts_no_value() {
    let (found, reasons) = events(
        "arguments:activesince:identifier:ishidden:message:eventtype:severity:fullidentifier:",
        &[
            "quorum_even::2025-07-21 08:58:15::no:No tiebreaker.:STATE_CHANGE:TIP:1/gpfs/:",
            "connections_down:10.0.0.7,1,1:2023-07-05 16:33:11:10.0.0.7:no:Down.:STATE_CHANGE:WARNING:x/:",
            "memory_small::2025-07-21 08:58:15::yes:Hidden.:STATE_CHANGE:TIP:x/:",
        ],
    );
    let expected = [["connections_down", "WARNING"], ["quorum_even", "TIP"]];
    assert_eq!(
        (found, reasons),
        (expected.map(|e| e.map(str::to_owned)).into(), vec![])
    );
}

#[test]
fn a_text_in_place_of_a_severity_is_no_label_and_one_in_place_of_ishidden_costs_the_event() {
    let columns = "identifier:ishidden:message:eventtype:severity:";
    for (row, expected) in [
        ("e::no:a: b:c:STATE_CHANGE:WARNING:", Some("")),
        ("e::no:text:STATE_CHANGE:10.0.0.7:", Some("")),
        ("e:fe80::1:yes:text:STATE_CHANGE:TIP:", None),
        ("e:", None),
    ] {
        let (found, reasons) = events(columns, &[row]);
        let severities: Vec<&str> = found.iter().map(|[_, severity]| severity.as_str()).collect();
        assert_eq!(severities, Vec::from_iter(expected), "{row}");
        assert_eq!(reasons, ["malformed"], "{row}");
    }
    let (found, reasons) = events("identifier:", &["e::"]);
    assert_eq!(
        (found.len(), reasons.len()),
        (1, 0),
        "a release without the column"
    );
}

#[test]
fn of_many_components_the_faulty_ones_stay() {
    let row = |n: usize| format!("mmhealth:State:0:1:::gpu07:A{n}:gpu07:NODE:HEALTHY:\n");
    let mut rows: String = (0..80).map(row).collect();
    rows.push_str("mmhealth:State:0:1:::gpu07:ZZ:gpu07:NODE:FAILED:\n");
    rows.push_str("mmhealth:State:0:1:::gpu07:GPFS:gpu07:NODE:HEALTHY:\n");
    let folder = Folder::health(&rows);
    assert_eq!(folder.all(&COMPONENT_STATUS).len(), 64);
    for labels in [
        ["ZZ", "gpu07", "NODE", "FAILED"],
        ["GPFS", "gpu07", "NODE", "HEALTHY"],
    ] {
        assert_eq!(folder.number(&COMPONENT_STATUS, &labels), Some(1), "{labels:?}");
    }
    assert_eq!(folder.reasons("mmhealth"), ["limit"]);
}

#[test]
fn a_file_that_is_missing_costs_only_its_own_series() {
    let folder = state("active");
    assert_eq!(folder.state(), ["active"]);
    for command in ["mmdiag-waiters", "mmhealth"] {
        assert_eq!(folder.reasons(command), ["absent"], "{command}");
    }
    assert_eq!(folder.all(&TIMESTAMP).len(), 1);
}

#[test]
fn a_run_that_failed_is_named_while_the_last_output_is_young() {
    for (note, reason) in [
        ("timeout timed out after 30s", "timeout"),
        ("failed exit code 1", "failed"),
        ("refused", "refused"),
        ("another word", "failed"),
    ] {
        let alone = Folder::with(&[("mmgetstate.failed", note)]);
        assert_eq!(alone.reasons("mmgetstate"), [reason]);
        let text = format!("{STATE}mmgetstate::0:1:::gpu07:7:active:4:\n");
        let both = Folder::with(&[("mmgetstate.failed", note), ("mmgetstate.y", &text)]);
        assert_eq!(both.reasons("mmgetstate"), [reason]);
        assert_eq!(both.state(), ["active"]);
    }
}

#[test]
fn a_file_of_more_than_a_megabyte_is_not_read() {
    let folder = Folder::with(&[("mmgetstate.y", &"x".repeat(MAX_REPLY + 1))]);
    assert_eq!(folder.reasons("mmgetstate"), ["limit"]);
}

#[test]
fn a_folder_in_place_of_a_file_is_an_error_of_that_file() {
    let mut folder = Folder::new();
    fs::create_dir(folder.dir.path().join("mmgetstate.y")).unwrap();
    folder.read();
    assert_eq!(folder.reasons("mmgetstate"), ["untrusted"]);
}

#[test]
fn a_file_that_others_can_write_or_replace_is_not_used() {
    let text = format!("{STATE}mmgetstate::0:1:::gpu07:7:down:4:\n");
    let mut folder = Folder::with(&[("mmgetstate.y", &text), ("target", &text)]);
    let (dir, path) = (
        folder.dir.path().to_owned(),
        folder.dir.path().join("mmgetstate.y"),
    );
    let mode = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    let mut is_refused = |what: &str| {
        folder.read();
        assert_eq!(folder.reasons("mmgetstate"), ["untrusted"], "{what}");
        assert_eq!(folder.state(), [""; 0], "{what}");
    };
    for open in [0o664, 0o646] {
        mode(&path, open);
        is_refused(&format!("a file of mode {open:o}"));
    }
    mode(&path, 0o644);
    for open in [0o775, 0o757, 0o1777] {
        mode(&dir, open);
        is_refused(&format!("a folder of mode {open:o}"));
    }
    mode(&dir, 0o755);
    chown(&path, Some(4711), None).unwrap();
    is_refused("a file of another user");
    fs::remove_file(&path).unwrap();
    symlink("target", &path).unwrap();
    is_refused("a link");
    fs::remove_file(&path).unwrap();
    fs::rename(dir.join("target"), &path).unwrap();
    folder.read();
    assert_eq!(
        (folder.state(), folder.reasons("mmgetstate")),
        (vec!["down".to_owned()], Vec::new())
    );
}

#[test]
fn the_waiters_of_a_daemon_that_has_ended_are_not_shown() {
    let waits = format!("{WAIT}mmdiag:waiters:0:1:::1:NSDThread:301.25:::\n");
    for (note, reason, is_shown) in [
        ("failed exit code 1: mmfsd is not running", "failed", false),
        ("failed too much output", "failed", true),
        ("timeout timed out after 30s", "timeout", true),
        ("refused an earlier run has not ended", "refused", true),
    ] {
        let folder = Folder::with(&[("mmdiag-waiters.failed", note), ("mmdiag-waiters.y", &waits)]);
        assert_eq!(folder.reasons("mmdiag-waiters"), [reason], "{note}");
        assert_eq!(folder.value(&LONGEST_WAIT, &[]).is_some(), is_shown, "{note}");
        assert_eq!(folder.all(&TIMESTAMP).len(), usize::from(is_shown), "{note}");
    }
}

#[test]
fn without_the_names_of_threads_no_figure_is_shown() {
    let text = "mmdiag:waiters:HEADER:version:reserved:reserved:threadId:waitTime:\n\
                mmdiag:waiters:0:1:::1:6861.7:\n";
    let folder = Folder::with(&[("mmdiag-waiters.y", text)]);
    assert_eq!(folder.all(&WAITERS), []);
    assert_eq!(folder.all(&LONGEST_WAIT), []);
    assert_eq!(folder.reasons("mmdiag-waiters"), ["malformed"]);
}

/// The one that cannot be read may wait for longer.
#[test]
fn beside_an_unreadable_wait_only_a_long_one_is_the_longest() {
    for (time, longest) in [
        ("12.5", Value::Absent),
        ("300", Value::Absent),
        ("301", Value::F64(301.0)),
    ] {
        let folder = Folder::waiters(&format!(
            "mmdiag:waiters:0:1:::1:NSDThread:{time}:::\nmmdiag:waiters:0:1:::2:NSDThread:foo:::\n"
        ));
        assert_eq!(folder.value(&LONGEST_WAIT, &[]), Some(longest), "{time}");
        assert_eq!(
            folder.all(&LONGEST_WAITER).is_empty(),
            longest == Value::Absent,
            "{time}"
        );
        assert_eq!(folder.number(&WAITERS, &[]), Some(2));
    }
}

/// The change time of a file cannot be set, so the clock of this test is the age itself.
#[test]
fn a_file_is_used_for_two_rounds_and_not_from_the_future_or_an_earlier_boot() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    File::create(&path).unwrap();
    let written = root::changed(&path).unwrap().unwrap();
    for (age, is_used) in [
        (0.0, true),
        (800.0, true),
        (801.0, false),
        (-59.0, true),
        (-61.0, false),
    ] {
        let long = Duration::from_secs(86_400);
        assert_eq!(is_young(written, written + age, long), is_used, "{age}");
    }
    assert!(is_young(written, now(), boot::boottime()));
    let boot = Duration::from_secs(30);
    assert!(!is_young(written, written + 31.0, boot), "from before the boot");
}

#[test]
fn a_recording_is_never_stale_and_has_no_time() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::recorded(dir.path());
    let folder = env.path("/run/gpfs");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("mmdiag-waiters.y"), WAIT).unwrap();
    let mut block = Block::default();
    Replies::new(&env, "/run/gpfs").read(&mut block).unwrap();
    block.finish();
    assert!(block.iter().any(|(s, _)| s.metric == &WAITERS));
    assert!(block.iter().all(|(s, _)| s.metric != &TIMESTAMP));
    assert!(!Path::new("/run/gpfs").exists());
}

proptest::proptest! {
    #[test]
    fn any_bytes_are_taken(data in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..300)) {
        check(&data);
    }

    #[test]
    fn any_rows_are_taken(rows in "((mmgetstate:|mmdiag:waiters|mmhealth:State|mmhealth:Event):(HEADER|0):1:(:|state|threadName|waitTime|component|[a-z0-9%. -]{0,4}){0,12}\n){0,8}") {
        check(rows.as_bytes());
    }
}
