//! Entries of the audit trail: from each change of the own drain, and each order that was carried out.

use super::Engine;
use crate::audit::{Act, Entry, Kind};
use crate::incident::{Incident, Seen};
use crate::{Mode, Order, OrderVerb};
use model::scheduler::IncidentId;

/// The most texts of one act: an error that names a time or a process differs with each attempt.
const MAX_TEXTS: usize = 8;

/// The most acts and held incidents that are known.
const MAX_KNOWN: usize = 64;

type Of = (Option<Act>, Option<IncidentId>);
type Texts = Vec<(Kind, Option<String>)>;

/// The entries of acts under way, so that further attempts add none.
#[derive(Debug, Default)]
pub(super) struct Audited {
    acts: Vec<(Of, Texts)>,
    held: Vec<Of>,
}

impl Audited {
    /// Whether an entry is new. An outcome always is, and ends what was tried: a node has one drain, so a later act for another
    /// incident is another act.
    fn takes(&mut self, entry: &Entry) -> bool {
        let of = (entry.act, entry.incident.clone());
        if !entry.kind.repeats() {
            self.acts.clear();
            return true;
        }
        // Its text changes with each try, and several incidents take turns.
        if entry.kind == Kind::Held {
            return is_added(&mut self.held, of);
        }
        let at = self.acts.iter().position(|(known, _)| *known == of);
        let at = at.unwrap_or_else(|| {
            if self.acts.len() >= MAX_KNOWN {
                self.acts.remove(0);
            }
            self.acts.push((of, Vec::new()));
            self.acts.len() - 1
        });
        let Some((_, entries)) = self.acts.get_mut(at) else {
            return true;
        };
        let what = (entry.kind, entry.why.clone());
        let is_new = !entries.contains(&what);
        if is_new && (entry.kind == Kind::Wanted || entries.len() < MAX_TEXTS) {
            entries.push(what);
            return true;
        }
        false
    }
}

/// Adds what is new, in place of the oldest.
fn is_added(known: &mut Vec<Of>, of: Of) -> bool {
    if known.contains(&of) {
        return false;
    }
    if known.len() >= MAX_KNOWN {
        known.remove(0);
    }
    known.push(of);
    true
}

impl Engine {
    /// Adds the entries of the changes of the own drain.
    pub(super) fn audit_drain(&mut self) {
        for change in self.state.drain.take_changes() {
            let Some((kind, act)) = change.entry() else {
                continue;
            };
            let mut entry = self.entry(kind, change.incident, |known| self.cause(known, Mode::Drain));
            entry.act = act;
            let is_reason = Some(&change.why) == change.reason.as_ref();
            entry.why = Some(change.why).filter(|why| !is_reason && !why.is_empty());
            entry.reason = change.reason;
            entry.slot = change.slot.filter(|_| kind == Kind::Written);
            if self.audited.takes(&entry) {
                self.out.audit.push(entry);
            }
        }
    }

    /// Adds the entry of an order that was carried out.
    pub(super) fn audit_order(&mut self, order: &Order) {
        let (kind, incident) = match &order.verb {
            OrderVerb::Ack(id) => (Kind::Ack, Some(id)),
            OrderVerb::Clear(id) => (Kind::Clear, Some(id)),
            OrderVerb::Pause { .. } => (Kind::Pause, None),
            OrderVerb::Resume => (Kind::Resume, None),
        };
        let mut entry = self.entry(kind, incident.cloned(), Incident::root);
        if let OrderVerb::Pause { seconds } = order.verb {
            entry.detail = Some(format!("{seconds} s"));
        }
        entry.reason = Some(order.reason.clone());
        entry.by = Some(order.by.clone());
        entry.uid = Some(order.uid);
        self.out.audit.push(entry);
    }

    /// An entry with the evidence of one finding of an incident.
    fn entry<'a>(
        &'a self,
        kind: Kind,
        incident: Option<IncidentId>,
        finding: impl Fn(&'a Incident) -> Option<&'a Seen>,
    ) -> Entry {
        let mut entry = Entry::new(kind, self.now.wall);
        let known = self
            .book
            .incidents
            .iter()
            .find(|i| Some(&i.id) == incident.as_ref());
        if let Some((known, seen)) = known.and_then(|known| Some((known, finding(known)?))) {
            entry.check = Some(seen.check.clone());
            entry.subject = Some(known.subject.to_string());
            entry.detail = Some(seen.detail.clone());
            entry.evidence.clone_from(&seen.evidence);
        }
        entry.incident = incident;
        entry
    }
}
