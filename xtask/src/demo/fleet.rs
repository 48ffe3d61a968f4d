//! `cargo xtask demo fleet`: several nodes, each with a daemon of its own and a fault of its own.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use tempfile::TempDir;
use testkit::exposition;
use testkit::play::Play;

use super::place::Place;
use super::{Node, recording};
use crate::cmd;

/// The nodes and their faults.
const TABLE: &str = include_str!("fleet.toml");
/// Time after the last fault until which each node must show its own.
const PATIENCE: Duration = Duration::from_secs(120);

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
        let mut play = Play::open(&recording(&row.recording)?, &place.node())?;
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
        nodes.push(Node::start(row.name, place, play, faults, expected, port)?);
    }
    Ok(nodes)
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
    let file: PathBuf = config.path().join("prometheus.yml");
    println!(
        "\n  prometheus --config.file {} --storage.tsdb.path $(mktemp -d)\n  then http://127.0.0.1:9090/alerts: \
         alerts fire after 5 min or more",
        file.display()
    );
    println!("\nTheir time runs from now on. Ctrl-C ends them and removes their files.\n");
}

/// Checks of the fleet: every node serves, each fault is an open incident, and nodes without one have none.
pub(super) fn check(nodes: &[Node], at: Duration) -> Result<bool> {
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
    let last = nodes.iter().map(Node::length).max().unwrap_or_default();
    ensure!(
        waiting.is_empty() || at < last + PATIENCE,
        "no incident after {} s: {}",
        at.as_secs(),
        waiting.join(" ")
    );
    let is_done = waiting.is_empty() && at >= last;
    if is_done {
        println!(
            "\nchecked: {} nodes, an incident on each with a fault and on no other",
            nodes.len()
        );
    }
    Ok(is_done)
}
