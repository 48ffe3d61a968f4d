//! Why a drain stays after its incidents ended: a node that drains and returns in a circle kills one job each time.

use std::time::Duration;

use super::Now;
use super::finding::Clear;
use super::incident::Seen;
use model::scheduler::mirror::MOST_LIFTS;

/// The time without further findings, and the health ticks in it, before a lift; at most `slurm.hold`.
const QUIET: Duration = Duration::from_secs(60);
const READINGS: u32 = 4;
/// The most automatic lifts in [`DAY`].
const LIFTS: usize = 2;
const DAY: u64 = 24 * 3600;

/// Checks of faults that no reading proves to be repaired: memory, links, and devices off the bus.
const UNVERIFIED: &[&str] = &[
    "edac-uncorrected",
    "gpu-down",
    "gpu-ecc-uncorrected",
    "gpu-missing",
    "gpu-nvlink-down",
    "gpu-row-remap",
    "gpu-sram-threshold",
];

/// Whether an operator lifts the drain of this finding: without a test of the device, a reboot hides a fault of memory,
/// of a link or of the slot until the next job. Every need is about memory or links.
pub(super) fn needs_verification(seen: &Seen) -> bool {
    seen.verify
        || UNVERIFIED.contains(&seen.check.as_str())
        || !seen.needs.is_empty()
        || seen.clears.contains(&Clear::GpuPresent)
}

/// The time since the last finding about a subject behind the drain, or since the remedy.
#[derive(Debug, Default)]
pub(super) struct Quiet {
    since: Duration,
    readings: u32,
    /// The last finding; empty: none since the start. One that opens no incident is shown nowhere else.
    last: String,
}

impl Quiet {
    /// From this time since boot: a finding before a restart is not known.
    pub(super) fn since(now: Duration) -> Self {
        Self {
            since: now,
            ..Self::default()
        }
    }

    /// Starts again.
    pub(super) fn broken(&mut self, now: Duration, last: String) {
        *self = Self {
            last,
            ..Self::since(now)
        };
    }

    /// A health tick.
    pub(super) fn tick(&mut self) {
        self.readings = self.readings.saturating_add(1);
    }

    fn lasts(&self, now: Duration, hold: Duration) -> bool {
        let quiet = now.saturating_sub(self.since);
        quiet >= hold || (self.readings >= READINGS && quiet >= QUIET)
    }
}

/// Whether a lift at this time counts now.
pub(super) const fn is_of_today(at: i64, wall: i64) -> bool {
    at.abs_diff(wall) < DAY
}

/// Counts an automatic lift. The copy in the scheduler may have counted it already.
pub(super) fn count(lifts: &mut Vec<i64>, lift: i64, wall: i64) {
    lifts.retain(|at| is_of_today(*at, wall) && *at != lift);
    lifts.push(lift);
}

/// Adds the automatic lifts of the last 24 h that are not known.
pub(super) fn add(lifts: &mut Vec<i64>, others: &[i64], wall: i64) {
    let of_today = others.iter().filter(|at| is_of_today(**at, wall));
    for at in of_today.take(MOST_LIFTS) {
        if !lifts.contains(at) {
            lifts.push(*at);
        }
    }
    lifts.sort_unstable();
}

/// Why the drain stays now.
pub(super) fn why(
    (written, unverified): (Option<i64>, bool),
    lifts: &[i64],
    (origin, lifts_known): (i64, bool),
    (quiet, pending): (&Quiet, Option<&str>),
    hold: Duration,
    now: Now,
) -> Option<String> {
    let wall = now.wall;
    let today = lifts.iter().filter(|at| is_of_today(**at, wall)).count();
    if unverified {
        Some("repaired, but no test has verified it: an operator lifts the drain".to_owned())
    } else if today >= LIFTS {
        Some(format!(
            "repaired, but nodewarden lifted {today} drains in 24 h: an operator lifts this one"
        ))
    } else if !lifts_known && is_of_today(origin, wall) {
        // A lost state directory must not begin the count again.
        Some(
            "repaired, but the record is younger than 24 h and no copy of it shows earlier lifts: an operator lifts the drain"
                .to_owned(),
        )
    } else if written.is_some_and(|at| at.abs_diff(wall) < hold.as_secs()) {
        Some("repaired; lifted after slurm.hold at the earliest".to_owned())
    } else if !quiet.lasts(now.boottime, hold) {
        let last = match quiet.last.as_str() {
            "" => String::new(),
            last => format!("; the last one: {last}"),
        };
        Some(format!(
            "repaired; lifted after 1 min without a further finding{last}"
        ))
    } else {
        // A device that is gone ends the finding of one check sooner than it begins that of another.
        pending.map(|check| format!("repaired, but bad readings of {check} are not confirmed yet"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Mode;
    use crate::checks;

    macro_rules! runbooks {
        ($($id:literal)*) => {
            [$(($id, include_str!(concat!("../../../docs/runbooks/", $id, ".md")))),*]
        };
    }

    #[test]
    fn the_runbook_of_a_drain_that_a_person_lifts_says_so() {
        let runbooks = runbooks!(
            "edac-uncorrected" "gpu-down" "gpu-ecc-uncorrected" "gpu-missing" "gpu-row-remap" "gpu-sram-threshold"
        );
        let drains = |id: &&&str| checks::check(id).is_some_and(|check| check.may.at_most() == Mode::Drain);
        let lifted: Vec<&str> = UNVERIFIED.iter().filter(drains).copied().collect();
        assert_eq!(lifted, runbooks.map(|(id, _)| id));
        for (id, text) in runbooks {
            let end = text.split("## How it clears").nth(1).unwrap_or_default();
            assert!(end.contains("stays until a person lifts it"), "{id}");
        }
    }
}
