//! Commands of the site that check the node, in the whole program.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use testkit::wait::until_true;

use crate::common::{LONG, Node};

/// The shortest interval, with its spread, and a health tick.
const INTERVAL: std::time::Duration = LONG.saturating_mul(3);

fn write(path: &Path, text: &str, mode: u32) {
    testkit::executable::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// A node whose site has three scripts: `disk` is healthy as long as a file exists, `slow` never ends, and anyone can write
/// `open`.
fn node() -> Node {
    let mut node = Node::new();
    let folder = node.path("etc");
    fs::create_dir(&folder).unwrap();
    let good = node.path("good");
    fs::write(&good, "").unwrap();
    let script = format!(
        "#!/bin/sh\ncat > {0}.input\n[ -e {0} ] && {{ echo all fine; exit 0; }}\n\
         echo 'disk | /scratch: 98% used'\nhead -c 1048576 /dev/zero | tr '\\0' x\nexit 1\n",
        good.display()
    );
    write(&folder.join("disk"), &script, 0o755);
    write(&folder.join("slow"), "#!/bin/sh\nsleep 1000\n", 0o755);
    write(&folder.join("open"), "#!/bin/sh\nexit 1\n", 0o777);
    let mut config = String::new();
    for name in ["disk", "slow", "open"] {
        let program = folder.join(name);
        config.push_str(&format!(
            "[commands.{name}]\ncommand = [{program:?}]\ntimeout = \"2s\"\n\
             [[health.command]]\nname = \"{name}\"\ncommand = \"{name}\"\nevery = \"1m\"\nafter = 1\n"
        ));
    }
    let file = folder.join("nodewarden.toml");
    write(&file, &config, 0o644);
    node.arg(&["--config", file.to_str().unwrap()]);
    node.start();
    node
}

fn healthy(node: &Node, name: &str) -> Option<f64> {
    node.metric(
        "nodewarden_command_healthy",
        &[("check", &format!("site-{name}"))],
    )
}

fn runs(node: &Node, name: &str, result: &str) -> Option<f64> {
    let labels = [("check", &*format!("site-{name}")), ("result", result)];
    node.metric("nodewarden_command_runs_total", &labels)
}

#[test]
fn a_script_that_turns_bad_is_an_incident_and_one_that_hangs_costs_only_itself() {
    let node = node();
    node.until("a first result", |n| healthy(n, "disk") == Some(1.0));
    node.until("the others are unknown", |n| {
        runs(n, "slow", "timed_out") == Some(1.0) && runs(n, "open", "failed") == Some(1.0)
    });
    assert_eq!((healthy(&node, "slow"), healthy(&node, "open")), (None, None));
    let input = fs::read_to_string(node.path("good.input")).unwrap();
    let input: serde_json::Value = serde_json::from_str(&input).unwrap();
    assert_eq!(
        (&input["check"], &input["why"]),
        (&"site-disk".into(), &"start".into())
    );
    let (_, status, _) = node.cli(&["status"]);
    for part in [
        "site-disk",
        "healthy",
        "site-slow",
        "timed_out",
        "timed out after 2s",
        "site-open",
        "no write permission",
    ] {
        assert!(status.contains(part), "{part}: {status}");
    }
    node.until("healthy", |n| n.cli(&["check"]).0 == Some(0));
    let (code, line, _) = node.cli(&["check", "--format", "nagios"]);
    assert_eq!(code, Some(0), "{line}");
    assert!(
        line.starts_with("NODEWARDEN OK - healthy, ") && line.ends_with(" | incidents=0\n"),
        "{line}"
    );

    // Once, by the parent: the runner logs no result.
    let log = node.daemon().stderr();
    assert_eq!(log.matches("timed out after 2s").count(), 1, "{log}");

    fs::remove_file(node.path("good")).unwrap();
    until_true("an incident", INTERVAL, || !node.open_incidents().is_empty()).unwrap();
    let incident = &node.open_incidents()[0];
    assert_eq!(
        (&incident["check"], &incident["subject"]),
        (&"site-disk".into(), &"node".into())
    );
    assert_eq!(incident["detail"], "disk | /scratch: 98% used");
    node.until("the verdict names it", |n| {
        n.cli(&["check"]).1.contains("site-disk")
    });
    let (code, line, _) = node.cli(&["check", "--format", "nagios"]);
    assert_eq!(code, Some(1), "{line}");
    assert!(
        line.starts_with("NODEWARDEN WARNING - healthy, 1 open incident: site-disk node")
            && line.ends_with(" | incidents=1\n"),
        "{line}"
    );
    let (code, line, _) = node.cli(&["check"]);
    assert_eq!(code, Some(0));
    assert!(
        line.starts_with("healthy, 1 open incident: site-disk node"),
        "{line}"
    );

    // The parent keeps the results: the next daemon need not wait for a run.
    let before = runs(&node, "disk", "unhealthy");
    let daemon = node.core_pid();
    kill(Pid::from_raw(daemon.try_into().unwrap()), Signal::SIGKILL).unwrap();
    node.until("another daemon with the result", |n| {
        n.daemon().children().iter().all(|pid| *pid != daemon) && healthy(n, "disk") == Some(0.0)
    });
    assert!(runs(&node, "disk", "unhealthy") <= before.map(|n| n + 1.0));
}
