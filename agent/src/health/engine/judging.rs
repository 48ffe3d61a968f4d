//! From conditions to findings, and what a person's word means for them.

use collectors::Subject;

use super::Engine;
use crate::core::derive::xid::gpu_label;
use crate::core::snapshot::Snapshot;
use crate::health::checks::CHECKS;
use crate::health::checks::host::Host;
use crate::health::condition::Turn;
use crate::health::incident::Incident;
use crate::health::judge::Judge;

/// What a person knew of when they put the node back, or declared it repaired.
#[derive(Debug)]
pub(in crate::health) struct Known {
    subject: Subject,
    gone: bool,
    conditions: Vec<String>,
}

impl Known {
    /// What an incident says.
    pub(in crate::health) fn of(incident: &Incident) -> Self {
        Self {
            subject: incident.subject.clone(),
            gone: incident.says_gone(),
            conditions: incident.findings.iter().filter_map(|s| s.key.clone()).collect(),
        }
    }
}

impl Engine {
    /// Asks every check that looks at conditions.
    pub(super) fn judge(&mut self, snapshot: &Snapshot, host: &Host) {
        let mut turned = Vec::new();
        for check in CHECKS {
            let Some(conditions) = check.conditions else {
                continue;
            };
            let mut judge = Judge {
                snapshot,
                host,
                policy: &self.policy,
                inventory: &self.state.inventory,
                gres: self.gres.as_deref(),
                since_boot: self.now.boottime,
                since_start: self.now.boottime.saturating_sub(self.started),
                memory: &mut self.state.memory,
            };
            self.streaks.begin();
            for judged in conditions(&mut judge) {
                if let Some(turn) = self.streaks.take(&mut self.state.bad, check.id, &judged) {
                    turned.push((turn, judged.key, (judged.finding)(turn.run())));
                }
            }
            self.streaks.end(check.id);
        }
        for (turn, key, mut finding) in turned {
            self.out.dirty = true;
            match turn {
                Turn::Bad(_) => {
                    finding.key = Some(key);
                    self.find(finding);
                }
                Turn::Well(_) => {
                    self.book.well(&key, &finding, self.now.wall);
                }
            }
        }
    }

    /// A person has spoken: what is bad about the subject now is no news. What was counted begins anew. Should something
    /// come back and go again, that is news.
    pub(super) fn no_news(&mut self, known: &Known) {
        for key in self.streaks.of(&known.subject) {
            self.assume_bad(&key);
        }
        for address in &self.policy.gpu_addresses.clone() {
            let is_it = gpu_label(&self.state.inventory, address) == known.subject.name;
            if is_it && (known.gone || self.streaks.runs(&address.0)) {
                self.assume_bad(&address.0);
            }
        }
        for key in &known.conditions {
            if self.state.memory.forget(key) {
                self.state.bad.remove(key);
                self.streaks.forget(key);
            }
        }
    }

    fn assume_bad(&mut self, key: &str) {
        if self.state.bad.insert(key.to_owned()) {
            self.streaks.forget(key);
        }
    }
}
