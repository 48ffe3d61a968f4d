//! Strangers on the control socket, as processes of other users.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::process::Command;

use serde_json::{Value, json};

use crate::common::{Node, program};

/// `nodewarden job --json` of that user: the numbers that it shows, and how many are withheld.
fn seen(node: &Node, uid: u32) -> (Vec<String>, u64) {
    let mut command = Command::new(program());
    command.args(["job", "--json", "--run-dir"]).arg(node.run_dir());
    let out = command.uid(uid).gid(uid).output().unwrap();
    assert!(out.status.success(), "{out:?}");
    let jobs: Value = serde_json::from_slice(&out.stdout).unwrap();
    let ended = jobs["ended"].as_array().unwrap();
    let numbers = ended.iter().map(|j| j["job"].as_str().unwrap().to_owned());
    (numbers.collect(), jobs["withheld"].as_u64().unwrap())
}

/// The lines of ended jobs are read back at the start.
fn with_jobs(node: &Node) {
    let state = node.state_dir();
    fs::create_dir_all(&state).unwrap();
    fs::write(state.join("lock"), "").unwrap();
    let line = |job: &str, uid: u32| json!({ "job": job, "user": uid.to_string(), "uid": uid, "began": 1.0, "ended": 2.0 });
    let lines = format!("{}\n{}\n", line("7", 61001), line("8", 61002));
    let file = state.join("jobs.jsonl");
    fs::write(&file, lines).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    // Of an earlier daemon: the parent hands it over.
    let daemon = 64190;
    chown(&state, Some(daemon), Some(daemon)).unwrap();
    chown(&file, Some(daemon), Some(daemon)).unwrap();
}

#[test]
fn a_user_sees_the_own_jobs_and_operators_all() {
    for (access, own, other) in [("own", 1, 0), ("operators", 0, 0), ("all", 2, 2)] {
        let mut node = Node::new();
        with_jobs(&node);
        node.set(&format!("access.jobs={access:?}"));
        node.set(r#"health.operators=["61003"]"#);
        node.start();
        node.until("the lines were read back", |n| seen(n, 0).0.len() == 2);
        for (uid, expected) in [(61001, own), (61004, other), (61003, 2)] {
            let (numbers, withheld) = seen(&node, uid);
            assert_eq!(
                (numbers.len(), withheld),
                (expected, 2 - expected as u64),
                "{access} {uid}"
            );
            assert!(uid != 61001 || access != "own" || numbers == ["7"], "{numbers:?}");
        }
    }
}

/// That of the unit. What other users need has its mode set.
#[test]
fn with_a_umask_of_077_every_user_can_check_and_ask() {
    let mut node = Node::new();
    node.shell = Some("umask 077".to_owned());
    // Neither exists.
    node.below = "site/node".to_owned();
    node.start();
    for folder in ["site", "site/node"] {
        let mode = node.path(folder).metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o755, "{folder}");
    }
    node.until("healthy", |n| n.cli(&["check"]).0 == Some(0));
    for verb in ["check", "status"] {
        let mut command = Command::new(program());
        command.args([verb, "--run-dir"]).arg(node.run_dir());
        let out = command.uid(61001).gid(61001).output().unwrap();
        assert_eq!(out.status.code(), Some(0), "{verb}: {out:?}");
    }
    node.xid(0, 31);
    node.until_stored("\"31\"");
    // After a second start on its own files.
    node.stop();
    node.start();
    node.until("healthy again", |n| n.cli(&["check"]).0 == Some(0));
}
