#![allow(clippy::disallowed_methods, reason = "tests read what the parent wrote")]

use std::fs;

use serde_json::{Value, json};
use testkit::wait::until_true;

use super::*;
use crate::runner::fake;

const LONG: Duration = Duration::from_secs(60);

const OK: &str = "mmgetstate::HEADER:a:\nmmgetstate::0:b:\n";

fn ended(code: i32, stdout: &str, truncated: bool) -> Value {
    json!({ "ended": { "code": code, "stdout": stdout, "stderr": "mmfsd is not running\nmore\n", "truncated": truncated } })
}

/// A node with GPFS, and a runner that gives each command its reply. No reply: the command hangs.
struct Node {
    dir: tempfile::TempDir,
    commands: GpfsCommands,
    requests: Receiver<Value>,
}

impl Node {
    fn new(reply: fn(&str) -> Option<Value>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("root/var/mmfs/mmpmon")).unwrap();
        let requests = fake::serve(&dir.path().join("socket"), move |request| {
            let reply = reply(request["name"].as_str().unwrap());
            reply.map(|reply| reply.to_string())
        });
        let env = Env::with_sysroot(dir.path().join("root"));
        let commands = GpfsCommands::new(true, &env, dir.path(), Waker::new().unwrap());
        Self {
            dir,
            commands,
            requests,
        }
    }

    /// Starts a round at once.
    fn start(&mut self) {
        self.commands.next = Some(Instant::now());
        let client = Client::new(&self.dir.path().join("socket"));
        self.commands.start(Some(client));
    }

    fn round(&mut self) {
        self.start();
        until_true("the end of the round", LONG, || {
            self.commands.ended();
            !self.commands.is_running
        })
        .unwrap();
    }

    /// The names of the commands that were requested since the last call.
    fn asked(&self) -> Vec<String> {
        let requests = self.requests.try_iter();
        requests.map(|r| r["name"].as_str().unwrap().to_owned()).collect()
    }

    fn file(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.dir.path().join("gpfs").join(name)).ok()
    }
}

#[test]
fn outputs_of_good_runs_are_files_and_a_failed_one_leaves_the_reason_and_the_last_output() {
    let mut node = Node::new(|_| Some(ended(0, OK, false)));
    node.round();
    let asked = node.asked();
    assert_eq!(asked, ["gpfs-mmgetstate", "gpfs-mmdiag-waiters", "gpfs-mmhealth"]);
    for name in ["mmgetstate.y", "mmdiag-waiters.y", "mmhealth.y"] {
        assert_eq!(node.file(name).as_deref(), Some(OK), "{name}");
    }
    assert_eq!(node.file("mmhealth.failed"), None);

    let mut node = Node::new(|name| {
        Some(match name {
            "gpfs-mmgetstate" => ended(1, OK, false),
            "gpfs-mmhealth" => ended(0, OK, true),
            _ => json!({ "timed_out": "gpfs-mmdiag-waiters: timed out after 30s and was killed" }),
        })
    });
    fs::create_dir(node.dir.path().join("gpfs")).unwrap();
    fs::write(node.dir.path().join("gpfs/mmgetstate.y"), "earlier").unwrap();
    node.round();
    assert_eq!(node.file("mmgetstate.y").as_deref(), Some("earlier"));
    for (name, text) in [
        ("mmgetstate", "failed exit code 1: mmfsd is not running\n"),
        ("mmhealth", "failed too much output\n"),
        (
            "mmdiag-waiters",
            "timeout gpfs-mmdiag-waiters: timed out after 30s and was killed\n",
        ),
    ] {
        assert_eq!(node.file(&format!("{name}.failed")).as_deref(), Some(text));
    }
    assert_eq!(node.file("mmhealth.y"), None);
}

#[test]
fn a_run_that_works_again_removes_the_reason() {
    let mut node = Node::new(|_| Some(ended(0, OK, false)));
    fs::create_dir(node.dir.path().join("gpfs")).unwrap();
    fs::write(node.dir.path().join("gpfs/mmhealth.failed"), "timeout x").unwrap();
    node.round();
    assert_eq!(node.file("mmhealth.failed"), None);
}

#[test]
fn while_a_command_hangs_nothing_else_is_started() {
    let mut node = Node::new(|name| (name != "gpfs-mmdiag-waiters").then(|| ended(0, OK, false)));
    node.start();
    let mut asked = Vec::new();
    until_true("the command that hangs", LONG, || {
        asked.extend(node.asked());
        asked.last().is_some_and(|name| name == "gpfs-mmdiag-waiters")
    })
    .unwrap();
    for _ in 0..3 {
        node.start();
        assert_eq!(node.commands.deadline(), None);
    }
    thread::sleep(Duration::from_millis(200));
    assert_eq!(node.requests.try_iter().count(), 0, "{asked:?}");
    assert_eq!(node.file("mmgetstate.y").as_deref(), Some(OK));
}

#[test]
fn without_a_runner_the_reason_is_known() {
    let mut node = Node::new(|_| None);
    node.commands.next = Some(Instant::now());
    node.commands.start(None);
    until_true("the reason", LONG, || node.file("mmhealth.failed").is_some()).unwrap();
    assert!(
        node.file("mmhealth.failed")
            .unwrap()
            .starts_with("refused no runner")
    );
}

#[test]
fn nothing_runs_without_gpfs_or_on_a_recording_or_where_it_is_off() {
    let mut node = Node::new(|_| Some(ended(0, OK, false)));
    fs::remove_dir_all(node.dir.path().join("root")).unwrap();
    node.round();
    assert_eq!(node.requests.try_iter().count(), 0);
    let new = |is_on, env: &Env| GpfsCommands::new(is_on, env, node.dir.path(), Waker::new().unwrap());
    assert!(new(true, &Env::recorded(node.dir.path())).deadline().is_none());
    let mut off = new(false, &Env::default());
    assert!(off.deadline().is_none());
    off.configure(true);
    let first = off.deadline();
    assert!(first.is_some());
    off.configure(true);
    assert_eq!(off.deadline(), first, "a reload starts no round");
}
