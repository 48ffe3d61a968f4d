//! A broken or vanished configuration.

use std::fs;
use std::time::Duration;

use nix::sys::signal::Signal;
use testkit::fuse_hang::FuseHang;

use crate::common::{LONG, Node, program};

#[test]
fn config_check_names_file_line_found_and_expected() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("n.toml");
    fs::write(
        &file,
        "[health]\nmode = \"drian\"\n\n[slurm]\ntimeout = 5\ncolour = \"red\"\n",
    )
    .unwrap();
    let output = std::process::Command::new(program())
        .args(["config", "check", "--config"])
        .arg(&file)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    for part in ["n.toml:2", "drian", "observe", "n.toml:5", "n.toml:6", "colour"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn a_start_with_a_broken_configuration_is_refused() {
    let mut node = Node::new();
    let file = node.path("n.toml");
    fs::write(&file, "[health]\nmode = 7\n").unwrap();
    node.arg(&["--config", file.to_str().unwrap()]);
    node.spawn();
    assert_eq!(node.daemon().wait(LONG).unwrap().code(), Some(1));
    assert!(
        node.daemon().stderr().contains("n.toml:2"),
        "{}",
        node.daemon().stderr()
    );
}

#[test]
fn a_reload_keeps_the_last_good_one_on_a_bad_file_and_never_raises_a_mode() {
    let mut node = Node::new();
    let file = node.path("n.toml");
    fs::write(&file, "[health]\nmode = \"observe\"\n").unwrap();
    node.arg(&["--config", file.to_str().unwrap()]);
    node.start();
    let error = |n: &Node| n.metric("nodewarden_config_error", &[]);
    assert_eq!(error(&node), Some(0.0));

    for bad in ["[health]\nmode = \"drain\"\nnonsense = 1\n", "[health\n"] {
        fs::write(&file, bad).unwrap();
        node.daemon().signal(Signal::SIGHUP).unwrap();
        node.until("the error shows", |n| error(n) == Some(1.0));
        fs::write(&file, "[health]\nmode = \"observe\"\n").unwrap();
        node.daemon().signal(Signal::SIGHUP).unwrap();
        node.until("good again", |n| error(n) == Some(0.0));
    }
    fs::remove_file(&file).unwrap();
    node.daemon().signal(Signal::SIGHUP).unwrap();
    node.until("a vanished file is an error", |n| error(n) == Some(1.0));

    // A restart with the file still gone: the last good one, and the error still shows.
    node.kill9();
    node.start();
    assert_eq!(error(&node), Some(1.0));
    node.xid(0, 79);
    node.until("observed", |n| {
        n.metric("nodewarden_would_drain_total", &[("check", "xid")]) == Some(1.0)
    });
}

/// `health.mode` in force.
fn mode(node: &Node) -> String {
    let (_, text, _) = node.cli(&["status", "--json"]);
    let status: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    status["mode"].as_str().unwrap_or_default().to_owned()
}

/// The second file comes while the first is read.
#[test]
fn a_reload_that_is_asked_for_during_another_one_is_not_lost() {
    let mut node = Node::new();
    let file = node.path("n.toml");
    let write = |mode: &str| fs::write(&file, format!("[health]\nmode = \"{mode}\"\n")).unwrap();
    write("observe");
    node.arg(&["--config", file.to_str().unwrap()]);
    node.start();
    for _ in 0..20 {
        for mode in ["comment", "observe"] {
            write(mode);
            node.daemon().signal(Signal::SIGHUP).unwrap();
            std::thread::sleep(Duration::from_micros(500));
        }
        write("drain");
        node.daemon().signal(Signal::SIGHUP).unwrap();
        node.until("the last file is in force", |n| mode(n) == "drain");
        write("observe");
        node.daemon().signal(Signal::SIGHUP).unwrap();
        node.until("observe again", |n| mode(n) == "observe");
    }
}

/// A node with a table of Xids on a mount, and a function that writes its configuration: a mode, with or without the table.
fn with_a_file_on_a_mount() -> (Node, FuseHang, impl Fn(&str, bool)) {
    let mut node = Node::new();
    let file = node.path("n.toml");
    let folder = node.path("site");
    fs::create_dir(&folder).unwrap();
    let mount = FuseHang::mount(&folder).unwrap();
    let row = "[[xid]]\ncode = 79\nmeaning = \"x\"\nclass = \"gpu\"\naction = \"reboot\"\n";
    let table = mount.add("xids.toml", row);
    node.arg(&["--config", file.to_str().unwrap()]);
    let write = move |mode: &str, is_named: bool| {
        let named = is_named.then(|| format!("xids = {table:?}\n"));
        let text = format!("[health]\nmode = \"{mode}\"\n{}", named.unwrap_or_default());
        fs::write(&file, text).unwrap();
    };
    (node, mount, write)
}

#[test]
fn a_reload_that_hangs_in_a_file_is_reported_and_the_next_one_does_not_wait_for_it() {
    let (mut node, mount, write) = with_a_file_on_a_mount();
    write("observe", true);
    node.start();
    mount.freeze();
    node.daemon().signal(Signal::SIGHUP).unwrap();
    let late = "a file of the configuration cannot be read: no answer within 10 s";
    node.daemon().wait_for_line(late, LONG).unwrap();
    let error = |n: &Node| n.metric("nodewarden_config_error", &[]);
    node.until("the error shows", |n| error(n) == Some(1.0));
    write("comment", false);
    node.daemon().signal(Signal::SIGHUP).unwrap();
    node.until("the last file is in force", |n| mode(n) == "comment");
    assert_eq!(error(&node), Some(0.0));

    // What the first one has read counts no more.
    mount.thaw();
    write("observe", false);
    node.daemon().signal(Signal::SIGHUP).unwrap();
    node.until("observe again", |n| mode(n) == "observe");
    assert_eq!(error(&node), Some(0.0));
}

#[test]
fn a_start_that_waits_for_a_file_says_so() {
    let (mut node, mount, write) = with_a_file_on_a_mount();
    write("observe", true);
    mount.slow_file("xids.toml", Duration::from_secs(7)).unwrap();
    node.spawn();
    let waits = "the configuration is still being read";
    node.daemon().wait_for_line(waits, LONG).unwrap();
    node.until("observe", |n| mode(n) == "observe");
}

#[test]
fn a_reload_replaces_the_workers_whose_settings_changed_and_no_others() {
    let mut node = Node::new();
    let file = node.path("n.toml");
    let reload = |node: &mut Node, text: &str| {
        fs::write(&file, text).unwrap();
        node.daemon().signal(Signal::SIGHUP).unwrap();
    };
    fs::write(&file, "[mounts]\nexclude = [\"/a\"]\n").unwrap();
    node.arg(&["--config", file.to_str().unwrap()]);
    node.start();
    let up = |n: &Node| n.metric("nodewarden_worker_up", &[("worker", "mounts")]) == Some(1.0);
    let starts = |n: &Node| {
        ["mounts", "host", "kernel"].map(|w| n.metric("nodewarden_worker_starts_total", &[("worker", w)]))
    };
    node.until("the worker runs", up);
    let before = starts(&node);
    let [Some(mounts), host, kernel] = before else {
        panic!("{before:?}");
    };
    reload(
        &mut node,
        "[mounts]\nexclude = [\"/b\"]\n[health]\nmode = \"comment\"\n",
    );
    let after = [Some(mounts + 1.0), host, kernel];
    node.until("another worker runs", |n| starts(n) == after && up(n));
    reload(&mut node, "[mounts]\nexclude = [\"/b\"]\n");
    node.until("the mode is in force", |n| mode(n) == "observe");
    assert_eq!(starts(&node), after);
}

#[test]
fn commands_run_again_after_a_start_with_a_broken_file_that_is_repaired() {
    let mut node = Node::new();
    let file = node.path("n.toml");
    let good = "[commands.a]\ncommand = [\"/bin/true\"]\ntimeout = \"5s\"\n\
                [[health.command]]\nname = \"a\"\ncommand = \"a\"\nevery = \"1m\"\n";
    fs::write(&file, good).unwrap();
    node.arg(&["--config", file.to_str().unwrap()]);
    node.start();
    node.kill9();
    fs::write(&file, format!("{good}nonsense = 1\n")).unwrap();
    node.start();
    assert_eq!(node.metric("nodewarden_config_error", &[]), Some(1.0));
    fs::write(&file, good).unwrap();
    node.daemon().signal(Signal::SIGHUP).unwrap();
    node.until("the command has run", |n| {
        n.metric("nodewarden_command_healthy", &[("check", "site-a")]) == Some(1.0)
    });
}

#[test]
fn a_reload_with_the_first_command_says_that_it_needs_a_restart() {
    let mut node = Node::new();
    let file = node.path("n.toml");
    fs::write(&file, "").unwrap();
    node.arg(&["--config", file.to_str().unwrap()]);
    node.start();
    fs::write(
        &file,
        "[commands.x]\ncommand = [\"/bin/true\"]\ntimeout = \"5s\"\n",
    )
    .unwrap();
    node.daemon().signal(Signal::SIGHUP).unwrap();
    node.until("the log says it", |n| {
        n.daemon()
            .stderr()
            .contains("no runner of site commands; restart nodewarden")
    });
}

#[test]
fn a_reload_changes_the_log_level() {
    let mut node = Node::new();
    let file = node.path("n.toml");
    fs::write(&file, "[log]\nlevel = \"error\"\n").unwrap();
    node.arg(&["--config", file.to_str().unwrap()]);
    node.start();
    assert!(
        !node.daemon().stderr().contains("INFO"),
        "{}",
        node.daemon().stderr()
    );
    fs::write(&file, "[log]\nlevel = \"info\"\n").unwrap();
    node.daemon().signal(Signal::SIGHUP).unwrap();
    node.until("the new level is in force", |n| {
        n.daemon().stderr().contains("configuration in force")
    });
}

#[test]
fn a_site_table_replaces_one_row_and_a_bad_one_names_its_line() {
    let mut node = Node::new();
    let table = node.path("site.toml");
    fs::write(
        &table,
        "[[xid]]\ncode = 79\nmeaning = \"x\"\nclass = \"gpu\"\naction = \"explode\"\n",
    )
    .unwrap();
    let output = std::process::Command::new(program())
        .args(["config", "check", "--config"])
        .arg({
            let empty = node.path("e.toml");
            fs::write(&empty, "").unwrap();
            empty
        })
        .arg("--set")
        .arg(format!("health.xids={table:?}"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("site.toml:5") && text.contains("explode"), "{text}");
    node.set("health.mode=\"observe\"");
    node.start();
}

#[test]
fn a_wrong_option_is_an_error_even_where_a_good_configuration_is_kept() {
    let mut node = Node::new();
    node.start();
    node.stop();
    node.set("health.mode=observe");
    node.spawn();
    assert_eq!(node.daemon().wait(LONG).unwrap().code(), Some(1));
    assert!(
        node.daemon().stderr().contains("health.mode"),
        "{}",
        node.daemon().stderr()
    );
}

/// It would drain and resume the node on its own.
#[test]
fn nhc_that_marks_nodes_is_refused_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("n.toml");
    let check = |arguments: &str| {
        let text = format!(
            "[commands.nhc]\ncommand = [\"/usr/sbin/nhc\"{arguments}]\ntimeout = \"1m\"\n\
             \n[[health.command]]\nname = \"nhc\"\ncommand = \"nhc\"\n"
        );
        fs::write(&file, text).unwrap();
        let mut command = std::process::Command::new(program());
        let output = command
            .args(["config", "check", "--config"])
            .arg(&file)
            .output()
            .unwrap();
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    };
    let (code, text) = check("");
    assert_eq!(code, Some(1));
    for part in [
        "n.toml:5:1: health.command \"nhc\"",
        "expected the argument MARK_OFFLINE=0",
        "drains and resumes",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(
        check(", \"MARK_OFFLINE=0\", \"TIMEOUT=20\""),
        (Some(0), String::new())
    );
}
