//! The runner of site commands, without systemd.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::common::{LONG, Node};

const COMMANDS: &str = r#"
[commands.hello]
command = ["/bin/sh", "-c", "echo \"$NODEWARDEN_COMMAND $0 $#: $(cat)\"; echo err >&2; exit 3", "fixed"]
timeout = "10s"
[commands.slow]
command = ["/bin/sh", "-c", "sleep 1000 & echo $$ > SLOW; sleep 1000"]
timeout = "10s"
[commands.loud]
command = ["/bin/sh", "-c", "head -c 1000000 /dev/zero | tr '\\0' x"]
timeout = "10s"
[commands.rights]
command = ["/bin/sh", "-c", "grep -E '^(CapEff|NoNewPrivs|Seccomp):' /proc/self/status; ls /proc/self/fd"]
timeout = "10s"
"#;

struct Site {
    node: Node,
    socket: PathBuf,
    pid_file: PathBuf,
}

impl Site {
    fn start() -> Self {
        let mut node = Node::new();
        // The configuration is root's, and so is its folder.
        let folder = node.path("etc");
        fs::create_dir(&folder).unwrap();
        let (config, pid_file) = (folder.join("nodewarden.toml"), node.path("slow.pid"));
        fs::write(&config, COMMANDS.replace("SLOW", pid_file.to_str().unwrap())).unwrap();
        fs::set_permissions(&config, fs::Permissions::from_mode(0o644)).unwrap();
        node.arg(&["--config", config.to_str().unwrap()]);
        node.start();
        let socket = node.run_dir().join("parent/act/socket");
        Self {
            node,
            socket,
            pid_file,
        }
    }

    fn say(&self, line: &str) -> Value {
        let mut stream = UnixStream::connect(&self.socket).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        drop(writeln!(stream, "{line}"));
        let mut reply = String::new();
        BufReader::new(stream).read_line(&mut reply).unwrap();
        serde_json::from_str(&reply).unwrap_or_else(|e| panic!("{reply:?}: {e}"))
    }

    fn call(&self, name: &str) -> Value {
        self.say(&json!({ "name": name, "input": { "incident": "abcdefgh" } }).to_string())
    }
}

fn refusal(reply: &Value) -> &str {
    reply["refused"].as_str().unwrap_or_else(|| panic!("{reply}"))
}

#[test]
fn a_command_runs_by_its_name_with_json_as_input() {
    let site = Site::start();
    let reply = site.call("hello");
    assert_eq!(
        reply,
        json!({ "ended": {
            "code": 3,
            "stdout": "hello fixed 0: {\"incident\":\"abcdefgh\"}\n",
            "stderr": "err\n",
            "truncated": false,
        } })
    );
    let loud = site.call("loud");
    assert_eq!(loud["ended"]["truncated"], true);
    assert_eq!(loud["ended"]["stdout"].as_str().unwrap().len(), 64 * 1024);
    // Outside of the sandbox: root's rights, whatever the parent gave up, and none of our descriptors.
    let rights = site.call("rights");
    let text = rights["ended"]["stdout"].as_str().unwrap();
    assert!(
        text.contains("Seccomp:\t0") && text.contains("NoNewPrivs:\t0"),
        "{text}"
    );
    let descriptors = text
        .lines()
        .filter(|l| l.parse::<u32>().is_ok_and(|fd| fd > 3))
        .count();
    assert_eq!(descriptors, 0, "{text}");
}

#[test]
fn nothing_but_a_configured_name_is_taken_and_only_from_root() {
    let site = Site::start();
    for (line, why) in [
        (r#"{"name":"absent","input":1}"#, "not in the configuration"),
        (r#"{"name":"../../bin/sh","input":1}"#, "expected 1 to 40"),
        (r#"{"name":"hello","input":1,"args":["-x"]}"#, "unknown field"),
        (
            r#"{"name":"hello","input":1,"command":["/bin/id"]}"#,
            "unknown field",
        ),
        ("nonsense", "invalid request"),
    ] {
        let reply = site.say(line);
        assert!(refusal(&reply).contains(why), "{line}: {reply}");
    }
    let long = json!({ "name": "hello", "input": "x".repeat(64 * 1024) });
    assert!(
        refusal(&site.say(&long.to_string())).contains("longer than"),
        "input"
    );
    // The daemon's user cannot even connect, and cannot name a command by a file of its own.
    let path = site.socket.to_str().unwrap();
    let out = Command::new("perl")
        .args([
            "-MIO::Socket::UNIX",
            "-e",
            "IO::Socket::UNIX->new(Peer => $ARGV[0]) or die \"$!\"",
            path,
        ])
        .uid(64190)
        .gid(64190)
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&out.stderr);
    assert!(
        !out.status.success() && error.contains("Permission denied"),
        "{error}"
    );
    // Written by others, the configuration names no command.
    let config = site.node.path("etc/nodewarden.toml");
    fs::set_permissions(&config, fs::Permissions::from_mode(0o666)).unwrap();
    assert!(
        refusal(&site.call("hello")).contains("no write permission"),
        "mode"
    );
}

#[test]
fn one_of_a_name_at_a_time_and_its_whole_group_ends_at_the_limit() {
    let site = Site::start();
    std::thread::scope(|scope| {
        let first = scope.spawn(|| site.call("slow"));
        site.node.until("it runs", |_| {
            fs::read_to_string(&site.pid_file).is_ok_and(|p| p.ends_with('\n'))
        });
        assert!(
            refusal(&site.call("slow")).contains("has not ended"),
            "the same name"
        );
        assert_eq!(site.call("hello")["ended"]["code"], 3, "another name");
        let reply = first.join().unwrap();
        assert!(
            reply["timed_out"].as_str().unwrap().contains("timed out"),
            "{reply}"
        );
    });
    let pid = fs::read_to_string(&site.pid_file).unwrap();
    // A zombie has ended; who has it as a child decides when it goes.
    let group = |line: &str| !line.starts_with('Z') && line.split_whitespace().nth(1) == Some(pid.trim());
    let out = Command::new("ps").args(["-eo", "stat,pgid"]).output().unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    assert!(
        !text.lines().any(group),
        "the process in the background is gone, too"
    );
    let again = site.call("slow");
    assert!(again["timed_out"].is_string(), "the lane is free again: {again}");
}

#[test]
fn the_runner_ends_with_the_parent() {
    let mut site = Site::start();
    assert_eq!(site.call("hello")["ended"]["code"], 3);
    site.node.stop();
    let gone = |_: &Node| UnixStream::connect(&site.socket).is_err();
    site.node.until("the runner has ended", gone);
}
