//! Check `gpfs-node-state`: GPFS itself reports that this node is not an active member of its cluster, or that it is unhealthy.

use std::time::Duration;

use collectors::SubjectKind;
use collectors::gpfs::command_metrics::{COMPONENT_EVENT, COMPONENT_STATUS, NODE_STATE};
use collectors::gpfs::{commands, health};
use model::snapshot::Sample;
use serde::{Deserialize, Serialize};

use super::expected::{self, Answer};
use super::gpfs::{self, LastOutput};
use super::{Check, Kept, May, Scope, Version, Watch, gpfs_daemon_down};
use crate::condition::{Judged, Pace, Reading};
use crate::judge::{Judge, evidence};

/// The row.
pub static CHECK: Check = Check {
    id: "gpfs-node-state",
    subject: SubjectKind::Node,
    fires_when: "`mmgetstate` reported active earlier in this boot. Now it reports arbitrating, down or unresponsive, or `mmhealth` reports FAILED for the component GPFS, or DEGRADED with an event about this node.",
    lasting: "2 consecutive outputs of the command, at least 60 s",
    clears_when: "2 consecutive outputs, at least 60 s, with active, or with HEALTHY or TIPS. The commands are off: 3 consecutive readings, at least 100 s.",
    ignored_when: "The GPFS daemon does not answer: gpfs-daemon-down reports it. Output from that time. DEGRADED by other nodes only (`cluster_connections_*`). State unknown. Output that is missing or older than 14 min.",
    scope: Scope::Shared,
    may: May::CommentOrDrain,
    since: Version(0, 1, 0),
    watch: || Box::<NodeState>::default(),
};

static PACE: Pace = Pace {
    bad: 2,
    bad_span: Duration::from_secs(60),
    good: 2,
    hold: Duration::from_secs(60),
};

/// The most events that the evidence lists.
const LISTED: usize = 8;

/// The begin of the events of component GPFS that are no fault of this node. Connections: the other node may be the one that has
/// failed, and every node that sees it is DEGRADED. The others are tips and information, which some releases give without a severity.
const NO_FAULT: [&str; 7] = [
    "cluster_connections_",
    "quorum_even_nodes_no_tiebreaker",
    "gpfsport_up",
    "gpfs_cache_cfg_",
    "gpfs_maxfilestocache_",
    "gpfs_maxstatcache_",
    "gpfs_pagepool_",
];

#[derive(Debug, Default, Serialize, Deserialize)]
struct NodeState {
    /// The node was active in this boot.
    was_active: bool,
    #[serde(skip)]
    state: LastOutput,
    #[serde(skip)]
    component: LastOutput,
}

impl Watch for NodeState {
    fn look<'a>(&mut self, judge: &Judge<'a>) -> Vec<Judged<'a>> {
        if gpfs::is_off(judge) {
            return gpfs::over(judge, &CHECK);
        }
        if gpfs_daemon_down::answers(judge) == Some(false) {
            self.state.in_outage(judge, &commands::MMGETSTATE);
            self.component.in_outage(judge, &commands::MMHEALTH);
            return Vec::new();
        }
        let state = self.state(judge);
        let component = self.component(judge);
        state.into_iter().chain(component).collect()
    }

    fn rebooted(&mut self) {
        self.was_active = false;
    }

    fn kept(&mut self) -> Option<&mut dyn Kept> {
        Some(self)
    }
}

impl NodeState {
    fn state<'a>(&mut self, judge: &Judge<'a>) -> Option<Judged<'a>> {
        let mut states = judge.snapshot.samples(&NODE_STATE);
        let sample = states.find(|sample| sample.as_f64() > 0.0)?;
        let word = sample.label("state")?;
        let is_active = word == "active";
        if is_active && !self.was_active {
            self.was_active = true;
            judge.counted();
        }
        let is_old = self.state.is_of_outage(judge, &commands::MMGETSTATE);
        let reading = match (word, self.was_active) {
            _ if is_old => Reading::Unknown,
            ("active", _) => Reading::Good,
            ("unknown", _) | (_, false) => Reading::Unknown,
            (_, true) => Reading::Bad,
        };
        let at = self.state.read_at(judge, &commands::MMGETSTATE, &sample);
        let line = evidence(&sample, "active");
        Some(judged("mmgetstate", reading, at, format!("state {word}"), line))
    }

    fn component<'a>(&mut self, judge: &Judge<'a>) -> Option<Judged<'a>> {
        let events = judge.snapshot.samples(&COMPONENT_EVENT);
        let events = events.filter(|event| event.label("component") == Some(health::GPFS));
        // A tip or information stands beside whatever degrades the component.
        let events = events.filter(|event| !matches!(event.label("severity"), Some("TIP" | "INFO")));
        let events: Vec<&str> = events.filter_map(|event| event.label("event")).collect();
        let statuses = judge.snapshot.samples(&COMPONENT_STATUS);
        let of_gpfs = statuses.filter(|sample| sample.label("component") == Some(health::GPFS));
        let found = of_gpfs.map(|sample| (self.meaning(&sample, &events), sample));
        let (reading, sample) = found.max_by_key(|(reading, _)| match reading {
            Reading::Good => 0,
            Reading::Unknown => 1,
            Reading::Bad => 2,
        })?;
        let is_old = self.component.is_of_outage(judge, &commands::MMHEALTH);
        let reading = if is_old { Reading::Unknown } else { reading };
        let mut line = evidence(&sample, "HEALTHY or TIPS");
        if !events.is_empty() {
            let listed: Vec<&str> = events.into_iter().take(LISTED).collect();
            line.push_str(&format!("; events: {}", listed.join(", ")));
        }
        let status = sample.label("status").unwrap_or_default();
        let at = self.component.read_at(judge, &commands::MMHEALTH, &sample);
        let detail = format!("component {} {status}", health::GPFS);
        Some(judged("mmhealth", reading, at, detail, line))
    }

    /// Before the node was active, mmhealth reports what mmfsd has not started.
    fn meaning(&self, sample: &Sample<'_>, events: &[&str]) -> Reading {
        let is_fault = |event: &&str| !NO_FAULT.iter().any(|begin| event.starts_with(begin));
        match sample.label("status") {
            Some("HEALTHY" | "TIPS") => Reading::Good,
            Some("FAILED") if self.was_active => Reading::Bad,
            Some("DEGRADED") if self.was_active && events.iter().any(is_fault) => Reading::Bad,
            _ => Reading::Unknown,
        }
    }
}

fn judged<'a>(of: &str, reading: Reading, at: Duration, detail: String, evidence: String) -> Judged<'a> {
    let answer = Answer {
        of: of.to_owned(),
        reading,
        at,
        detail,
        evidence,
    };
    expected::of_node(&CHECK, &PACE, answer)
}
