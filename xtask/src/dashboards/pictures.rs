//! The written dashboards in Grafana's own hands: its types check the files, and its components draw every panel in Chromium, in both
//! themes. They come from npm's registry, below target/dashboards; never linked or shipped.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{DASHBOARDS, Dashboard, check, json as file, live};
use crate::browser::{self, Chromium};
use crate::{cmd, deps};

const THEMES: [&str; 2] = ["dark", "light"];
/// The time that the panels show, in minutes.
const MINUTES: u32 = 15;
/// Time limit of npm and of each of its programs.
const LIMIT: Duration = Duration::from_mins(10);
/// Tables whose last columns are beyond the edge: the labels of a GPU are wider than a page.
const SCROLLS: &[&str] = &["nodewarden-gpu, GPU"];
/// Files of `xtask/panels`.
const APP: [(&str, &str); 3] = [
    ("app.jsx", include_str!("../../panels/app.jsx")),
    ("package.json", include_str!("../../panels/package.json")),
    (
        "package-lock.json",
        include_str!("../../panels/package-lock.json"),
    ),
];
/// Grafana's types as JSON has them: an enumeration is one of its words. What a panel leaves out, Grafana fills in. Its type of a
/// dashboard knows neither the options of a panel nor its query, and the packages have no type of the latter.
const TYPES: &str = "import type { Dashboard } from '@grafana/schema';
import type * as stat from '@grafana/schema/dist/esm/raw/composable/stat/panelcfg/x/StatPanelCfg_types.gen';
import type * as table from '@grafana/schema/dist/esm/raw/composable/table/panelcfg/x/TablePanelCfg_types.gen';
import type * as timeseries from '@grafana/schema/dist/esm/raw/composable/timeseries/panelcfg/x/TimeSeriesPanelCfg_types.gen';
type Plain<T> = T extends string ? `${T}` : T extends object ? { [K in keyof T]: Plain<T[K]> } : T;
type Part<T> = T extends string ? `${T}` : T extends (infer U)[] ? Part<U>[] : T extends object ? { [K in keyof T]?: Part<T[K]> } : T;
type Query = { refId: string, datasource: { type: 'prometheus', uid: string }, editorMode: 'code', expr: string, legendFormat: string,
  instant: boolean, range: boolean, format: 'table' | 'time_series' };
// These types are no `any`: each line has an error, or tsc fails.
// @ts-expect-error
export const wrong1: Part<stat.Options> = { graphMode: 'aera' };
// @ts-expect-error
export const wrong2: Part<timeseries.Options> = { legend: { place: 'bottom' } };
// @ts-expect-error
export const wrong3: Part<timeseries.FieldConfig> = { drawStyle: 'lines' };
// @ts-expect-error
export const wrong4: Part<table.Options> = { cellHeight: 'small' };
";
const TSC: &[&str] = &[
    "--noEmit",
    "--strict",
    "--skipLibCheck",
    "--module",
    "esnext",
    "--moduleResolution",
    "bundler",
    "--target",
    "es2022",
    "types.ts",
];
const ESBUILD: &[&str] = &[
    "app.jsx",
    "--bundle",
    "--minify",
    "--log-level=error",
    "--outfile=out.js",
    "--loader:.svg=dataurl",
    "--loader:.ttf=empty",
    "--define:process.env.NODE_ENV=\"production\"",
];

/// The pages that are still to be drawn: each dashboard in each theme.
pub(crate) struct Pictures {
    work: PathBuf,
    html: String,
    script: String,
    chromium: Option<Chromium>,
    pages: VecDeque<(&'static Dashboard, &'static str)>,
    panels: usize,
    problems: Vec<String>,
}

impl Pictures {
    /// Has Grafana's types check the dashboards, and prepares what draws them.
    ///
    /// # Errors
    /// When npm's registry does not answer, or a file has another type.
    pub(crate) fn prepare() -> Result<Self> {
        // Grafana's font: widths of columns are for it.
        deps::install(&["chromium", "fonts-inter"])?;
        if !cmd::exists("npm") {
            deps::install(&["npm"])?;
        }
        let work = cmd::target_dir()?.join("dashboards");
        fs::create_dir_all(&work)?;
        for (name, text) in APP {
            fs::write(work.join(name), text)?;
        }
        packages(&work)?;
        fs::write(work.join("types.ts"), typed()?)?;
        tool(&work, "tsc", TSC)?;
        tool(&work, "esbuild", ESBUILD)?;
        let style = fs::read_to_string(work.join("out.css"))?;
        let pages = DASHBOARDS
            .iter()
            .flat_map(|&dashboard| THEMES.map(|mode| (dashboard, mode)));
        Ok(Self {
            html: format!("<!doctype html><meta charset=utf-8><style>body{{margin:0}}{style}</style><body>"),
            script: fs::read_to_string(work.join("out.js"))?,
            work,
            chromium: None,
            pages: pages.collect(),
            panels: 0,
            problems: Vec::new(),
        })
    }

