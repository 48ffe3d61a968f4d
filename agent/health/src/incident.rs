//! An incident: the fault of one subject, with all its findings.

use std::cmp::Reverse;

use collectors::{BootId, PciAddress, Subject};
use serde::{Deserialize, Serialize};

use super::checks::{self, order};
use super::finding::{Clear, Finding, Joins, Need, Rank, Remedy};
use model::scheduler::IncidentId;

const MAX_FINDINGS: usize = 32;
const MAX_HISTORY: usize = 32;
const MAX_LINE: usize = 512;

/// A second lift within this time silences an incident (seconds).
const LIFTED_TWICE: i64 = 3600;

/// The time of a step.
#[derive(Clone, Copy, Debug)]
pub(super) struct At<'a> {
    pub boot: &'a BootId,
    /// Since boot, in milliseconds.
    pub now_ms: u64,
    /// In seconds since the epoch.
    pub wall: i64,
}

/// The state of an incident.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Not known to be repaired.
    Open,
    /// An operator lifted the drain; only new evidence counts.
    Overridden,
    /// Closed.
    Cleared,
}

impl Status {
    /// Its name in output.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Overridden => "overridden",
            Self::Cleared => "cleared",
        }
    }
}

/// An operator's acknowledgement of an incident.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ack {
    /// The operator.
    pub by: String,
    /// The time, in seconds since the epoch.
    pub at: i64,
    /// The operator's reason.
    pub reason: String,
}

/// One finding of an incident, with all its occurrences.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Seen {
    /// The check.
    pub check: String,
    /// The detail.
    pub detail: String,
    /// The finding with the lowest rank names the incident.
    pub rank: u8,
    /// The repair.
    pub remedy: Remedy,
    /// Whether it requires a drain.
    pub drains: bool,
    /// What ends it.
    pub clears: Vec<Clear>,
    /// Facts that must be known before a reboot or a verdict may end it.
    pub needs: Vec<Need>,
    /// The number of occurrences.
    pub count: u64,
    /// First seen, in seconds since the epoch.
    pub first: i64,
    /// Last seen.
    pub last: i64,
    /// The boot in which it was last seen.
    pub boot: BootId,
    /// Its repair must be verified.
    #[serde(default)]
    pub verify: bool,
    /// It proves that one device is broken.
    #[serde(default)]
    pub device: bool,
    /// Last seen, in milliseconds since that boot.
    #[serde(default)]
    pub last_ms: u64,
    /// The first three lines or values, and the last.
    pub evidence: Vec<String>,
    /// Why it ended.
    pub resolved: Option<String>,
    /// The key of its condition. Records of the first release have none.
    #[serde(default)]
    pub key: Option<String>,
    /// The first jobs that had the device at that time, by id.
    #[serde(default)]
    pub jobs: Vec<String>,
    /// Whether the evidence may be about others than these jobs: an occurrence had no known job, or a job was dropped.
    /// Earlier records do not know it.
    #[serde(default = "unknown")]
    pub others: bool,
    /// At most a comment, whatever the mode of its check.
    #[serde(default, rename = "unproven")]
    pub comments_only: bool,
    /// In a later boot than its own, the log and the readings left it standing.
    #[serde(skip)]
    pub outlived_boot: bool,
    /// In a later boot than its own, a complete listing does not have its device.
    #[serde(skip)]
    pub is_gone: bool,
}

const fn unknown() -> bool {
    true
}

/// The most jobs of each finding.
const MAX_JOBS: usize = 16;

impl Seen {
    fn new(mut finding: Finding, at: At<'_>) -> Self {
        let others = finding.others || finding.jobs.is_empty() || finding.jobs.len() > MAX_JOBS;
        finding.jobs.truncate(MAX_JOBS);
        let rank = order::rank(&finding);
        Self {
            check: finding.check.into_owned(),
            detail: finding.detail,
            rank,
            remedy: finding.remedy,
            drains: finding.drains,
            clears: finding.clears,
            needs: finding.needs,
            // An occurrence counted elsewhere still counts as 1 here.
            count: finding.count.max(1),
            first: at.wall,
            last: at.wall,
            boot: at.boot.clone(),
            last_ms: at.now_ms,
            verify: finding.verify,
            device: finding.device,
            evidence: vec![cut(finding.evidence)],
            resolved: None,
            key: finding.key,
            jobs: finding.jobs,
            others,
            comments_only: finding.comments_only,
            outlived_boot: false,
            is_gone: false,
        }
    }

