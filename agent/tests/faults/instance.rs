//! Two daemons, a port in use, a daemon that is down.

use std::net::TcpListener;
use std::path::Path;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use testkit::fuse_hang::FuseHang;

use crate::common::{LONG, Node, program};

/// Starts another instance on the node's state directory, which must not come up.
fn refused_naming_the_holder(node: &Node, run_dir: &Path) {
    let output = std::process::Command::new(program())
        .args(["run", "--listen", "127.0.0.1:0"])
        .arg("--config")
        .arg(node.path("empty.toml"))
        .arg("--run-dir")
        .arg(run_dir)
        .arg("--state-dir")
        .arg(node.state_dir())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        stderr.contains(&format!("pid {}", node.daemon().pid())),
        "{stderr}"
    );
}

#[test]
fn a_second_instance_names_the_holder() {
    let mut node = Node::new();
    node.start();
    refused_naming_the_holder(&node, &node.run_dir());
    assert_eq!(node.cli(&["status"]).0, Some(0), "the first one goes on");
}

#[test]
fn a_port_in_use_ends_the_start_and_names_the_address() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let mut node = Node::new();
    node.arg(&["--listen", &address]);
    node.spawn();
    let status = node.daemon().wait(LONG).unwrap();
    assert_eq!(status.code(), Some(1));
    let stderr = node.daemon().stderr();
    assert!(stderr.contains(&address) && stderr.contains("in use"), "{stderr}");
}

#[test]
fn commands_say_that_the_daemon_is_down() {
    let node = Node::new();
    for args in [
        &["status"][..],
        &["why"],
        &["ack", "abcdefgh", "--reason", "x"],
        &["clear", "abcdefgh", "--reason", "x"],
    ] {
        let (code, _, stderr) = node.cli(args);
        assert_eq!(code, Some(2), "{args:?}");
        assert!(
            stderr.contains("not running") || stderr.contains("control.sock"),
            "{stderr}"
        );
    }
    assert_eq!(node.cli(&["check"]).0, Some(2));
}

#[test]
fn a_stopped_daemon_leaves_nothing_behind_and_no_verdict() {
    let mut node = Node::new();
    node.start();
    node.until("healthy", |n| n.cli(&["check"]).0 == Some(0));
    let pids = node.daemon().children();
    node.stop();
    testkit::wait::until_true("no process is left", LONG, || {
        pids.iter()
            .all(|p| testkit::proc::Stat::read(*p).is_none_or(|s| !s.alive()))
    })
    .unwrap();
    let (code, out, _) = node.cli(&["check"]);
    assert_eq!(code, Some(2), "no longer said to be healthy: {out}");
    node.start();
    node.until("healthy", |n| n.cli(&["check"]).0 == Some(0));
}

#[test]
fn check_reads_the_verdict_and_needs_no_path() {
    let mut node = Node::new();
    node.start();
    node.until("healthy", |n| n.cli(&["check"]).0 == Some(0));
    let output = std::process::Command::new(program())
        .env_clear()
        .arg("check")
        .arg("--run-dir")
        .arg(node.run_dir())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8(output.stdout).unwrap().lines().count(), 1);
    std::fs::write(node.run_dir().join("verdict"), b"nonsense").unwrap();
    let (code, line, _) = node.cli(&["check"]);
    // The daemon may have written a new file meanwhile; its verdict is then healthy again.
    assert!(
        code == Some(2) && line.starts_with("unknown") || code == Some(0),
        "{line}"
    );
}

#[test]
fn folders_of_others_are_not_taken_over() {
    let mut node = Node::new();
    let foreign = node.path("foreign");
    std::fs::create_dir(&foreign).unwrap();
    std::fs::write(foreign.join("precious"), "x").unwrap();
    node.arg(&["--run-dir", foreign.to_str().unwrap()]);
    node.spawn();
    assert_ne!(node.daemon().wait(LONG).unwrap().code(), Some(0));
    assert!(
        node.daemon().stderr().contains("foreign"),
        "{}",
        node.daemon().stderr()
    );
    use std::os::unix::fs::MetadataExt;
    assert_eq!(std::fs::metadata(&foreign).unwrap().mode() & 0o7777, 0o755);
}

