//! Faults of single RDMA ports, and of most ports of a group together.

use std::collections::BTreeMap;
use std::time::Duration;

use collectors::Subject;

use super::Check;
use crate::bounded::{Bounded, STORED};
use crate::condition::{Judged, Pace, Reading, Run};
use crate::finding::{Finding, Joins, Rank, Remedy};
use crate::judge::Judge;
use crate::reads::group::{Fabric, Fault, Group, fault};
use crate::reads::port::Port;

/// The reading of one port for a condition.
pub(super) struct Opinion {
    pub reading: Reading,
    /// The time of the reading behind it.
    pub at: Duration,
    /// The detail of the finding, if bad.
    pub detail: String,
    /// The values, and the expected ones.
    pub evidence: String,
}

/// A check of each port, compared with its peers.
#[derive(Clone, Copy)]
pub(super) struct Weighed {
    pub check: &'static Check,
    /// Distinguishes several conditions of one check; empty for a single one.
    pub of: &'static str,
    /// Distinguishes similar conditions; empty for a single one.
    pub aspect: &'static str,
    pub pace: &'static Pace,
    /// Whether it may comment or drain.
    pub acts: bool,
    /// Whether it drains only with enough peers to attribute the fault.
    pub needs_peers: bool,
    /// The detail of the finding about most ports of a group.
    pub together: &'static str,
    /// The attribution of that finding.
    pub whose: Whose,
}

/// The attribution of a fault of most ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    /// The fabric: only shown.
    Fabric,
    /// The node: one finding for all ports.
    Node,
}

/// Sources with any reading since start: part of the check, aspect and group.
pub(super) type Voices = Bounded<(&'static str, &'static str, String), (), STORED>;

/// Judges every port that was ever in use. A port without `opinion` is unknown.
pub(super) fn weigh<'a>(
    judge: &Judge<'a>,
    voices: &mut Voices,
    row: &Weighed,
    mut opinion: impl FnMut(&Port<'a>, &Group<'a>) -> Option<Opinion>,
) -> Vec<Judged<'a>> {
    let mut judged = Vec::new();
    let mut fabrics: BTreeMap<&Fabric, Together> = BTreeMap::new();
    for group in judge.groups {
        let opinions: Vec<(&'a Port<'a>, Opinion)> = group
            .ports
            .iter()
            .filter_map(|port| Some((*port, opinion(port, group)?)))
            .collect();
        // An unknown port is not a faulty one.
        let seen = opinions.len();
        let bad = opinions.iter().filter(|(_, o)| o.reading == Reading::Bad).count();
        let whose = fault(seen, seen.saturating_sub(bad), bad);
        // Skip groups without any reading since start. A group without readings now may still be faulty.
        let voice = (row.of, row.aspect, group.name());
        if seen > 0 {
            voices.put(voice.clone(), ());
        }
        if seen > 0 || voices.get(&voice).is_some() {
            let fabric = fabrics.entry(&group.fabric).or_default();
            fabric.add(whose, &opinions);
        }
        for (port, opinion) in opinions {
            judged.push(alone(*row, port, opinion, whose, (bad, seen)));
        }
    }
    for (fabric, together) in fabrics {
        judged.extend(together.judged(*row, fabric));
    }
    judged
}

fn key(row: &Weighed, of: &str) -> String {
    let key = format!("{} {of} {} {}", row.check.id, row.of, row.aspect);
    key.trim_end().to_owned()
}

/// One port.
fn alone<'a>(
    row: Weighed,
    port: &'a Port<'a>,
    opinion: Opinion,
    whose: Fault,
    (bad, seen): (usize, usize),
) -> Judged<'a> {
    let reading = match (opinion.reading, whose) {
        (Reading::Bad, Fault::Shared | Fault::Unknown) => Reading::Unknown,
        (reading, _) => reading,
    };
    let has_peers = whose == Fault::Node;
    let finding = move |run: Run| Finding {
        pci: port.pci.clone(),
        detail: format!("{}{}", opinion.detail, port.place()),
        rank: Rank::Of(row.of),
        remedy: Remedy::Inspect,
        drains: row.acts && (has_peers || !row.needs_peers),
        joins: Joins::Attaches,
        evidence: format!(
            "{run}: {}; {}: {bad} of {seen} ports of its group are affected",
            opinion.evidence,
            port.whereabouts()
        ),
        ..Finding::of_condition(row.check.id, port.subject())
    };
    Judged {
        key: key(&row, &port.id),
        subject: port.subject(),
        reading,
        at: opinion.at,
        pace: row.pace,
        finding: Box::new(finding),
    }
}

/// The groups of one fabric.
#[derive(Default)]
struct Together {
    at: Option<Duration>,
    faults: Vec<Fault>,
    /// For each group: whether at least half of its ports are known to be healthy.
    well: Vec<bool>,
    names: Vec<String>,
    line: Option<String>,
}

impl Together {
    fn add(&mut self, whose: Fault, opinions: &[(&Port<'_>, Opinion)]) {
        let good = opinions
            .iter()
            .filter(|(_, o)| o.reading == Reading::Good)
            .count();
        self.well.push(!opinions.is_empty() && good * 2 >= opinions.len());
        self.faults.push(whose);
        self.at = self.at.max(opinions.iter().map(|(_, o)| o.at).max());
        if whose == Fault::Shared {
            let bad = opinions.iter().filter(|(_, o)| o.reading == Reading::Bad);
            for (port, opinion) in bad {
                self.names.push(port.name.clone());
                self.line.get_or_insert_with(|| opinion.evidence.clone());
            }
        }
    }

    fn judged<'a>(self, row: Weighed, fabric: &'a Fabric) -> Option<Judged<'a>> {
        let at = self.at?;
        let reading = if self.faults.contains(&Fault::Shared) {
            Reading::Bad
        } else if self.well.iter().all(|well| *well) {
            Reading::Good
        } else {
            Reading::Unknown
        };
        let aspect = match row.aspect {
            "" => String::new(),
            aspect => format!(" ({aspect})"),
        };
        let finding = move |run: Run| Finding {
            detail: format!("{}{aspect} of most {fabric} together", row.together),
            rank: Rank::Shared(row.of),
            remedy: Remedy::Inspect,
            drains: row.acts && row.whose == Whose::Node,
            joins: Joins::Opens,
            evidence: format!(
                "{run}: {}; {}: {}",
                self.line.unwrap_or_default(),
                match row.whose {
                    Whose::Fabric => "shared (switch, fabric), so it never drains",
                    Whose::Node => "of the node, not of one port",
                },
                self.names.join(" ")
            ),
            ..Finding::of_condition(row.check.id, Subject::node())
        };
        Some(Judged {
            key: key(&row, &format!("together {}", fabric.key())),
            subject: Subject::node(),
            reading,
            at,
            pace: row.pace,
            finding: Box::new(finding),
        })
    }
}
