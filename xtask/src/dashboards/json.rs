//! The table as Grafana's JSON.

use anyhow::Result;
use serde_json::{Map, Value, json};

use super::{DASHBOARDS, Dashboard, Kind, Panel, Variable};

/// Grafana 11.
const SCHEMA: u32 = 39;
const HEIGHT: u32 = 8;
const STAT_HEIGHT: u32 = 4;
const COLUMNS: u32 = 24;
/// The tag of dashboards that show all nodes.
const OVERVIEW: &str = "nodewarden-overview";

/// The file of a dashboard.
pub(super) fn text(of: &Dashboard) -> Result<String> {
    Ok(serde_json::to_string_pretty(&dashboard(of))? + "\n")
}

fn source() -> Value {
    json!({ "type": "prometheus", "uid": "${datasource}" })
}

/// A query with its selectors.
pub(super) fn query(expr: &str) -> String {
    let cluster = "cluster=~\"$cluster\"";
    let node = format!("{cluster},instance=~\"$instance\"");
    let gpu = format!("{node},gpu=~\"$gpu\"");
    // A GPU's label is its UUID: legends show its index. `max` merges the series of a driver before and after an update.
    let index = " * on (cluster, instance, gpu) group_left (index) max by (cluster, instance, gpu, index) (gpu_info{%n})";
    expr.replace("%i", index)
        .replace("%g", &gpu)
        .replace("%n", &node)
        .replace("%c", cluster)
}

fn dashboard(of: &Dashboard) -> Value {
    json!({
        "uid": of.uid,
        "title": of.title,
        "description": of.description,
        "tags": if of.one { json!(["nodewarden"]) } else { json!(["nodewarden", OVERVIEW]) },
        "schemaVersion": SCHEMA,
        "version": 1,
        "editable": true,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": { "from": "now-6h", "to": "now" },
        "timezone": "",
        "annotations": { "list": [] },
        "links": links(of),
        "templating": { "list": variables(of) },
        "panels": panels(of),
    })
}

/// Links to the other dashboards. Where `All` cannot be selected, Grafana would take it for the name of a node: only a dashboard that
/// cannot have it either hands its node on.
fn links(of: &Dashboard) -> Vec<Value> {
    let mut list = vec![json!({
        "title": "nodewarden",
        "type": "dashboards",
        "tags": [OVERVIEW],
        "asDropdown": true,
        "includeVars": true,
        "keepTime": true,
        "icon": "external link",
        "targetBlank": false,
        "tooltip": "Other dashboards of nodewarden",
        "url": ""
    })];
    let has_node = of.one && of.variables.last() == Some(&Variable::Instance);
    let node = if has_node { "&${instance:queryparam}" } else { "" };
    for to in DASHBOARDS.iter().filter(|to| to.one && to.uid != of.uid) {
        list.push(json!({
            "title": to.title.trim_start_matches("nodewarden / "),
            "type": "link",
            "tags": [],
            "asDropdown": false,
            "includeVars": false,
            "keepTime": true,
            "icon": "dashboard",
            "targetBlank": false,
            "tooltip": to.description,
            "url": format!("/d/{}?${{datasource:queryparam}}&${{cluster:queryparam}}{node}", to.uid)
        }));
    }
    list
}

fn variables(of: &Dashboard) -> Vec<Value> {
    let mut list = vec![json!({
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
        "hide": 0,
        "includeAll": false,
        "multi": false,
        "options": [],
        "refresh": 1,
        "regex": ""
    })];
    // The newest job is first, of others the first by name.
    let select = |name: &str, label: &str, query: String| {
        json!({
            "name": name,
            "label": label,
            "type": "query",
            "datasource": source(),
            "query": { "query": query, "refId": "variable" },
            "hide": 0,
            "includeAll": true,
            "allValue": ".*",
            "multi": true,
            "options": [],
            "refresh": 2,
            "regex": "",
            "sort": if name == "jobid" { 4 } else { 1 }
        })
    };
    let values = "label_values(nodewarden_build_info, cluster)".to_owned();
    list.push(select("cluster", "Cluster", values));
    for variable in of.variables {
        list.push(match variable {
            Variable::Instance => {
                let values = query("label_values(nodewarden_build_info{%c}, instance)");
                select("instance", "Node", values)
            }
            Variable::Gpu => select("gpu", "GPU", query("label_values(gpu_info{%n}, gpu)")),
            Variable::Job => select("jobid", "Job", query("label_values(slurm_job_info{%c}, jobid)")),
        });
    }
    if of.one
        && let Some(last) = list.last_mut()
    {
        last["includeAll"] = json!(false);
    }
    list
}

