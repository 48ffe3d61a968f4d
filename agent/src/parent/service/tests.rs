use std::os::unix::net::UnixDatagram;

use super::*;
use health::verdict::Health;

struct Systemd {
    socket: UnixDatagram,
    _dir: tempfile::TempDir,
}

impl Systemd {
    fn with(watchdog: Option<Duration>) -> (Self, Service) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_nonblocking(true).unwrap();
        let notify = NotifySocket::new(path.as_os_str()).unwrap();
        let manager = Manager {
            socket: Some(notify),
            watchdog,
        };
        let service = Service::new(manager, Vec::new(), Mode::Observe);
        (Self { socket, _dir: dir }, service)
    }

    fn heard(&self) -> Vec<String> {
        let mut heard = Vec::new();
        let mut buffer = [0; 4096];
        while let Ok(length) = self.socket.recv(&mut buffer) {
            heard.push(String::from_utf8(buffer[..length].to_vec()).unwrap());
        }
        heard
    }
}

const SICK: Summary = Summary {
    health: Health::Unhealthy,
    open: 1,
};

#[test]
fn ready_is_said_once_over_any_number_of_daemons() {
    let (systemd, mut service) = Systemd::with(None);
    service.ready();
    assert_eq!(systemd.heard(), ["READY=1\nSTATUS=no verdict yet, mode observe"]);
    service.daemon_ended();
    service.ready();
    assert_eq!(systemd.heard(), ["STATUS=the daemon exited and is restarted"]);
}

#[test]
fn the_watchdog_is_fed_by_heartbeats_and_by_nothing_else() {
    let (systemd, mut service) = Systemd::with(Some(Duration::from_secs(60)));
    assert_eq!(service.heartbeat, Duration::from_secs(30));
    service.ready();
    service.summary(SICK);
    service.reloading();
    service.reloaded(Mode::Drain);
    service.stopping();
    let fed = |heard: &[String]| heard.iter().filter(|l| l.contains("WATCHDOG")).count();
    assert_eq!(fed(&systemd.heard()), 0);
    service.alive();
    assert_eq!(systemd.heard(), ["WATCHDOG=1"]);
}

#[test]
fn without_a_watchdog_a_heartbeat_is_not_passed_on() {
    let (systemd, mut service) = Systemd::with(None);
    service.alive();
    assert!(systemd.heard().is_empty());
}

#[test]
fn a_reload_is_told_with_its_time_and_its_end() {
    let (systemd, mut service) = Systemd::with(None);
    // Before the start is over there is nothing to reload.
    service.reloading();
    service.reloaded(Mode::Observe);
    assert!(systemd.heard().is_empty());
    service.ready();
    service.reloading();
    service.reloaded(Mode::Drain);
    let heard = systemd.heard();
    let usec = heard[1].strip_prefix("RELOADING=1\nMONOTONIC_USEC=").unwrap();
    assert!(usec.parse::<u64>().unwrap() > 0);
    assert_eq!(heard[2], "READY=1\nSTATUS=no verdict yet, mode drain");
}

#[test]
fn the_status_line_counts_and_names_nobody() {
    let (systemd, mut service) = Systemd::with(None);
    service.summary(SICK);
    assert!(systemd.heard().is_empty(), "not before it is ready");
    service.ready();
    service.summary(Summary { open: 2, ..SICK });
    assert_eq!(
        systemd.heard(),
        [
            "READY=1\nSTATUS=unhealthy, 1 incident open, mode observe",
            "STATUS=unhealthy, 2 incidents open, mode observe"
        ]
    );
}

#[test]
fn what_did_not_fit_is_sent_again_without_stale_heartbeats() {
    let (systemd, mut service) = Systemd::with(Some(Duration::from_secs(60)));
    while service.socket.as_ref().unwrap().send("full").is_ok() {}
    service.ready();
    service.alive();
    service.stopping();
    let due = service.deadline().unwrap();
    systemd.heard();
    service.unsent.as_mut().unwrap().1 = Instant::now();
    service.retry();
    assert!(due > Instant::now() - RETRY);
    assert_eq!(
        systemd.heard(),
        ["READY=1\nSTATUS=no verdict yet, mode observe\nSTOPPING=1\nSTATUS=stopping"]
    );
    assert_eq!(service.deadline(), None);
}

