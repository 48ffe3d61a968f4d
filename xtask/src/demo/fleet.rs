//! `cargo xtask demo fleet`: several nodes, each with a daemon of its own and a fault of its own.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::exposition;
use testkit::play::Play;
use testkit::prometheus::{Prometheus, PrometheusOptions, Target};

use super::place::Place;
use super::{Node, recording};
use crate::dashboards::Pictures;
use crate::{cmd, dashboards, deps};

/// The nodes and their faults.
const TABLE: &str = include_str!("fleet.toml");
/// Time after the last fault until which each node must show its own, and every query have an answer: mounts, Ethernet statistics
/// and drives are read once a minute or less often, and a rate needs two readings.
const PATIENCE: Duration = Duration::from_secs(240);
/// Interval of Prometheus.
const SCRAPES: Duration = Duration::from_secs(5);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fleet {
    node: Vec<Row>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    name: String,
    recording: String,
    /// A folder below fixtures/ whose files are appended to those of the recording.
    with: Option<String>,
    /// Number of steps that are played; all if absent, with the recording's own fault.
    steps: Option<usize>,
    #[serde(default)]
    fault: Vec<Fault>,
}

/// A fault at a time since the start.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Fault {
    /// In seconds.
    at: u64,
    title: String,
    /// Its check takes minutes, for which `--check` does not wait.
    #[serde(default)]
    slow: bool,
    /// File, text in it, and the new text.
    #[serde(default)]
    change: Vec<[String; 3]>,
    #[serde(default)]
    kernel_log: Vec<String>,
}

/// What `--check` expects of a node in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    Incident,
    Health,
    Either,
}

impl Fault {
    pub(super) const fn at(&self) -> Duration {
        Duration::from_secs(self.at)
    }

    /// Causes it, and returns what to say of it.
    pub(super) fn cause(&self, play: &mut Play, at: Duration) -> Result<String> {
        for [file, from, to] in &self.change {
            play.replace(file, from, to)?;
        }
        for line in &self.kernel_log {
            play.log(at, line)?;
        }
        Ok(self.title.clone())
    }
}

/// Makes the nodes, and starts their daemons on ports from that of `listen` on.
pub(super) fn start(program: &Path, listen: SocketAddr) -> Result<Vec<Node>> {
    let fleet: Fleet = toml::from_str(TABLE).context("xtask/src/demo/fleet.toml")?;
    let mut nodes = Vec::new();
    for row in fleet.node {
        let offset = u16::try_from(nodes.len())?;
        let port = listen.port().checked_add(offset);
        let address = SocketAddr::new(listen.ip(), port.context("the ports go beyond 65535")?);
        let (address, port) = super::free(if listen.port() == 0 { listen } else { address })?;
        let place = Place::new(program.to_owned(), address)?;
        let mut case = recording(&row.recording)?;
        let joined;
        if let Some(further) = &row.with {
            joined = tempfile::tempdir()?;
            join(&case, &cmd::root().join("fixtures").join(further), joined.path())?;
            case = joined.path().to_owned();
        }
        let mut play = Play::open(&case, &place.node())?;
        if let Some(steps) = row.steps {
            play.keep(steps)?;
        }
        let expected = match row.steps {
            None => Expected::Incident,
            Some(_) if row.fault.is_empty() => Expected::Health,
            Some(_) if row.fault.iter().all(|fault| fault.slow) => Expected::Either,
            Some(_) => Expected::Incident,
        };
        let mut faults = row.fault;
        faults.sort_by_key(|fault| std::cmp::Reverse(fault.at));
        let prefix = Some(row.name.clone());
        nodes.push(Node::start(
            row.name, place, play, faults, expected, port, prefix,
        )?);
    }
    Ok(nodes)
}

/// Copies a recording, and appends to each of its files that of the same name in `further`.
fn join(recording: &Path, further: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(recording)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default();
        if path.is_dir() {
            join(&path, &further.join(name), &to.join(name))?;
            continue;
        }
        let mut content = fs::read(&path)?;
        let more = further.join(name);
        if more.is_file() {
            content.extend(fs::read(&more)?);
        }
        fs::write(to.join(name), content)?;
    }
    Ok(())
}

/// Prometheus for the nodes, with the project's rules.
fn scraper(nodes: &[Node]) -> Result<Prometheus> {
    let targets: Vec<Value> = nodes
        .iter()
        .map(|node| {
            let labels = json!({ "instance": node.name, "cluster": "demo" });
            json!({ "targets": [node.place.address().to_string()], "labels": labels })
        })
        .collect();
    let mut target = Target::new("nodewarden", "");
    target.client.insert("static_configs".to_owned(), targets.into());
    let alerts = cmd::root().join("alerts");
    Prometheus::start(&PrometheusOptions {
        targets: vec![target],
        interval: SCRAPES,
        rules: ["nodewarden.rules.yml", "jobs.rules.yml"]
            .map(|name| alerts.join(name))
            .to_vec(),
        alertmanagers: Vec::new(),
    })
}