fn panels(of: &Dashboard) -> Vec<Value> {
    let mut list = Vec::new();
    let (mut id, mut y) = (0, 0);
    let mut next = || {
        id += 1;
        id
    };
    for row in of.rows {
        list.push(json!({
            "id": next(),
            "type": "row",
            "title": row.title,
            "collapsed": false,
            "gridPos": { "x": 0, "y": y, "w": COLUMNS, "h": 1 },
            "panels": []
        }));
        y += 1;
        let (mut x, mut height) = (0, 0);
        for panel in row.panels {
            let width = u32::from(panel.width);
            if x + width > COLUMNS {
                (x, y, height) = (0, y + height, 0);
            }
            let tall = if matches!(panel.kind, Kind::Stat(_) | Kind::Word(_)) {
                STAT_HEIGHT
            } else {
                HEIGHT
            };
            list.push(shown(panel, next(), [x, y, width, tall]));
            height = height.max(tall);
            x += width;
        }
        y += height;
    }
    list
}

fn shown(panel: &Panel, id: u32, [x, y, w, h]: [u32; 4]) -> Value {
    let is_table = panel.kind == Kind::Table;
    // A range would show the last value of a lost node for hours. At the end of the range it has none.
    let is_instant = panel.kind != Kind::Lines;
    let targets: Vec<Value> = ('A'..)
        .zip(panel.queries)
        .map(|(id, (expr, legend))| {
            json!({
                "refId": id.to_string(),
                "datasource": source(),
                "editorMode": "code",
                "expr": query(expr),
                "legendFormat": legend,
                "instant": is_instant,
                "range": !is_instant,
                "format": if is_table { "table" } else { "time_series" },
            })
        })
        .collect();
    let (kind, options, transformations) = match panel.kind {
        Kind::Stat(_) | Kind::Word(_) => (
            "stat",
            json!({
                "reduceOptions": { "calcs": ["lastNotNull"], "fields": "", "values": false },
                "colorMode": "value",
                "graphMode": "none",
                "justifyMode": "auto",
                "orientation": "auto",
                "textMode": "auto"
            }),
            json!([]),
        ),
        Kind::Lines => (
            "timeseries",
            json!({
                "legend": { "showLegend": true, "displayMode": "list", "placement": "bottom", "calcs": [] },
                "tooltip": { "mode": "multi", "sort": "desc" }
            }),
            json!([]),
        ),
        Kind::Table => (
            "table",
            json!({ "showHeader": true, "cellHeight": "sm" }),
            json!([columns(panel)]),
        ),
    };
    json!({
        "id": id,
        "type": kind,
        "title": panel.title,
        "description": panel.description,
        "datasource": source(),
        "gridPos": { "x": x, "y": y, "w": w, "h": h },
        "targets": targets,
        "options": options,
        "transformations": transformations,
        "fieldConfig": { "defaults": defaults(panel), "overrides": overrides(panel) },
    })
}

/// The columns of a table: first where, then what, then other labels, and the value.
fn columns(panel: &Panel) -> Value {
    const FIRST: [&str; 10] = [
        "cluster",
        "instance",
        "check",
        "collector",
        "subject_kind",
        "subject",
        "gpu",
        "index",
        "name",
        "driver",
    ];
    let places: Map<String, Value> = (0u32..)
        .zip(FIRST)
        .map(|(at, name)| (name.to_owned(), at.into()))
        .collect();
    // The time of the query and labels that every row has say nothing, nor does the 1 of an info metric.
    let mut hidden = json!({ "Time": true, "__name__": true, "job": true });
    let mut names = json!({});
    match panel.queries.first() {
        Some((_, "")) | None => hidden["Value"] = json!(true),
        Some((_, heading)) => names["Value"] = json!(heading),
    }
    json!({
        "id": "organize",
        "options": { "excludeByName": hidden, "indexByName": places, "renameByName": names }
    })
}

