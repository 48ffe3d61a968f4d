//! What people and pages are shown of the engine: incidents with evidence, the drain, counts. Also the JSON of
//! `nodewarden status` and `nodewarden why`.

use serde::{Deserialize, Serialize};

use super::Mode;
use super::verdict::Verdict;
use model::derive::affinity::Affinity;
use model::ledger::Ledger;

/// Everything there is to show.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct View {
    /// The verdict as last published.
    pub verdict: Verdict,
    /// Incidents, open ones first, then the latest closed ones.
    pub incidents: Vec<IncidentView>,
    /// Our drain of the own node.
    pub drain: DrainView,
    /// `check id` -> how often it would have drained in a mode below drain.
    pub would_drain: Vec<(String, u64)>,
    /// `check id` -> how often it drained.
    pub drains: Vec<(String, u64)>,
    /// How often our own drain was lifted: by us, by a person.
    pub undrains: u64,
    /// How often a person lifted a drain of ours.
    pub overrides: u64,
    /// Events counted.
    pub ledger: Ledger,
    /// The RDMA ports nearest to each GPU, as of the last look at the node.
    #[serde(default)]
    pub affinity: Vec<Affinity>,
}

/// One incident.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct IncidentView {
    /// Its id.
    pub id: String,
    /// `open`, `cleared`, `overridden`.
    pub state: String,
    /// What it is about: `gpu GPU-...`, `node`.
    pub subject: String,
    /// The kind of the subject, for a label.
    pub subject_kind: String,
    /// The name of the subject within its kind, for a label.
    pub subject_name: String,
    /// The PCI address of its part, as sysfs writes it; empty where it is not known.
    #[serde(default)]
    pub pci: String,
    /// The check of the finding that names it.
    pub check: String,
    /// That finding's code or detail: `xid79`.
    pub detail: String,
    /// The remedy: `reboot`, `reset-gpu`, ...
    pub act: String,
    /// Whether its policy takes the node out of service.
    pub drains: bool,
    /// The mode in force for its check.
    pub mode: Mode,
    /// The most that it could do once the site holds nothing back.
    #[serde(default)]
    pub could: Mode,
    /// When it began, in seconds since the epoch.
    pub since: i64,
    /// When it was closed.
    pub closed: Option<i64>,
    /// Why it was closed, or how it will be: one line.
    pub clears: String,
    /// Every finding: check, detail, count, first, last and the lines or values behind it.
    pub findings: Vec<FindingView>,
    /// What happened to it, oldest first: time and one line.
    pub history: Vec<(i64, String)>,
    /// Who acknowledged it, when and why.
    pub ack: Option<(String, i64, String)>,
}

/// One finding.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FindingView {
    /// The check.
    pub check: String,
    /// `xid79`, `0000:3b:00.0 not on the PCI bus`.
    pub detail: String,
    /// How often it was seen.
    pub count: u64,
    /// First seen, in seconds since the epoch.
    pub first: i64,
    /// Last seen, in seconds since the epoch.
    pub last: i64,
    /// Evidence: lines, or `metric{labels} value threshold age`.
    pub evidence: Vec<String>,
    /// The jobs that had the device when it was seen, by number.
    #[serde(default)]
    pub jobs: Vec<String>,
}

/// Our drain.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DrainView {
    /// `none`, `wanted`, `withheld`, `foreign`, `writing`, `drained`, `lifting`, `overridden`, `unproven`.
    pub state: String,
    /// Why, in one line; empty for `none`.
    pub why: String,
    /// The incident that it is for.
    pub incident: Option<String>,
    /// The reason as written.
    pub reason: Option<String>,
    /// Since when the state holds, in seconds since the epoch.
    pub since: Option<i64>,
    /// Whether our record of it reached the disk.
    pub recorded: bool,
}