/// Each was a datagram to the manager.
#[test]
fn a_flood_of_the_daemon_is_limited_and_its_last_summary_arrives() {
    let (systemd, mut service) = Systemd::with(Some(Duration::from_secs(100_000)));
    service.ready();
    assert!(service.summary(SICK));
    for _ in 0..1000 {
        assert!(service.summary(SICK), "an equal one costs nothing");
    }
    assert_eq!(systemd.heard().len(), 2);
    let in_limit = (0..1000)
        .filter(|n| service.summary(Summary { open: 2 + n, ..SICK }))
        .count();
    // 9 are left, and those that fall due meanwhile on a slow machine.
    assert!((9..100).contains(&in_limit), "{in_limit}");
    assert_eq!(systemd.heard().len(), in_limit);
    assert!(service.deadline().is_some());
    service.late_status = Some(Instant::now());
    service.retry();
    assert_eq!(
        systemd.heard(),
        ["STATUS=unhealthy, 1001 incidents open, mode observe"]
    );
    assert_eq!(service.deadline(), None);
    assert_eq!((0..1000).filter(|_| service.alive()).count(), 4);
    assert_eq!(systemd.heard().len(), 4);
}

/// The part of a unit's value that follows `key=`.
fn value<'a>(unit: &'a str, key: &str) -> Vec<&'a str> {
    let lines = unit
        .lines()
        .filter_map(|l| l.strip_prefix(key)?.strip_prefix('='));
    lines.flat_map(str::split_whitespace).collect()
}

#[test]
fn the_unit_leaves_the_capabilities_that_the_parent_keeps_and_every_one_of_a_worker() {
    let unit = include_str!("../../../../systemd/nodewarden.service");
    let mut bounding = value(unit, "CapabilityBoundingSet");
    let kept = sys::processes::PARENT_CAPABILITIES;
    let mut names: Vec<&str> = kept.iter().map(|c| c.name()).collect();
    bounding.sort();
    names.sort();
    assert_eq!(bounding, names);
    for domain in collectors::DOMAINS {
        let missing = domain.capabilities.iter().find(|c| !kept.contains(c));
        assert_eq!(missing, None, "{}", domain.name);
    }
    assert_eq!(value(unit, "KillMode"), ["process"]);
    // ProtectClock= would deny the host worker's call, which changes nothing without that capability.
    assert!(value(unit, "SystemCallFilter").contains(&"clock_adjtime"));
    assert_eq!(value(unit, "ProtectClock"), [""; 0]);
    assert!(!bounding.contains(&"CAP_SYS_TIME"));
}

#[test]
fn the_unit_is_started_again_without_end_and_reaches_no_socket_of_systemd() {
    let unit = include_str!("../../../../systemd/nodewarden.service");
    assert_eq!(value(unit, "StartLimitIntervalSec"), ["0"]);
    assert_eq!(value(unit, "Restart"), ["always"]);
    assert_eq!(
        value(unit, "InaccessiblePaths"),
        [
            "-/run/dbus",
            "-/run/systemd/private",
            "-/run/systemd/io.systemd.Manager"
        ]
    );
}

#[test]
fn the_package_makes_the_users_that_the_program_looks_for() {
    let sysusers = include_str!("../../../../systemd/nodewarden.sysusers");
    let users: Vec<(&str, u32)> = (sysusers.lines())
        .filter_map(|l| {
            let mut words = l.strip_prefix("u ")?.split_whitespace();
            Some((words.next()?, words.next()?.parse().ok()?))
        })
        .collect();
    assert!(users.contains(&("nodewarden", sys::users::DAEMON_UID)));
    for domain in collectors::DOMAINS {
        assert!(users.contains(&(domain.user, domain.uid)), "{}", domain.user);
    }
}