fn defaults(panel: &Panel) -> Value {
    let mut steps = vec![json!({ "color": "green", "value": null })];
    if let Kind::Stat(Some(bad)) = panel.kind {
        steps.push(json!({ "color": "red", "value": bad }));
    }
    let is_table = panel.kind == Kind::Table;
    let mut defaults = json!({
        // With any other unit, Grafana formats labels that look like numbers: a serial as 1.65 Tri.
        "unit": if is_table { "string" } else { panel.unit },
        "thresholds": { "mode": "absolute", "steps": steps },
        "color": { "mode": if panel.kind == Kind::Lines { "palette-classic" } else { "thresholds" } },
    });
    if is_table {
        defaults["custom"] = json!({ "minWidth": LEAST_WIDTH });
    } else {
        // In a table an empty label would show it too.
        defaults["noValue"] = json!("no data");
    }
    if let Kind::Word(words) = panel.kind {
        let word = |(index, (number, text, color)): (usize, &(u8, &str, &str))| {
            (
                number.to_string(),
                json!({ "text": text, "color": color, "index": index }),
            )
        };
        let options: Map<String, Value> = words.iter().enumerate().map(word).collect();
        defaults["mappings"] = json!([{ "type": "value", "options": options }]);
    }
    if panel.kind == Kind::Lines {
        defaults["custom"] = json!({
            "drawStyle": "line",
            "lineWidth": 1,
            // Fills of many lines on each other have a colour of their own.
            "fillOpacity": 0,
            // Shows a value between gaps, which no line does.
            "showPoints": "auto",
            // A value that could not be read is a gap.
            "spanNulls": false
        });
        // Else a small change fills the axis. Temperatures and clocks have no useful zero.
        if !matches!(panel.unit, "celsius" | "hertz") {
            defaults["custom"]["axisSoftMin"] = json!(0);
        }
        // The axis of zeros only: Grafana's is 0 to 100, which is 10000 % of a ratio.
        match panel.unit {
            "percentunit" => defaults["custom"]["axisSoftMax"] = json!(0.01),
            "short" => defaults["custom"]["axisSoftMax"] = json!(1),
            _ => {}
        }
    }
    defaults
}

/// Pixels of columns: Grafana's are equal and not below 150, which cuts UUIDs and hides the last columns.
const WIDTHS: [(&str, u32); 14] = [
    ("cluster", 90),
    ("instance", 120),
    ("subject_kind", 150),
    ("subject", 340),
    ("gpu", 340),
    ("index", 60),
    ("name", 190),
    ("driver", 100),
    ("vendor", 80),
    ("xid", 70),
    ("architecture", 100),
    ("part", 130),
    ("pci", 120),
    ("serial", 130),
];
/// Of other columns, which share what is left.
const LEAST_WIDTH: u32 = 70;

/// The palette's are green, yellow, blue.
const VERDICTS: [(&str, &str); 3] = [("healthy", "green"), ("unhealthy", "red"), ("unknown", "orange")];

fn colored(name: &str, color: &str) -> Value {
    json!({
        "matcher": { "id": "byName", "options": name },
        "properties": [{ "id": "color", "value": { "mode": "fixed", "fixedColor": color } }]
    })
}

