//! The table of processes in docs/security.md, compared with /proc.

use std::path::Path;

use sys::landlock;
use sys::processes::{self, Process, Role};
use testkit::play::Play;
use testkit::proc::{self, Status};

use crate::common::{self, Node, value};

/// The demo's node with every source, in a folder that every user may read.
fn demo() -> (Node, Play) {
    let mut node = Node::new();
    let case = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/demo");
    let recording = node.path("demo");
    let play = Play::open(&case, &recording).unwrap();
    node.recorded = Some(recording);
    node.add_every_source();
    (node, play)
}

fn pid(node: &Node, process: &Process) -> u32 {
    match process.role {
        Role::Parent => node.daemon().pid(),
        Role::Daemon => node.core_pid(),
        Role::Worker => node.worker_pid(process.name),
        Role::Helper => node.helper_pid(process.name),
    }
}

fn number(status: &Status, field: &str) -> u32 {
    status.get(field).unwrap().parse().unwrap()
}

/// The daemon's own account of it.
fn shown(node: &Node, process: &Process, feature: &str) -> Option<f64> {
    let process = process.label();
    let labels = [("process", process.as_str()), ("feature", feature)];
    value(&node.metrics(), "nodewarden_process_sandbox", &labels)
}

fn all_shown(node: &Node) {
    node.until("every process shows its filter", |n| {
        processes::all()
            .iter()
            .filter(|p| p.role != Role::Helper || node.user.is_none())
            .all(|p| shown(n, p, "seccomp").is_some())
    });
}

#[test]
fn the_table_of_processes_is_what_proc_shows() {
    let (mut node, _play) = demo();
    node.start();
    all_shown(&node);
    // In a container the test itself may be filtered, or lack capabilities.
    let test = Status::read(std::process::id()).unwrap();
    let (bounding, filters) = (test.cap_bnd().unwrap(), number(&test, "Seccomp_filters"));
    for process in processes::all() {
        let name = process.name;
        let pid = pid(&node, &process);
        let status = Status::read(pid).unwrap();
        assert_eq!(status.uid().unwrap(), [process.uid; 4], "{name}");
        let mask = process.capability_mask() & bounding;
        for (set, found) in [
            ("CapEff", status.cap_eff()),
            ("CapPrm", status.cap_prm()),
            ("CapBnd", status.cap_bnd()),
        ] {
            assert_eq!(found.unwrap(), mask, "{name} {set}");
        }
        assert_eq!(status.cap_amb().unwrap(), 0, "{name}");
        // The own filter and the parent's.
        let own = if process.role == Role::Parent { 1 } else { 2 };
        for task in proc::tasks(pid).unwrap() {
            let status = Status::read_task(pid, task).unwrap();
            assert_eq!(number(&status, "Seccomp"), 2, "{name} {task}");
            assert_eq!(number(&status, "Seccomp_filters"), filters + own, "{name} {task}");
            assert!(status.no_new_privs().unwrap(), "{name} {task}");
        }
        assert_eq!(shown(&node, &process, "seccomp"), Some(1.0), "{name}");
        let landlocked = process
            .landlock
            .then(|| f64::from(landlock::version().map_or(0, |_| 1)));
        assert_eq!(shown(&node, &process, "landlock"), landlocked, "{name}");
    }
}

/// What it reads, serves, stores and restarts works under the filters.
#[test]
fn nothing_is_lost_by_the_filters() {
    let (mut node, mut play) = demo();
    node.start();
    node.until("collectors are up", |n| {
        ["host", "kernel_log", "rdma", "slurm"]
            .iter()
            .all(|c| n.metric("nodewarden_collector_up", &[("collector", c)]) == Some(1.0))
    });
    play.advance(play.length()).unwrap();
    node.until("the lost GPU is an incident", |n| !n.open_incidents().is_empty());
    let address = node.address().unwrap();
    let gzip = [("Accept-Encoding", "gzip")];
    let page = testkit::http::get(&address, "/metrics", &gzip, common::LONG).unwrap();
    assert_eq!(page.status, 200);
    assert!(node.state_dir().join("state.json").is_file());
    let pid = i32::try_from(node.daemon().pid()).unwrap();
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGHUP).unwrap();
    let incident = node.open_incidents()[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(node.cli(&["ack", &incident, "--reason", "x"]).0, Some(0));
    // A process that is ended by a filter or cannot start is counted.
    for process in processes::all().iter().filter(|p| p.role == Role::Worker) {
        let starts = node.metric("nodewarden_worker_starts_total", &[("worker", process.name)]);
        assert_eq!(starts, Some(1.0), "{}", process.name);
    }
    assert!(
        !node.daemon().stderr().contains("not permitted"),
        "{}",
        node.daemon().stderr()
    );
    node.stop();
}

#[test]
fn without_root_the_filters_are_the_same() {
    let (mut node, _play) = demo();
    node.user = Some(5);
    node.start();
    all_shown(&node);
    // Without a right to give away there are no helpers.
    for process in processes::all().into_iter().filter(|p| p.role != Role::Helper) {
        let status = Status::read(pid(&node, &process)).unwrap();
        assert_eq!(status.uid().unwrap(), [5; 4], "{}", process.name);
        assert_eq!(number(&status, "Seccomp"), 2, "{}", process.name);
        assert!(status.no_new_privs().unwrap(), "{}", process.name);
        assert_eq!(shown(&node, &process, "seccomp"), Some(1.0));
    }
}
