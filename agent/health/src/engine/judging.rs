//! From conditions to findings, and the effect of an operator's orders on them.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use collectors::SubjectKind;

use super::{Engine, unjudged};
use crate::book::Known;
use crate::checks::{Forget, Watch, rdma_scope, switched_off};
use crate::condition::{Latest, Turn, device_of};
use crate::finding::Clear;
use crate::incident::{Incident, Status};
use crate::judge::{Judge, Keep};
use crate::reads::gpu::Gpu;
use crate::reads::gpu_part::Part;
use crate::reads::group::Group;
use crate::reads::host::Host;
use crate::reads::port::Port;
use model::snapshot::Snapshot;

impl Engine {
    /// Runs every check on a snapshot.
    pub(super) fn judge(
        &mut self,
        snapshot: &Snapshot,
        host: &Host,
        (ports, groups): (&[Port<'_>], &[Group<'_>]),
        (gpus, parts): (&[Gpu<'_>], &[Part<'_>]),
        bus_is_new: bool,
    ) {
        let keep = Cell::new(Keep::Same);
        let log_is_read = self.log.unfinished(self.now.boottime).is_none();
        self.names_no_port =
            rdma_scope::names_none(&self.policy.site.settings.rdma, ports, &self.state.known);
        let is_replayed = self.log.is_replayed();
        let judge = |bad| Judge {
            snapshot,
            host,
            ports,
            groups,
            known: &self.state.known,
            gpus,
            parts,
            site: &self.policy.site,
            inventory: &self.state.inventory,
            gres: self.gres.as_deref(),
            now: self.now,
            since_start: self.now.boottime.saturating_sub(self.started),
            log_is_read,
            is_replayed,
            names_no_port: self.names_no_port,
            bus_is_new,
            bad,
            keep: &keep,
        };
        let (mut before, mut turned, mut after) = (Vec::new(), Vec::new(), Vec::new());
        for (_, watch) in self.checks.each() {
            before.extend(watch.before(&judge(Vec::new())));
        }
        for (check, watch) in self.checks.each() {
            self.streaks.begin(watch.bridges());
            let judge = judge(of_check(&self.state.bad, check.id, watch.as_ref()));
            let judged = rdma_scope::limit(&judge, check, watch.look(&judge));
            for judged in switched_off::limit(&judge, check, judged) {
                let turn = self.streaks.take(&mut self.state.bad, check.id, &judged);
                let turn = turn.or_else(|| {
                    let only_observed = self.book.is_open_without_drain(&judged.key);
                    let again = self.streaks.again(&judged).filter(|_| only_observed);
                    again.map(Turn::Again)
                });
                let Some(turn) = turn else { continue };
                let finding = (judged.finding)(turn.run());
                let is_unproven = Self::is_unproven(&self.state, self.has_proven, &finding);
                let may_drain = finding.drains && !finding.comments_only && !is_unproven;
                let acts = may_drain && !self.policy.only_observes(&finding.check);
                if acts || !matches!(turn, Turn::Again(_)) {
                    turned.push((check.id, turn, judged.key, finding));
                }
            }
            self.streaks.end(check.id, self.now.boottime);
        }
        for (_, watch) in self.checks.each() {
            after.extend(watch.after(&judge(Vec::new())));
        }
        let unjudged = unjudged::doubt(&judge(Vec::new()), &self.policy, &self.state.unproven);
        self.sight.judged(snapshot.at, unjudged);
        match keep.get() {
            Keep::Same => {}
            Keep::Soon => self.out.counted(self.now.boottime),
            Keep::Now => self.out.dirty = true,
        }
        self.apply(before);
        for (check, turn, key, mut finding) in turned {
            let subject = finding.subject.clone();
            let is_stored = match turn {
                Turn::Bad(_) | Turn::Again(_) => {
                    finding.key = Some(key.clone());
                    self.find(finding)
                }
                Turn::Good(_) => {
                    self.book.well(&key, &finding, self.now.wall);
                    true
                }
            };
            if is_stored {
                self.out.dirty = true;
            } else {
                // No incident shows it.
                self.state.bad.remove(&key);
                self.streaks.retry(check, &key, subject);
            }
        }
        self.apply(after);
    }

    /// A configured device that is missing although its incident was cleared. The verdict is not healthy until the
    /// device returns or leaves the configuration.
    pub(super) fn declared_well(&self) -> Option<String> {
        let checks = self.checks.iter();
        let mut expected =
            checks.flat_map(|(_, watch)| watch.expected(&self.policy.site, &self.state.inventory));
        let missing = expected.find(|expected| {
            let mut known = self.book.incidents.iter().filter(|i| i.status != Status::Cleared);
            let shows = |i: &Incident| match expected.subject.kind {
                // It may be in the incident of a GPU.
                SubjectKind::Node => i.has_key(&expected.key),
                _ => i.subject.name == expected.subject.name,
            };
            self.state.bad.contains(&expected.key) && !known.any(shows)
        });
        missing.map(|expected| match self.streaks.latest(&expected.key) {
            Some(Latest::Bad { .. }) => expected.doubt,
            // It was assumed when the incident was cleared. Good readings end it, and one is not enough.
            _ => format!(
                "{}: its incident was cleared, and readings do not yet confirm the repair",
                expected.subject
            ),
        })
    }

