//! A worker that hangs in uninterruptible sleep, crashes, or is flooded.

use collectors::{COLLECTORS, Cadence, Spec};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::common::{LONG, Node};

fn kill9(pid: u32) {
    kill(Pid::from_raw(i32::try_from(pid).unwrap()), Signal::SIGKILL).unwrap();
}

fn workers_of(node: &Node, word: &str) -> Vec<u32> {
    let mut pids = Vec::new();
    for pid in node.daemon().children() {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let args: Vec<&[u8]> = line.split(|b| *b == 0).collect();
        if args.contains(&b"worker".as_slice()) && args.contains(&word.as_bytes()) {
            pids.push(pid);
        }
    }
    pids
}

/// Both start again, because a socket between two processes cannot be made later.
#[test]
fn a_helper_that_ends_takes_its_worker_with_it_and_a_worker_its_helpers() {
    let mut node = Node::new();
    node.start();
    let starts = |n: &Node| n.metric("nodewarden_worker_starts_total", &[("worker", "slurm")]);
    let others = |n: &Node| (n.worker_pid("host"), n.worker_pid("kernel"), n.core_pid());
    let unchanged = others(&node);
    let family = |n: &Node| [n.worker_pid("slurm"), n.helper_pid("bpf"), n.helper_pid("proc")];
    for victim in 0..3 {
        let before = family(&node);
        let count = starts(&node).unwrap();
        kill9(before[victim]);
        node.until("the worker is started again", |n| starts(n) == Some(count + 1.0));
        let ended = |pid: &u32| testkit::proc::Stat::read(*pid).is_none_or(|s| !s.alive());
        testkit::wait::until_true("all three have ended", LONG, || before.iter().all(ended)).unwrap();
        assert!(family(&node).iter().all(|pid| !before.contains(pid)));
    }
    assert_eq!(others(&node), unchanged);
    node.until("no slot is held", |n| {
        n.metric("nodewarden_worker_stuck_slots", &[("worker", "slurm")]) == Some(0.0)
    });
    assert!(
        node.daemon()
            .stderr()
            .contains("a helper ended; the worker is restarted")
    );
}

/// Workers and their helpers end with the daemon, in any order, and while the parent still waits for it.
#[test]
fn a_stop_is_no_fault_of_a_worker_or_helper() {
    let mut node = Node::new();
    node.start();
    let helper = node.helper_pid("bpf");
    let core = Pid::from_raw(i32::try_from(node.core_pid()).unwrap());
    let daemon = node.daemon();
    kill(core, Signal::SIGSTOP).unwrap();
    daemon.signal(Signal::SIGTERM).unwrap();
    daemon.wait_for_line("stopping", LONG).unwrap();
    kill9(helper);
    let ended = || testkit::proc::Stat::read(helper).is_none_or(|s| !s.alive());
    testkit::wait::until_true("the helper has ended", LONG, ended).unwrap();
    kill(core, Signal::SIGCONT).unwrap();
    daemon.wait(LONG).unwrap();
    let log = daemon.stderr();
    let (_, stop) = log.split_once("stopping").expect("the log reports the stop");
    assert!(!stop.contains("a helper ended"), "{log}");
}

#[test]
fn a_crashed_worker_is_restarted_and_misses_nothing() {
    let mut node = Node::new();
    node.start();
    let first = node.worker_pid("kernel");
    node.xid(0, 31);
    node.wait_xids(0, 31, 1.0);
    kill9(first);
    // No worker reads now.
    node.xid(0, 31);
    node.wait_xids(0, 31, 2.0);
    assert_ne!(node.worker_pid("kernel"), first);
    assert_eq!(
        node.metric("nodewarden_worker_starts_total", &[("worker", "kernel")]),
        Some(2.0)
    );
}

#[test]
fn a_worker_that_crashes_repeatedly_is_restarted_with_back_off() {
    let mut node = Node::new();
    node.start();
    for _ in 0..4 {
        let pid = node.worker_pid("host");
        kill9(pid);
        node.until("another worker", |n| {
            workers_of(n, "host").iter().any(|p| *p != pid)
        });
    }
    let starts = node
        .metric("nodewarden_worker_starts_total", &[("worker", "host")])
        .unwrap();
    assert!((4.0..=6.0).contains(&starts), "{starts}");
    node.until("host reads again", |n| {
        n.metric("nodewarden_collector_up", &[("collector", "host")]) == Some(1.0)
    });
}