    fn again(&mut self, finding: Finding, at: At<'_>) {
        self.count = self.count.saturating_add(finding.count);
        self.last = at.wall;
        self.boot = at.boot.clone();
        self.last_ms = at.now_ms;
        // What does not end a later occurrence does not end it.
        match self.resolved.take() {
            Some(_) => self.clears.clone_from(&finding.clears),
            None => self.clears.retain(|clear| finding.clears.contains(clear)),
        }
        self.rank = self.rank.min(order::rank(&finding));
        self.remedy = self.remedy.max(finding.remedy);
        self.drains |= finding.drains;
        self.verify |= finding.verify;
        self.device |= finding.device;
        // As soon as one occurrence may drain, the finding may.
        self.comments_only &= finding.comments_only;
        self.key = finding.key.or(self.key.take());
        self.others |= finding.others || finding.jobs.is_empty();
        for job in finding.jobs {
            if self.jobs.contains(&job) {
                continue;
            }
            if self.jobs.len() < MAX_JOBS {
                self.jobs.push(job);
            } else {
                self.others = true;
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

    /// Two conditions may have the same detail; each ends separately.
    fn is(&self, finding: &Finding) -> bool {
        let same_key = match (&self.key, &finding.key) {
            (Some(one), Some(other)) => one == other,
            _ => true,
        };
        self.check == finding.check && self.detail == finding.detail && same_key
    }

    /// Whether it requires a drain now.
    pub fn stands(&self) -> bool {
        self.drains && self.resolved.is_none()
    }

    /// The finding, as its check reported it.
    pub(super) fn finding_of(&self, incident: &Incident) -> Option<Finding> {
        Some(Finding {
            check: checks::check(&self.check).map(|_| self.check.clone().into())?,
            subject: incident.subject.clone(),
            pci: incident.pci.clone(),
            detail: self.detail.clone(),
            rank: Rank::At(self.rank),
            remedy: self.remedy,
            drains: self.drains,
            joins: Joins::Opens,
            clears: self.clears.clone(),
            needs: self.needs.clone(),
            count: self.count,
            others: self.others,
            verify: self.verify,
            device: self.device,
            key: self.key.clone(),
            evidence: self.evidence.last().cloned().unwrap_or_default(),
            jobs: self.jobs.clone(),
            comments_only: self.comments_only,
        })
    }

    /// The least of an incident's findings by this names it. Of several of one rank, such as lines of one check, it is the one
    /// with the strongest remedy.
    pub(super) fn precedence(&self) -> impl Ord + use<> {
        (self.rank, Reverse(self.remedy), self.first)
    }

    /// The key of its condition, if readings show it. A line of the kernel log has a key too, and is an event.
    pub(super) fn condition(&self) -> Option<&String> {
        let is_read = self.clears.contains(&Clear::Condition);
        self.key.as_ref().filter(|_| is_read)
    }

    /// Whether it was last seen after this time of this boot.
    pub(super) fn is_after(&self, boot: &BootId, at_ms: u64) -> bool {
        self.boot == *boot && self.last_ms > at_ms
    }

    /// Whether something else than an operator's word ends it. Without it, an operator's lift is that word.
    pub(super) fn has_visible_end(&self) -> bool {
        self.clears.iter().any(|clear| *clear != Clear::Person)
    }
}

/// An operator lifted the drain of the node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lift {
    /// The boot in which nodewarden saw it.
    pub boot: BootId,
    /// The time at which nodewarden saw it, in milliseconds since boot.
    pub at_ms: u64,
    /// The same, in seconds since the epoch.
    pub wall: i64,
}

/// The fault of one subject.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Incident {
    /// Its id.
    pub id: IncidentId,
    /// Its state.
    pub status: Status,
    /// The faulty subject.
    pub subject: Subject,
    /// Its PCI address.
    pub pci: Option<PciAddress>,
    /// Its start, in seconds since the epoch.
    pub opened: i64,
    /// The end of the settle window, in milliseconds since boot.
    pub settles_ms: u64,
    /// Its start, in milliseconds since boot.
    #[serde(default)]
    pub began_ms: u64,
    /// The boot in which it started: the two times before count from it.
    pub boot: BootId,
    /// The time at which it was closed.
    pub closed: Option<i64>,
    /// Why it was closed.
    pub closed_why: Option<String>,
    /// It holds the own drain.
    pub behind: bool,
    /// Its suppressed drain was counted.
    pub counted: bool,
    /// Its findings.
    pub findings: Vec<Seen>,
    /// Its history.
    pub history: Vec<(i64, String)>,
    /// Its acknowledgement.
    pub ack: Option<Ack>,
    /// The last lift by an operator while it required a drain.
    #[serde(default)]
    pub lift: Option<Lift>,
}

impl Incident {
    /// Opens an incident.
    pub(super) fn open(id: IncidentId, finding: Finding, at: At<'_>, settles_ms: u64) -> Self {
        let mut incident = Self {
            id,
            status: Status::Open,
            subject: finding.subject.clone(),
            pci: finding.pci.clone(),
            opened: at.wall,
            settles_ms,
            began_ms: at.now_ms,
            boot: at.boot.clone(),
            closed: None,
            closed_why: None,
            behind: false,
            counted: false,
            findings: Vec::new(),
            history: Vec::new(),
            ack: None,
            lift: None,
        };
        incident.note(at.wall, format!("opened by {}", finding.detail));
        incident.add(finding, at);
        incident
    }

