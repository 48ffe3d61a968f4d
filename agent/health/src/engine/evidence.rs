//! Which evidence may drain now. The record alone drains nothing: the fault may have ended with a reboot, or while
//! nodewarden did not run.

use std::time::Duration;

use super::{Engine, FRESH, millis};
use crate::Mode;
use crate::condition::Latest;
use crate::drain::maintenance;
use crate::incident::{Incident, Seen};

/// After this time since the start, evidence of the record that nothing confirms or ends counts all the same: its source
/// may never answer. That of a device that another boot does not have never counts: it may have been taken out.
const CONFIRMED_AT_MOST: Duration = Duration::from_secs(600);

impl Engine {
    /// The findings that require a drain. After an operator's lift, only those that [`Incident::wants_after_lift`] allows.
    pub(super) fn causes<'a>(&'a self, incident: &'a Incident) -> impl Iterator<Item = &'a Seen> {
        let read_at = |key: &str| self.streaks.bad_at(key).map(millis);
        let standing = incident.standing();
        standing.filter(move |seen| {
            self.policy.of(seen) == Mode::Drain && incident.wants_after_lift(seen, &self.boot, read_at)
        })
    }

    /// The finding for which an incident acts in this mode: the reason in the scheduler, the counts and the audit trail name
    /// it. One whose evidence counts now comes first. Where none acts any more, the finding that names the incident.
    pub(super) fn cause<'a>(&self, incident: &'a Incident, mode: Mode) -> Option<&'a Seen> {
        let read_at = |key: &str| self.streaks.bad_at(key).map(millis);
        let waits = |seen: &Seen| {
            let counts = incident.wants_after_lift(seen, &self.boot, read_at) && self.is_confirmed(seen);
            mode == Mode::Drain && !counts
        };
        let of_mode = incident.standing().filter(|seen| self.policy.of(seen) == mode);
        of_mode
            .min_by_key(|seen| (waits(seen), seen.precedence()))
            .or_else(|| incident.root())
    }

    /// Whether the verdict is unhealthy for a finding: one that the readings since the start showed stays until it ends,
    /// whatever a single good one says.
    pub(super) fn is_shown(&self, seen: &Seen) -> bool {
        let latest = seen.key.as_ref().and_then(|key| self.streaks.latest(key));
        latest == Some(Latest::Good { after_bad: true }) || self.is_confirmed(seen)
    }

    /// Whether a drain that does not stand may be written for a finding.
    ///
    /// * A condition must have been read as bad since the start, and not as good after that. One of an earlier boot needs
    ///   as many readings as a new one: right after a boot, links train and filesystems are mounted.
    /// * An event of an earlier boot must have outlived this one: see [`crate::book::Book::rebooted`].
    pub(super) fn is_confirmed(&self, seen: &Seen) -> bool {
        let is_of_boot = seen.boot == self.boot;
        let is_late = self.now.boottime.saturating_sub(self.started) >= CONFIRMED_AT_MOST;
        match &seen.key {
            None => is_of_boot || seen.outlived_boot || (is_late && !seen.is_gone),
            Some(key) => match self.streaks.latest(key) {
                Some(Latest::Good { .. }) => false,
                Some(Latest::Bad { is_enough, .. }) => is_of_boot || is_enough || is_late,
                None => is_late && !seen.is_gone,
            },
        }
    }

    /// Why the verdict is unknown although an incident would make it unhealthy.
    pub(super) fn unconfirmed(&self) -> Option<String> {
        let counts = |seen: &Seen| self.policy.own_of(seen) == Mode::Drain;
        let mut open = self.book.open();
        let is_any = open.any(|incident| incident.standing().any(counts));
        is_any.then(|| "a fault is not confirmed by the latest readings".to_owned())
    }

    /// A check at drain by `mode` whose readings are bad now, but not for long enough.
    pub(super) fn pending(&self, mode: impl Fn(&str) -> Mode) -> Option<&'static str> {
        let mut pending = self.streaks.pending(&self.state.bad, self.now.boottime);
        pending.find(|check| mode(check) == Mode::Drain)
    }

    /// Whether evidence of a maintenance that ended was judged again: after a reboot, reset or reload of the driver, the
    /// readings first show what is left of it.
    pub(super) fn is_judged(&self, incident: &Incident) -> bool {
        let Some(ended) = self.state.drain.maintenance_ended() else {
            return true;
        };
        let since = self.now.boottime.saturating_sub(ended);
        let is_new = |seen: &Seen| match seen.condition() {
            Some(key) => self
                .streaks
                .bad_at(key)
                .is_some_and(|at| at > ended.saturating_sub(FRESH)),
            None => seen.is_after(&self.boot, millis(ended)),
        };
        let is_read = |seen: &Seen| {
            seen.boot == self.boot
                || self
                    .log
                    .known_for(self.policy.site.settings.settle, self.now.boottime)
        };
        since >= maintenance::JUDGED_AT_MOST
            || incident.standing().any(is_new)
            || (since >= maintenance::JUDGED && incident.standing().all(is_read))
    }
}
