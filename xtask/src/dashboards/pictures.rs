//! The written dashboards in Grafana's own hands: its types check the files, and its components draw every panel in Chromium, in both
//! themes. They come from npm's registry, below target/dashboards; never linked or shipped.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{DASHBOARDS, json as file, live};
use crate::browser::{self, Chromium};
use crate::{cmd, deps};

const THEMES: [&str; 2] = ["dark", "light"];
/// The time that the panels show, in minutes.
const MINUTES: u32 = 15;
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
/// Grafana's types as JSON has them: an enumeration is one of its words.
const PLAIN: &str = "import type { Dashboard } from '@grafana/schema';
type Plain<T> = T extends string ? `${T}` : T extends object ? { [K in keyof T]: Plain<T[K]> } : T;
";
const TSC: &[&str] = &[
    "tsc",
    "--noEmit",
    "--strict",
    "--skipLibCheck",
    "--module",
    "esnext",
    "--moduleResolution",
    "bundler",
    "--target",
    "es2022",
];
const ESBUILD: &[&str] = &[
    "esbuild",
    "app.jsx",
    "--bundle",
    "--minify",
    "--log-level=error",
    "--outfile=out.js",
    "--loader:.svg=dataurl",
    "--loader:.ttf=empty",
    "--define:process.env.NODE_ENV=\"production\"",
];

/// Draws all dashboards from the Prometheus at this address. The pictures are in `target/dashboards`. Returns the number of panels drawn.
///
/// # Errors
/// When npm's registry does not answer, a file has another type, or a panel is not drawn.
pub(crate) fn draw(prometheus: &str) -> Result<usize> {
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
    types(&work)?;
    cmd::run(cmd::program("npx", ESBUILD).current_dir(&work))?;
    let (script, style) = (
        fs::read_to_string(work.join("out.js"))?,
        fs::read_to_string(work.join("out.css"))?,
    );
    let html = format!("<!doctype html><meta charset=utf-8><style>body{{margin:0}}{style}</style><body>");
    let url = format!("http://{prometheus}/-/healthy");
    let mut chromium = Chromium::start()?;
    let (mut panels, mut problems) = (0, Vec::new());
    for dashboard in DASHBOARDS {
        let text: Value = serde_json::from_str(&file::text(dashboard)?)?;
        for mode in THEMES {
            let input = json!({ "dashboard": text, "mode": mode, "minutes": MINUTES });
            let script = format!("window.INPUT={input};{script}");
            let picture = work.join(format!("{}-{mode}.png", dashboard.uid));
            let (drawn, errors) =
                browser::scripted(&mut chromium, &url, &html, &script, "window.DRAWN", &picture)
                    .with_context(|| picture.display().to_string())?;
            let drawn = drawn.as_array().context("no list of panels")?;
            panels += drawn.len();
            // The server is no Grafana: it has neither its fonts nor its icons.
            let of_scripts = |error: &String| !error.contains("\"source\":\"network\"");
            let found = faults(dashboard.uid, drawn)
                .into_iter()
                .chain(errors.into_iter().filter(of_scripts));
            problems.extend(found.map(|what| format!("{}, {mode}: {what}", dashboard.uid)));
        }
    }
    println!("pictures of the dashboards are in {}", work.display());
    ensure!(problems.is_empty(), "{}", problems.join("\n"));
    Ok(panels)
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
    cmd::run(cmd::program("npm", &npm).current_dir(work))?;
    fs::copy(&locked, &installed)?;
    Ok(())
}

/// Has TypeScript compare the files with Grafana's types.
fn types(work: &Path) -> Result<()> {
    let mut text = PLAIN.to_owned();
    for (at, dashboard) in DASHBOARDS.iter().enumerate() {
        let json = file::text(dashboard)?;
        text.push_str(&format!("export const d{at}: Plain<Dashboard> = {json};\n"));
    }
    fs::write(work.join("types.ts"), text)?;
    cmd::run(cmd::program("npx", TSC).arg("types.ts").current_dir(work))
}

/// Faults of the panels that were drawn.
fn faults(uid: &str, drawn: &[Value]) -> Vec<String> {
    let mut faults = Vec::new();
    for panel in drawn {
        let text = |key: &str| panel[key].as_str().unwrap_or_default();
        let number = |key: &str| panel[key].as_u64().unwrap_or_default();
        let title = text("title");
        let mut say = |what: &str| faults.push(format!("{title}: {what}"));
        if number("frames") == 0 && !live::may_be_empty(uid, text("row"), title) {
            say("no data");
        }
        if number("frames") > 0 && number("canvases") == 0 && text("kind") == "timeseries" {
            say("no lines");
        }
        for word in ["NaN", "undefined", "Invalid date", "[object"] {
            if text("text").contains(word) {
                say(&format!("shows {word}: {}", text("text")));
            }
        }
        if text("kind") == "table" && number("frames") > 0 && number("rows") == 0 {
            say("no rows");
        }
        if number("hidden") > 0 && !SCROLLS.contains(&format!("{uid}, {title}").as_str()) {
            say(&format!("{} px of its columns are not visible", number("hidden")));
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panel_without_data_or_lines_or_with_a_word_that_is_no_value_is_a_fault() {
        let panel = |frames: u32, canvases: u32, text: &str, hidden: u32| {
            json!({ "title": "Nodes", "row": "Nodes", "kind": "timeseries", "frames": frames, "canvases": canvases, "text": text,
                    "hidden": hidden })
        };
        let count = |panel: Value| faults("nodewarden-cluster", &[panel]).len();
        let table = |rows: u32| json!({ "title": "t", "kind": "table", "frames": 1, "rows": rows });
        assert_eq!((count(table(0)), count(table(3))), (1, 0), "a table without rows");
        assert_eq!(count(panel(1, 1, "12", 0)), 0);
        assert_eq!(count(panel(0, 0, "no data", 0)), 1);
        assert_eq!(count(panel(1, 0, "12", 0)), 1, "no lines");
        assert_eq!(count(panel(1, 1, "NaN", 0)), 1);
        assert_eq!(count(panel(1, 1, "12", 300)), 1, "a column is not visible");
    }
}
