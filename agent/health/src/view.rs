//! The engine's state for output: incidents with evidence, the drain, counts. Also the JSON of `nodewarden status` and
//! `nodewarden why`.

use serde::{Deserialize, Serialize};

use super::Mode;
use super::checks;
use super::pause::Pause;
use super::verdict::Verdict;
use model::derive::affinity::Affinity;
use model::ledger::Ledger;
use model::scheduler::{Guard, HeldBy, ReasonParts};

/// The view of the whole state.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct View {
    /// The verdict as last published.
    pub verdict: Verdict,
    /// Incidents, open ones first, then the latest closed ones.
    pub incidents: Vec<IncidentView>,
    /// The own drain of the node.
    pub drain: DrainView,
    /// The incident that the node's Comment names, as last read.
    #[serde(default)]
    pub comment: Option<String>,
    /// Slurm's name of the node, as last read.
    #[serde(default)]
    pub node: Option<String>,
    /// The pause of this node by a person.
    #[serde(default)]
    pub pause: Option<Pause>,
    /// Number of such pauses since the state directory was created.
    #[serde(default)]
    pub pauses: u64,
    /// `check id` -> number of suppressed drains.
    pub would_drain: Vec<(String, u64)>,
    /// `check id` -> number of drains.
    pub drains: Vec<(String, u64)>,
    /// Number of undrains of the own drain, by nodewarden or an operator.
    pub undrains: u64,
    /// Number of undrains of the own drain by an operator.
    pub overrides: u64,
    /// Times that a finding had no place among the incidents, since the state directory was created.
    #[serde(default)]
    pub dropped: u64,
    /// The counts of events.
    pub ledger: Ledger,
    /// The RDMA ports nearest to each GPU, of the last snapshot.
    #[serde(default)]
    pub affinity: Vec<Affinity>,
}

impl View {
    /// What of the reason in Slurm is no longer so: it is written once, when the node is drained.
    pub fn outdated_reason(&self) -> Option<String> {
        let drain = &self.drain;
        let id = drain.incident.as_ref()?;
        if !["drained", "lifting"].contains(&drain.state.as_str()) {
            return None;
        }
        let named = self.incidents.iter().find(|i| i.id == *id);
        if let Some(named) = named.filter(|named| named.state == "open") {
            let written = ReasonParts::of(drain.reason.as_ref()?)?.act;
            return (written != named.act).then(|| {
                format!(
                    "the reason in Slurm says act={written}, the remedy is {} now",
                    named.act
                )
            });
        }
        let others = self.incidents.iter().filter(|i| i.state == "open" && i.drains);
        let others: Vec<String> = others.map(|i| format!("{} (act={})", i.id, i.act)).collect();
        (!others.is_empty()).then(|| {
            let others = others.join(", ");
            format!("the reason in Slurm names {id}, which is closed; the drain is for {others}")
        })
    }
}

/// What an incident that requires no act does, in one sentence. `could`: the highest mode of its check.
pub fn without_act(check: &str, could: Mode) -> String {
    let known = checks::check(check).filter(|check| check.may.at_most() > Mode::Observe);
    let Some(known) = known.filter(|known| known.may.by_default() == Mode::Observe) else {
        return "shown and counted; never drains the node, in any mode".to_owned();
    };
    let key = if checks::is_of_site(check) {
        "mode of its [[health.command]]".to_owned()
    } else {
        format!("health.checks.{}", known.id)
    };
    if could > Mode::Observe {
        format!(
            "shown and counted; {key} is set: it acts with the next readings that show the fault, and never for one of several nodes"
        )
    } else {
        format!("shown and counted; changes the node only if {key} is set")
    }
}

/// One incident.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct IncidentView {
    /// Its id.
    pub id: String,
    /// `open`, `cleared`, `overridden`.
    pub state: String,
    /// Its subject: `gpu GPU-...`, `node`.
    pub subject: String,
    /// The kind of the subject, for a label.
    pub subject_kind: String,
    /// The name of the subject within its kind, for a label.
    pub subject_name: String,
    /// The PCI address of the subject, as in sysfs; empty if unknown.
    #[serde(default)]
    pub pci: String,
    /// The check of the finding that names it.
    pub check: String,
    /// The check of the finding for which it acts now: not `check` where that one requires less. Where none acts, `check`.
    #[serde(default)]
    pub cause: String,
    /// That finding's code or detail: `xid79`.
    pub detail: String,
    /// What an Xid means, in words; empty for other findings.
    #[serde(default)]
    pub meaning: String,
    /// The remedy: `reboot`, `reset-gpu`, ...
    pub act: String,
    /// Whether a finding that has not ended requires an act: a drain, or a comment where the check does not drain. An
    /// overridden one does not.
    #[serde(default)]
    pub acts: bool,
    /// Whether it drains the node in the mode in force.
    pub drains: bool,
    /// The mode in force for its check.
    pub mode: Mode,
    /// The highest mode that it could have.
    #[serde(default)]
    pub could: Mode,
    /// Its start, in seconds since the epoch.
    pub since: i64,
    /// The time at which it was closed.
    pub closed: Option<i64>,
    /// Why it was closed, or how it will be: one line.
    pub clears: String,
    /// Every finding: check, detail, count, first, last and evidence.
    pub findings: Vec<FindingView>,
    /// Its history, oldest first: time and one line.
    pub history: Vec<(i64, String)>,
    /// Its acknowledgement: operator, time and reason.
    pub ack: Option<(String, i64, String)>,
}

impl IncidentView {
    /// Its detail with the meaning: `xid79: GPU has fallen off the bus`.
    pub fn explained(&self) -> String {
        if self.meaning.is_empty() {
            self.detail.clone()
        } else {
            format!("{}: {}", self.detail, self.meaning)
        }
    }
}

/// One finding.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FindingView {
    /// The check.
    pub check: String,
    /// `xid79`, `0000:3b:00.0 not on the PCI bus`.
    pub detail: String,
    /// The number of occurrences.
    pub count: u64,
    /// First seen, in seconds since the epoch.
    pub first: i64,
    /// Last seen, in seconds since the epoch.
    pub last: i64,
    /// Evidence: lines, or `metric{labels} value threshold age`.
    pub evidence: Vec<String>,
    /// The jobs that had the device at that time, by id.
    #[serde(default)]
    pub jobs: Vec<String>,
    /// Whether the evidence may be about others than these jobs.
    #[serde(default)]
    pub others: bool,
}

/// The own drain.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DrainView {
    /// `none`, `wanted`, `withheld`, `foreign`, `writing`, `held`, `drained`, `lifting`, `overridden`, `unproven`.
    pub state: String,
    /// Why, in one line; empty for `none`.
    pub why: String,
    /// Its incident.
    pub incident: Option<String>,
    /// The reason as written.
    pub reason: Option<String>,
    /// The start of the state, in seconds since the epoch. Wanted, writing and held count as one while the incident is the same.
    pub since: Option<i64>,
    /// Whether its record reached the disk.
    pub recorded: bool,
    /// What a held one waits for.
    #[serde(default)]
    pub held: Option<HeldBy>,
    /// The cluster's limit, as last read for a drain.
    #[serde(default)]
    pub guard: Option<Guard>,
}
