//! Notifications to systemd and sockets from it. A datagram socket of the test replaces systemd.

use std::net::TcpListener;
use std::os::unix::net::UnixDatagram;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use testkit::proc;

use crate::common::{LONG, Node};

/// Short, so that a test sees several; on a busy machine it sees fewer.
const WATCHDOG: Duration = Duration::from_secs(2);

struct Systemd {
    socket: UnixDatagram,
}

impl Systemd {
    /// Starts the node's parent with systemd's environment.
    fn of(node: &mut Node) -> Self {
        let path = node.path("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        node.env
            .push(("NOTIFY_SOCKET".into(), path.display().to_string()));
        node.env
            .push(("WATCHDOG_USEC".into(), WATCHDOG.as_micros().to_string()));
        Self { socket }
    }

    /// The next datagram, if one arrives within the time.
    fn hear(&self, time: Duration) -> Option<String> {
        self.socket.set_read_timeout(Some(time)).unwrap();
        let mut buffer = [0; 4096];
        let length = self.socket.recv(&mut buffer).ok()?;
        Some(String::from_utf8(buffer[..length].to_vec()).unwrap())
    }

    /// Waits for a datagram with this line.
    fn wait_for(&self, line: &str) -> String {
        let end = Instant::now() + LONG;
        loop {
            let heard = self.hear(end.saturating_duration_since(Instant::now()) + Duration::from_millis(1));
            let heard = heard.unwrap_or_else(|| panic!("{line}: not received"));
            if heard.lines().any(|l| l == line) {
                return heard;
            }
        }
    }

    /// Discards the datagrams received so far.
    fn drain(&self) {
        while self.hear(Duration::from_millis(1)).is_some() {}
    }
}

fn signal(pid: u32, signal: Signal) {
    kill(Pid::from_raw(i32::try_from(pid).unwrap()), signal).unwrap();
}

#[test]
fn systemd_is_notified_of_start_reload_and_stop() {
    let mut node = Node::new();
    let systemd = Systemd::of(&mut node);
    node.spawn();
    let ready = systemd.wait_for("READY=1");
    assert!(ready.contains("STATUS="), "{ready}");
    assert!(node.try_get("/metrics").is_some(), "ready, but does not serve");
    systemd.wait_for("STATUS=healthy, 0 incidents open, mode observe");
    node.xid(0, 79);
    systemd.wait_for("STATUS=unhealthy, 1 incident open, mode observe");

    node.daemon().signal(Signal::SIGHUP).unwrap();
    let reloading = systemd.wait_for("RELOADING=1");
    assert!(reloading.contains("MONOTONIC_USEC="), "{reloading}");
    systemd.wait_for("READY=1");

    node.daemon().signal(Signal::SIGTERM).unwrap();
    systemd.wait_for("STOPPING=1");
    assert!(node.daemon().wait(LONG).unwrap().success());
}

#[test]
fn a_stopped_daemon_sends_no_watchdog_and_is_killed_when_systemd_requests_it() {
    let mut node = Node::new();
    let systemd = Systemd::of(&mut node);
    node.start();
    systemd.wait_for("WATCHDOG=1");
    systemd.wait_for("WATCHDOG=1");
    let core = node.core_pid();
    signal(core, Signal::SIGSTOP);
    proc::wait_for_state(core, 'T', LONG).unwrap();
    // Discard the datagrams sent before.
    std::thread::sleep(WATCHDOG);
    systemd.drain();
    let end = Instant::now() + WATCHDOG * 3;
    while let Some(left) = end.checked_duration_since(Instant::now()) {
        if let Some(heard) = systemd.hear(left + Duration::from_millis(1)) {
            assert!(!heard.contains("WATCHDOG"), "{heard}");
        }
    }
    // A daemon that continues notifies again.
    signal(core, Signal::SIGCONT);
    systemd.wait_for("WATCHDOG=1");

    signal(core, Signal::SIGSTOP);
    proc::wait_for_state(core, 'T', LONG).unwrap();
    let address = node.address().unwrap();
    node.daemon().signal(Signal::SIGABRT).unwrap();
    assert_eq!(node.daemon().wait(LONG).unwrap().code(), Some(1));
    testkit::wait::until_true("the port is free", LONG, || TcpListener::bind(&address).is_ok()).unwrap();
}

/// Without a service manager the parent is the watchdog.
#[test]
fn a_stopped_daemon_is_replaced_by_the_parent_and_shows_nothing_for_2_s_only() {
    let mut node = Node::new();
    node.start();
    let core = node.core_pid();
    // The first heartbeat has been sent: the one at the start.
    node.until("judged", |n| n.cli(&["check"]).0 == Some(0));
    signal(core, Signal::SIGSTOP);
    proc::wait_for_state(core, 'T', LONG).unwrap();
    let (code, _, err) = node.cli(&["status"]);
    assert_eq!(code, Some(2), "{err}");
    // An order waits for 20 s.
    assert!(err.contains("no reply in 2 s"), "{err}");
    node.until("another daemon", |n| {
        n.daemon().children().iter().all(|p| *p != core) && n.try_status().is_some()
    });
}

/// These processes stop for longer than the limit of heartbeats, and the parent is the first that continues.
fn a_stop_kills_no_daemon(with_core: bool) {
    let mut node = Node::new();
    node.start();
    let core = node.core_pid();
    node.until("judged", |n| n.cli(&["check"]).0 == Some(0));
    let daemon = node.daemon();
    let signal = |signal: Signal| {
        daemon.signal(signal).unwrap();
        if with_core {
            std::thread::sleep(Duration::from_secs(1));
            self::signal(core, signal);
        }
    };
    signal(Signal::SIGSTOP);
    proc::wait_for_state(daemon.pid(), 'T', LONG).unwrap();
    std::thread::sleep(Duration::from_secs(32));
    signal(Signal::SIGCONT);
    daemon.signal(Signal::SIGHUP).unwrap();
    daemon.wait_for_line("configuration in force", LONG).unwrap();
    assert_eq!(node.core_pid(), core);
    assert!(!node.daemon().stderr().contains("does not answer"));
}

/// As by a debugger. The daemon's heartbeats waited meanwhile.
#[test]
fn a_parent_that_was_stopped_for_longer_than_the_limit_of_heartbeats_kills_no_daemon() {
    a_stop_kills_no_daemon(false);
}

/// As by a freezer of the unit's cgroup, or a hypervisor.
#[test]
fn a_node_that_was_frozen_for_longer_than_the_limit_of_heartbeats_keeps_its_daemon() {
    a_stop_kills_no_daemon(true);
}

#[test]
fn a_worker_that_hangs_does_not_stop_watchdog_messages() {
    let mut node = Node::new();
    let systemd = Systemd::of(&mut node);
    node.start();
    node.kmsg.hang_reads(true).unwrap();
    node.kmsg.push(3, "something to read");
    proc::wait_for_state(node.worker_pid("kernel"), 'D', LONG).unwrap();
    systemd.drain();
    for _ in 0..4 {
        systemd.wait_for("WATCHDOG=1");
    }
    node.kmsg.hang_reads(false).unwrap();
}

#[test]
fn a_passed_socket_outlives_the_daemon_and_only_the_daemon_answers_on_it() {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap().to_string();
    let mut node = Node::new();
    node.socket = Some(socket);
    // The inherited socket already serves the configured address; a second bind would fail with "address in use".
    node.arg(&["--listen", &address, "--listen", "127.0.0.1:0"]);
    let get = |address: &str| testkit::http::get(address, "/metrics", &[], LONG).unwrap().status;
    node.start();
    assert_eq!(get(&address), 200);
    let other = node.address().unwrap();
    assert_ne!(other, address);
    assert_eq!(get(&other), 200, "a different address is not served");

    for _ in 0..2 {
        let core = node.core_pid();
        signal(core, Signal::SIGKILL);
        // No process accepts connections now, and none is refused.
        assert_eq!(get(&address), 200);
        assert_ne!(node.core_pid(), core);
    }
}

/// Any user may take the port between two starts, and health checks must not end for it.
#[test]
fn a_service_whose_port_is_taken_judges_the_node_and_serves_when_the_port_is_free() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let mut node = Node::new();
    let systemd = Systemd::of(&mut node);
    node.arg(&["--listen", &address, "--listen", "127.0.0.1:0"]);
    node.start();
    systemd.wait_for("READY=1");
    node.until("a verdict", |n| n.cli(&["check"]).0 == Some(0));
    let stderr = node.daemon().stderr();
    let waits = format!("listen: cannot listen on {address}: Address already in use");
    assert!(stderr.contains(&waits) && stderr.contains("retrying"), "{stderr}");