    /// Adds a finding, or counts it again.
    pub(super) fn add(&mut self, finding: Finding, at: At<'_>) {
        if self.pci.is_none() {
            self.pci.clone_from(&finding.pci);
        }
        if let Some(seen) = self.findings.iter_mut().find(|s| s.is(&finding)) {
            seen.again(finding, at);
        } else if self.findings.len() < MAX_FINDINGS {
            self.findings.push(Seen::new(finding, at));
        } else if finding.drains {
            // A finding that requires a drain replaces one that does not.
            if let Some(slot) = self.findings.iter_mut().rev().find(|s| !s.drains) {
                *slot = Seen::new(finding, at);
            }
        }
    }

    /// Whether a standing finding of it is about the condition `key`.
    pub(super) fn has_key(&self, key: &str) -> bool {
        let mut all = self.findings.iter();
        all.any(|seen| seen.resolved.is_none() && seen.key.as_deref() == Some(key))
    }

    /// Whether it has this finding already.
    pub(super) fn has(&self, finding: &Finding) -> bool {
        self.findings.iter().any(|s| s.is(finding))
    }

    /// Whether it has this finding, and nothing has ended it.
    pub(super) fn has_open(&self, finding: &Finding) -> bool {
        let mut all = self.findings.iter();
        all.any(|seen| seen.resolved.is_none() && seen.is(finding))
    }

