//! What a user of the control socket sees of jobs. Job numbers are on every page; owner, usage and evidence about a job are
//! for those who may see it.

use std::sync::Arc;

use collectors::kernel_log::lines;
use collectors::{slurm, tasks};

use super::{NodeStatus, Reply};
use crate::own::{self, JobAccess, OwnFacts};
use health::view::{FindingView, IncidentView};
use model::jobs::{JobsView, Line};

/// In place of text about other users' jobs.
const WITHHELD: &str = "withheld: about a job of another user (access.jobs)";

/// Whether errors and calls of a collector name cgroups of jobs, which may hold the owner's number.
pub(in crate::http) fn is_of_jobs(collector: &str) -> bool {
    [slurm::SPEC.name, tasks::SPEC.name].contains(&collector)
}

/// Whether the evidence is a kernel line that names a program, of any user. The finding's detail is that of its row.
fn names_a_program(finding: &FindingView) -> bool {
    lines::rows().any(|row| row.names_program && row.what == finding.detail)
}

/// One user, as SO_PEERCRED names it.
pub(super) struct Viewer<'a> {
    uid: u32,
    /// Root, the daemon's own user, an operator.
    trusted: bool,
    facts: &'a OwnFacts,
}

impl<'a> Viewer<'a> {
    pub(super) const fn new(uid: u32, trusted: bool, facts: &'a OwnFacts) -> Self {
        Self { uid, trusted, facts }
    }

    fn sees_all(&self) -> bool {
        self.trusted || self.facts.access == JobAccess::All
    }

    /// A job whose owner is unknown is another user's.
    fn sees(&self, line: &Line) -> bool {
        self.sees_all() || (self.facts.access == JobAccess::Own && line.uid == Some(self.uid))
    }

    /// Whether every run of that number that is known here is the user's.
    fn sees_number(&self, job: &str) -> bool {
        let ended = self.facts.jobs.ended.iter().map(AsRef::as_ref);
        let mut runs = self.facts.jobs.running.iter().chain(ended);
        let mut runs = runs.by_ref().filter(|line| line.job == job).peekable();
        runs.peek().is_some() && runs.all(|line| self.sees(line))
    }

    /// The jobs, without the numeric owners: the site may show users as hashes.
    pub(super) fn jobs(&self) -> JobsView {
        let all = &self.facts.jobs;
        let shown = |line: &Line| Line {
            uid: None,
            ..line.clone()
        };
        let running: Vec<Line> = all.running.iter().filter(|l| self.sees(l)).map(shown).collect();
        let ended = all.ended.iter().filter(|line| self.sees(line));
        let ended: std::collections::VecDeque<_> = ended.map(|line| Arc::new(shown(line))).collect();
        JobsView {
            withheld: all.running.len() + all.ended.len() - running.len() - ended.len(),
            running,
            ended,
            results: all.results.clone(),
        }
    }

    /// An incident, without the evidence that names another user's job.
    pub(super) fn incident(&self, incident: &IncidentView) -> IncidentView {
        let mut incident = incident.clone();
        if !self.sees_all() {
            for finding in &mut incident.findings {
                // Without a job the evidence may name a process of any user; beside one, jobs and processes of others.
                let names = || finding.evidence.iter().any(|line| line.contains("pid"));
                let others = if finding.jobs.is_empty() {
                    names()
                } else {
                    finding.others
                };
                if others || names_a_program(finding) || !finding.jobs.iter().all(|job| self.sees_number(job))
                {
                    finding.evidence = vec![WITHHELD.to_owned()];
                }
            }
        }
        incident
    }

    /// The status, without errors of collectors that read jobs.
    pub(super) fn status(&self, mut status: NodeStatus) -> Reply {
        if !self.sees_all() {
            for incident in &mut status.view.incidents {
                *incident = self.incident(incident);
            }
            let collectors = status.collectors.iter_mut();
            for collector in collectors.filter(|c| is_of_jobs(&c.name)) {
                let is_error = !collector.text.is_empty() && collector.reason != own::FIRST_READING;
                let texts = collector.troubled.iter_mut().map(|d| &mut d.text);
                for text in texts.chain(is_error.then_some(&mut collector.text)) {
                    WITHHELD.clone_into(text);
                }
            }
        }
        Reply::Status(Box::new(status))
    }
}
