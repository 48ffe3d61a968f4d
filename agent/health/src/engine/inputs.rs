//! The handling of each input.

use collectors::gpu::metrics as gpu;
use collectors::{Cursor, Event, EventBody, PciAddress, Subject, kernel_log};

use super::Engine;
use crate::Input;
use crate::bounded::MAX_GPUS;
use crate::checks::{Heard, gpu_down, gpu_nvlink};
use crate::incident::Incident;
use crate::reads::gpu::{Gpu, all, gpus};
use crate::reads::gpu_part::parts;
use crate::reads::group::groups;
use crate::reads::host::Host;
use crate::reads::known::Known;
use crate::reads::links;
use crate::reads::port::ports;
use model::derive::affinity::nearest;
use model::derive::xid::gpu_label;
use model::ownership::When;
use model::scheduler::Outcome;
use model::snapshot::Snapshot;

impl Engine {
    pub(super) fn take(&mut self, input: Input<'_>) {
        match input {
            Input::Snapshot(snapshot) => self.snapshot(snapshot),
            Input::Event(collector, event) => self.event(collector, event),
            Input::Notes(collector, notes) => self.noted(collector, notes),
            Input::Scheduler(seen) => {
                if let Ok(node) = seen {
                    self.gres = Some(node.gres.clone());
                    self.node = Some((node.name.clone(), node.comment.clone()));
                }
                let facts = self.facts();
                let open = facts.held || facts.want.is_some();
                let happened = self.state.drain.looked(self.now, seen, open);
                self.happened(happened);
                if let Ok(node) = seen {
                    self.saw(node);
                }
            }
            Input::Done(id, outcome) => {
                if let Outcome::Done(node) | Outcome::Already(node) | Outcome::Foreign(node) = outcome {
                    self.node = Some((node.name.clone(), node.comment.clone()));
                }
                let happened = self.state.drain.done(self.now, id, outcome);
                self.happened(happened);
                self.state.comment.done(self.now.boottime, id, outcome);
                self.state.mirror.done(self.now.boottime, id, outcome);
                if let Some(node) = outcome.node() {
                    self.saw(node);
                }
            }
            Input::Stored(record, ok) => {
                self.state.drain.stored(record, ok);
                self.out.stored(ok, record == self.records, self.now.boottime);
            }
            Input::Operator(order) => {
                let answer = self.order(&order);
                if answer.is_ok() {
                    self.audit_order(&order);
                }
                self.out.answer = Some(answer);
            }
            Input::Tick => {}
        }
    }

    fn event(&mut self, collector: &str, event: &Event) {
        if event.boot != self.boot {
            return;
        }
        let now = self.now.boottime;
        let of_log = collector == kernel_log::SPEC.name;
        let is_followed = of_log && self.log.is_live();
        if of_log && event.body == EventBody::Progress {
            self.log.ended(now);
            let said = self.checks.each().flat_map(|(_, check)| check.log_read(self.now));
            let said = said.collect();
            self.apply(said);
        }
        if let EventBody::CursorAhead { newest, .. } = event.body {
            // It would take every later event for a known one. The watcher sends what the source holds again.
            let is_ahead = |c: &Cursor| newest.is_none_or(|newest| c.seq > newest);
            if self.state.cursors.get(collector).is_some_and(is_ahead) {
                self.state.cursors.remove(collector);
                self.out.dirty = true;
            }
            return;
        }
        if event.count == 0 || self.is_known(collector, event) {
            return;
        }
        if is_followed && !event.history {
            self.log.followed(event, now);
        }
        let cursor = Cursor {
            boot: event.boot.clone(),
            seq: event.seq,
        };
        let is_old = event.history || (of_log && self.log.is_stale(event, of_log, now));
        self.state.cursors.insert(collector.to_owned(), cursor);
        let wall = self.log.wall(event, of_log, now, self.now.wall);
        self.when = if is_old { When::Long } else { When::At(wall) };
        let count = event.count.max(1);
        // The clocks of the kernel log and the other source drift apart by minutes over weeks.
        let at = if self.log.is_live() {
            now
        } else {
            self.log.at(event, of_log)
        };
        let at_us = u64::try_from(at.as_micros()).unwrap_or(u64::MAX);
        let new = match &event.body {
            EventBody::Xid(xid) => self.state.faults.take(xid, at_us, count),
            _ => count,
        };
        let inventory = &self.state.inventory;
        if matches!(event.body, EventBody::Overrun { .. }) && !of_log {
            self.state.ledger.count_lost(collector, wall);
        } else {
            self.state.ledger.count(event, inventory, new, wall);
        }
        match &event.body {
            EventBody::Progress | EventBody::Overrun { .. } | EventBody::CursorAhead { .. } => {
                if of_log && matches!(event.body, EventBody::Overrun { .. }) {
                    self.pass(event, new, of_log);
                }
                self.out.progress(now);
            }
            EventBody::Identity { pci, uuid } => {
                self.named(pci, uuid);
                self.out.counted(now);
            }
            _ => {
                self.pass(event, new, of_log);
                self.out.counted(now);
            }
        }
    }

    /// Passes an event to all checks.
    fn pass(&mut self, event: &Event, new: u64, of_log: bool) {
        let now = self.now.boottime;
        let heard = Heard {
            event,
            new,
            stale: self.log.is_stale(event, of_log, now),
            from: self.log.earliest(event, of_log, now),
            now: self.now,
            site: &self.policy.site,
            inventory: &self.state.inventory,
        };
        let said = self.checks.each().flat_map(|(_, check)| check.hear(&heard));
        let said = said.collect();
        self.apply(said);
    }

