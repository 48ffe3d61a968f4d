//! The orders of operators.

use super::{Engine, Status};
use crate::book::Known;
use crate::checks::kernel_lines;
use crate::drain::State as DrainState;
use crate::incident::Ack;
use crate::{Order, OrderVerb};
use model::scheduler::IncidentId;

impl Engine {
    pub(super) fn order(&mut self, order: &Order) -> Result<String, String> {
        match &order.verb {
            OrderVerb::Ack(id) => self.ack(id, order),
            OrderVerb::Clear(id) if self.outlives(id, order.is_root()) => Ok(self.clear_drain(id, order)),
            OrderVerb::Clear(id) => self.clear(id, order),
            OrderVerb::Pause { seconds } => Ok(self.pause(order, *seconds)),
            OrderVerb::Resume => self.resume(),
        }
    }

    fn ack(&mut self, id: &IncidentId, order: &Order) -> Result<String, String> {
        let wall = self.now.wall;
        let incident = self.open_incident(id)?;
        incident.note(wall, format!("acknowledged by {}: {}", order.by, order.reason));
        incident.ack = Some(Ack {
            by: order.by.clone(),
            at: wall,
            reason: order.reason.clone(),
        });
        self.out.dirty = true;
        Ok(format!("{id} acknowledged"))
    }

    fn clear(&mut self, id: &IncidentId, order: &Order) -> Result<String, String> {
        let wall = self.now.wall;
        let is_writing = self.state.drain.is_writing_for(id);
        let incident = self.open_incident(id)?;
        let behind = incident.behind || is_writing;
        let known = Known::of(incident, |_| true);
        incident.close(wall, format!("by {}: {}", order.by, order.reason));
        let still_bad = self.still_bad(&known);
        self.out.dirty = true;
        // What still holds the drain was not ordered to end.
        if behind && !self.book.open().any(|i| i.behind) {
            self.state.drain.order(order.is_root());
        }
        self.repaired(&known);
        let warning = self.warning(&known, &still_bad);
        Ok(format!("{id} cleared{}{warning}", self.after_clear(behind)))
    }

    /// The conditions whose last readable reading was bad.
    fn still_bad<'k>(&self, known: &'k Known) -> Vec<&'k (String, String)> {
        let conditions = known.conditions.iter();
        conditions
            .filter(|(of, key)| self.streaks.bad_at(key).is_some() && !kernel_lines::is_line(of, key))
            .collect()
    }

    /// What follows a clear of a fault that is not repaired: see [`Engine::repaired`].
    fn warning(&self, known: &Known, still_bad: &[&(String, String)]) -> String {
        let of = |is_known: bool, what: &str| {
            let is_so = |(_, key): &&&(String, String)| self.state.bad.contains(key) == is_known;
            let mut checks: Vec<&str> = still_bad
                .iter()
                .filter(is_so)
                .map(|(of, _)| of.as_str())
                .collect();
            checks.dedup();
            if checks.is_empty() {
                return String::new();
            }
            let checks = checks.join(", ");
            format!(
                ". Warning: the last reading of {checks} ({}) is still bad. {what}",
                known.subject
            )
        };
        of(
            true,
            "The node is not drained for it again until a reading is good",
        ) + &of(
            false,
            "It is counted from 0, and opens an incident or drains the node again if it lasts",
        )
    }

    /// Orders the end of a drain that outlives its incident.
    fn clear_drain(&mut self, id: &IncidentId, order: &Order) -> String {
        let wall = self.now.wall;
        if let Some(incident) = self.book.incidents.iter_mut().find(|i| i.id == *id) {
            incident.note(wall, format!("drain lifted by {}: {}", order.by, order.reason));
            self.out.dirty = true;
        }
        self.state.drain.order(order.is_root());
        format!("{id} is closed{}", self.after_clear(true))
    }

    fn open_incident(&mut self, id: &IncidentId) -> Result<&mut crate::incident::Incident, String> {
        let known = self.book.incidents.iter_mut().find(|i| i.id == *id);
        match known {
            None => Err(format!("no incident {id}")),
            Some(incident) if incident.status == Status::Cleared => Err(format!("{id} is cleared already")),
            Some(incident) => Ok(incident),
        }
    }

    /// Whether the drain has the id of this incident and outlived it: a repaired one that an operator must lift, or, for
    /// root, one whose record was lost.
    fn outlives(&self, id: &IncidentId, root: bool) -> bool {
        let known = self.book.incidents.iter().find(|i| i.id == *id);
        let is_over = known.map_or(root, |i| i.status == Status::Cleared);
        is_over && self.state.drain.is_kept_for(id) && !self.book.open().any(|i| i.behind)
    }

    /// What the operator must know about the drain.
    fn after_clear(&self, behind: bool) -> &'static str {
        let is_writing = self.state.drain.state == DrainState::Writing;
        let held = self.book.open().any(|i| i.behind) || (is_writing && !self.required().is_empty());
        match (behind, held) {
            (false, _) => "",
            (true, true) if self.state.drain.unverified => {
                "; other incidents hold the drain, and when they end it is lifted by an operator: a fault behind it was to be verified"
            }
            (true, true) => "; other incidents hold the drain",
            (true, false) if self.state.drain.taken => {
                "; the drain stays, because its reason was replaced: lift it with scontrol"
            }
            (true, false) if !self.policy.site.settings.scheduler.undrain => {
                "; the drain stays, because slurm.undrain is false"
            }
            (true, false) if is_writing && (!self.state.drain.unrecorded || self.state.drain.by_root) => {
                "; a drain that was sent before is lifted as soon as it stands"
            }
            (true, false) if !self.state.drain.is_recorded() && !self.state.drain.by_root => {
                "; the drain stays, because no record proves that it is nodewarden's: lift it with scontrol"
            }
            (true, false) => "; the drain is being lifted",
        }
    }
}