    /// Draws the next page from the Prometheus at this address; its picture is in `target/dashboards`. After the last one, returns
    /// how many panels were drawn, each in both themes.
    ///
    /// # Errors
    /// When the browser ends; after the last page, when a panel was not drawn, or not as it should be.
    pub(crate) fn next(&mut self, prometheus: &str) -> Result<Option<usize>> {
        let Some((dashboard, mode)) = self.pages.pop_front() else {
            println!("pictures of the dashboards are in {}", self.work.display());
            ensure!(self.problems.is_empty(), "{}", self.problems.join("\n"));
            return Ok(Some(self.panels));
        };
        let chromium = match &mut self.chromium {
            Some(chromium) => chromium,
            none => none.insert(Chromium::start()?),
        };
        let mut whole: Value = serde_json::from_str(&file::text(dashboard)?)?;
        let expected = select_everything(&mut whole);
        let input = json!({ "dashboard": whole, "mode": mode, "minutes": MINUTES });
        let script = format!("window.INPUT={input};{}", self.script);
        let picture = self.work.join(format!("{}-{mode}.png", dashboard.uid));
        let url = format!("http://{prometheus}/-/healthy");
        let (drawn, errors) =
            browser::scripted(chromium, &url, &self.html, &script, "window.DRAWN", &picture)
                .with_context(|| picture.display().to_string())?;
        // The server is no Grafana: it has neither its fonts nor its icons.
        let of_scripts = errors
            .into_iter()
            .filter(|error| !error.contains("\"source\":\"network\""));
        let mut found: Vec<String> = of_scripts.collect();
        match drawn.map(|drawn| drawn.as_array().cloned().unwrap_or_default()) {
            Ok(drawn) => {
                if drawn.len() != expected {
                    found.push(format!("{} panels, expected {expected}", drawn.len()));
                }
                self.panels += drawn.len();
                found.extend(faults(dashboard.uid, &drawn));
            }
            Err(error) => found.push(format!("{error:#}")),
        }
        let found = found.into_iter();
        self.problems
            .extend(found.map(|what| format!("{}, {mode}: {what}", dashboard.uid)));
        Ok(None)
    }
}

/// Replaces the variables in all queries, as the queries were tested. Returns the number of panels.
fn select_everything(dashboard: &mut Value) -> usize {
    let panels = dashboard["panels"].as_array_mut().into_iter().flatten();
    let panels = panels.filter(|panel| panel["type"] != "row").map(|panel| {
        for target in panel["targets"].as_array_mut().into_iter().flatten() {
            target["expr"] = check::filled(target["expr"].as_str().unwrap_or_default()).into();
        }
    });
    panels.count()
}

/// Installs Grafana's packages, unless the last run installed these.
fn packages(work: &Path) -> Result<()> {
    let (locked, installed) = (
        work.join("package-lock.json"),
        work.join("node_modules/installed"),
    );
    if fs::read(&installed).is_ok_and(|of| fs::read(&locked).is_ok_and(|lock| lock == of)) {
        return Ok(());
    }
    let npm = [
        "ci",
        "--ignore-scripts",
        "--no-audit",
        "--no-fund",
        "--loglevel=error",
    ];
    cmd::run_within(LIMIT, cmd::program("npm", &npm).current_dir(work))?;
    fs::copy(&locked, &installed)?;
    Ok(())
}

/// Runs a program of the installed packages.
fn tool(work: &Path, name: &str, args: &[&str]) -> Result<()> {
    let path = work.join("node_modules/.bin").join(name);
    cmd::run_within(
        LIMIT,
        cmd::program(&path.to_string_lossy(), args).current_dir(work),
    )
}

/// The dashboards as constants of Grafana's types, with the options and queries of each panel a second time.
fn typed() -> Result<String> {
    let mut text = TYPES.to_owned();
    for (at, dashboard) in DASHBOARDS.iter().enumerate() {
        let whole: Value = serde_json::from_str(&file::text(dashboard)?)?;
        text.push_str(&format!("export const d{at}: Plain<Dashboard> = {whole};\n"));
        for panel in whole["panels"].as_array().into_iter().flatten() {
            let Some(kind) = panel["type"].as_str().filter(|kind| *kind != "row") else {
                continue;
            };
            let name = format!("d{at}_{}", panel["id"]);
            let custom = match &panel["fieldConfig"]["defaults"]["custom"] {
                Value::Null => String::new(),
                custom => format!("export const {name}_custom: Part<{kind}.FieldConfig> = {custom};\n"),
            };
            text.push_str(&format!(
                "export const {name}_options: Part<{kind}.Options> = {};\n{custom}export const {name}_queries: Query[] = {};\n",
                panel["options"], panel["targets"]
            ));
        }
    }
    Ok(text)
}

