//! Rights of each process, and system calls of the daemon's main thread.
//!
//! Needs root and strace.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    unreachable_pub,
    missing_docs,
    reason = "a test fails by panicking, and looks at the process from outside"
)]

#[path = "../common/mod.rs"]
mod common;

use std::collections::BTreeSet;

use collectors::DOMAINS;
use collectors::domain::{self, Capability};
use common::{LONG, Node};
use testkit::proc::Status;
use testkit::strace::{Strace, names};

#[test]
fn every_worker_has_the_ids_and_capabilities_of_its_domain_and_no_more() {
    let mut node = Node::new();
    node.add_every_source();
    node.start();
    for domain in DOMAINS {
        let status = Status::read(node.worker_pid(domain.name)).unwrap();
        assert_eq!(status.uid().unwrap(), [domain.uid; 4], "{}", domain.name);
        assert_eq!(status.gid().unwrap(), [domain.uid; 4], "{}", domain.name);
        assert!(status.groups().unwrap().is_empty(), "{}", domain.name);
        let mask = domain.capability_mask();
        assert_eq!(status.cap_eff().unwrap(), mask, "{}", domain.name);
        assert_eq!(status.cap_prm().unwrap(), mask, "{}", domain.name);
        assert_eq!(status.cap_bnd().unwrap(), mask, "{}", domain.name);
        assert_eq!(status.cap_amb().unwrap(), 0, "{}", domain.name);
        assert!(status.no_new_privs().unwrap(), "{}", domain.name);
    }
}

/// Where the kernel shows no wait channel, the call is the only proof that a driver hangs. Its file belongs to root in a process
/// that may not be dumped.
#[test]
fn every_worker_without_a_right_reads_its_own_calls_and_a_gpus_leaves_no_core_dump() {
    use std::os::unix::fs::MetadataExt;
    let mut node = Node::new();
    node.add_every_source();
    node.start();
    for domain in DOMAINS {
        let folder = format!("/proc/{}", node.worker_pid(domain.name));
        let owner = std::fs::metadata(format!("{folder}/syscall")).unwrap().uid();
        let reads = domain.capabilities.is_empty();
        assert_eq!(owner, if reads { domain.uid } else { 0 }, "{}", domain.name);
        let limits = std::fs::read_to_string(format!("{folder}/limits")).unwrap();
        let limits = limits.lines().find_map(|l| l.strip_prefix("Max core file size"));
        let limits: Vec<&str> = limits.unwrap().split_whitespace().take(2).collect();
        if domain.signals == domain::Signals::Never {
            assert_eq!(limits, ["1", "1"], "{}", domain.name);
        }
    }
}

#[test]
fn the_daemon_has_no_capability_at_all() {
    let mut node = Node::new();
    node.start();
    let status = Status::read(node.core_pid()).unwrap();
    assert_eq!(status.uid().unwrap(), [sys::users::DAEMON_UID; 4]);
    for mask in [
        status.cap_eff(),
        status.cap_prm(),
        status.cap_bnd(),
        status.cap_amb(),
    ] {
        assert_eq!(mask.unwrap(), 0);
    }
    assert!(status.no_new_privs().unwrap());
}

#[test]
fn only_the_daemon_listens() {
    let mut node = Node::new();
    node.add_every_source();
    node.start();
    let address = node.address().unwrap();
    let port: u16 = address.rsplit(':').next().unwrap().parse().unwrap();
    let listening = |pid: u32| -> bool {
        let inodes: BTreeSet<String> = std::fs::read_dir(format!("/proc/{pid}/fd"))
            .unwrap()
            .flatten()
            .filter_map(|fd| std::fs::read_link(fd.path()).ok()?.to_str().map(str::to_owned))
            .collect();
        let tcp = std::fs::read_to_string("/proc/net/tcp").unwrap();
        tcp.lines().any(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            fields
                .get(1)
                .is_some_and(|local| local.ends_with(&format!(":{port:04X}")))
                && fields.get(3) == Some(&"0A")
                && fields
                    .get(9)
                    .is_some_and(|inode| inodes.contains(&format!("socket:[{inode}]")))
        })
    };
    assert!(listening(node.core_pid()));
    assert!(!listening(node.daemon().pid()), "the parent has no listener");
    for domain in DOMAINS {
        assert!(!listening(node.worker_pid(domain.name)), "{}", domain.name);
    }
}