    /// Whether a finding repeats one of its findings without changing it.
    pub(super) fn is_repeated_by(&self, finding: &Finding, boot: &BootId) -> bool {
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

    /// Whether it started after this time of this boot.
    pub(super) fn began_after(&self, boot: &BootId, at_ms: u64) -> bool {
        self.boot == *boot && self.began_ms > at_ms
    }

    /// An operator lifted the drain that it requires. It may require one once more, by [`Incident::wants_after_lift`];
    /// a second lift within an hour of the same boot silences it: Slurm ends a drain itself when a node comes up after
    /// `scontrol reboot nextstate=resume`. Returns whether this one does.
    pub(super) fn lifted(&mut self, at: At<'_>) -> bool {
        let twice =
            |lift: &Lift| lift.boot == *at.boot && at.wall.abs_diff(lift.wall) < LIFTED_TWICE.unsigned_abs();
        let is_silenced =
            self.lift.as_ref().is_some_and(twice) || !self.standing().any(Seen::has_visible_end);
        self.lift = Some(Lift {
            boot: at.boot.clone(),
            at_ms: at.now_ms,
            wall: at.wall,
        });
        self.behind = false;
        if is_silenced {
            self.status = Status::Overridden;
        }
        self.note(at.wall, "an operator lifted the drain".to_owned());
        is_silenced
    }

    /// Whether a finding counts after an operator's lift: a condition that was read as bad later, an event whose remedy
    /// was not seen, or a later event. `read_at` returns the time of the last bad reading of a condition, in
    /// milliseconds since boot.
    pub(super) fn wants_after_lift(
        &self,
        seen: &Seen,
        boot: &BootId,
        read_at: impl Fn(&str) -> Option<u64>,
    ) -> bool {
        let Some(lift) = &self.lift else { return true };
        match &seen.key {
            _ if !seen.has_visible_end() => seen.is_after(&lift.boot, lift.at_ms),
            Some(key) => read_at(key).is_some_and(|at| lift.boot != *boot || at > lift.at_ms),
            None => true,
        }
    }

    /// Whether it is within its settle window.
    pub(super) fn settling(&self, boot: &BootId, now_ms: u64) -> bool {
        self.boot == *boot && now_ms <= self.settles_ms
    }

    /// Its findings that require a drain now.
    pub(super) fn standing(&self) -> impl Iterator<Item = &Seen> {
        self.findings.iter().filter(|seen| seen.stands())
    }

    /// Those that hold a drain of nodewarden: what never causes one does not keep it.
    pub(super) fn holding(&self) -> impl Iterator<Item = &Seen> {
        self.standing().filter(|seen| !seen.comments_only)
    }

    /// The finding that names it: a resolved one only if all are resolved or the incident is closed.
    pub fn root(&self) -> Option<&Seen> {
        let is_over = self.status == Status::Cleared;
        self.findings
            .iter()
            .min_by_key(|s| (!is_over && s.resolved.is_some(), s.precedence()))
    }

    /// The strongest remedy that is still due: of the findings that require a drain, else of the others. Once all are
    /// resolved, the strongest of all.
    pub fn remedy(&self) -> Remedy {
        let strongest = |which: &dyn Fn(&Seen) -> bool| {
            let found = self.findings.iter().filter(|seen| which(seen));
            found.map(|seen| seen.remedy).max()
        };
        strongest(&Seen::stands)
            .or_else(|| strongest(&|seen| self.is_left(seen)))
            .or_else(|| strongest(&|seen| seen.drains))
            .or_else(|| strongest(&|_| true))
            .unwrap_or(Remedy::None)
    }

    /// Whether any finding requires a drain.
    pub fn drains(&self) -> bool {
        self.findings.iter().any(|s| s.drains)
    }

    /// Whether it requires an act now; of a closed one, whether it did.
    pub(super) fn acts(&self) -> bool {
        match self.status {
            Status::Open => self.standing().next().is_some(),
            Status::Overridden => false,
            Status::Cleared => self.drains(),
        }
    }

    /// Whether a finding is left to repair. Those that only followed end with their cause, except those of a condition,
    /// which end with the condition.
    fn is_left(&self, seen: &Seen) -> bool {
        let follows = !seen.drains && seen.key.is_none() && self.drains();
        seen.resolved.is_none() && !follows
    }

    /// Whether nothing is left to repair.
    pub(super) fn is_resolved(&self) -> bool {
        !self.findings.iter().any(|seen| self.is_left(seen))
    }

    /// Releases the drain if no finding holds one any more.
    pub(super) fn let_go(&mut self) {
        let stands = self.holding().next().is_some();
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

    /// Adds a line to its history. When full, it replaces the last line.
    pub(super) fn note(&mut self, wall: i64, line: String) {
        if self.history.last().is_some_and(|(_, last)| *last == line) {
            return;
        }
        self.history.truncate(MAX_HISTORY - 1);
        self.history.push((wall, cut(line)));
    }
}

/// Cuts a line, to limit the size of a record.
fn cut(mut line: String) -> String {
    line.truncate(line.floor_char_boundary(MAX_LINE));
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether evidence of one finding, seen with the jobs of each of these occurrences, may be about others.
    fn others(occurrences: &[Vec<String>]) -> bool {
        let boot = BootId("b".to_owned());
        let mut findings = occurrences.iter().map(|jobs| Finding {
            jobs: jobs.clone(),
            ..Finding::of_condition("xid", Subject::gpu("a"))
        });
        let at = At {
            boot: &boot,
            now_ms: 0,
            wall: 0,
        };
        let mut seen = Seen::new(findings.next().unwrap(), at);
        findings.for_each(|finding| seen.again(finding, at));
        assert!(seen.jobs.len() <= MAX_JOBS);
        seen.others
    }

    #[test]
    fn an_occurrence_without_a_job_and_a_dropped_job_are_remembered() {
        let jobs = |numbers: std::ops::Range<usize>| numbers.map(|n| n.to_string()).collect::<Vec<_>>();
        assert!(!others(&[jobs(0..1), jobs(0..2)]));
        assert!(!others(&[jobs(0..MAX_JOBS), jobs(0..MAX_JOBS)]));
        for occurrences in [
            vec![jobs(0..0)],
            vec![jobs(0..0), jobs(0..1)],
            vec![jobs(0..1), jobs(0..0), jobs(0..1)],
            vec![jobs(0..MAX_JOBS + 1)],
            vec![jobs(0..MAX_JOBS), jobs(0..MAX_JOBS + 1)],
        ] {
            assert!(others(&occurrences), "{occurrences:?}");
        }
    }
}