/// A configuration of Prometheus for the nodes, with the project's rules.
pub(super) fn prometheus(nodes: &[Node]) -> Result<TempDir> {
    let dir = tempfile::Builder::new().prefix("nodewarden-fleet-").tempdir()?;
    let targets: String = nodes
        .iter()
        .map(|node| {
            let (address, name) = (node.place.address(), &node.name);
            format!("      - targets: [\"{address}\"]\n        labels: {{ instance: \"{name}\", cluster: \"demo\" }}\n")
        })
        .collect();
    let rules = cmd::root().join("alerts");
    let text = format!(
        "global:\n  scrape_interval: 5s\n  evaluation_interval: 5s\nrule_files: [\"{}/*.rules.yml\"]\n\
         scrape_configs:\n  - job_name: nodewarden\n    static_configs:\n{targets}",
        rules.display()
    );
    fs::write(dir.path().join("prometheus.yml"), text)?;
    Ok(dir)
}

/// What a person can do with the nodes.
pub(super) fn print_where_to_look(nodes: &[Node], config: &TempDir) {
    println!(
        "\n{} recorded nodes. Nothing here touches this machine's hardware or its Slurm.\n",
        nodes.len()
    );
    for node in nodes {
        println!("  {:6} http://{}/", node.name, node.place.address());
    }
    println!();
    for node in nodes {
        let (program, run) = (node.place.program().display(), node.place.run_dir());
        println!("  {:6} {program} why --run-dir {}", node.name, run.display());
    }
    let file: PathBuf = config.path().join("prometheus.yml");
    println!(
        "\n  prometheus --config.file {} --storage.tsdb.path $(mktemp -d)\n  then http://127.0.0.1:9090/alerts: \
         alerts fire after 5 min or more",
        file.display()
    );
    println!("\nTheir time runs from now on. Ctrl-C ends them and removes their files.\n");
}

/// What `--check` looks at: each fault is an incident, every query of the dashboards and of promql.md has an answer, and every panel
/// is drawn.
pub(super) struct Check {
    /// `None` until the first look.
    prometheus: Option<Prometheus>,
    /// When the queries are asked again.
    next: Duration,
    /// The queries have passed: the panels are drawn.
    draws: bool,
    pictures: Pictures,
}

impl Check {
    /// Installs what the checks need, before a fault's time runs.
    pub(super) fn prepare() -> Result<Self> {
        deps::install(&["prometheus"])?;
        Ok(Self {
            prometheus: None,
            next: Duration::ZERO,
            draws: false,
            pictures: Pictures::prepare()?,
        })
    }

    /// Returns whether everything has passed.
    pub(super) fn look(&mut self, nodes: &[Node], at: Duration) -> Result<bool> {
        if self.prometheus.is_none() {
            self.prometheus = Some(scraper(nodes)?);
        }
        let prometheus = self.prometheus.as_ref().context("no Prometheus")?;
        if self.draws {
            // A page at each look, so that the nodes go on.
            let drawn = self.pictures.next(&prometheus.address())?;
            if let Some(panels) = drawn {
                println!("checked: {panels} panels drawn, counted in each theme");
            }
            return Ok(drawn.is_some());
        }
        let last = nodes.iter().map(Node::length).max().unwrap_or_default();
        let late = at > last + PATIENCE;
        let waiting = without_incident(nodes)?;
        ensure!(
            waiting.is_empty() || !late,
            "no incident after {} s: {}",
            at.as_secs(),
            waiting.join(" ")
        );
        // Rates and increases need a while, of which a query says nothing.
        if !waiting.is_empty() || at < last || at < self.next {
            return Ok(false);
        }
        self.next = at + 2 * SCRAPES;
        let (queries, problems) = dashboards::problems(prometheus)?;
        ensure!(problems.is_empty() || !late, "{}", problems.join("\n"));
        if !problems.is_empty() {
            return Ok(false);
        }
        println!(
            "\nchecked: {} nodes, an incident on each with a fault and on no other; {queries} queries of the dashboards and of promql.md",
            nodes.len()
        );
        self.draws = true;
        Ok(false)
    }
}

/// The nodes whose incident is still to come.
fn without_incident(nodes: &[Node]) -> Result<Vec<&str>> {
    let mut waiting = Vec::new();
    for node in nodes {
        let page = exposition::check(&node.place.get("/metrics")?)?;
        let open = page.iter().find(|s| s.name == "nodewarden_incidents_open");
        let open = open.map_or(0.0, |s| s.value);
        let is_open = open > 0.0;
        match node.expected {
            Expected::Health => ensure!(!is_open, "{} has no fault and {open} incidents", node.name),
            Expected::Incident if !is_open => waiting.push(node.name.as_str()),
            Expected::Incident | Expected::Either => {}
        }
    }
    Ok(waiting)
}
