//! An incident: what is wrong with one subject, with every finding that belongs to it.

use collectors::{BootId, PciAddress, Subject};
use serde::{Deserialize, Serialize};

use super::checks::order;
use super::finding::{Clear, Finding, Need, Remedy};
use model::scheduler::IncidentId;

const MAX_FINDINGS: usize = 32;
const MAX_HISTORY: usize = 32;
const MAX_LINE: usize = 512;

/// What state an incident is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Not repaired as far as is known.
    Open,
    /// A person put the node back into service; only new evidence counts.
    Overridden,
    /// Over.
    Cleared,
}

impl Status {
    /// The word for people.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Overridden => "overridden",
            Self::Cleared => "cleared",
        }
    }
}

/// A person's note on an incident.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ack {
    /// Who.
    pub by: String,
    /// When, in seconds since the epoch.
    pub at: i64,
    /// In the person's words.
    pub reason: String,
}

/// One finding within an incident, with everything seen of it since.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Seen {
    /// The check.
    pub check: String,
    /// What was found.
    pub detail: String,
    /// The lowest names the incident.
    pub rank: u8,
    /// What repairs it.
    pub remedy: Remedy,
    /// Whether it takes the node out of service.
    pub drains: bool,
    /// What ends it.
    pub clears: Vec<Clear>,
    /// What must be known before a reboot or a verdict may end it.
    pub needs: Vec<Need>,
    /// How often.
    pub count: u64,
    /// First seen, in seconds since the epoch.
    pub first: i64,
    /// Last seen.
    pub last: i64,
    /// The boot in which it was last seen.
    pub boot: BootId,
    /// The first three lines or values, and the last.
    pub evidence: Vec<String>,
    /// What ended it.
    pub resolved: Option<String>,
    /// The condition behind it. Records of the first release have none.
    #[serde(default)]
    pub key: Option<String>,
    /// The jobs that had the device when it was seen, by number, the first ones.
    #[serde(default)]
    pub jobs: Vec<String>,
}

/// Jobs that are kept of each finding.
const MAX_JOBS: usize = 16;

impl Seen {
    fn new(mut finding: Finding, boot: &BootId, wall: i64) -> Self {
        finding.jobs.truncate(MAX_JOBS);
        let rank = order::rank(&finding);
        Self {
            check: finding.check.to_owned(),
            detail: finding.detail,
            rank,
            remedy: finding.remedy,
            drains: finding.drains,
            clears: finding.clears,
            needs: finding.needs,
            // Counted elsewhere already, it is one here all the same.
            count: finding.count.max(1),
            first: wall,
            last: wall,
            boot: boot.clone(),
            evidence: vec![cut(finding.evidence)],
            resolved: None,
            key: finding.key,
            jobs: finding.jobs,
        }
    }

    fn again(&mut self, finding: Finding, boot: &BootId, wall: i64) {
        self.count = self.count.saturating_add(finding.count);
        self.last = wall;
        self.boot = boot.clone();
        self.resolved = None;
        self.rank = self.rank.min(order::rank(&finding));
        self.remedy = self.remedy.max(finding.remedy);
        self.drains |= finding.drains;
        self.key = finding.key.or(self.key.take());
        for job in finding.jobs {
            if self.jobs.len() < MAX_JOBS && !self.jobs.contains(&job) {
                self.jobs.push(job);
            }
        }
        let line = cut(finding.evidence);
        match self.evidence.len() {
            0..4 => self.evidence.push(line),
            _ => {
                self.evidence.truncate(3);
                self.evidence.push(line);
            }
        }
    }

    /// Two conditions may have the same words; each ends by itself.
    fn is(&self, finding: &Finding) -> bool {
        let same_key = match (&self.key, &finding.key) {
            (Some(one), Some(other)) => one == other,
            _ => true,
        };
        self.check == finding.check && self.detail == finding.detail && same_key
    }

    /// Whether it takes the node out of service now.
    pub fn stands(&self) -> bool {
        self.drains && self.resolved.is_none()
    }
}

/// What is wrong with one subject.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Incident {
    /// Its id.
    pub id: IncidentId,
    /// Its state.
    pub status: Status,
    /// What is wrong.
    pub subject: Subject,
    /// Where it is on the PCI bus.
    pub pci: Option<PciAddress>,
    /// When it began, in seconds since the epoch.
    pub opened: i64,
    /// Findings join until then, in milliseconds since boot.
    pub settles_ms: u64,
    /// When it began, in milliseconds since boot.
    #[serde(default)]
    pub began_ms: u64,
    /// The boot in which it began, and the two before count.
    pub boot: BootId,
    /// When it was closed.
    pub closed: Option<i64>,
    /// Why.
    pub closed_why: Option<String>,
    /// A drain of ours stands for it, too.
    pub behind: bool,
    /// It was counted as one that would have drained.
    pub counted: bool,
    /// What was found.
    pub findings: Vec<Seen>,
    /// What happened to it.
    pub history: Vec<(i64, String)>,
    /// Who looks after it.
    pub ack: Option<Ack>,
}

