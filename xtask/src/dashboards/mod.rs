//! `cargo xtask dashboards`: writes the Grafana dashboards and the document of queries from tables, and has promtool parse and
//! test them.

mod cases;
mod check;
mod fabric;
mod fleet;
mod gpu;
mod json;
mod live;
mod node;
mod pictures;
mod recipes;
mod storage;

use std::fs;
use std::io::Write as _;

use anyhow::{Context, Result, bail, ensure};

use crate::{cmd, deps};

pub(crate) use live::problems;
pub(crate) use pictures::Pictures;

/// A dashboard.
struct Dashboard {
    /// Its name in links and of its file.
    uid: &'static str,
    title: &'static str,
    description: &'static str,
    variables: &'static [Variable],
    /// Opens with the first value of its last variable: it shows each GPU or port, and all of a cluster are too many series.
    one: bool,
    rows: &'static [Row],
}

/// What a reader selects above the panels. `datasource` and `cluster` are on every dashboard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Variable {
    Instance,
    Gpu,
    Job,
}

/// Panels below one heading.
struct Row {
    title: &'static str,
    panels: &'static [Panel],
}

/// A panel.
struct Panel {
    title: &'static str,
    description: &'static str,
    /// Grafana's word for the unit.
    unit: &'static str,
    kind: Kind,
    /// Of 24 columns.
    width: u8,
    /// Query and legend, or a table's query and the heading of its value: without one, the value is hidden. `%c` selects the cluster, `%n` the node too, `%g` the GPU too; `%i` adds the GPU's index.
    queries: &'static [(&'static str, &'static str)],
}

/// The form of a panel.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// One number, with the least value that is bad.
    Stat(Option<f64>),
    /// One word for a number: the number, the word, its colour.
    Word(&'static [(u8, &'static str, &'static str)]),
    /// Lines over time.
    Lines,
    /// The current series, one a row.
    Table,
}

static DASHBOARDS: &[&Dashboard] = &[
    &fleet::CLUSTER,
    &fleet::DRAINS,
    &node::NODE,
    &gpu::FLEET,
    &gpu::GPU,
    &gpu::JOB,
    &fabric::FABRIC,
    &storage::STORAGE,
    &node::AGENT,
];

/// Writes the files; with `check`, fails if one differs. Then promtool parses every query and tests some.
///
/// # Errors
/// When a file differs, a panel breaks the rules of this repository, a query cannot be parsed, or a test of promtool fails.
pub(crate) fn run(check: bool) -> Result<()> {
    let root = cmd::root();
    let public = fs::read_to_string(root.join("docs/public-interface.txt"))?;
    let problems = check::problems(DASHBOARDS, &public);
    ensure!(problems.is_empty(), "{}", problems.join("\n"));
    live::unknown()?;
    let mut files = vec![(recipes::DOCUMENT.to_owned(), recipes::document())];
    for dashboard in DASHBOARDS {
        files.push((
            format!("dashboards/{}.json", dashboard.uid),
            json::text(dashboard)?,
        ));
    }
    for (name, text) in files {
        let path = root.join(&name);
        if !check {
            fs::write(&path, text).with_context(|| name.clone())?;
        } else if fs::read_to_string(&path).unwrap_or_default() != text {
            bail!("{name} differs from the table: `cargo xtask dashboards` writes it");
        }
    }
    deps::install(&["prometheus"])?;
    let promtool = |task: &str, text: &str| {
        let mut file = tempfile::Builder::new().suffix(".yml").tempfile()?;
        file.write_all(text.as_bytes())?;
        cmd::run(cmd::program("promtool", &[task, "rules"]).arg(file.path()))
    };
    promtool("check", &check::as_rules(DASHBOARDS))?;
    let page = fs::read_to_string(root.join(cases::DIVIDED))?;
    promtool("test", &cases::tests(DASHBOARDS, &page)?)
}
