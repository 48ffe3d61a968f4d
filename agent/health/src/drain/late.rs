//! Writes of unknown outcome: slurmctld may still carry them out minutes after the time-out of scontrol.

use serde::{Deserialize, Serialize};

use model::scheduler::IncidentId;

/// After this time slurmctld has dropped or executed every request (seconds).
const PATIENCE: i64 = 15 * 60;
/// The most drains.
const MAX_DRAINS: usize = 8;

/// A drain whose intent reached the disk.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct LateDrain {
    incident: IncidentId,
    at: i64,
}

/// Own writes that may still take effect.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Late {
    /// The times at which undrains were abandoned.
    lifts: Vec<i64>,
    drains: Vec<LateDrain>,
}

/// Whether it may still take effect. A clock that was set back does not extend it.
fn is_out(at: i64, wall: i64) -> bool {
    wall.abs_diff(at) <= PATIENCE.unsigned_abs()
}

impl Late {
    /// An undrain was abandoned.
    pub(super) fn lift(&mut self, wall: i64) {
        self.lifts.retain(|at| is_out(*at, wall));
        if self.lifts.len() < MAX_DRAINS {
            self.lifts.push(wall);
        }
    }

    /// DRAIN is gone: whether an abandoned undrain may be the cause. Each counts once.
    pub(super) fn take_lift(&mut self, wall: i64) -> bool {
        self.lifts.retain(|at| is_out(*at, wall));
        let ours = !self.lifts.is_empty();
        self.lifts.drain(..usize::from(ours));
        ours
    }

    /// A drain was abandoned, with its intent on disk.
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

    /// Whether a drain with this id is an abandoned own one. There is no time limit: the id is proof.
    pub(super) fn is_ours(&self, incident: &IncidentId) -> bool {
        self.drains.iter().any(|d| d.incident == *incident)
    }

    /// Whether an abandoned drain may still take effect.
    pub(super) fn drain_is_out(&self, wall: i64) -> bool {
        self.drains.iter().any(|d| is_out(d.at, wall))
    }
}