impl Incident {
    /// Opens one.
    pub(super) fn open(
        id: IncidentId,
        finding: Finding,
        boot: &BootId,
        wall: i64,
        (began_ms, settles_ms): (u64, u64),
    ) -> Self {
        let mut incident = Self {
            id,
            status: Status::Open,
            subject: finding.subject.clone(),
            pci: finding.pci.clone(),
            opened: wall,
            settles_ms,
            began_ms,
            boot: boot.clone(),
            closed: None,
            closed_why: None,
            behind: false,
            counted: false,
            findings: Vec::new(),
            history: Vec::new(),
            ack: None,
        };
        incident.note(wall, format!("opened by {}", finding.detail));
        incident.add(finding, boot, wall);
        incident
    }

    /// Adds a finding, or counts it again.
    pub(super) fn add(&mut self, finding: Finding, boot: &BootId, wall: i64) {
        if self.pci.is_none() {
            self.pci.clone_from(&finding.pci);
        }
        if let Some(seen) = self.findings.iter_mut().find(|s| s.is(&finding)) {
            seen.again(finding, boot, wall);
        } else if self.findings.len() < MAX_FINDINGS {
            self.findings.push(Seen::new(finding, boot, wall));
        } else if finding.drains {
            // What takes the node out of service is worth more than what merely followed.
            if let Some(slot) = self.findings.iter_mut().rev().find(|s| !s.drains) {
                *slot = Seen::new(finding, boot, wall);
            }
        }
    }

    /// Whether it holds this finding already.
    pub(super) fn has(&self, finding: &Finding) -> bool {
        self.findings.iter().any(|s| s.is(finding))
    }

    /// Whether a finding is one more of those that it holds, and changes nothing about them.
    pub(super) fn says_as_much(&self, finding: &Finding, boot: &BootId) -> bool {
        let same = |s: &Seen| {
            s.is(finding)
                && s.resolved.is_none()
                && s.boot == *boot
                && s.drains >= finding.drains
                && s.remedy >= finding.remedy
                && s.rank <= order::rank(finding)
        };
        self.findings.iter().any(same)
    }

    /// Whether it began after this moment of this boot.
    pub(super) fn began_after(&self, boot: &BootId, at_ms: u64) -> bool {
        self.boot == *boot && self.began_ms > at_ms
    }

    /// Whether findings still join.
    pub(super) fn settling(&self, boot: &BootId, now_ms: u64) -> bool {
        self.boot == *boot && now_ms <= self.settles_ms
    }

    /// Its findings that take the node out of service now.
    pub(super) fn standing(&self) -> impl Iterator<Item = &Seen> {
        self.findings.iter().filter(|seen| seen.stands())
    }

    /// The finding that names it: what is repaired does so only where nothing else is left, or all is over.
    pub fn root(&self) -> Option<&Seen> {
        let is_over = self.status == Status::Cleared;
        self.findings
            .iter()
            .min_by_key(|s| (!is_over && s.resolved.is_some(), s.rank, s.first))
    }

    /// The strongest remedy that is still due; once all is repaired, what was due.
    pub fn remedy(&self) -> Remedy {
        let due = |only_standing: bool| {
            self.findings
                .iter()
                .filter(|s| s.drains && (!only_standing || s.stands()))
                .map(|s| s.remedy)
                .max()
        };
        // What is only observed has something that helps, too.
        let observed = || self.findings.iter().map(|s| s.remedy).max();
        due(true)
            .or_else(|| due(false))
            .or_else(observed)
            .unwrap_or(Remedy::None)
    }

    /// Whether its policy takes the node out of service.
    pub fn drains(&self) -> bool {
        self.findings.iter().any(|s| s.drains)
    }

    /// Whether nothing of it is left to repair: what only followed goes with what it followed from. What is seen at every
    /// reading does not: it ends when that is well.
    pub(super) fn is_resolved(&self) -> bool {
        let drains = self.drains();
        let follows = |s: &Seen| drains && !s.drains && s.key.is_none();
        self.findings.iter().all(|s| s.resolved.is_some() || follows(s))
    }

    /// Nothing of it takes the node out of service any more, so no drain stands for it.
    pub(super) fn let_go(&mut self) {
        let stands = self.standing().next().is_some();
        self.behind &= stands;
    }

    /// Closes it.
    pub(super) fn close(&mut self, wall: i64, why: String) {
        self.note(wall, format!("cleared: {why}"));
        self.status = Status::Cleared;
        self.closed = Some(wall);
        self.closed_why = Some(why);
        self.behind = false;
    }

    /// Notes what happened to it. The last line makes room for a newer one.
    pub(super) fn note(&mut self, wall: i64, line: String) {
        if self.history.last().is_some_and(|(_, last)| *last == line) {
            return;
        }
        self.history.truncate(MAX_HISTORY - 1);
        self.history.push((wall, cut(line)));
    }
}

/// Cuts a line at a length that keeps a record small.
fn cut(mut line: String) -> String {
    if line.len() > MAX_LINE {
        let mut at = MAX_LINE;
        while !line.is_char_boundary(at) {
            at -= 1;
        }
        line.truncate(at);
    }
    line
}
