//! When children are restarted and killed.

use std::time::{Duration, Instant};

use collectors::{Env, Settings};
use nix::unistd::Pid;
use sys::slots;
use sys::users::Ids;

use super::worker_process::RunningWorker;
use super::*;

/// No process has this number: to the parent it has ended.
const GONE: Pid = Pid::from_raw(i32::MAX);
const LONG: Duration = Duration::from_secs(1000);

fn children() -> Children {
    let ids = Ids { uid: 1, gid: 1 };
    let mut children = Children::new(ids, PathBuf::new(), &Env::default());
    children.daemon = Some((GONE, Instant::now()));
    children.ready = true;
    children
}

#[test]
fn a_worker_runs_where_the_tree_it_reads_has_its_source_or_the_site_names_one() {
    let root = tempfile::tempdir().unwrap();
    let ids = Ids { uid: 1, gid: 1 };
    let children = Children::new(ids, PathBuf::new(), &Env::with_sysroot(root.path()));
    let run = |settings: &Settings| {
        let all = children.workers.iter().filter(|w| w.may_be_here(settings));
        let names = ["lustre", "host", "gpfs", "nvidia"];
        let all: Vec<&str> = all.map(|w| w.domain.name).filter(|n| names.contains(n)).collect();
        all
    };
    let none = Settings::default();
    assert_eq!(run(&none), ["host"]);
    std::fs::create_dir_all(root.path().join("sys/module/lnet")).unwrap();
    assert_eq!(run(&none), ["host", "lustre"]);
    let library = "library = \"/opt/libnvidia-ml.so\"\n";
    let named = collectors::nvidia::SPEC.settings(library).unwrap();
    assert_eq!(run(&named), ["host", "nvidia", "lustre"]);
    std::fs::create_dir_all(root.path().join("proc/driver/nvidia")).unwrap();
    assert_eq!(run(&none), ["host", "nvidia", "lustre"]);
}

/// The drives of such a node had no log until the next start of nodewarden.
#[test]
#[allow(clippy::disallowed_methods, reason = "the test makes a drive")]
fn a_worker_is_restarted_when_a_later_drive_needs_a_helper_that_it_lacks() {
    let root = tempfile::tempdir().unwrap();
    let ids = Ids { uid: 1, gid: 1 };
    let mut children = Children::new(ids, PathBuf::new(), &Env::with_sysroot(root.path()));
    children.daemon = Some((GONE, Instant::now()));
    children.ready = true;
    let place = children.workers.iter().position(|w| w.domain.name == "mounts");
    let worker = &mut children.workers[place.unwrap()];
    worker.running = Some(RunningWorker {
        pid: GONE,
        slot: 0,
        started: Instant::now(),
        helpers: Vec::new(),
        helpers_due: Some(Instant::now()),
    });
    let settings = Settings::default();
    let locks = root.path().join("locks");
    std::fs::create_dir(&locks).unwrap();
    let due = |worker: &mut WorkerProcess, at| worker.running.as_mut().unwrap().helpers_due = at;
    worker.look_at_helpers(&locks, &settings);
    assert!(worker.running.is_some(), "no drive");
    let drive = root.path().join("sys/class/nvme/nvme0");
    std::fs::create_dir_all(&drive).unwrap();
    std::fs::write(drive.join("transport"), "pcie\n").unwrap();
    std::fs::write(drive.join("address"), "0000:01:00.0\n").unwrap();
    worker.look_at_helpers(&locks, &settings);
    assert!(worker.running.is_some(), "not yet due");
    due(worker, None);
    worker.look_at_helpers(&locks, &settings);
    assert!(worker.running.is_some(), "without root");
    due(worker, Some(Instant::now()));
    worker.slots_due = Some(Instant::now());
    worker.look_at_helpers(&locks, &settings);
    assert!(
        worker.running.is_some(),
        "an earlier process holds the other slot"
    );
    worker.slots_due = None;
    // Commands that never returned: without the slots of the helper, a restart would repeat every 30 s.
    let stuck = ["nvme"; 2].map(|helper| slots::take(&locks, helper).unwrap());
    due(worker, Some(Instant::now()));
    worker.look_at_helpers(&locks, &settings);
    assert!(worker.running.is_some(), "no helper can be started");
    assert_eq!(slots::take(&locks, "mounts").unwrap().held, [false; 2]);
    assert!(worker.wanted(&locks, &settings).unwrap().is_empty());
    drop(stuck);
    assert_eq!(worker.wanted(&locks, &settings).unwrap().len(), 1);
    due(worker, Some(Instant::now()));
    worker.look_at_helpers(&locks, &settings);
    assert!(worker.running.is_none() && worker.leaving == [GONE]);
    assert!(worker.due() <= Instant::now(), "the next one starts at once");
}

/// The end of its helpers let it start at once, 100 times a second.
#[test]
fn the_end_of_helpers_does_not_shorten_the_back_off_of_their_worker() {
    let mut children = children();
    let worker = &mut children.workers[0];
    worker.running = Some(RunningWorker {
        pid: GONE,
        slot: 0,
        started: Instant::now(),
        helpers: vec![GONE],
        helpers_due: None,
    });
    worker.backoff.wait = LONG;
    let before = Instant::now();
    // The worker, and then its helper.
    for _ in 0..2 {
        children.reap_workers();
        let worker = &children.workers[0];
        assert!(worker.running.is_none() && worker.due() >= before + LONG);
    }
    assert!(children.workers[0].orphans.is_empty());
}

#[test]
fn the_grace_of_leaving_workers_ends_with_them() {
    let mut children = children();
    let worker = &mut children.workers[0];
    worker.leaving.push(GONE);
    worker.grace = Some(Instant::now() + LONG);
    assert!(worker.due() > Instant::now());
    children.reap_workers();
    assert!(children.workers[0].due() <= Instant::now());
}

/// One in state D was killed again in each turn, without a pause between them.
#[test]
fn a_daemon_that_cannot_be_killed_is_killed_once() {
    let mut children = children();
    children.unlinked = Instant::now().checked_sub(UNLINKED_PATIENCE);
    assert!(children.next_deadline().is_some_and(|at| at <= Instant::now()));
    children.kill_overdue_daemon();
    assert!(children.daemon_pid().is_some());
    assert_eq!(children.next_deadline(), None);
}

/// Free in a loop started a worker that ends at once without a pause.
#[test]
fn only_the_end_of_a_hold_ends_a_back_off() {
    let mut children = children();
    children.workers[0].backoff.due += LONG;
    children.free(0);
    assert!(children.workers[0].due() > Instant::now());
    children.hold(0, 1);
    children.free(0);
    assert!(children.workers[0].due() <= Instant::now());
}
