//! Wake-ups of an idle node without scrapes.

use testkit::strace::{Strace, TracedCall};

use crate::common::{LONG, Node};

/// Calls that returned because of a time-out.
fn timed(calls: &[TracedCall]) -> usize {
    let over = |c: &&TracedCall| c.text.contains("(Timeout)") || c.text.contains("ETIMEDOUT");
    calls.iter().filter(over).count()
}

/// Health ticks: each causes one read request.
fn asked(calls: &[TracedCall]) -> usize {
    let reads = |c: &&TracedCall| c.name == "write" || c.name == "sendto";
    calls.iter().filter(reads).count()
}

/// Counts wake-ups, not times: between two health ticks, no worker may wake by its own timer.
#[test]
fn idle_workers_have_no_timer_wakeups() {
    let mut node = Node::new();
    node.start();
    node.until("healthy", |n| n.cli(&["check"]).0 == Some(0));
    // After the start, the interval between ticks grows; the last short one is less than 15 s away.
    let kernel = Strace::attach(node.worker_pid("kernel")).unwrap();
    let host = Strace::attach(node.worker_pid("host")).unwrap();
    let patience = LONG + LONG;
    for worker in [kernel, host] {
        let calls = worker.finish_when(patience, |calls| asked(calls) >= 3).unwrap();
        // Once after its start, a worker checks that it could open everything.
        assert!(timed(&calls) <= 1, "{calls:?}");
        let answers = asked(&calls);
        let polls = calls.iter().filter(|c| c.name == "poll").count();
        // One wait for the socket for each answer, plus the calls in progress when strace attached and detached.
        assert!(polls <= 2 * answers + 4, "{polls} polls for {answers} answers");
    }
}

#[test]
fn the_idle_parent_has_no_timer_wakeups() {
    let mut node = Node::new();
    node.start();
    let host = Strace::attach(node.worker_pid("host")).unwrap();
    let parent = Strace::attach(node.daemon().pid()).unwrap();
    host.finish_when(LONG + LONG, |calls| asked(calls) >= 2).unwrap();
    let calls = parent.finish().unwrap();
    let woken = calls
        .iter()
        .filter(|c| c.name.starts_with("epoll_") && c.text.ends_with("= 0"))
        .count();
    assert_eq!(woken, 0, "{calls:?}");
}
