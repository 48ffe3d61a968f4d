//! The audit trail and the site's command.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::process::Command;

use serde_json::Value;

use crate::cluster::Cluster;
use crate::common::{GPUS, program};

/// A node whose configuration, of root in a folder of root, has this command as that of notifications.
fn notifying(script: &str) -> Cluster {
    let mut c = Cluster::new();
    let folder = c.path("etc");
    fs::create_dir(&folder).unwrap();
    let config = folder.join("nodewarden.toml");
    let script = script.replace("FOLDER", folder.to_str().unwrap());
    let text = format!(
        "[commands.pager]\ncommand = [\"/bin/sh\", \"-c\", {script:?}]\ntimeout = \"1s\"\n\
         [notify]\ncommand = \"pager\"\n"
    );
    fs::write(&config, text).unwrap();
    fs::set_permissions(&config, fs::Permissions::from_mode(0o644)).unwrap();
    c.arg(&["--config", config.to_str().unwrap()]);
    c
}

fn lines(text: &str) -> Vec<Value> {
    let parse = |line: &str| serde_json::from_str(line).unwrap_or_else(|e| panic!("{line}: {e}"));
    text.lines().map(parse).collect()
}

fn trail(c: &Cluster) -> Vec<Value> {
    lines(&fs::read_to_string(c.state_dir().join("audit.jsonl")).unwrap_or_default())
}

fn events(of: &[Value]) -> Vec<&str> {
    of.iter().map(|line| line["event"].as_str().unwrap()).collect()
}

fn wait_trail(c: &Cluster, expected: &[&str]) -> Vec<Value> {
    c.until(&format!("the trail {expected:?}"), |_| {
        events(&trail(c)) == expected
    });
    trail(c)
}

/// Drains the node, acknowledges and clears the incident, and returns its id.
fn drain_and_clear(c: &Cluster) -> String {
    c.xid(3, 79);
    c.wait_drained();
    c.wait_drain_state("drained");
    let id = c.open_incidents()[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(c.cli(&["ack", &id, "--reason", "board ordered"]).0, Some(0));
    c.clear(&id, "board replaced");
    c.wait_undrained();
    c.wait_drain_state("none");
    id
}

const WHOLE: [&str; 6] = ["wanted", "written", "ack", "clear", "wanted", "lifted"];

#[test]
fn a_drain_leaves_its_evidence_and_the_command_gets_each_outcome() {
    let mut c = notifying("cat >> FOLDER/sent && echo >> FOLDER/sent");
    c.start();
    let id = drain_and_clear(&c);
    let trail = wait_trail(&c, &WHOLE);
    for line in &trail {
        assert_eq!(line["incident"], id.as_str());
        assert_eq!(
            (&line["check"], &line["detail"]),
            (&"xid".into(), &"xid79".into())
        );
        assert!(line["subject"].as_str().unwrap().contains(GPUS[3]), "{line}");
        assert!(
            line["evidence"][0].as_str().unwrap().contains("NVRM: Xid"),
            "{line}"
        );
        assert!(line["time"].as_str().unwrap().ends_with('Z') && line["timestamp"].is_i64());
        assert_eq!(line["host"], Value::Null);
    }
    let acts: Vec<&Value> = trail.iter().map(|line| &line["act"]).collect();
    assert_eq!(
        acts,
        [
            &"drain".into(),
            &"drain".into(),
            &Value::Null,
            &Value::Null,
            &"undrain".into(),
            &"undrain".into()
        ]
    );
    assert!(
        trail[1]["reason"]
            .as_str()
            .unwrap()
            .starts_with("nodewarden:xid gpu ")
    );
    assert_eq!(trail[2]["reason"], "board ordered");
    assert_eq!((&trail[3]["uid"], &trail[3]["by"]), (&0.into(), &"root".into()));
    let file = fs::metadata(c.state_dir().join("audit.jsonl")).unwrap();
    let daemon = fs::metadata(format!("/proc/{}", c.core_pid())).unwrap();
    assert_eq!(file.mode() & 0o7777, 0o640);
    assert_eq!((file.uid(), file.gid()), (daemon.uid(), daemon.gid()));

    let sent = || fs::read_to_string(c.path("etc/sent")).unwrap_or_default();
    c.until("notifications", |_| {
        sent().ends_with('\n') && sent().lines().count() == 4
    });
    let sent = lines(&sent());
    assert_eq!(events(&sent), ["written", "ack", "clear", "lifted"]);
    for (line, of_trail) in sent.iter().zip([1, 2, 3, 5]) {
        assert_eq!(
            (&line["node"], line["host"].is_string()),
            (&c.name.as_str().into(), true)
        );
        assert_eq!(line["version"], env!("CARGO_PKG_VERSION"));
        let mut line = line.clone();
        let fields = line.as_object_mut().unwrap();
        for field in ["node", "host", "version"] {
            fields.remove(field);
        }
        assert_eq!(line, trail[of_trail], "else it is the line of the trail");
    }
    c.until("counted", |n| {
        let count = |metric, result| n.metric(metric, &[("result", result)]);
        count("nodewarden_notifications_total", "ok") == Some(4.0)
            && count("nodewarden_audit_lines_total", "written") == Some(6.0)
            && count("nodewarden_audit_lines_total", "lost") == Some(0.0)
    });
}

#[test]
fn a_command_that_fails_or_hangs_changes_nothing() {
    for script in ["exit 7", "sleep 1000"] {
        let mut c = notifying(script);
        c.start();
        drain_and_clear(&c);
        wait_trail(&c, &WHOLE);
        c.until("failures are counted", |n| {
            n.metric("nodewarden_notifications_total", &[("result", "failed")]) == Some(4.0)
        });
        assert!(
            c.daemon()
                .stderr()
                .contains("notification failed: commands.pager")
        );
    }
}

#[test]
fn a_refused_order_is_a_line_with_the_uid_of_its_user_and_a_flood_is_a_few() {
    let mut c = notifying("echo x >> FOLDER/sent");
    c.start();
    c.xid(3, 79);
    c.wait_drained();
    let id = c.open_incidents()[0]["id"].as_str().unwrap().to_owned();
    wait_trail(&c, &["wanted", "written"]);
    let order = || {
        let mut command = Command::new(program());
        command
            .args(["clear", &id, "--reason", "mine", "--run-dir"])
            .arg(c.run_dir());
        command.uid(61001).gid(61001).output().unwrap()
    };
    assert!(!order().status.success());
    let line = &wait_trail(&c, &["wanted", "written", "refused_order"])[2];
    assert_eq!((&line["uid"], &line["by"]), (&61001.into(), &"61001".into()));
    assert_eq!(
        (&line["order"], &line["incident"]),
        (&"clear".into(), &id.as_str().into())
    );
    assert!(
        line["why"].as_str().unwrap().contains("permission denied"),
        "{line}"
    );
    for _ in 0..20 {
        order();
    }
    c.until("suppressed", |n| {
        n.metric("nodewarden_audit_lines_total", &[("result", "suppressed")])
            .is_some_and(|count| count > 0.0)
    });
    assert!(c.is_drained());
    let sent = fs::read_to_string(c.path("etc/sent")).unwrap_or_default();
    assert!(
        sent.lines().count() <= 1,
        "the drain, and no refused order: {sent}"
    );
}
