//! The series of an incident: its info never changes, what changes has series of its own.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::cluster::Cluster;

/// The lines of a metric.
fn lines(c: &Cluster, metric: &str) -> BTreeSet<String> {
    let text = c.metrics_text();
    let of = |line: &&str| line.starts_with(&format!("{metric}{{"));
    text.lines().filter(of).map(str::to_owned).collect()
}

fn mode(c: &Cluster, id: &str, mode: &str) -> Option<f64> {
    c.metric("nodewarden_incident_mode", &[("incident", id), ("mode", mode)])
}

fn acknowledged(c: &Cluster, id: &str) -> Option<f64> {
    c.metric("nodewarden_incident_acknowledged", &[("incident", id)])
}

/// The incident in `/api/v1/status`.
fn reported(c: &Cluster) -> Value {
    let response = c.try_get("/api/v1/status").unwrap();
    let report: Value = serde_json::from_str(response.text().unwrap()).unwrap();
    report["incidents"][0].clone()
}

/// A check that only comments, in mode drain; then the site lets it drain.
#[test]
fn the_info_of_an_incident_never_changes_and_what_only_comments_never_says_that_it_drains() {
    let mut c = Cluster::new();
    let file = c.path("nodewarden.toml");
    let xid_may = |mode: &str| format!("[health.checks]\nxid = \"{mode}\"\n");
    std::fs::write(&file, xid_may("comment")).unwrap();
    let path = file.display().to_string();
    c.arg(&["--config", &path]);
    c.start();
    c.xid(3, 119);
    c.until("in the node's Comment", |_| {
        let node = c.slurm.node(&c.name).unwrap();
        node.get("Comment")
            .unwrap_or_default()
            .starts_with("nodewarden:xid")
    });
    let id = c.open_incidents()[0]["id"].as_str().unwrap().to_owned();
    let info = lines(&c, "nodewarden_incident_info");
    assert_eq!(info.len(), 1, "{info:?}");
    let labels: Vec<&str> = info
        .iter()
        .flat_map(|line| line.split(['{', '}']).nth(1))
        .flat_map(|labels| labels.split(',').filter_map(|label| label.split('=').next()))
        .collect();
    assert_eq!(labels, ["incident", "check", "subject_kind", "subject"]);

    assert_eq!(
        (mode(&c, &id, "comment"), mode(&c, &id, "drain")),
        (Some(1.0), Some(0.0))
    );
    assert_eq!(c.open_incidents()[0]["drains"], false);
    let report = reported(&c);
    assert_eq!(
        (&report["drains"], &report["mode"]),
        (&Value::from(false), &Value::from("comment"))
    );
    let status = c.cli(&["status"]).1;
    let row = status
        .lines()
        .find(|line| line.contains(&id) && line.contains("xid119"))
        .unwrap();
    assert!(row.contains("comments") && !row.contains("drains"), "{row}");
    let page = c.try_get("/").unwrap();
    assert!(!page.text().unwrap().contains("drains the node"));

    assert_eq!(acknowledged(&c, &id), Some(0.0));
    assert_eq!(c.cli(&["ack", &id, "--reason", "ticket 42"]).0, Some(0));
    c.until("acknowledged", |_| acknowledged(&c, &id) == Some(1.0));
    assert_eq!(lines(&c, "nodewarden_incident_info"), info);
    assert!(!c.is_drained());

    std::fs::write(&file, xid_may("drain")).unwrap();
    c.daemon().signal(nix::sys::signal::Signal::SIGHUP).unwrap();
    c.wait_drained();
    c.until("may drain", |_| mode(&c, &id, "drain") == Some(1.0));
    assert_eq!(mode(&c, &id, "comment"), Some(0.0));
    assert_eq!(lines(&c, "nodewarden_incident_info"), info);
    assert_eq!(reported(&c)["drains"], true);
}
