//! A maintenance of the node: its end, and the slots for nodes that are in one.

use std::time::Duration;

use model::scheduler::{HeldBy, NodeState};

use super::super::Now;
use super::Drain;

/// What the maintenance did is seen within this time after its end: a reset in two readings.
pub(in super::super) const JUDGED: Duration = Duration::from_secs(60);
/// After this time, what could not be judged drains all the same.
pub(in super::super) const JUDGED_AT_MOST: Duration = Duration::from_secs(600);

/// Why a drain that is required waits after a maintenance.
pub(super) const JUDGING: &str = "a maintenance ended: a fault seen in it drains after 1 to 10 min, unless a reading shows that it is over";

impl Drain {
    /// Whether a maintenance ended so recently that faults seen in it may not drain yet.
    pub(super) fn judges_maintenance(&self, now: Now) -> bool {
        let ended = self.maintenance_ended();
        ended.is_some_and(|at| now.boottime.saturating_sub(at) < JUDGED_AT_MOST)
    }

    /// The node was read: whether it is in maintenance.
    pub(super) fn saw_maintenance(&mut self, node: &NodeState, now: Now) {
        let is_in = node.maintenance;
        self.dirty |= self.maintained != is_in;
        if std::mem::replace(&mut self.maintained, is_in) && !is_in {
            self.timing.maintenance_ended = Some(now.boottime);
            self.maintenance_end = Some(now.wall);
        }
    }

    /// After a restart, the minute of judgement goes on. Another boot is a sign of the maintenance's work: its first minute
    /// is waited for, too.
    pub(super) fn restore_maintenance_end(&mut self, now: Now) {
        let age = self.maintenance_end.map(|at| now.wall.abs_diff(at));
        let age = age.map(Duration::from_secs).filter(|age| *age < JUDGED_AT_MOST);
        self.timing.maintenance_ended = age.map(|age| now.boottime.saturating_sub(age));
    }

    /// When the end of the last maintenance was seen, as time since boot.
    pub(in super::super) fn maintenance_ended(&self) -> Option<Duration> {
        self.timing.maintenance_ended
    }

    /// A drain that may be written in a maintenance is held. A node in one has slots of its own.
    pub(super) fn look_for_maintenance(&mut self, by: HeldBy) {
        let may = self.may_in_maintenance && !self.in_maintenance;
        self.timing.urgent |= may && by == HeldBy::Guard && self.timing.is_first_hold();
    }
}