/// The lock that the first start left in it made it our own at the second.
#[test]
fn a_state_directory_of_others_is_never_written_to() {
    use std::os::unix::fs::MetadataExt;
    let mut node = Node::new();
    let state = node.state_dir();
    std::fs::create_dir(&state).unwrap();
    std::fs::write(state.join("messages"), "x").unwrap();
    for _ in 0..2 {
        node.start();
        node.daemon().wait_for_line("foreign files", LONG).unwrap();
        // Something to record.
        node.xid(0, 31);
        node.until("no record", |n| {
            n.metric("nodewarden_store_errors_total", &[]) > Some(0.0)
        });
        node.until("healthy", |n| n.cli(&["check"]).0 == Some(0));
        let (code, _, stderr) = node.cli(&["pause", "--for", "2h", "--reason", "driver"]);
        assert_eq!(code, Some(1), "{stderr}");
        assert!(
            stderr.contains("paused for 120 min")
                && stderr.contains("NOT STORED (the state directory is not"),
            "{stderr}"
        );
        node.stop();
        assert_eq!(std::fs::read_dir(&state).unwrap().count(), 1);
        let found = std::fs::metadata(&state).unwrap();
        assert_eq!((found.mode() & 0o7777, found.gid()), (0o755, 0));
    }
}

/// The parent waited for it, before any check.
#[test]
fn a_node_whose_state_disk_hangs_is_watched_all_the_same() {
    let mut node = Node::new();
    let disk = FuseHang::mount(node.state_dir()).unwrap();
    disk.freeze();
    node.start();
    node.daemon().wait_for_line("no answer within", LONG).unwrap();
    node.until("healthy", |n| n.cli(&["check"]).0 == Some(0));
    node.xid(3, 79);
    node.until("unhealthy", |n| n.cli(&["check"]).0 == Some(1));
}

#[test]
fn two_instances_do_not_share_a_state_directory() {
    let mut node = Node::new();
    node.start();
    refused_naming_the_holder(&node, &node.path("run2"));
}

/// A cloned disk: a GPU that the other node lost must not drain the new node.
#[test]
fn the_record_of_another_machine_is_set_aside_and_its_faults_are_not_believed() {
    let mut node = Node::new();
    let root = node.path("root");
    let become_host = |id: &str, host: &str| {
        std::fs::create_dir_all(root.join("etc")).unwrap();
        std::fs::create_dir_all(root.join("proc/sys/kernel")).unwrap();
        std::fs::write(root.join("etc/machine-id"), format!("{}\n", id.repeat(32))).unwrap();
        std::fs::write(root.join("proc/sys/kernel/hostname"), format!("{host}\n")).unwrap();
    };
    become_host("a", "a1");
    node.start();
    node.xid(3, 79);
    node.until_stored("\"79\"");
    node.stop();
    // A new image, or a name from DHCP, is not another machine.
    become_host("b", "a1");
    node.start();
    assert_eq!(node.open_incidents().len(), 1);
    node.stop();
    become_host("c", "c1");
    node.start();
    node.daemon()
        .wait_for_line("found the record of host a1, expected one of host c1", LONG)
        .unwrap();
    assert!(node.open_incidents().is_empty());
    node.until("healthy", |n| n.cli(&["check"]).0 == Some(0));
}

/// The verdict came back and no worker could be started again, without a word.
#[test]
fn an_emptied_run_directory_is_reported_and_workers_start_again() {
    let mut node = Node::new();
    node.start();
    let starts = |n: &Node| n.metric("nodewarden_worker_starts_total", &[("worker", "host")]);
    let (before, pid) = (starts(&node).unwrap(), node.worker_pid("host"));
    for entry in std::fs::read_dir(node.run_dir()).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            std::fs::remove_dir_all(path).unwrap();
        } else {
            std::fs::remove_file(path).unwrap();
        }
    }
    node.daemon()
        .wait_for_line("files were removed from the run directory", LONG)
        .unwrap();
    kill(Pid::from_raw(i32::try_from(pid).unwrap()), Signal::SIGKILL).unwrap();
    node.until("the worker is started again", |n| {
        starts(n).is_some_and(|starts| starts > before)
    });
    let (code, _, stderr) = node.cli(&["status"]);
    assert_eq!(code, Some(2));
    assert!(stderr.contains("`systemctl restart nodewarden`"), "{stderr}");
}

/// A recording speaks of another node: whatever it holds, this machine's Slurm is not even looked for.
#[test]
fn a_recording_never_reaches_slurm() {
    let mut node = Node::new();
    let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/demo");
    let copy = node.path("demo");
    testkit::tree::unpack(&demo, &copy).unwrap();
    node.recorded = Some(copy);
    node.set("health.mode=\"drain\"").set("slurm.watch=\"250ms\"");
    node.spawn();
    node.until("judged", |n| n.open_incidents().len() == 1);
    node.until("no Slurm", |n| {
        n.try_view()["drain"]["why"].to_string().contains("recording")
    });
}
