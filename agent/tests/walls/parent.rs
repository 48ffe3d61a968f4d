//! What the daemon's user can do to root's parent and to the next daemon: files that it leaves, and packets that it sends.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

use health::audit::{Entry, Kind};
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, mkfifo};
use nodewarden::link::ToParent;
use sys::users::DAEMON_UID;

use crate::common::{GPUS, LONG, Node, program};

/// A FIFO of the daemon's user: to open it waits for a writer that never comes.
fn fifo(path: &Path) {
    mkfifo(path, Mode::from_bits_truncate(0o644)).unwrap();
    chown(path, Some(DAEMON_UID), Some(DAEMON_UID)).unwrap();
}

fn has_aside(dir: &Path, name: &str) -> bool {
    let prefix = format!("{name}.bad-");
    let mut entries = fs::read_dir(dir).unwrap().flatten();
    entries.any(|e| e.file_name().to_string_lossy().starts_with(&prefix))
}

/// A node that ran before.
fn stopped() -> Node {
    let mut node = Node::new();
    node.start();
    node.stop();
    node
}

/// The parent hung at the first look at the node, before any worker ran.
#[test]
fn a_fifo_in_place_of_the_parents_memory_of_its_drain_hangs_nothing() {
    let mut node = stopped();
    fifo(&node.state_dir().join("own-drain"));
    node.set("slurm.poll=\"1s\"").start();
    // The parent has carried out a look at the node, and goes on.
    node.until("a look", |n| !n.try_view()["drain"].is_null());
    std::thread::sleep(std::time::Duration::from_secs(2));
    let parent = Pid::from_raw(node.daemon().pid().try_into().unwrap());
    kill(parent, Signal::SIGHUP).unwrap();
    node.daemon()
        .wait_for_line("configuration in force", LONG)
        .unwrap();
    let own = node.state_dir().join("parent").metadata().unwrap();
    assert_eq!((own.uid(), own.mode() & 0o7777), (0, 0o700));
}

/// The daemon did not come up, over restarts and reboots.
#[test]
fn a_record_that_is_no_file_is_renamed_and_the_daemon_starts_without() {
    let mut node = Node::new();
    node.start();
    // Without an event there may be no record.
    node.xid(0, 31);
    node.until_stored("\"31\"");
    node.stop();
    let record = node.state_dir().join("state.json");
    fs::remove_file(&record).unwrap();
    fifo(&record);
    node.start();
    node.until("a new record", |_| {
        record.metadata().is_ok_and(|found| found.is_file())
    });
    let aside = fs::read_dir(node.state_dir()).unwrap().flatten();
    let aside: Vec<_> = aside
        .filter(|e| e.file_name().to_string_lossy().starts_with("state.json.bad-"))
        .collect();
    assert_eq!(aside.len(), 1);
    assert!(aside[0].file_type().unwrap().is_fifo());
    let stderr = node.daemon().stderr();
    assert!(
        stderr.contains("found a FIFO, expected a regular file"),
        "{stderr}"
    );
}

/// A line of an ended job, read back at the start.
#[test]
fn links_and_fifos_in_place_of_the_lines_of_jobs_are_not_read() {
    let mut node = stopped();
    let lines = node.state_dir().join("jobs.jsonl");
    let secret = node.path("secret");
    fs::write(&secret, "root's own line\n").unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o644)).unwrap();
    std::os::unix::fs::symlink(&secret, &lines).unwrap();
    fifo(&node.state_dir().join("jobs.jsonl.1"));
    node.start();
    let stderr = node.daemon().stderr();
    assert!(
        stderr.contains("found a symbolic link, expected a regular file"),
        "{stderr}"
    );
    assert!(
        stderr.contains("found a FIFO, expected a regular file"),
        "{stderr}"
    );
}

/// The last good configuration, the lock slots and the records of hooks have names that the daemon's user took first.
#[test]
fn names_that_the_daemon_took_first_block_nothing() {
    let mut node = Node::new();
    let file = node.path("node.toml");
    fs::write(&file, "[health]\nmode = \"comment\"\n").unwrap();
    node.arg(&["--config", file.to_str().unwrap()]);
    node.start();
    node.stop();
    let run = node.run_dir();
    // The name that it had before.
    let last_good = run.join("config.last-good");
    fs::remove_file(&last_good).ok();
    fs::create_dir(&last_good).unwrap();
    for name in ["parent", "slots", "jobs"] {
        fs::remove_dir_all(run.join(name)).ok();
        fifo(&run.join(name));
    }
    node.start();
    for name in ["parent", "slots", "jobs"] {
        assert!(has_aside(&run, name), "{name}");
    }
    // A folder of the daemon's user, with a job of its own making.
    fs::remove_dir_all(run.join("jobs")).unwrap();
    fs::create_dir(run.join("jobs")).unwrap();
    chown(run.join("jobs"), Some(DAEMON_UID), Some(DAEMON_UID)).unwrap();
    let mut hook = Command::new(program());
    hook.args(["hook", "prolog", "--run-dir"]).arg(&run);
    assert!(
        hook.env_clear()
            .env("SLURM_JOB_ID", "7")
            .status()
            .unwrap()
            .success()
    );
    assert_eq!(run.join("jobs").metadata().unwrap().uid(), 0);
    assert!(run.join("jobs/7.toml").is_file());
    // The configuration was kept: a bad one does not end the next start.
    node.stop();
    fs::write(&file, "[health]\nmode = \"x\"\n").unwrap();
    node.start();
    assert_eq!(node.metric("nodewarden_config_error", &[]), Some(1.0));
}

