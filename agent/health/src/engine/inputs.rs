//! What each input means.

use collectors::event::{Recovery, Xid, XidSource};
use collectors::gpu::metrics as gpu;
use collectors::{Cursor, Event, EventBody, PciAddress, Subject, kernel_log};

use super::judging::{Known, is_met};
use super::{Engine, Status, xid};
use crate::checks::edac_uncorrected;
use crate::checks::gpu::gpus;
use crate::checks::host::Host;
use crate::checks::rdma_firmware_timeout;
use crate::hits::Hit;
use crate::incident::Ack;
use crate::tenants::When;
use crate::xids::Class;
use crate::{Input, Order, OrderVerb};
use model::derive::affinity::nearest;
use model::derive::xid::gpu_label;
use model::snapshot::Snapshot;

/// GPUs whose names are kept.
const MAX_GPUS: usize = 128;

impl Engine {
    pub(super) fn take(&mut self, input: Input<'_>) {
        match input {
            Input::Snapshot(snapshot) => self.snapshot(snapshot),
            Input::Event(event) => self.event(kernel_log::SPEC.name, event),
            Input::EventOf(collector, event) => self.event(collector, event),
            Input::Notes(collector, notes) => self.noted(collector, notes),
            Input::Scheduler(seen) => {
                if let Ok(node) = seen {
                    self.gres = Some(node.gres.clone());
                }
                let facts = self.facts();
                let open = facts.held || facts.want.is_some();
                let happened = self.state.drain.looked(self.now, seen, open);
                self.happened(happened);
            }
            Input::Done(id, outcome) => {
                let happened = self.state.drain.done(self.now, id, outcome);
                self.happened(happened);
                self.state.comment.done(self.now.boottime, id, outcome);
            }
            Input::Stored(record, ok) => {
                self.state.drain.stored(record, ok);
                self.out.stored(ok, record == self.records, self.now.boottime);
            }
            Input::Operator(order) => {
                let answer = self.order(&order);
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
        if of_log {
            self.log.event(now);
        }
        if of_log && event.body == EventBody::Progress {
            for gpu in self.log.ended(now) {
                self.declared_well_now(&gpu);
            }
        }
        if event.count == 0 || self.is_known(collector, event) {
            return;
        }
        let cursor = Cursor {
            boot: event.boot.clone(),
            seq: event.seq,
        };
        let is_old = event.history || (of_log && self.log.is_stale(event, now));
        self.out.acknowledge = true;
        self.state.cursors.insert(collector.to_owned(), cursor);
        let wall = self.log.wall(event, of_log, now, self.now.wall);
        self.when = if is_old { When::Long } else { When::At(wall) };
        let count = event.count.max(1);
        // The clock of the kernel's log is not the one of the other source: over weeks they drift apart by minutes.
        let at_us = if self.log.is_live() {
            u64::try_from(now.as_micros()).unwrap_or(u64::MAX)
        } else {
            event.at_us
        };
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
            EventBody::Progress | EventBody::Overrun { .. } => {
                self.out.progress(now);
                return;
            }
            EventBody::Sxid(_) | EventBody::Driver { .. } | EventBody::Rdma(_) | EventBody::Job(_) => {}
            EventBody::Xid(xid) => self.xid(event, xid, new),
            EventBody::FallenOffBus { pci } => self.xid(event, &fallen_off_bus(pci), new),
            EventBody::Identity { pci, uuid } => self.named(pci, uuid),
            EventBody::Firmware { pci, what, .. } => {
                // An old line says nothing about now, and nothing on the node could confirm it.
                if !event.history && !self.log.is_stale(event, now) {
                    let memory = &mut self.state.memory;
                    rdma_firmware_timeout::remember(memory, pci, *what, count, &event.text, now);
                }
            }
        }
        self.out.counted(now);
    }

    /// A collector wants something kept. No incident is another by it.
    fn noted(&mut self, collector: &str, notes: &str) {
        if self.state.notes.get(collector).map(String::as_str) != Some(notes) {
            self.state.notes.insert(collector.to_owned(), notes.to_owned());
            self.out.dirty = true;
        }
    }

    /// A driver has named the GPU at an address. What stood under its address stands under its name from now on.
    fn named(&mut self, pci: &PciAddress, uuid: &str) {
        let inventory = &mut self.state.inventory;
        if inventory.len() >= MAX_GPUS && !inventory.contains_key(pci) {
            return;
        }
        let before = gpu_label(inventory, pci);
        inventory.insert(pci.clone(), uuid.to_owned());
        if before.starts_with("pci:") {
            self.state.repeats.rename(&before, uuid);
            self.book.rename(&Subject::gpu(before), &Subject::gpu(uuid));
        }
    }

    /// Each watcher counts by itself: one's number says nothing about another's.
    fn is_known(&self, collector: &str, event: &Event) -> bool {
        self.state
            .cursors
            .get(collector)
            .is_some_and(|c| c.boot == event.boot && event.seq <= c.seq)
    }

    /// `new`: how many faults it tells of that nobody told of before.
    fn xid(&mut self, event: &Event, xid: &Xid, new: u64) {
        // What the kernel's log tells of the same fault says more, and is judged whether it comes first or last.
        if new == 0 && xid.source == XidSource::Nvml {
            return;
        }
        let gpu = gpu_label(&self.state.inventory, &xid.pci);
        let Some(row) = self.policy.site.xids.row(xid.code) else {
            return;
        };
        let stale = self.log.is_stale(event, self.now.boottime);
        let well = row.by_verdict && xid.recovery == Some(Recovery::None);
        if stale || !well {
            // What an old line ended may have begun again after it: that is known when all are read.
            self.log.old_verdict(&gpu, well);
        }
        if well && stale {
            self.state.pending.drop_of(Some(&xid.pci));
            return;
        }
        if well {
            self.state.pending.drop_of(Some(&xid.pci));
            self.declared_well_now(&gpu);
            return;
        }
        let count = event.count.max(1);
        if event.history || stale {
            if row.confirm.is_some() {
                self.state
                    .pending
                    .keep(xid, count, &event.text, self.now.boottime);
            }
            return;
        }
        if new > 0 && row.class != Class::Info {
            let of_log = xid.source == XidSource::KernelLog;
            self.state.memory.hits.came(Hit {
                pci: xid.pci.clone(),
                code: xid.code,
                instance: xid.instance(),
                from: self.log.earliest(event, of_log, self.now.boottime),
                to: self.now.boottime,
                count: new,
            });
        }
        let mut again = false;
        for kind in row.kinds(&xid.words) {
            again |= self.state.repeats.add(&gpu, &kind, count, self.now.wall);
        }
        let finding = xid::finding(&self.policy.site.xids, xid, &gpu, again, new, &event.text);
        if let Some(finding) = finding {
            if finding.drains {
                // An earlier verdict says nothing about what came after it.
                self.declared.forget(&gpu);
            }
            self.find(finding);
        }
    }

    /// The driver says that a GPU needs nothing any more.
    fn declared_well_now(&mut self, gpu: &str) {
        self.declared.note(gpu, self.now);
        self.out.dirty |= self.book.verdict_none(&Subject::gpu(gpu), self.now.wall);
    }

    /// Takes over which GPU sits where, as its driver says.
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
        self.affinity = nearest(snapshot, &self.state.inventory);
        self.jobs(snapshot);
        self.when = When::SinceTick;
        let host = Host::of(snapshot);
        // Two snapshots may hold one and the same reading.
        let is_new = self.sight.take(snapshot, host.read_at);
        if is_new {
            self.confirm_history(&host);
        }
        self.judge(snapshot, &host);
        let gpus = gpus(snapshot, &self.state.inventory);
        self.see_resets(&gpus);
        for finding in edac_uncorrected::findings(&host, &mut self.state.judged) {
            self.out.dirty = true;
            self.find(finding);
        }
        let now = self.now.boottime;
        self.log.snapshot(self.sight.log(), now);
        // The new boot may have told of the same fault already: nothing is over before its log was read, and some time
        // for the fault to show itself has passed.
        if self.sight.unknown(now).is_none() && self.log.known_for(self.policy.settle, now) {
            let met = |subject: &Subject, need| {
                let gpu = gpus.iter().find(|g| g.label == subject.name);
                gpu.is_some_and(|g| g.is_up() == Some(true) && is_met(need, g))
            };
            self.out.dirty |= self.book.rebooted(&self.boot, &host, met, self.now.wall);
        }
        self.tenants.ticked();
    }