/// Faults of the panels that were drawn.
fn faults(uid: &str, drawn: &[Value]) -> Vec<String> {
    let mut faults = Vec::new();
    for panel in drawn {
        let text = |key: &str| panel[key].as_str().unwrap_or_default();
        let number = |key: &str| panel[key].as_u64().unwrap_or_default();
        let list = |key: &str| panel[key].as_array().cloned().unwrap_or_default();
        let place = format!("{uid}, {}, {}", text("row"), text("title"));
        let mut say = |what: String| {
            faults.push(format!(
                "{}, {} ({} {}): {what}",
                text("row"),
                text("title"),
                text("kind"),
                panel["id"]
            ));
        };
        if panel["drawn"] != true {
            say("not drawn within 60 s".to_owned());
        }
        for query in list("queries") {
            let legend = query["legend"].as_str().unwrap_or_default();
            let is_excused = live::may_be_empty(&live::place(&place, legend));
            if query["series"] == 0 && !is_excused {
                say(format!("no data, legend {legend:?}"));
            }
        }
        let frames = number("frames");
        if frames == 0 && list("queries").iter().any(|query| query["series"] != 0) {
            say("its transformations leave nothing".to_owned());
        }
        if frames > 0 {
            let (points, canvases) = (number("points"), number("canvases"));
            // A table may show labels only.
            if points == 0 && text("kind") != "table" {
                say(format!("no number in {frames} series"));
            }
            if canvases == 0 && text("kind") == "timeseries" {
                say(format!("no lines of {frames} series"));
            }
            if number("rows") == 0 && text("kind") == "table" {
                say(format!("no rows of {frames} tables"));
            }
            if text("text").to_lowercase().contains("no data") {
                say(format!("shows no data with {frames} series"));
            }
        }
        for word in ["NaN", "undefined", "Invalid date", "[object"] {
            if text("text").contains(word) {
                say(format!("shows {word}: {}", text("text")));
            }
        }
        let scrolls = SCROLLS.contains(&format!("{uid}, {}", text("title")).as_str());
        if number("hidden") > 0 && !scrolls {
            say(format!("{} px of its columns are not visible", number("hidden")));
        }
        for label in list("missing") {
            say(format!("its first row does not show the label {label}"));
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(change: Value) -> Vec<String> {
        let mut panel = json!({ "id": 7, "title": "Nodes", "row": "Nodes", "kind": "timeseries", "drawn": true, "frames": 1, "points": 9,
            "queries": [{ "legend": "", "series": 1 }], "canvases": 1, "rows": 0, "text": "12", "hidden": 0, "missing": [] });
        for (key, value) in change.as_object().unwrap() {
            panel[key] = value.clone();
        }
        faults("nodewarden-cluster", &[panel])
    }

    #[test]
    fn a_panel_that_is_drawn_has_no_fault() {
        assert_eq!(with(json!({})), Vec::<String>::new());
        let labels = json!({ "kind": "table", "canvases": 0, "rows": 3, "points": 0 });
        assert_eq!(with(labels), Vec::<String>::new());
    }

    #[test]
    fn what_a_person_would_miss_is_a_fault_with_its_panel() {
        for change in [
            json!({ "drawn": false }),
            json!({ "queries": [{ "legend": "a", "series": 1 }, { "legend": "b", "series": 0 }] }),
            json!({ "canvases": 0 }),
            json!({ "points": 0 }),
            json!({ "kind": "table", "points": 0 }),
            json!({ "kind": "stat", "text": "no data" }),
            json!({ "kind": "stat", "frames": 0 }),
            json!({ "text": "NaN" }),
            json!({ "hidden": 300 }),
            json!({ "missing": ["1650000000100"] }),
        ] {
            let found = with(change.clone());
            assert_eq!(found.len(), 1, "{change}: {found:?}");
            assert!(found[0].starts_with("Nodes, Nodes ("), "{found:?}");
        }
    }

    #[test]
    fn a_table_that_scrolls_shows_its_labels() {
        let panel = json!({ "id": 2, "title": "GPU", "row": "Identity", "kind": "table", "drawn": true, "frames": 1, "points": 0, "rows": 5,
            "queries": [{ "legend": "", "series": 5 }], "text": "1.65 Tri", "hidden": 300, "missing": ["1650000000100"] });
        let found = faults("nodewarden-gpu", &[panel]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("1650000000100"), "{found:?}");
    }

    #[test]
    fn only_a_query_that_is_listed_may_be_empty() {
        let of = |legend: &str| {
            let panel = json!({ "id": 1, "title": "Slots taken", "row": "Limits", "kind": "stat", "drawn": true, "frames": 0,
                "queries": [{ "legend": legend, "series": 0 }], "text": "no data" });
            faults("nodewarden-drains", &[panel]).len()
        };
        assert_eq!(
            (of("{{cluster}} {{partition}} {{pool}}"), of("{{partition}}")),
            (0, 1)
        );
    }

    #[test]
    fn the_queries_are_those_that_were_tested() {
        let mut whole: Value = serde_json::from_str(&file::text(DASHBOARDS[0]).unwrap()).unwrap();
        let count = select_everything(&mut whole);
        assert!(count > 5, "{count}");
        for panel in whole["panels"].as_array().unwrap() {
            for target in panel["targets"].as_array().into_iter().flatten() {
                assert!(!target["expr"].as_str().unwrap().contains('$'), "{target}");
            }
        }
    }
}