/// The watcher's read blocks in state D and survives SIGKILL. nodewarden still reads all other sources. The verdict is
/// unknown for this reason, and a restart starts at most one more process.
#[test]
fn a_kernel_log_that_never_answers_is_unknown_and_affects_nothing_else() {
    let mut node = Node::new();
    node.start();
    node.kmsg.hang_reads(true).unwrap();
    node.kmsg.push(3, "something to read");
    let stuck = node.worker_pid("kernel");
    testkit::proc::wait_for_state(stuck, 'D', LONG).unwrap();

    node.until("the collector is not up", |n| {
        n.metric("nodewarden_collector_up", &[("collector", "kernel_log")]) == Some(0.0)
    });
    assert_eq!(
        node.metric("nodewarden_collector_up", &[("collector", "host")]),
        Some(1.0)
    );
    node.until("unknown", |n| n.cli(&["check"]).0 == Some(2));
    let (_, line, _) = node.cli(&["check"]);
    assert!(line.contains("kernel_log"), "{line}");

    // A restart during the hang: the old process keeps its slot, a new one takes the other.
    node.kill9_parent();
    node.spawn();
    node.until("one stuck slot", |n| {
        n.metric("nodewarden_worker_stuck_slots", &[("worker", "kernel")]) == Some(1.0)
    });
    assert!(
        testkit::proc::Stat::read(stuck).is_some(),
        "the stuck process has ended"
    );
    let second = node.worker_pid("kernel");
    testkit::proc::wait_for_state(second, 'D', LONG).unwrap();

    // A second restart: both slots are held, so no worker is started.
    node.kill9_parent();
    node.spawn();
    node.until("both slots stuck", |n| {
        n.metric("nodewarden_worker_stuck_slots", &[("worker", "kernel")]) == Some(2.0)
    });
    assert!(workers_of(&node, "kernel").is_empty());
    assert_eq!(
        node.metric("nodewarden_worker_up", &[("worker", "kernel")]),
        Some(0.0)
    );
    assert_eq!(
        node.metric("nodewarden_collector_up", &[("collector", "kernel_log")]),
        Some(0.0),
        "the alert NodewardenCollectorDown is silent"
    );
    assert_eq!(
        node.metric("nodewarden_collector_up", &[("collector", "host")]),
        Some(1.0)
    );

    // The read returns: a worker is started automatically.
    node.kmsg.hang_reads(false).unwrap();
    node.wait_ready();
}

#[test]
fn eight_hundred_thousand_lines_of_29_kinds_are_counted_in_few_records() {
    let mut node = Node::new();
    node.start();
    let lines = 800_000;
    node.kmsg.set_ring(testkit::kmsg::Limit::None);
    node.kmsg.flood(lines, |i| {
        format!(
            "NVRM: Xid (PCI:0000:18:00): 95, pid={}, name=python3, Uncontained: LTC TAG ({}, 0x1)",
            1000 + i,
            i % 29
        )
    });
    node.until("all counted", |n| {
        let lost = n
            .metric("nodewarden_kernel_log_lost_records_total", &[])
            .unwrap_or(0.0);
        let seen = n.metric("gpu_xid_errors_total", &[("xid", "95")]).unwrap_or(0.0);
        #[expect(clippy::cast_precision_loss, reason = "small")]
        let all = lines as f64;
        seen + lost >= all
    });
    let incidents = node.open_incidents();
    assert_eq!(incidents.len(), 1, "expected one incident for one GPU");
    let stored = std::fs::metadata(node.state_dir().join("state.json"))
        .unwrap()
        .len();
    assert!(stored < 64 * 1024, "{stored} bytes");
}

#[test]
fn threads_do_not_accumulate_over_a_thousand_scrapes() {
    let mut node = Node::new();
    node.start();
    let threads = |n: &Node| -> usize {
        n.daemon()
            .children()
            .iter()
            .map(|p| testkit::proc::tasks(*p).map_or(0, |t| t.len()))
            .sum()
    };
    node.metrics();
    let before = threads(&node);
    let address = node.address().unwrap();
    for _ in 0..1000 {
        testkit::http::get(&address, "/metrics", &[], LONG).unwrap();
    }
    // A collector with its own cadence starts one thread at its first reading, possibly during the scrapes.
    let own = |spec: &&&Spec| matches!(spec.cadence, Cadence::Every(_));
    let most = before + COLLECTORS.iter().filter(own).count();
    let after = threads(&node);
    assert!(
        after <= most,
        "{after} threads, {before} before, expected at most {most}"
    );
}

#[test]
fn a_scraper_with_a_short_timeout_gets_an_answer_and_affects_nothing_else() {
    let mut node = Node::new();
    node.start();
    let address = node.address().unwrap();
    for _ in 0..50 {
        let headers = [("X-Prometheus-Scrape-Timeout-Seconds", "0.01")];
        let response = testkit::http::get(&address, "/metrics", &headers, LONG).unwrap();
        assert_eq!(response.status, 200);
    }
    for collector in ["kernel_log", "host"] {
        assert_eq!(
            node.metric("nodewarden_collector_up", &[("collector", collector)]),
            Some(1.0)
        );
    }
}

#[test]
fn a_worker_that_stops_answering_is_neither_up_nor_healthy() {
    let mut node = Node::new();
    node.start();
    node.until("healthy", |n| n.cli(&["check"]).0 == Some(0));
    let pid = Pid::from_raw(i32::try_from(node.worker_pid("host")).unwrap());
    kill(pid, Signal::SIGSTOP).unwrap();
    node.until("not up", |n| {
        n.metric("nodewarden_collector_up", &[("collector", "host")]) == Some(0.0)
    });
    assert!(
        node.metric("host_pci_gpus", &[("vendor", "nvidia")]).is_none(),
        "old values are shown"
    );
    let late = node.metric("nodewarden_late_scrapes_total", &[]);
    assert!(late > Some(0.0), "pages without its readings, counted: {late:?}");
    node.until("unknown", |n| n.cli(&["check"]).0 == Some(2));
    kill(pid, Signal::SIGCONT).unwrap();
    node.until("healthy again", |n| n.cli(&["check"]).0 == Some(0));
}
