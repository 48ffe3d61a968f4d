//! Rules of this repository for dashboards, and the queries in a form that promtool parses.

use std::collections::BTreeSet;
use std::fmt::Write;

use serde_json::Value;

use super::{Dashboard, Kind, Panel, Variable, json, recipes};
use crate::alerts::{core_metrics, metrics, records};

/// How metrics begin that are read every 30 or 60 s (collectors ethernet and mounts). `$__rate_interval` is 60 s with a scrape
/// of 15 s: a rate over it would be 0, or up to 133 % of the true one.
const SLOW: [&str; 3] = ["rdma_pfc_", "rdma_phy_", "mount_"];

/// Labels whose values mean the same in every cluster. Filesystems, mount points, rails, partitions and jobs of one name do not.
const COMMON: [&str; 9] = [
    "by",
    "check",
    "collector",
    "page",
    "process",
    "reason",
    "state",
    "verdict",
    "worker",
];

/// The problems of the table. `public`: docs/public-interface.txt.
pub(super) fn problems(all: &[&Dashboard], public: &str) -> Vec<String> {
    let core = core_metrics(public);
    let mut problems = Vec::new();
    let mut uids = BTreeSet::new();
    for dashboard in all {
        if !uids.insert(dashboard.uid) {
            problems.push(format!("{}: twice", dashboard.uid));
        }
        for panel in panels(dashboard) {
            let mut say = |what: String| problems.push(format!("{}, {}: {what}", dashboard.uid, panel.title));
            if [panel.title, panel.description, panel.unit]
                .iter()
                .any(|text| text.is_empty())
            {
                say("title, description and unit must be given".to_owned());
            }
            if panel.queries.is_empty() || panel.width == 0 || panel.width > 24 {
                say("needs a query and a width of 1 to 24".to_owned());
            }
            for (expr, legend) in panel.queries {
                if legend.contains("{{gpu}}") {
                    say(format!(
                        "the legend {legend} shows UUIDs: use %i and {{{{index}}}}"
                    ));
                }
                if let Some(what) = over_clusters(panel.kind, expr, legend) {
                    say(what);
                }
                if panel.kind != Kind::Lines && expr.contains("increase(") && !expr.starts_with("round(") {
                    say("an increase is extrapolated, 1 event is 1.03: round it".to_owned());
                }
                if expr.contains("histogram_quantile(") && !expr.ends_with(">= 0") {
                    say("a quantile of no observation is NaN: end it with `>= 0`".to_owned());
                }
                for (mark, needs) in [
                    ("%n", Variable::Instance),
                    ("%g", Variable::Gpu),
                    ("%i", Variable::Instance),
                    ("$jobid", Variable::Job),
                ] {
                    if expr.contains(mark) && !dashboard.variables.contains(&needs) {
                        say(format!("{mark} needs the variable {needs:?}"));
                    }
                }
                let is_slow = |metric: &&str| SLOW.iter().any(|start| metric.starts_with(start));
                if let Some(metric) = metrics(expr).find(is_slow)
                    && expr.contains("$__rate_interval")
                {
                    say(format!("{metric} is read every 30 or 60 s: use [5m]"));
                }
                for metric in metrics(expr) {
                    let base = metric.strip_suffix("_bucket").unwrap_or(metric);
                    if !(core.contains(base) || records().any(|record| record == metric)) {
                        say(format!("{metric} is no core metric of docs/public-interface.txt"));
                    }
                }
            }
        }
        problems.extend(overlaps(dashboard));
    }
    for recipe in recipes::RECIPES {
        for metric in metrics(recipe.expr) {
            // The names of recording rules have a colon; `demo fleet --check` runs them.
            if !(core.contains(metric) || metric.contains(':')) {
                problems.push(format!("{}: {metric} is no core metric", recipe.question));
            }
        }
    }
    problems
}

/// What a query adds up over clusters that does not belong together, or a legend that does not distinguish the clusters.
fn over_clusters(kind: Kind, expr: &str, legend: &str) -> Option<String> {
    let of_a_job = expr.contains("$jobid");
    if of_a_job && ["sum(", "count("].iter().any(|total| expr.starts_with(total)) {
        return Some("two clusters have jobs of the same number: sum by (cluster)".to_owned());
    }
    if kind != Kind::Lines {
        return None;
    }
    let mut firsts = expr
        .split(" by (")
        .skip(1)
        .filter_map(|by| by.split([',', ')']).next());
    if let Some(first) = firsts.find(|first| *first != "cluster" && !COMMON.contains(first)) {
        return Some(format!("{first} of several clusters: sum by (cluster, {first})"));
    }
    let is_total = ["sum(", "avg("].iter().any(|one| expr.starts_with(one)) || !expr.contains(" by (cluster");
    let is_shown = ["{{cluster}}", "{{instance}}"]
        .iter()
        .any(|label| legend.contains(label));
    (!is_total && !is_shown).then(|| format!("the legend {legend} does not show the cluster"))
}

