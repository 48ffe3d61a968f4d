//! From conditions to findings, and what a person's word means for them.

use std::collections::{BTreeMap, BTreeSet};

use collectors::Subject;
use collectors::gpu::metrics as m;
use collectors::nvidia::metrics as n;

use super::{Engine, millis};
use crate::checks::CHECKS;
use crate::checks::gpu::{Gpu, whole};
use crate::checks::host::Host;
use crate::checks::rdma_port;
use crate::checks::{gpu_application_errors, gpu_ecc};
use crate::condition::Turn;
use crate::finding::Need;
use crate::incident::Incident;
use crate::incident::Status;
use crate::judge::Judge;
use crate::resets::Counters;
use model::derive::xid::gpu_label;
use model::snapshot::Snapshot;

/// What a person knew of when they put the node back, or declared it repaired.
#[derive(Debug)]
pub(crate) struct Known {
    subject: Subject,
    gone: bool,
    conditions: Vec<String>,
}

impl Known {
    /// What an incident says.
    pub(crate) fn of(incident: &Incident) -> Self {
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
        let ports = rdma_port::ports(snapshot, &mut self.state.memory);
        for check in CHECKS {
            let Some(conditions) = check.conditions else {
                continue;
            };
            let mut judge = Judge {
                snapshot,
                host,
                ports: &ports,
                owners: self.tenants.now(),
                site: &self.policy.site,
                inventory: &self.state.inventory,
                gres: self.gres.as_deref(),
                since_boot: self.now.boottime,
                since_start: self.now.boottime.saturating_sub(self.started),
                bad: of_check(&self.state.bad, check.id),
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
        if std::mem::take(&mut self.state.memory.counted) {
            self.out.counted(self.now.boottime);
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

    /// Ends what a reset of a GPU ends, and what its driver has declared over.
    pub(super) fn see_resets(&mut self, gpus: &[Gpu<'_>]) {
        for gpu in gpus {
            // A driver that still asks for something has not been given it.
            if gpu.is_up() != Some(true) || gpu.value(&m::RECOVERY_ACTION).is_some_and(|a| a > 0.0) {
                continue;
            }
            let well = |need| is_met(need, gpu);
            if let Some(before) = self.declared.before(&gpu.label, gpu.at) {
                self.forget_hits(&gpu.label, before);
                let subject = gpu.subject();
                self.out.dirty |= self.book.well_by_driver(&subject, before, well, self.now.wall);
            }
            // Without persistence the driver lets go of a GPU that nobody has open, and forgets its counters.
            if gpu.value(&m::PERSISTENCE_MODE) == Some(0.0) {
                continue;
            }
            let Some(before) = self.resets.take(&gpu.label, counters(gpu), gpu.at, self.now.wall) else {
                continue;
            };
            self.forget_hits(&gpu.label, before);
            self.out.dirty |= self.book.reset(&gpu.subject(), before, well, self.now.wall);
        }
    }

    /// A GPU was reset after `before`, by the wall clock: what its jobs were hit by until then says nothing any more.
    fn forget_hits(&mut self, gpu: &str, before: i64) {
        let age = u64::try_from(self.now.wall.saturating_sub(before)).unwrap_or(0);
        let until = millis(self.now.boottime).saturating_sub(age.saturating_mul(1000));
        let memory = &mut self.state.memory;
        memory.dirty |= memory.hits.forget(gpu, until);
    }

    /// A configured GPU that is not there although a person has declared that repaired. Nobody may call the node healthy
    /// for it: either it comes back, or the configuration says that it is not expected.
    pub(super) fn declared_well(&self) -> Option<String> {
        let address = self.policy.site.gpu_addresses.iter().find(|address| {
            let gpu = gpu_label(&self.state.inventory, address);
            let mut known = self.book.incidents.iter().filter(|i| i.status != Status::Cleared);
            self.state.bad.contains(&address.0) && !known.any(|i| i.subject.name == gpu)
        })?;
        Some(format!(
            "the GPU at {address} is not on the PCI bus, and a person has cleared that"
        ))
    }

    /// A person put the node back: what is bad about the subject now, told or not, is no news. Should something come back
    /// and go again, that is news.
    pub(super) fn no_news(&mut self, known: &Known) {
        for key in self.streaks.of(&known.subject) {
            self.assume_bad(&key);
        }
        for address in self.addresses_of(known) {
            if known.gone || self.streaks.runs(&address) {
                self.assume_bad(&address);
            }
        }
        self.count_anew(known, false);
    }

    /// A person declared an incident repaired: what it says is no news. They knew of nothing else, so what else seems bad
    /// about its subject is counted anew and found if it lasts.
    pub(super) fn repaired(&mut self, known: &Known) {
        for key in self.streaks.of(&known.subject) {
            if known.conditions.contains(&key) {
                self.assume_bad(&key);
            } else if !self.state.bad.contains(&key) {
                self.streaks.forget(&key);
            }
        }
        if known.gone {
            for address in self.addresses_of(known) {
                self.assume_bad(&address);
            }
        }
        self.count_anew(known, true);
    }

    /// The configured addresses of the GPU that it is about: the keys of their conditions.
    fn addresses_of(&self, known: &Known) -> Vec<String> {
        self.policy
            .site
            .gpu_addresses
            .iter()
            .filter(|address| gpu_label(&self.state.inventory, address) == known.subject.name)
            .map(|address| address.0.clone())
            .collect()
    }

    /// What was counted for its conditions begins anew. What only a reset ends stays bad unless it is `repaired`: its end
    /// could not be seen otherwise.
    fn count_anew(&mut self, known: &Known, repaired: bool) {
        let ended = known.conditions.iter();
        let ended = ended.filter(|key| repaired || !key.starts_with(gpu_ecc::UNCORRECTED.id));
        // Conditions of one check and device go by the same counts, whatever else is in their keys.
        let counts: BTreeMap<String, bool> = ended
            .clone()
            .map(|key| counts_of(key))
            .collect::<BTreeSet<String>>()
            .into_iter()
            .map(|counts| {
                let mut had_any = self.state.memory.forget(&counts);
                if counts.starts_with(gpu_application_errors::CHECK.id) {
                    had_any |= self.state.memory.hits.forget(&known.subject.name, u64::MAX);
                }
                (counts, had_any)
            })
            .collect();
        for key in ended.filter(|key| counts.get(&counts_of(key)) == Some(&true)) {
            self.state.bad.remove(key);
            self.streaks.forget(key);
        }
    }

    fn assume_bad(&mut self, key: &str) {
        if self.state.bad.insert(key.to_owned()) {
            self.streaks.forget(key);
        }
    }
}

/// Those conditions whose keys begin with the check's id.
fn of_check(bad: &BTreeSet<String>, check: &str) -> Vec<String> {
    let from = bad.range(format!("{check} ")..);
    let of = from.take_while(|key| key.strip_prefix(check).is_some_and(|rest| rest.starts_with(' ')));
    of.cloned().collect()
}

/// What the counts behind a condition begin with: its check and its device.
fn counts_of(key: &str) -> String {
    key.splitn(3, ' ').take(2).collect::<Vec<_>>().join(" ")
}

fn counters(gpu: &Gpu<'_>) -> Counters {
    let volatile = |kind| whole(gpu.with(&m::ECC_ERRORS, &[("kind", kind), ("scope", "volatile")]));
    Counters {
        energy: gpu.value(&m::ENERGY),
        errors: volatile("corrected")
            .zip(volatile("uncorrected"))
            .map(|(c, u)| c.saturating_add(u)),
    }
}

/// Whether what must be known of a GPU is known, and well.
pub(super) fn is_met(need: Need, gpu: &Gpu<'_>) -> bool {
    match need {
        Need::RemapPending => gpu.value(&m::ROW_REMAP_PENDING) == Some(0.0),
        Need::RemapFailure => gpu.value(&m::ROW_REMAP_FAILURE) == Some(0.0),
        Need::SramThreshold => gpu.value(&m::ECC_SRAM_THRESHOLD) == Some(0.0),
        Need::LinksActive => {
            let links = gpu.value(&n::NVLINK_LINKS).filter(|all| *all > 0.0);
            links.is_some() && gpu.value(&n::NVLINK_LINKS_UP) == links
        }
        // Nobody says how they were meant to be.
        Need::LinksAsIntended => false,
    }
}