#[test]
fn threads_have_names() {
    let mut node = Node::new();
    node.start();
    node.metrics();
    let children = node.daemon().children();
    assert!(children.len() > 5, "{children:?}");
    for pid in children {
        for (tid, name) in testkit::proc::task_comms(pid).unwrap() {
            assert!(
                tid == pid || !name.starts_with("nodewarden"),
                "thread {tid} of {pid} is called {name}"
            );
            assert!(!name.starts_with("exe"), "{name}");
        }
    }
}

/// Reads and writes on descriptors that cannot block, waiting, clocks and memory: nothing else on the thread that must
/// always answer.
const ALLOWED: &[&str] = &[
    "epoll_wait",
    "epoll_pwait",
    // Watching a worker's socket that was handed over, and room to write.
    "epoll_ctl",
    "futex",
    "read",
    "write",
    "recvfrom",
    "sendto",
    "recvmsg",
    "fcntl",
    "ioctl",
    "close",
    "clock_gettime",
    "mmap",
    "munmap",
    "mremap",
    "madvise",
    "brk",
    "mprotect",
    "sched_yield",
    "restart_syscall",
    "rt_sigreturn",
];

#[test]
fn the_cores_thread_never_asks_for_anything_that_may_block() {
    let mut node = Node::new();
    node.set("health.mode=\"drain\"");
    node.start();
    let core = node.core_pid();
    let strace = Strace::attach_task(core).unwrap();
    // Scrapes, ticks, events, an incident, a record, orders, a worker that is lost and replaced.
    for _ in 0..20 {
        node.metrics();
    }
    node.xid(3, 79);
    node.until("an incident", |n| n.open_incidents().len() == 1);
    let id = node.open_incidents()[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(node.cli(&["ack", &id, "--reason", "x"]).0, Some(0));
    let worker = node.worker_pid("host");
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(i32::try_from(worker).unwrap()),
        nix::sys::signal::Signal::SIGKILL,
    )
    .unwrap();
    node.until("host is back", |n| {
        n.metric("nodewarden_worker_starts_total", &[("worker", "host")]) == Some(2.0)
            && n.metric("nodewarden_collector_up", &[("collector", "host")]) == Some(1.0)
    });
    assert_eq!(node.cli(&["clear", &id, "--reason", "x"]).0, Some(0));
    let calls = strace.finish().unwrap();
    let names = names(&calls);
    let seen = names.get(&core).cloned().unwrap_or_default();
    assert!(
        seen.contains("epoll_wait") || seen.contains("epoll_pwait"),
        "the trace saw the core: {seen:?}"
    );
    let forbidden: Vec<&String> = seen
        .iter()
        .filter(|name| !ALLOWED.contains(&name.as_str()))
        .collect();
    assert!(forbidden.is_empty(), "{forbidden:?}");
    assert!(calls.len() > 50, "{} calls", calls.len());
}