    /// Stores a collector's notes. They change no incident.
    fn noted(&mut self, collector: &str, notes: &str) {
        if self.state.notes.get(collector).map(String::as_str) != Some(notes) {
            self.state.notes.insert(collector.to_owned(), notes.to_owned());
            self.out.dirty = true;
        }
    }

    /// A driver named the GPU at an address: incidents and counts of the address move to the name.
    fn named(&mut self, pci: &PciAddress, uuid: &str) {
        let inventory = &mut self.state.inventory;
        if inventory.len() >= MAX_GPUS && !inventory.contains_key(pci) {
            return;
        }
        let before = gpu_label(inventory, pci);
        self.state.known.place_gpu(uuid, pci);
        inventory.insert(pci.clone(), uuid.to_owned());
        if before.starts_with("pci:") {
            for (_, check) in self.checks.each() {
                check.renamed(&before, uuid);
            }
            self.state.ledger.rename(&before, uuid);
            self.book.rename(&Subject::gpu(before), &Subject::gpu(uuid));
        }
    }

    /// Each watcher has its own sequence numbers.
    fn is_known(&self, collector: &str, event: &Event) -> bool {
        self.state
            .cursors
            .get(collector)
            .is_some_and(|c| c.boot == event.boot && event.seq <= c.seq)
    }

    /// Notes the GPUs whose checks no recording of real hardware has proven. One that leaves the bus stays noted, over
    /// reboots: its absence must not drain either.
    fn note_unproven(&mut self, host: &Host) {
        let all = &mut self.state.unproven;
        let (mut has_proven, mut has_unproven) = (false, false);
        for (pci, is_unproven) in host.unproven() {
            has_unproven |= is_unproven;
            has_proven |= !is_unproven;
            let is_new = if is_unproven {
                all.len() < MAX_GPUS && all.insert(pci.clone())
            } else {
                all.remove(pci)
            };
            self.out.dirty |= is_new;
        }
        if host.read_at.is_some() {
            self.has_proven = has_proven;
        }
        if has_unproven && !self.state.unproven_here {
            self.state.unproven_here = true;
            self.out.dirty = true;
        }
    }

    /// Takes the addresses of the GPUs from their driver.
    fn name_gpus(&mut self, snapshot: &Snapshot) {
        for sample in snapshot.samples(&gpu::INFO) {
            let uuid = sample.label("gpu").filter(|gpu| gpu.starts_with("GPU-"));
            let pci = sample.label("pci").and_then(PciAddress::parse);
            if let (Some(uuid), Some(pci)) = (uuid, pci)
                && self.state.inventory.get(&pci).map(String::as_str) != Some(uuid)
            {
                self.named(&pci, uuid);
                self.out.dirty = true;
            }
        }
    }

    fn snapshot(&mut self, snapshot: &Snapshot) {
        self.out.tick = true;
        self.name_gpus(snapshot);
        let host = Host::of(snapshot);
        self.note_unproven(&host);
        self.affinity = nearest(snapshot, &self.state.inventory);
        self.jobs(snapshot);
        self.when = When::SinceTick;
        let bus_is_new = self.sight.take(snapshot, host.read_at);
        let (ports, changed) = ports(snapshot, &host, &mut self.state.known);
        self.out.dirty |= changed;
        let mut gpus = gpus(snapshot, &self.state.inventory);
        self.out.dirty |= links::note(
            &mut gpus,
            &mut self.state.known,
            self.policy.site.settings.expect.nvlinks,
        );
        let parts = parts(snapshot, &gpus);
        let groups = groups(&ports, &self.state.known, &self.policy.site.settings.rdma);
        self.judge(snapshot, &host, (&ports, &groups), (&gpus, &parts), bus_is_new);
        let now = self.now.boottime;
        self.log.snapshot(self.sight.log(), now);
        // The same fault may have occurred in the new boot: first read its log, and wait for the fault to appear.
        if self.sight.unknown(now).is_none() && self.log.known_for(self.policy.site.settings.settle, now) {
            let known = &self.state.known;
            let seat = |incident: &Incident| seat(incident, &gpus, known);
            let met = |incident: &Incident, need| match own(incident, &gpus) {
                Some(gpu) => all([gpu_down::answers(gpu, now), gpu_nvlink::met(gpu, need, now)]),
                // Another GPU stands in its place.
                None => {
                    let pci = seat(incident)?;
                    let is_there = |g: &Gpu<'_>| g.is_up() == Some(true) && g.pci.as_ref() == Some(&pci);
                    gpus.iter().any(is_there).then_some(true)
                }
            };
            self.out.dirty |= self.book.rebooted(&self.boot, &host, (seat, met), self.now.wall);
        }
        self.timeline.ticked();
        if self.book.open().any(|i| i.behind) {
            self.quiet.broken(now, String::new());
        } else {
            self.quiet.tick();
        }
    }
}

/// The GPU of an incident, wherever its driver has it.
fn own<'g, 'a>(incident: &Incident, gpus: &'g [Gpu<'a>]) -> Option<&'g Gpu<'a>> {
    gpus.iter().find(|gpu| gpu.label == incident.subject.name)
}

/// Where the GPU of an incident stands after a boot, or the one that replaced it. `None`: unknown, as its address has another GPU
/// of this node, which only moved.
fn seat(incident: &Incident, gpus: &[Gpu<'_>], known: &Known) -> Option<PciAddress> {
    let pci = incident.pci.as_ref();
    if let Some(gpu) = own(incident, gpus) {
        return gpu.pci.as_ref().or(pci).cloned();
    }
    let has_moved = |gpu: &Gpu<'_>| {
        gpu.pci
            .as_ref()
            .is_some_and(|pci| known.has_moved(&gpu.label, pci))
    };
    let mut there = gpus.iter().filter(|gpu| gpu.pci.as_ref() == pci);
    pci.filter(|_| !there.any(has_moved)).cloned()
}
