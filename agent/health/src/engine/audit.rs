//! Entries of the audit trail: from each change of the own drain, and each order that was carried out.

use super::Engine;
use crate::audit::{Act, Entry, Kind};
use crate::{Order, OrderVerb};
use model::scheduler::IncidentId;

/// The most texts of one act: an error that names a time or a process differs with each attempt.
const MAX_TEXTS: usize = 8;

/// The entries of the present act, so that its further attempts add none.
#[derive(Debug, Default)]
pub(super) struct Audited {
    of: Option<(Option<Act>, Option<IncidentId>)>,
    entries: Vec<(Kind, Option<String>)>,
}

impl Audited {
    /// Whether an entry is new. An outcome always is, and ends the act.
    fn takes(&mut self, entry: &Entry) -> bool {
        if !entry.kind.repeats() {
            *self = Self::default();
            return true;
        }
        let of = (entry.act, entry.incident.clone());
        if self.of.as_ref() != Some(&of) {
            *self = Self::default();
            self.of = Some(of);
        }
        let what = (entry.kind, entry.why.clone());
        let is_new = !self.entries.contains(&what);
        if is_new && (entry.kind == Kind::Wanted || self.entries.len() < MAX_TEXTS) {
            self.entries.push(what);
            return true;
        }
        false
    }
}

impl Engine {
    /// Adds the entries of the changes of the own drain.
    pub(super) fn audit_drain(&mut self) {
        for change in self.state.drain.take_changes() {
            let Some((kind, act)) = change.entry() else {
                continue;
            };
            let mut entry = self.entry(kind, change.incident);
            entry.act = act;
            let is_reason = Some(&change.why) == change.reason.as_ref();
            entry.why = Some(change.why).filter(|why| !is_reason && !why.is_empty());
            entry.reason = change.reason;
            if self.audited.takes(&entry) {
                self.out.audit.push(entry);
            }
        }
    }

    /// Adds the entry of a drain that an operator lifted, and that was not nodewarden's: the intent remains.
    pub(super) fn audit_foreign_lift(&mut self) {
        let mut entry = self.entry(Kind::Overridden, self.state.drain.incident.clone());
        entry.why = Some("an operator lifted a drain that was not nodewarden's".to_owned());
        self.out.audit.push(entry);
    }

    /// Adds the entry of an order that was carried out.
    pub(super) fn audit_order(&mut self, order: &Order) {
        let kind = match order.verb {
            OrderVerb::Ack => Kind::Ack,
            OrderVerb::Clear => Kind::Clear,
        };
        let mut entry = self.entry(kind, Some(order.incident.clone()));
        entry.reason = Some(order.reason.clone());
        entry.by = Some(order.by.clone());
        entry.uid = Some(order.uid);
        self.out.audit.push(entry);
    }

    /// An entry with the evidence of an incident.
    fn entry(&self, kind: Kind, incident: Option<IncidentId>) -> Entry {
        let mut entry = Entry::new(kind, self.now.wall);
        let known = self
            .book
            .incidents
            .iter()
            .find(|i| Some(&i.id) == incident.as_ref());
        if let Some((known, root)) = known.and_then(|known| Some((known, known.root()?))) {
            entry.check = Some(root.check.clone());
            entry.subject = Some(known.subject.to_string());
            entry.detail = Some(root.detail.clone());
            entry.evidence.clone_from(&root.evidence);
        }
        entry.incident = incident;
        entry
    }
}