#[test]
fn without_root_it_runs_and_says_what_is_missing() {
    use std::os::unix::process::CommandExt;
    let node = Node::new();
    let home = node.path("home");
    std::fs::create_dir(&home).unwrap();
    std::os::unix::fs::chown(&home, Some(5), Some(5)).unwrap();
    let mut command = std::process::Command::new(common::program());
    command
        .args([
            "run",
            "--listen",
            "127.0.0.1:0",
            "--set",
            "kernel_log.path=\"/dev/kmsg\"",
        ])
        .arg("--sysroot")
        .arg(node.path("root"))
        .arg("--run-dir")
        .arg(home.join("run"))
        .arg("--state-dir")
        .arg(home.join("state"))
        .uid(5)
        .gid(5);
    let daemon = testkit::daemon::Daemon::start(command).unwrap();
    daemon.wait_for_line("listening on", LONG).unwrap();
    assert!(daemon.stderr().contains("not root"), "{}", daemon.stderr());
    let address = daemon
        .stdout()
        .trim()
        .trim_start_matches("listening on http://")
        .to_owned();
    testkit::wait::until_true("host is read", LONG, || {
        let page = testkit::http::get(&address, "/metrics", &[], LONG).unwrap();
        page.text()
            .unwrap()
            .contains("host_pci_gpus{vendor=\"nvidia\"} 8")
    })
    .unwrap();
    let children = daemon.children();
    assert!(children.len() > 5, "{children:?}");
    for pid in children {
        assert_eq!(Status::read(pid).unwrap().uid().unwrap(), [5; 4]);
    }
    // /dev/kmsg without CAP_SYSLOG: dmesg_restrict decides; if it denies access, the reason is shown.
    let restricted = std::fs::read_to_string("/proc/sys/kernel/dmesg_restrict")
        .unwrap()
        .trim()
        == "1";
    let wanted = if restricted {
        "state=\"failed\",reason=\"denied\""
    } else {
        "state=\"ok\",reason=\"\""
    };
    testkit::wait::until_true("the kernel log's state", LONG, || {
        let page = testkit::http::get(&address, "/metrics", &[], LONG).unwrap();
        let line = format!("nodewarden_collector_state_info{{collector=\"kernel_log\",{wanted}}} 1");
        page.text().unwrap().contains(&line)
    })
    .unwrap();
}

/// Rights that its container has not are missing, and the processes run.
#[test]
fn what_a_container_has_taken_away_is_missing_and_nothing_else() {
    let node = Node::new();
    node.add_every_source();
    let home = node.path("home");
    let mut command = std::process::Command::new("setpriv");
    command
        .args(["--bounding-set", "-sys_ptrace,-sys_admin"])
        .arg(common::program())
        .args(["run", "--listen", "127.0.0.1:0"])
        .arg("--sysroot")
        .arg(node.path("root"))
        .arg("--run-dir")
        .arg(home.join("run"))
        .arg("--state-dir")
        .arg(home.join("state"));
    let daemon = testkit::daemon::Daemon::start(command).unwrap();
    daemon.wait_for_line("listening on", LONG).unwrap();
    let missing = Capability::SysPtrace.mask() | Capability::SysAdmin.mask();
    assert_ne!(domain::PROC.capability_mask() & !missing, 0);
    for helper in domain::helpers() {
        let expected = helper.capability_mask() & !missing;
        let is_it = |pid: u32| {
            let status = Status::read(pid).ok();
            status.is_some_and(|s| {
                s.uid().is_ok_and(|uid| uid == [helper.uid; 4])
                    && s.cap_eff().is_ok_and(|mask| mask == expected)
            })
        };
        testkit::wait::until_true("the helper's rights", LONG, || {
            daemon.children().into_iter().any(is_it)
        })
        .unwrap();
    }
}

#[test]
fn a_kernel_log_that_may_not_be_read_is_unknown_with_its_reason() {
    use std::os::unix::fs::PermissionsExt;
    let mut node = Node::new();
    let secret = node.path("secret");
    std::fs::write(&secret, "").unwrap();
    std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o600)).unwrap();
    node.set(&format!("kernel_log.path={secret:?}"));
    node.spawn();
    node.until("the reason shows", |n| {
        n.metric(
            "nodewarden_collector_state_info",
            &[
                ("collector", "kernel_log"),
                ("state", "failed"),
                ("reason", "denied"),
            ],
        ) == Some(1.0)
    });
    node.until("unknown for that reason", |n| {
        let (code, line, _) = n.cli(&["check"]);
        code == Some(2) && line.contains("kernel_log")
    });
}
