//! Findings about what is seen at every reading, not told once: how many readings make one, and how many end it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use collectors::Subject;

use super::finding::Finding;

/// Conditions that are kept: far more than a node has devices.
const MAX: usize = 1024;

/// How many readings running turn a condition, and how long they must span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Bad readings running that make a finding. One alone may fall into a reset or a rescan of the bus.
    pub bad: u32,
    /// How long they must span: right after a start readings come within seconds.
    pub bad_span: Duration,
    /// Good readings running that end it.
    pub good: u32,
    /// How long they must span.
    pub hold: Duration,
}

/// The pace of a condition that is seen at a glance.
pub const USUAL: Pace = Pace {
    bad: 2,
    bad_span: Duration::from_secs(10),
    good: 3,
    hold: Duration::from_secs(60),
};

/// What one reading says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// Well.
    Good,
    /// Not well.
    Bad,
    /// Nothing: it could not be seen.
    Unknown,
}

/// The readings running that turned a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// How many.
    pub readings: u32,
    /// From the first to the last.
    pub span: Duration,
}

/// What a check says about one condition in one snapshot.
pub struct Judged<'a> {
    /// The condition: the check's id and the device, by an address that outlives a renaming. Records hold it.
    pub key: String,
    /// What it is about, by its name of today.
    pub subject: Subject,
    /// What the reading says.
    pub reading: Reading,
    /// When the reading ended, as time since boot: one reading seen in two snapshots is one.
    pub at: Duration,
    /// Its pace.
    pub pace: &'static Pace,
    /// The finding, should the condition turn now.
    pub finding: Box<dyn FnOnce(Run) -> Finding + 'a>,
}

/// The device in the key of a condition of that check.
pub(super) fn device_of<'k>(check: &str, key: &'k str) -> &'k str {
    let rest = key.strip_prefix(check).and_then(|rest| rest.strip_prefix(' '));
    rest.unwrap_or(key).split(' ').next().unwrap_or_default()
}

/// What a reading changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// It has become bad: new evidence.
    Bad(Run),
    /// It is well again.
    Well(Run),
}

impl Turn {
    pub(super) const fn run(self) -> Run {
        match self {
            Self::Bad(run) | Self::Well(run) => run,
        }
    }
}

#[derive(Debug)]
struct Streak {
    check: &'static str,
    subject: Subject,
    readings: u32,
    since: Duration,
    last: Duration,
    round: u64,
}

/// Readings running against the state that holds.
#[derive(Debug, Default)]
pub(super) struct Streaks {
    running: BTreeMap<String, Streak>,
    round: u64,
}

impl Streaks {
    /// Whether the latest readings of the condition `key` go against the state that holds.
    pub(super) fn runs(&self, key: &str) -> bool {
        self.running.contains_key(key)
    }

    /// Begins anew with the condition `key`.
    pub(super) fn forget(&mut self, key: &str) {
        self.running.remove(key);
    }

    /// The conditions of a subject whose readings go against the state that holds.
    pub(super) fn of(&self, subject: &Subject) -> Vec<String> {
        self.running
            .iter()
            .filter(|(_, s)| s.subject == *subject)
            .map(|(key, _)| key.clone())
            .collect()
    }

    /// A check begins to say what it sees.
    pub(super) fn begin(&mut self) {
        self.round += 1;
    }

    /// The check has said what it sees: what it did not mention could not be seen.
    pub(super) fn end(&mut self, check: &str) {
        let round = self.round;
        self.running.retain(|_, s| s.check != check || s.round == round);
    }

    /// Takes one reading of a condition. `bad` holds the conditions that are bad now.
    pub(super) fn take(
        &mut self,
        bad: &mut BTreeSet<String>,
        check: &'static str,
        judged: &Judged<'_>,
    ) -> Option<Turn> {
        let key = judged.key.as_str();
        let is_bad = bad.contains(key);
        let against = match judged.reading {
            Reading::Bad => !is_bad && bad.len() < MAX,
            Reading::Good => is_bad,
            Reading::Unknown => false,
        };
        if !against {
            self.running.remove(key);
            return None;
        }
        if self.running.len() >= MAX && !self.running.contains_key(key) {
            return None;
        }
        let round = self.round;
        let streak = self.running.entry(key.to_owned()).or_insert_with(|| Streak {
            check,
            subject: judged.subject.clone(),
            readings: 0,
            since: judged.at,
            last: judged.at,
            round,
        });
        streak.round = round;
        if streak.readings > 0 && judged.at <= streak.last {
            return None;
        }
        streak.readings += 1;
        streak.last = judged.at;
        let run = Run {
            readings: streak.readings,
            span: judged.at.saturating_sub(streak.since),
        };
        let pace = judged.pace;
        let turn = if is_bad {
            (run.readings >= pace.good && run.span >= pace.hold).then_some(Turn::Well(run))
        } else {
            (run.readings >= pace.bad && run.span >= pace.bad_span).then_some(Turn::Bad(run))
        };
        if let Some(turn) = turn {
            self.running.remove(key);
            match turn {
                Turn::Bad(_) => bad.insert(key.to_owned()),
                Turn::Well(_) => bad.remove(key),
            };
        }
        turn
    }
}

#[cfg(test)]
mod tests;