    fn confirm_history(&mut self, host: &Host) {
        if self.state.pending.is_empty() || self.log.unfinished(self.now.boottime).is_some() {
            return;
        }
        let confirmed = self.state.pending.judge(host);
        self.out.dirty |= self.state.pending.is_empty();
        for line in confirmed {
            let gpu = gpu_label(&self.state.inventory, &line.xid.pci);
            let text = format!("{} (old when it was read; the GPU is off the bus now)", line.text);
            let finding = xid::finding(&self.policy.site.xids, &line.xid, &gpu, false, line.count, &text);
            if let Some(finding) = finding {
                self.when = When::Long;
                self.find(finding);
            }
        }
        self.when = When::SinceTick;
    }

    fn order(&mut self, order: &Order) -> Result<String, String> {
        let wall = self.now.wall;
        let incident = self
            .book
            .incidents
            .iter_mut()
            .find(|i| i.id == order.incident)
            .ok_or_else(|| format!("no incident {}", order.incident))?;
        if incident.status == Status::Cleared {
            return Err(format!("{} is cleared already", order.incident));
        }
        self.out.dirty = true;
        match order.verb {
            OrderVerb::Ack => {
                incident.note(wall, format!("acknowledged by {}: {}", order.by, order.reason));
                incident.ack = Some(Ack {
                    by: order.by.clone(),
                    at: wall,
                    reason: order.reason.clone(),
                });
                Ok(format!("{} acknowledged", order.incident))
            }
            OrderVerb::Clear => {
                let behind = incident.behind;
                let known = Known::of(incident);
                incident.close(wall, format!("by {}: {}", order.by, order.reason));
                self.state.drain.ordered |= behind;
                self.repaired(&known);
                self.book.forget_old();
                Ok(format!("{} cleared{}", order.incident, self.after_clear(behind)))
            }
        }
    }

    /// What a person has to know about the drain.
    fn after_clear(&self, behind: bool) -> &'static str {
        let held = self.book.open().any(|i| i.behind);
        match (behind, held) {
            (false, _) => "",
            (true, true) => "; other incidents hold the drain",
            (true, false) if !self.policy.undrain => "; the drain stands, because slurm.undrain is off",
            (true, false) if !self.state.drain.is_recorded() => {
                "; the drain stands, because no record proves it ours: lift it with scontrol"
            }
            (true, false) => "; the drain is being lifted",
        }
    }
}

/// The line without a code says the same as the code.
fn fallen_off_bus(pci: &PciAddress) -> Xid {
    Xid {
        pci: pci.clone(),
        code: xid::FALLEN_OFF_BUS,
        ..Xid::default()
    }
}
