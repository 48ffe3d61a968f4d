//! From a fault to the person: the shipped rules in a real Prometheus, the shipped routes in a real Alertmanager, and what
//! its webhook gets.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::alertmanager::{Alertmanager, Notification, Webhooks};
use testkit::prometheus::{Prometheus, PrometheusOptions, Target};
use testkit::wait;

use crate::common::{GPUS, LONG, Node};

/// A file of `alerts/` with every wait after that key as long as given.
fn shipped(name: &str, waits: &[(&str, &str)]) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../alerts").join(name);
    let text = fs::read_to_string(path).unwrap();
    let line = |line: &str| {
        let key = line.trim_start().split(':').next().unwrap_or_default();
        let wait = waits.iter().find(|(name, _)| *name == key);
        let indent = &line[..line.len() - line.trim_start().len()];
        wait.map_or(line.to_owned(), |(key, wait)| format!("{indent}{key}: {wait}"))
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n") + "\n"
}

const ALERT: &str = "NodewardenFaultDrains";
/// Of scrapes and evaluations.
const INTERVAL: Duration = Duration::from_secs(5);

/// The alerts of that name in notifications: where each was sent, its fingerprint, beginning and status.
fn alerts(got: &[Notification]) -> BTreeSet<[String; 4]> {
    let of = |(path, sent): &Notification| {
        let alerts = sent["alerts"].as_array().cloned().unwrap_or_default();
        let ours = alerts.into_iter().filter(|a| a["labels"]["alertname"] == ALERT);
        let text = |a: &Value, key: &str| a[key].to_string();
        ours.map(|a| {
            [
                path.clone(),
                text(&a, "fingerprint"),
                text(&a, "startsAt"),
                text(&a, "status"),
            ]
        })
        .collect::<Vec<_>>()
    };
    got.iter().flat_map(of).collect()
}

/// When Prometheus last evaluated the group of the alert.
fn evaluated(prometheus: &Prometheus) -> Option<String> {
    let rules = prometheus.api("/api/v1/rules").unwrap();
    let has = |group: &&Value| {
        let rules = group["rules"].as_array().into_iter().flatten();
        rules.into_iter().any(|rule| rule["name"] == ALERT)
    };
    let group = rules["groups"].as_array()?.iter().find(has)?;
    group["lastEvaluation"].as_str().map(str::to_owned)
}

#[test]
fn a_fault_reaches_a_webhook_with_gpu_node_remedy_and_runbook_and_an_acknowledgement_is_no_new_alert() {
    let mut node = Node::new();
    node.set("health.mode=\"drain\"");
    node.start();
    let hooks = Webhooks::start().unwrap();
    let config = shipped(
        "alertmanager.example.yml",
        &[("group_wait", "1s"), ("group_interval", "1s")],
    );
    let config = config.replace("127.0.0.1:9099", hooks.address());
    assert_eq!(
        config.matches(hooks.address()).count(),
        3,
        "one for each receiver"
    );
    let alertmanager = Alertmanager::start(&config).unwrap();
    let rules = node.path("nodewarden.rules.yml");
    fs::write(&rules, shipped("nodewarden.rules.yml", &[("for", "0s")])).unwrap();
    let mut target = Target::new("nodewarden", "");
    let labels = json!({ "cluster": "alpha", "instance": "gpu17" });
    target.client.insert(
        "static_configs".to_owned(),
        json!([{ "targets": [node.address().unwrap()], "labels": labels }]),
    );
    let prometheus = Prometheus::start(&PrometheusOptions {
        targets: vec![target],
        rules: vec![rules],
        alertmanagers: vec![alertmanager.address()],
        // Also the time limit of a scrape: one that is late on a busy machine would end the alert.
        interval: INTERVAL,
    })
    .unwrap();
    prometheus.wait_up(1, LONG).unwrap();
    node.xid(3, 79);

    let ours = |(path, sent): &Notification| {
        let alert = sent["alerts"]
            .as_array()?
            .iter()
            .find(|a| a["labels"]["alertname"] == ALERT)?;
        Some((path.clone(), alert.clone()))
    };
    let notified = wait::until("the notification", LONG, || Ok(hooks.got().iter().find_map(ours)));
    let (path, alert) = notified.unwrap_or_else(|error| panic!("{error:#}\n{:#?}", hooks.got()));
    assert_eq!(path, "/tickets");
    let (labels, notes) = (&alert["labels"], &alert["annotations"]);
    assert_eq!(
        (&labels["cluster"], &labels["instance"]),
        (&json!("alpha"), &json!("gpu17"))
    );
    let summary = notes["summary"].as_str().unwrap();
    for word in ["gpu17", "xid", GPUS[3]] {
        assert!(summary.contains(word), "{word}: {summary}");
    }
    let description = notes["description"].as_str().unwrap();
    assert!(description.contains("Remedy: reboot."), "{description}");
    let runbook = notes["runbook_url"].as_str().unwrap();
    let name = Path::new(runbook).file_name().unwrap();
    assert_eq!(name, "xid.md");
    let book = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../docs/runbooks")
        .join(name);
    assert!(book.is_file(), "{runbook}");

    let id = node.open_incidents()[0]["id"].as_str().unwrap().to_owned();
    let (code, _, err) = node.cli(&["ack", &id, "--reason", "the vendor is called"]);
    assert_eq!(code, Some(0), "{err}");
    let acknowledged = |rows: &[(_, f64)]| rows.first().is_some_and(|(_, value)| *value == 1.0);
    prometheus
        .wait_query("nodewarden_incident_acknowledged", acknowledged, LONG)
        .unwrap();
    // Three evaluations with it, and the time of a further one for Alertmanager, whose group interval is shorter.
    let mut at: BTreeSet<String> = evaluated(&prometheus).into_iter().collect();
    wait::until("four evaluations", LONG, || {
        at.extend(evaluated(&prometheus));
        Ok((at.len() > 4).then_some(()))
    })
    .unwrap();
    let began = format!("changes(ALERTS_FOR_STATE{{alertname={ALERT:?}}}[5m])");
    let changes = prometheus.query(&began).unwrap();
    let values: Vec<f64> = changes.iter().map(|(_, value)| *value).collect();
    let up = prometheus.query("min_over_time(up[5m])");
    assert_eq!(values, [0.0], "one alert, that began once; up {up:?}");
    let firing = prometheus.firing().unwrap();
    let count = firing
        .iter()
        .filter(|labels| labels["alertname"] == ALERT)
        .count();
    assert_eq!(count, 1, "{firing:?}");
    let all = hooks.got();
    assert_eq!(alerts(&all).len(), 1, "{all:#?}");
}