/// Under `ulimit -f 0` the first write ended the parent by SIGXFSZ.
#[test]
fn a_limit_of_file_sizes_is_reported_and_ends_nothing() {
    let mut node = Node::new();
    // The files of the test's own output are written by processes without the limit.
    node.shell = Some("exec > >(exec cat) 2> >(exec cat >&2)\nulimit -f 0".to_owned());
    node.start();
    for line in [
        "cannot write this process's pid into the lock file",
        "cannot store the last good configuration",
        "cannot write the verdict",
    ] {
        node.daemon().wait_for_line(line, LONG).unwrap();
    }
    let parent = Pid::from_raw(node.daemon().pid().try_into().unwrap());
    kill(parent, Signal::SIGHUP).unwrap();
    node.daemon()
        .wait_for_line("configuration in force", LONG)
        .unwrap();
    assert_eq!(node.cli(&["status"]).0, Some(0));
    // Children are started with the default action: each program decides for itself.
    let ignored = |pid: u32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status.lines().find_map(|l| l.strip_prefix("SigIgn:\t")).unwrap();
        u64::from_str_radix(line, 16).unwrap()
    };
    let bit = |signal: Signal| 1_u64 << (signal as i32 - 1);
    for pid in [node.core_pid(), node.worker_pid("host")] {
        assert_eq!(ignored(pid), bit(Signal::SIGXFSZ) | bit(Signal::SIGPIPE));
    }
}

#[test]
fn children_inherit_no_descriptor_of_the_parents_launcher() {
    let mut node = Node::new();
    let secret = node.path("secret");
    fs::write(&secret, "").unwrap();
    let path = secret.display();
    // The last one is above the limit that a kernel without close_range(2) would close one by one.
    node.shell = Some(format!(
        "exec 7<{path} 77<{path}\nexec 1000<{path}\nulimit -Sn 512"
    ));
    node.start();
    let leaked = |pid: u32| {
        let fds = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
        fds.filter(|fd| fs::read_link(fd.path()).is_ok_and(|to| to == secret))
            .count()
    };
    assert_eq!(leaked(node.daemon().pid()), 3, "the parent has them");
    let children = node.daemon().children();
    assert!(children.len() > 5, "{children:?}");
    for pid in children {
        assert_eq!(
            leaked(pid),
            0,
            "{}",
            fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap()
        );
    }
}

/// Sends packets as the daemon: through its own end of the socket to the parent.
fn send_as_daemon(node: &Node, packet: &[u8], times: u32) {
    let script = "import ctypes, os, socket, sys, time
libc = ctypes.CDLL(None, use_errno=True)
pid, packet, times = int(sys.argv[1]), bytes.fromhex(sys.argv[2]), int(sys.argv[3])
pidfd = libc.syscall(434, pid, 0)
for fd in sorted(map(int, os.listdir(f'/proc/{pid}/fd'))):
    if not os.readlink(f'/proc/{pid}/fd/{fd}').startswith('socket:'): continue
    s = socket.socket(fileno=libc.syscall(438, pidfd, fd, 0))
    if s.type & 0xf == socket.SOCK_SEQPACKET: break
    s.detach()
else: sys.exit('no socket')
for n in range(times):
    try: s.send(packet); time.sleep(0.005)
    except OSError as e: print(e); break
";
    let hex: String = packet.iter().map(|b| format!("{b:02x}")).collect();
    let pid = node.core_pid().to_string();
    let sent = Command::new("python3")
        .args(["-c", script, &pid, &hex, &times.to_string()])
        .output()
        .unwrap();
    assert!(sent.status.success(), "{sent:?}");
}

fn lines(node: &Node, part: &str) -> usize {
    node.daemon()
        .stderr()
        .lines()
        .filter(|l| l.contains(part))
        .count()
}