    /// An operator lifted the drain: existing faults of the subject do not count as new evidence. A fault that ends and
    /// occurs again does.
    pub(super) fn ignore_existing(&mut self, known: &Known) {
        for key in self.streaks.of(&known.subject) {
            self.assume_bad(&key);
        }
        for (is_said, key) in self.must_be_there(known) {
            if is_said || self.streaks.runs(&key) {
                self.assume_bad(&key);
            }
        }
        self.reset_counts(known, false);
    }

    /// An operator cleared an incident: its conditions do not count as new evidence. Other conditions of its subject
    /// restart their count, because the operator did not know them.
    pub(super) fn repaired(&mut self, known: &Known) {
        for key in self.streaks.of(&known.subject) {
            if known.conditions.iter().any(|(_, of)| *of == key) {
                self.assume_bad(&key);
            } else if !self.state.bad.contains(&key) {
                self.streaks.forget(&key);
            }
        }
        for (_, key) in self
            .must_be_there(known)
            .into_iter()
            .filter(|(is_said, _)| *is_said)
        {
            self.assume_bad(&key);
        }
        // Another device than the repaired one is missing: that is found again.
        if known.subject.kind != SubjectKind::Node && !known.gone {
            for key in self.expected_of_node() {
                if known.conditions.iter().any(|(_, of)| *of == key) {
                    self.state.bad.remove(&key);
                    self.streaks.forget(&key);
                }
            }
        }
        self.reset_counts(known, true);
    }

    /// The conditions of the node itself that the configuration expects.
    fn expected_of_node(&self) -> Vec<String> {
        let mut keys = Vec::new();
        for (_, watch) in self.checks.iter() {
            let expected = watch.expected(&self.policy.site, &self.state.inventory);
            let of_node = expected
                .into_iter()
                .filter(|e| e.subject.kind == SubjectKind::Node);
            keys.extend(of_node.map(|expected| expected.key));
        }
        keys
    }

    /// The conditions of the subject that expect it by configuration, each with whether its absence is reported.
    fn must_be_there(&self, known: &Known) -> Vec<(bool, String)> {
        let mut keys = Vec::new();
        for (check, watch) in self.checks.iter() {
            let is_said = known.gone || known.checks.iter().any(|of| of == check.id);
            let expected = watch
                .expected(&self.policy.site, &self.state.inventory)
                .into_iter();
            let own = expected.filter(|expected| {
                expected.subject.kind != SubjectKind::Node && expected.subject.name == known.subject.name
            });
            keys.extend(own.map(|expected| (is_said, expected.key)));
        }
        keys
    }

    /// Resets the counts of the conditions, if their check permits it.
    fn reset_counts(&mut self, known: &Known, repaired: bool) {
        let mut ended = BTreeSet::new();
        // Conditions of one check and device share their counts, whatever else their keys contain.
        let mut had_any: BTreeMap<(&str, &str), bool> = BTreeMap::new();
        for (of, key) in &known.conditions {
            let forget = Forget {
                device: device_of(of, key),
                subject: &known.subject,
                conditions: &known.conditions,
                repaired,
            };
            let checks = &mut self.checks;
            let had_any = had_any.entry((of, forget.device)).or_insert_with(|| {
                let mut own = checks.each().filter(|(check, _)| check.id == of);
                own.any(|(_, watch)| watch.forget(&forget))
            });
            if *had_any {
                self.out.dirty = true;
                self.state.bad.remove(key);
                self.streaks.forget(key);
                ended.insert(key);
            }
        }
        let why = if repaired {
            Clear::Person.happened()
        } else {
            "an operator lifted its drain: it is counted from 0"
        };
        // No reading ends a condition that is bad no longer.
        self.book.resolve(self.now.wall, |_, seen| {
            let is_ended = seen.key.as_ref().is_some_and(|key| ended.contains(key));
            is_ended.then(|| why.to_owned())
        });
        // What a check counts of events has no condition.
        let has_none = |of: &&String| known.conditions.iter().all(|(other, _)| other != *of);
        for of in known.checks.iter().filter(has_none) {
            let forget = Forget {
                device: "",
                subject: &known.subject,
                conditions: &known.conditions,
                repaired,
            };
            let own = self.checks.each().filter(|(check, _)| check.id == of);
            for (_, watch) in own {
                self.out.dirty |= watch.forget(&forget);
            }
        }
    }

    fn assume_bad(&mut self, key: &str) {
        if self.state.bad.insert(key.to_owned()) {
            self.streaks.forget(key);
        }
    }
}

/// The conditions of a check: their keys start with its id, or are its own.
fn of_check(bad: &BTreeSet<String>, check: &str, watch: &dyn Watch) -> Vec<String> {
    let starts = |key: &str| key.strip_prefix(check).is_some_and(|rest| rest.starts_with(' '));
    let of = bad.iter().filter(|key| starts(key) || watch.owns(key));
    of.cloned().collect()
}
