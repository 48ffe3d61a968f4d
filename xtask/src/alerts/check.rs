//! Rules of this repository for alerts, which promtool does not know.

use std::collections::BTreeSet;

use super::{Alert, Group, Record, Severity};

/// The problems of the table. `public`: docs/public-interface.txt.
pub(super) fn problems(groups: &[&Group], public: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let records: Vec<&Record> = groups.iter().flat_map(|g| g.records).collect();
    let alerts: Vec<&Alert> = groups.iter().flat_map(|g| g.alerts).collect();
    let core = core_metrics(public);
    let mut names = BTreeSet::new();
    for alert in &alerts {
        let mut say = |what: &str| problems.push(format!("alert {}: {what}", alert.name));
        if !names.insert(alert.name) {
            say("twice");
        }
        if [alert.summary, alert.description, alert.act]
            .iter()
            .any(|text| text.is_empty())
        {
            say("summary, description and act must be given");
        }
        if alert.silent.is_none() && alert.severity != Severity::None {
            say("no case in which it is silent");
        }
        // A fleet has several clusters: an alert that loses the label cannot be routed.
        if alert.expr.contains("by (")
            && alert
                .expr
                .split("by (")
                .skip(1)
                .any(|by| !by.starts_with("cluster"))
        {
            say("a sum without the label cluster");
        }
    }
    for alert in &alerts {
        for text in [alert.summary, alert.description, alert.act] {
            for command in without_reason(text) {
                problems.push(format!("alert {}: `{command}` without --reason", alert.name));
            }
        }
    }
    for record in &records {
        // An instant vector forgets a record after 5 min in which Prometheus was away.
        let own = record.expr.matches(record.name).count();
        let ranges = record
            .expr
            .matches(&format!("last_over_time({}[", record.name))
            .count();
        if own != ranges {
            problems.push(format!("{}: reads itself without last_over_time", record.name));
        }
    }
    for case in groups.iter().flat_map(|g| g.further) {
        if !names.contains(case.alert) {
            problems.push(format!(
                "a test of the alert {}, which does not exist",
                case.alert
            ));
        }
    }
    let exprs = records.iter().map(|r| (r.name, r.expr));
    for (name, expr) in exprs.chain(alerts.iter().map(|a| (a.name, a.expr))) {
        for metric in metrics(expr) {
            let is_recorded = records.iter().any(|r| r.name == metric);
            let base = metric.strip_suffix("_bucket").unwrap_or(metric);
            if !(is_recorded || core.contains(base)) {
                problems.push(format!(
                    "{name}: {metric} is no core metric of docs/public-interface.txt"
                ));
            }
        }
    }
    problems
}

/// Orders with arguments, in backquotes, that lack the reason which each of them requires.
fn without_reason(text: &str) -> impl Iterator<Item = &str> {
    const ORDERS: [&str; 4] = ["ack ", "clear ", "pause ", "resume "];
    let quoted = text.split('`').skip(1).step_by(2);
    quoted.filter(|quoted| {
        let order = quoted.strip_prefix("nodewarden ").unwrap_or_default();
        ORDERS.iter().any(|verb| order.starts_with(verb)) && !order.contains("--reason")
    })
}

/// The names of core metrics in docs/public-interface.txt.
pub(crate) fn core_metrics(public: &str) -> BTreeSet<&str> {
    public.lines().filter_map(core_metric).collect()
}

/// `metric NAME: KIND core ...`
fn core_metric(line: &str) -> Option<&str> {
    let (name, of) = line.strip_prefix("metric ")?.split_once(": ")?;
    (of.split(' ').nth(1) == Some("core")).then_some(name)
}

/// nodewarden's metrics and recording rules in an expression.
pub(crate) fn metrics(expr: &str) -> impl Iterator<Item = &str> {
    const PREFIXES: [&str; 8] = [
        "gpu_",
        "rdma_",
        "lustre_",
        "gpfs_",
        "mount_",
        "slurm_",
        "host_",
        "nodewarden_",
    ];
    let words = expr.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ':'));
    // A label.
    let words = words.filter(|word| *word != "gpfs_cluster");
    words.filter(|word| word.contains(':') && word.len() > 1 || PREFIXES.iter().any(|p| word.starts_with(p)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alerts::{Case, GROUPS, Runbook};

    const PUBLIC: &str = "metric gpu_up: gauge core gpu\nmetric gpu_x: gauge detail gpu\n";

    fn problems_of(expr: &'static str, silent: bool) -> Vec<String> {
        let case = || Case { input: &[], at: "1m" };
        let alerts = vec![Alert {
            name: "A",
            expr,
            lasts: "",
            severity: Severity::Page,
            summary: "s",
            description: "d",
            act: "a",
            runbook: Runbook::Own,
            fires: case(),
            silent: silent.then(case),
        }];
        let group = Group {
            name: "g",
            about: "",
            records: &[],
            alerts: Vec::leak(alerts),
            further: &[],
        };
        problems(&[&group], PUBLIC)
    }

    #[test]
    fn an_alert_uses_core_metrics_keeps_the_cluster_and_is_tested_both_ways() {
        assert!(problems_of("sum by (cluster) (gpu_up) == 0", true).is_empty());
        assert!(problems_of("gpu_x > 1", true)[0].contains("gpu_x is no core metric"));
        assert!(problems_of("gpu_nothing > 1", true)[0].contains("gpu_nothing"));
        assert!(problems_of("sum by (gpu) (gpu_up)", true)[0].contains("cluster"));
        assert!(problems_of("gpu_up == 0", false)[0].contains("silent"));
    }

    #[test]
    fn an_order_in_a_text_has_its_reason() {
        let text = "`nodewarden ack` ends it, `nodewarden pause --cluster` stops, `nodewarden ack ID --reason TEXT`.";
        let found: Vec<&str> = without_reason(text).collect();
        assert_eq!(found, ["nodewarden pause --cluster"]);
    }

    /// Those of class `app` but 94, which is a memory error, and those that follow others.
    #[test]
    fn the_alert_about_an_xid_of_many_nodes_leaves_out_what_applications_cause() {
        let path = crate::cmd::root().join("agent/health/src/xids.toml");
        let table: toml::Table = std::fs::read_to_string(path).unwrap().parse().unwrap();
        let rows = table["xid"].as_array().unwrap();
        let of_applications = rows.iter().filter(|row| row["class"].as_str() == Some("app"));
        let mut codes: Vec<i64> = of_applications
            .map(|row| row["code"].as_integer().unwrap())
            .filter(|code| *code != 94)
            .chain([45, 154])
            .collect();
        codes.sort_unstable();
        let codes: Vec<String> = codes.iter().map(ToString::to_string).collect();
        let mut alerts = GROUPS.iter().flat_map(|group| group.alerts);
        let alert = alerts
            .find(|alert| alert.name == "GpuSameXidOnManyNodes")
            .unwrap();
        let left_out = format!("{{xid!~\"{}\"}}", codes.join("|"));
        assert!(alert.expr.contains(&left_out), "expected {left_out}");
    }

    #[test]
    fn the_table_follows_the_rules() {
        let path = crate::cmd::root().join("docs/public-interface.txt");
        let public = std::fs::read_to_string(path).unwrap();
        assert_eq!(problems(GROUPS, &public), Vec::<String>::new());
    }
}