fn panels(dashboard: &Dashboard) -> impl Iterator<Item = &Panel> {
    dashboard.rows.iter().flat_map(|row| row.panels)
}

/// Panels of the written file that cover each other, or that share a number.
fn overlaps(dashboard: &Dashboard) -> Vec<String> {
    let text = json::text(dashboard).unwrap_or_default();
    let file: Value = serde_json::from_str(&text).unwrap_or_default();
    let mut taken = BTreeSet::new();
    let mut ids = BTreeSet::new();
    let mut problems = Vec::new();
    for panel in file["panels"].as_array().into_iter().flatten() {
        let at = |key: &str| panel["gridPos"][key].as_u64().unwrap_or_default();
        if !ids.insert(panel["id"].as_u64()) {
            problems.push(format!("{}: a number twice: {}", dashboard.uid, panel["id"]));
        }
        for x in at("x")..at("x") + at("w") {
            for y in at("y")..at("y") + at("h") {
                if x >= 24 || !taken.insert((x, y)) {
                    problems.push(format!(
                        "{}: {} covers another panel",
                        dashboard.uid, panel["title"]
                    ));
                }
            }
        }
    }
    problems
}

/// A query as promtool reads it: everything is selected.
pub(super) fn whole(expr: &str) -> String {
    filled(&json::query(expr))
}

/// A query of a file, with values in place of its variables.
pub(super) fn filled(query: &str) -> String {
    let mut text = query.to_owned();
    for (variable, value) in [
        ("$__rate_interval", "5m"),
        ("$__range_s", "3600"),
        ("$__range", "1h"),
        ("$cluster", ".*"),
        ("$instance", ".*"),
        ("$gpu", ".*"),
        ("$jobid", ".*"),
    ] {
        text = text.replace(variable, value);
    }
    text
}

/// Every query as a recording rule, with values in place of variables.
pub(super) fn as_rules(all: &[&Dashboard]) -> String {
    let mut out = String::from("groups:\n  - name: queries\n    rules:\n");
    let queries = all.iter().flat_map(|d| panels(d)).flat_map(|panel| panel.queries);
    let recipes = recipes::RECIPES.iter().map(|recipe| recipe.expr.to_owned());
    for (number, text) in queries.map(|(expr, _)| whole(expr)).chain(recipes).enumerate() {
        let text = Value::from(text);
        writeln!(out, "      - record: query:number{number}\n        expr: {text}").ok();
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dashboards::{DASHBOARDS, Row};

    #[test]
    fn the_table_follows_the_rules() {
        let path = crate::cmd::root().join("docs/public-interface.txt");
        let public = std::fs::read_to_string(path).unwrap();
        assert_eq!(problems(DASHBOARDS, &public), Vec::<String>::new());
    }

    #[test]
    fn a_panel_uses_core_metrics_and_variables_that_its_dashboard_has() {
        static BAD: Dashboard = Dashboard {
            uid: "bad",
            title: "t",
            description: "d",
            variables: &[],
            one: false,
            rows: &[Row {
                title: "r",
                panels: &[Panel {
                    title: "p",
                    description: "",
                    unit: "short",
                    kind: Kind::Lines,
                    width: 30,
                    queries: &[(
                        "gpu_nothing{%g} + rate(rdma_pfc_rx_pause_seconds_total[$__rate_interval])",
                        "{{gpu}}",
                    )],
                }],
            }],
        };
        let found = problems(&[&BAD], "metric gpu_up: gauge core gpu\n").join("\n");
        for part in [
            "description",
            "width",
            "%g needs the variable Gpu",
            "gpu_nothing is no core metric",
            "shows UUIDs",
            "read every 30 or 60 s",
            "covers",
        ] {
            assert!(found.contains(part), "{part}: {found}");
        }
    }

    #[test]
    fn a_sum_keeps_clusters_apart() {
        let lines = |expr, legend| over_clusters(Kind::Lines, expr, legend).is_some();
        assert!(lines("sum by (fs) (rate(x[5m]))", "{{fs}}"));
        assert!(lines("sum by (cluster, fs) (rate(x[5m]))", "{{fs}}"));
        assert!(!lines("sum by (cluster, fs) (rate(x[5m]))", "{{cluster}} {{fs}}"));
        assert!(!lines("topk(10, sum by (cluster, instance) (x))", "{{instance}}"));
        assert!(!lines("sum by (verdict) (x)", "{{verdict}}"));
        assert!(!lines("sum(count by (cluster, gpu) (x))", "allocated"));
        assert!(!lines("avg(avg by (cluster, gpu) (x))", "active"));
        let number = |expr| over_clusters(Kind::Stat(None), expr, "").is_some();
        assert!(number("sum(x{jobid=~\"$jobid\"})") && !number("sum(x)"));
        assert!(!number("sum by (cluster) (x{jobid=~\"$jobid\"})"));
    }

    #[test]
    fn no_variable_is_left_in_a_query_for_promtool() {
        let rules = as_rules(DASHBOARDS);
        assert!(!rules.contains('$') && !rules.contains('%'), "{rules}");
    }
}