/// Lines of verdicts have their colours. In tables, a node leads to its dashboard.
fn overrides(panel: &Panel) -> Value {
    if panel.kind != Kind::Table {
        let is_verdict = |(_, legend): &(&str, &str)| *legend == "{{verdict}}";
        let colors: &[(&str, &str)] = if panel.queries.iter().any(is_verdict) {
            &VERDICTS
        } else {
            &[]
        };
        return colors.iter().map(|(name, color)| colored(name, color)).collect();
    }
    let mut list = json!([{
        "matcher": { "id": "byName", "options": "instance" },
        "properties": [{
            "id": "links",
            "value": [{
                "title": "Node",
                "url": "/d/nodewarden-node?${datasource:queryparam}&${cluster:queryparam}&var-instance=${__value.text}&${__url_time_range}"
            }]
        }]
    }]);
    if let Some(list) = list.as_array_mut() {
        list.push(json!({
            "matcher": { "id": "byName", "options": "Value" },
            "properties": [{ "id": "unit", "value": panel.unit }]
        }));
        list.extend(WIDTHS.map(|(name, width)| {
            json!({
                "matcher": { "id": "byName", "options": name },
                "properties": [{ "id": "custom.width", "value": width }]
            })
        }));
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panel(kind: Kind, unit: &'static str) -> Panel {
        Panel {
            title: "t",
            description: "d",
            unit,
            kind,
            width: 12,
            queries: &[("up{%n}", "")],
        }
    }

    #[test]
    fn an_axis_begins_at_zero_and_that_of_zeros_is_short() {
        let of = |unit| defaults(&panel(Kind::Lines, unit))["custom"].clone();
        assert_eq!(
            (
                &of("percentunit")["axisSoftMin"],
                &of("percentunit")["axisSoftMax"]
            ),
            (&json!(0), &json!(0.01))
        );
        assert_eq!(
            (&of("Bps")["axisSoftMin"], &of("Bps")["axisSoftMax"]),
            (&json!(0), &Value::Null)
        );
        assert_eq!(of("celsius")["axisSoftMin"], Value::Null);
    }

    /// Grafana formats labels as numbers, and shows empty ones as what stands for no value, where these are of the whole table.
    #[test]
    fn in_a_table_the_unit_is_that_of_the_value_alone() {
        let config = &shown(&panel(Kind::Table, "dateTimeFromNow"), 1, [0, 0, 6, 4])["fieldConfig"];
        assert_eq!(config["defaults"]["unit"], json!("string"));
        assert_eq!(config["defaults"]["noValue"], Value::Null);
        let unit = json!([{ "id": "unit", "value": "dateTimeFromNow" }]);
        let overrides = config["overrides"].as_array().unwrap();
        let of_value = overrides.iter().find(|o| o["matcher"]["options"] == "Value");
        assert_eq!(of_value.unwrap()["properties"], unit);
    }

    #[test]
    fn a_table_shows_a_value_that_has_a_heading() {
        let of = |heading| {
            columns(&Panel {
                queries: vec![("up{%n}", heading)].leak(),
                ..panel(Kind::Table, "short")
            })["options"]
                .clone()
        };
        assert_eq!(of("")["excludeByName"]["Value"], json!(true));
        assert_eq!(of("nodes")["excludeByName"]["Value"], Value::Null);
        assert_eq!(of("nodes")["renameByName"]["Value"], json!("nodes"));
        assert_eq!(of("nodes")["indexByName"]["instance"], json!(1));
    }

    /// `lastNotNull` of a range is the last value of a node that has been lost since: healthy.
    #[test]
    fn only_lines_ask_for_a_range() {
        let mut kinds = std::collections::BTreeSet::new();
        for dashboard in DASHBOARDS {
            for panel in panels(dashboard) {
                let kind = panel["type"].as_str().unwrap().to_owned();
                for target in panel["targets"].as_array().into_iter().flatten() {
                    let asks = (&target["instant"], &target["range"]);
                    let lines = kind == "timeseries";
                    assert_eq!(asks, (&json!(!lines), &json!(lines)), "{}", panel["title"]);
                }
                kinds.insert(kind);
            }
        }
        assert!(
            kinds.contains("stat") && kinds.contains("timeseries"),
            "{kinds:?}"
        );
    }

    /// All GPUs or ports of a large cluster are more samples than a query may read.
    #[test]
    fn a_dashboard_of_one_thing_opens_with_one() {
        for dashboard in DASHBOARDS {
            let list = variables(dashboard);
            let of_all: Vec<bool> = list[1..].iter().map(|v| v["includeAll"] == true).collect();
            let one = ["nodewarden-node", "nodewarden-gpu", "nodewarden-job"].contains(&dashboard.uid);
            let mut expected = vec![true; of_all.len()];
            expected[of_all.len() - 1] = !one;
            assert_eq!(of_all, expected, "{}", dashboard.uid);
            assert!(list[1..].iter().all(|v| v["multi"] == true), "{}", dashboard.uid);
        }
    }

    /// Grafana keeps a value of an address, also `All` where it cannot be selected.
    #[test]
    fn every_other_dashboard_is_linked_and_all_leads_to_none_without_it() {
        for from in DASHBOARDS {
            let links = links(from);
            for to in DASHBOARDS.iter().filter(|to| to.uid != from.uid) {
                let leads = |link: &&Value| match link["url"].as_str() {
                    Some("") => dashboard(to)["tags"]
                        .as_array()
                        .unwrap()
                        .contains(&link["tags"][0]),
                    url => url.unwrap().starts_with(&format!("/d/{}?", to.uid)),
                };
                let found: Vec<&Value> = links.iter().filter(leads).collect();
                let [link] = found[..] else {
                    panic!("{} to {}: {found:?}", from.uid, to.uid);
                };
                assert_eq!(link["includeVars"] == true, !to.one, "{} to {}", from.uid, to.uid);
                let has_node = link["url"].as_str().unwrap().contains("instance");
                assert_eq!(has_node, from.uid == "nodewarden-node" && to.one, "{}", to.uid);
            }
        }
    }

    #[test]
    fn a_word_has_its_color_and_no_graph() {
        let kind = Kind::Word(&[(0, "healthy", "green"), (1, "unknown", "orange")]);
        let of = shown(&panel(kind, "short"), 1, [0, 0, 6, 4]);
        let mapping = &of["fieldConfig"]["defaults"]["mappings"][0]["options"];
        assert_eq!(
            mapping["1"],
            json!({ "text": "unknown", "color": "orange", "index": 1 })
        );
        assert_eq!(
            (&of["type"], &of["options"]["graphMode"]),
            (&json!("stat"), &json!("none"))
        );
    }
}