    drop(taken);
    node.until("the port is served", |_| {
        testkit::http::get(&address, "/metrics", &[], LONG).is_ok_and(|r| r.status == 200)
    });
}

#[test]
fn a_socket_of_another_kind_is_a_named_start_up_error() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let mut node = Node::new();
    node.socket = Some(TcpListener::from(std::os::fd::OwnedFd::from(stream)));
    node.spawn();
    assert_eq!(node.daemon().wait(LONG).unwrap().code(), Some(1));
    let stderr = node.daemon().stderr();
    assert!(
        stderr.contains("descriptor 3 (\"metrics\")") && stderr.contains("expected a listening TCP socket"),
        "{stderr}"
    );
}

#[test]
fn children_cannot_notify_systemd() {
    let mut node = Node::new();
    let _systemd = Systemd::of(&mut node);
    node.start();
    for pid in [
        node.core_pid(),
        node.worker_pid("kernel"),
        node.worker_pid("host"),
    ] {
        let environ = proc::environ(pid).unwrap();
        let leaked: Vec<_> = environ
            .iter()
            .filter(|e| {
                ["NOTIFY_", "WATCHDOG_", "LISTEN_"]
                    .iter()
                    .any(|p| e.starts_with(p))
            })
            .collect();
        assert!(leaked.is_empty(), "{leaked:?}");
    }
}
