//! Writes of unknown outcome: slurmctld may still carry them out, minutes after their scontrol was given up.

use serde::{Deserialize, Serialize};

use model::scheduler::IncidentId;

/// After this slurmctld has dropped or done what it was sent (seconds).
const PATIENCE: i64 = 15 * 60;
/// Drains that are remembered.
const MAX_DRAINS: usize = 8;

/// A drain whose intent reached the disk.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct LateDrain {
    incident: IncidentId,
    at: i64,
}

/// What may still happen by our own doing.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Late {
    /// When the lifts were given up.
    lifts: Vec<i64>,
    drains: Vec<LateDrain>,
}

/// Whether it may still happen. A clock that was set back does not make it last.
fn is_out(at: i64, wall: i64) -> bool {
    wall.abs_diff(at) <= PATIENCE.unsigned_abs()
}

impl Late {
    /// A lift was given up.
    pub(super) fn lift(&mut self, wall: i64) {
        self.lifts.retain(|at| is_out(*at, wall));
        if self.lifts.len() < MAX_DRAINS {
            self.lifts.push(wall);
        }
    }

    /// DRAIN is gone: whether a lift of ours may have done it. Each does it once.
    pub(super) fn take_lift(&mut self, wall: i64) -> bool {
        self.lifts.retain(|at| is_out(*at, wall));
        let ours = !self.lifts.is_empty();
        self.lifts.drain(..usize::from(ours));
        ours
    }

    /// A drain was given up, with its intent on the disk.
    pub(super) fn drain(&mut self, incident: &IncidentId, wall: i64) {
        self.drains.retain(|d| d.incident != *incident);
        if self.drains.len() >= MAX_DRAINS {
            self.drains.remove(0);
        }
        self.drains.push(LateDrain {
            incident: incident.clone(),
            at: wall,
        });
    }

    /// Whether a drain with this id is one of ours that came late. No time bounds it: the id is proof.
    pub(super) fn is_ours(&self, incident: &IncidentId) -> bool {
        self.drains.iter().any(|d| d.incident == *incident)
    }

    /// Whether a drain may still come.
    pub(super) fn drain_is_out(&self, wall: i64) -> bool {
        self.drains.iter().any(|d| is_out(d.at, wall))
    }
}