/// Each was logged, 2,000 lines for 2,000 packets, and the daemon went on.
#[test]
fn a_daemon_that_sends_garbage_is_restarted_with_one_log_line() {
    let mut node = Node::new();
    node.start();
    let parent = node.daemon().pid();
    for (n, packet) in [&b"\xff\xff\xff\xff"[..], b"\x05\x63\x00"]
        .into_iter()
        .enumerate()
    {
        let before = node.core_pid();
        send_as_daemon(&node, packet, 20);
        node.until("another daemon", |node| {
            node.daemon().children().iter().all(|pid| *pid != before) && node.try_status().is_some()
        });
        node.wait_ready();
        assert_eq!(lines(&node, "protocol error from the daemon"), n + 1);
    }
    assert_eq!(node.daemon().pid(), parent);
}

/// 32 runs of scontrol each second, and as many answers.
#[test]
fn a_flood_of_requests_is_refused_with_a_log_line_a_minute() {
    let mut node = Node::new();
    node.start();
    // Look, at up to 200 each second.
    send_as_daemon(&node, b"\x03", 300);
    node.daemon()
        .wait_for_line("too many requests to read the node", LONG)
        .unwrap();
    assert_eq!(lines(&node, "too many requests to read the node"), 1);
    assert!(lines(&node, "answers to the daemon lost") <= 1);
    assert_eq!(node.cli(&["status"]).0, Some(0), "the daemon goes on");
}

/// Each ended a worker, and Free started another one at once.
#[test]
fn a_flood_of_holds_is_refused_with_a_log_line_a_minute() {
    let mut node = Node::new();
    node.start();
    let host = node.worker_pid("host");
    // Hold of worker 0.
    send_as_daemon(&node, b"\x05\x00\x01", 100);
    let line = "too many releases of drivers";
    node.daemon().wait_for_line(line, LONG).unwrap();
    assert_eq!(lines(&node, line), 1);
    assert_eq!(node.worker_pid("host"), host);
}

/// The command runs as root: its input is JSON, and node and host are the parent's.
#[test]
fn a_flood_of_notifications_is_ten_and_forges_neither_node_nor_host() {
    let mut node = Node::new();
    let sent = node.path("sent");
    let script = format!("cat >> {0} && echo >> {0}", sent.display());
    node.set(&format!(
        "commands.pager={{command=[\"/bin/sh\",\"-c\",{script:?}],timeout=\"30s\"}}"
    ));
    node.set("notify.command=\"pager\"");
    node.start();
    let entry = Entry {
        why: Some("x\",\"host\":\"forged".to_owned()),
        ..Entry::new(Kind::Written, 1_700_000_000)
    };
    let packet = postcard::to_stdvec(&ToParent::Notify(Box::new(entry))).unwrap();
    send_as_daemon(&node, &packet, 300);
    let count = |result| node.metric("nodewarden_notifications_total", &[("result", result)]);
    node.until("all are counted", |_| {
        count("ok") == Some(10.0) && count("suppressed").is_some_and(|n| n > 0.0)
    });
    let text = fs::read_to_string(&sent).unwrap();
    let lines: Vec<serde_json::Value> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(lines.len(), 10);
    for line in &lines {
        assert_ne!(line["host"], "forged");
        assert_eq!(line["event"], "written");
    }
    assert!((1..10).contains(&self::lines(&node, "at most 10 notifications in an hour")));
    assert_eq!(count("failed"), Some(0.0));
}

/// With a position far ahead, the node was healthy and a following Xid 79 was passed over.
#[test]
fn a_stored_position_ahead_of_the_kernel_log_hides_no_fault() {
    let mut node = Node::new();
    node.start();
    node.xid(0, 31);
    node.wait_xids(0, 31, 1.0);
    let record = node.state_dir().join("state.json");
    node.until_stored("\"31\"");
    node.kill9();
    let text = fs::read_to_string(&record).unwrap();
    let (_, inner) = text.split_once("\"record\":").unwrap_or(("", &text));
    let is_sealed = inner.len() < text.len();
    let mut state: serde_json::Value = serde_json::from_str(if is_sealed {
        &inner[..inner.len() - 1]
    } else {
        inner
    })
    .unwrap();
    state["cursors"]["kernel_log"]["seq"] = 1_000_000.into();
    let inner = state.to_string();
    let mut crc = flate2::Crc::new();
    crc.update(inner.as_bytes());
    let sealed = format!(
        "{{\"version\":3,\"crc32\":\"{:08x}\",\"record\":{inner}}}",
        crc.sum()
    );
    fs::write(&record, if is_sealed { sealed } else { inner }).unwrap();
    node.start();
    node.xid(3, 79);
    let gpu = format!("pci:{}", GPUS[3]);
    node.until("an incident", |n| {
        n.open_incidents()
            .iter()
            .any(|i| i["subject"].to_string().contains(&gpu))
    });
    assert_eq!(lines(&node, "is ahead of the newest record"), 1);
}
