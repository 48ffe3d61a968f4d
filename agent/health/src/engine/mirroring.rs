//! The copy of the drain's record in the scheduler: what it holds, and the record that is made of it where the state
//! directory was lost.

use collectors::{BootId, PciAddress, Subject, SubjectKind};

use super::{At, Engine, Incident};
use crate::drain::State as DrainState;
use crate::finding::{Clear, Finding, Remedy};
use crate::incident::Seen;
use crate::{checks, keep};
use model::derive::xid::gpu_label;
use model::scheduler::mirror::{MOST_GPUS, MOST_LIFTS, MirrorSeen, MirroredDrain, Note};
use model::scheduler::{Action, NodeState, ReasonParts};

impl Engine {
    /// The node was read.
    pub(super) fn saw(&mut self, node: &NodeState) {
        self.state.mirror.saw(node);
        if matches!(node.mirror, MirrorSeen::Own(_)) {
            self.lifts_are_known();
        }
        if let MirrorSeen::Own(Some(mirror)) = &node.mirror {
            let known = self.state.lifts.len();
            // Each attempt writes its time. It counts once the drain is gone.
            let attempt = self.state.drain.lift_at;
            let done: Vec<i64> = mirror
                .lifts
                .iter()
                .copied()
                .filter(|at| Some(*at) != attempt)
                .collect();
            keep::add(&mut self.state.lifts, &done, self.now.wall);
            self.out.dirty |= self.state.lifts.len() != known;
        }
        if let Some(copy) = node
            .proof()
            .filter(|copy| copy.reboot && copy.boot != self.boot.0)
            && self.state.drain.is_unproven(&copy.id)
        {
            self.restore(copy, node);
        }
    }

    /// Nothing is unknown about the automatic lifts before this record any more.
    pub(super) fn lifts_are_known(&mut self) {
        self.out.dirty |= !self.state.lifts_known;
        self.state.lifts_known = true;
    }

    /// The copy that is due.
    pub(super) fn next_mirror(&mut self) -> Option<Action> {
        let drain = &self.state.drain;
        let Some(incident) = drain.incident.clone() else {
            self.state.mirror.settle();
            return None;
        };
        if drain.state != DrainState::Drained || !drain.is_recorded() || drain.is_acting() {
            return None;
        }
        let note = self.note()?;
        let node = self.state.mirror.ready(self.now.boottime, self.policy.patience)?;
        let copy = node.mirror_of(&incident, &note)?;
        match &node.mirror {
            MirrorSeen::Own(present) if *present != Some(copy) => Some(Action::Mirror { incident, note }),
            MirrorSeen::Own(_) => {
                self.state.mirror.settle();
                None
            }
            MirrorSeen::Foreign | MirrorSeen::NotRead => None,
        }
    }

    /// The automatic lifts that a copy holds, with this attempt.
    pub(super) fn lifts_to_copy(&self, attempt: Option<i64>) -> Vec<i64> {
        let mut lifts = Vec::new();
        keep::add(&mut lifts, &self.state.lifts, self.now.wall);
        lifts.extend(attempt);
        lifts.split_off(lifts.len().saturating_sub(MOST_LIFTS))
    }

    /// What a copy of the record holds now. `None`: no incident is behind the drain any more.
    fn note(&self) -> Option<Note> {
        let own = self.state.drain.incident.as_ref();
        let mut behind: Vec<&Incident> = self.book.open().filter(|i| i.behind).collect();
        behind.sort_by_key(|incident| Some(&incident.id) != own);
        let standing = || {
            behind
                .iter()
                .flat_map(|i| i.standing().map(move |seen| (*i, seen)))
        };
        let latest = standing().max_by_key(|(_, seen)| (seen.boot == self.boot, seen.last))?;
        let mut gpus: Vec<String> = Vec::new();
        for pci in behind
            .iter()
            .filter_map(|i| i.pci.as_ref())
            .map(ToString::to_string)
        {
            if !gpus.contains(&pci) {
                gpus.push(pci);
            }
        }
        let reboot = !self.state.drain.unverified
            && gpus.len() <= MOST_GPUS
            && standing().all(|(incident, seen)| ends_with_boot(incident, seen));
        Some(Note {
            boot: latest.1.boot.0.clone(),
            reboot,
            gpus: if reboot { gpus } else { Vec::new() },
            lifts: self.lifts_to_copy(None),
        })
    }

    /// Makes the record again of its copy: an incident for each GPU, which the next boot ends if the GPU is there.
    fn restore(&mut self, copy: &MirroredDrain, node: &NodeState) {
        let Some((check, rest)) = node.reason.as_ref().and_then(|reason| parts(&reason.text)) else {
            return;
        };
        let gpus: Option<Vec<PciAddress>> = copy.gpus.iter().map(|pci| PciAddress::parse(pci)).collect();
        let Some(gpus) = gpus.filter(|gpus| !gpus.is_empty()) else {
            return;
        };
        self.go_on();
        let boot = BootId(copy.boot.clone());
        let at = At {
            boot: &boot,
            now_ms: 0,
            wall: copy.at,
        };
        // After a record that could not be stored, its incidents are here already.
        let is_here = self.book.incidents.iter().any(|i| i.id == copy.id);
        for (n, pci) in gpus.into_iter().enumerate().filter(|_| !is_here) {
            let subject = Subject::gpu(gpu_label(&self.state.inventory, &pci));
            let is_named = n == 0;
            let mut finding = Finding::of_condition(check, subject);
            finding.detail = if is_named {
                rest.to_owned()
            } else {
                "behind the same drain".to_owned()
            };
            finding.pci = Some(pci);
            finding.remedy = Remedy::Reboot;
            finding.drains = true;
            finding.clears = vec![Clear::Reboot];
            finding.evidence = "the copy of the record in the node's Extra".to_owned();
            self.book.restore(finding, is_named.then_some(&copy.id), at);
        }
        self.state.drain.is_proven(copy.at);
        // A lift needs the record on the disk, as after a drain.
        self.state.drain.intent_is_in(self.records + 1);
        self.out.dirty = true;
    }
}

/// Whether another boot ends this finding, and nothing has to verify it.
fn ends_with_boot(incident: &Incident, seen: &Seen) -> bool {
    incident.subject.kind == SubjectKind::Gpu
        && incident.pci.is_some()
        && seen.clears.contains(&Clear::Reboot)
        && !keep::needs_verification(seen)
}

/// The check and the detail in a reason of ours: `nodewarden:CHECK gpu NAME DETAIL act=REMEDY id=ID`.
fn parts(reason: &str) -> Option<(&'static str, &str)> {
    let ReasonParts { check, about, .. } = ReasonParts::of(reason)?;
    let mut words = about.splitn(3, ' ');
    let is_gpu = words.next() == Some(SubjectKind::Gpu.word()) && words.next().is_some();
    Some((checks::check(check)?.id, words.next().filter(|_| is_gpu)?))
}
