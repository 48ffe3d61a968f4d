//! Findings from conditions that every reading shows: how many consecutive readings open and end one.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use collectors::Subject;

use super::finding::Finding;

/// The most conditions: far more than a node has devices.
const MAX: usize = 1024;

/// How long a bad reading of a check that bridges unknown ones holds a lift back.
const PENDING: Duration = Duration::from_secs(120);
/// How long any other bad reading does. Outputs of commands are up to 330 s apart, and one that hangs has no next reading.
const UNCONFIRMED: Duration = Duration::from_secs(900);

/// The consecutive readings, and their time span, that change a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Consecutive bad readings that make a finding. A single one may fall into a reset or a rescan of the bus.
    pub bad: u32,
    /// Their least time span: right after a start, readings come within seconds.
    pub bad_span: Duration,
    /// Consecutive good readings that end it.
    pub good: u32,
    /// Their least time span.
    pub hold: Duration,
}

/// The pace of a condition that one reading shows.
pub const USUAL: Pace = Pace {
    bad: 2,
    bad_span: Duration::from_secs(10),
    good: 3,
    hold: Duration::from_secs(60),
};

/// The result of one reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// Healthy.
    Good,
    /// Faulty.
    Bad,
    /// Not readable.
    Unknown,
}

/// The consecutive readings that changed a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Their number.
    pub readings: u32,
    /// The time from the first to the last.
    pub span: Duration,
}

/// `4 readings over 60 s`.
impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} readings over {} s", self.readings, self.span.as_secs())
    }
}

/// The result of a check for one condition in one snapshot.
pub struct Judged<'a> {
    /// The condition: the check's id and the device by an address that survives a renaming. Records hold it.
    pub key: String,
    /// The subject, by its current name.
    pub subject: Subject,
    /// The reading.
    pub reading: Reading,
    /// The time since boot at which the reading ended. The same reading in two snapshots counts once.
    pub at: Duration,
    /// Its pace.
    pub pace: &'static Pace,
    /// The finding, if the condition changes now.
    pub finding: Box<dyn FnOnce(Run) -> Finding + 'a>,
}

/// The device in the key of a condition of that check.
pub(super) fn device_of<'k>(check: &str, key: &'k str) -> &'k str {
    let rest = key.strip_prefix(check).and_then(|rest| rest.strip_prefix(' '));
    rest.unwrap_or(key).split(' ').next().unwrap_or_default()
}

/// A change of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// It became bad: new evidence.
    Bad(Run),
    /// It was bad before its check was allowed to act, and still is.
    Again(Run),
    /// It is healthy again.
    Good(Run),
}

impl Turn {
    pub(super) const fn run(self) -> Run {
        match self {
            Self::Bad(run) | Self::Again(run) | Self::Good(run) => run,
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
    /// How long it stands without a reading.
    lasts: Option<Duration>,
}

/// What the readings since the start say about a bad condition, if one could be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Latest {
    /// The last one was good.
    Good {
        /// Earlier ones would have made a new finding.
        after_bad: bool,
    },
    /// The last one was bad.
    Bad {
        /// The first bad reading since the last good one, as time since boot.
        since: Duration,
        /// The last one.
        last: Duration,
        /// Their number.
        readings: u32,
        /// They would have made a new finding.
        is_enough: bool,
    },
}

impl Latest {
    /// The state after one more bad reading, made at `at`.
    fn after(before: Option<Self>, at: Duration, pace: &Pace) -> Self {
        let (since, last, before) = match before {
            Some(Self::Bad {
                since,
                last,
                readings,
                ..
            }) => (since, last, readings),
            Some(Self::Good { .. }) | None => (at, at, 0),
        };
        // The same reading in two snapshots counts once.
        let readings = before.saturating_add(u32::from(before == 0 || at > last));
        Self::Bad {
            since,
            last: at.max(last),
            readings,
            is_enough: readings >= pace.bad && at.saturating_sub(since) >= pace.bad_span,
        }
    }
}

/// Consecutive readings that contradict the current state.
#[derive(Debug, Default)]
pub(super) struct Streaks {
    running: BTreeMap<String, Streak>,
    /// The latest readings of each bad condition.
    latest: BTreeMap<String, Latest>,
    round: u64,
    /// How long bad readings of the current check count while later ones are unknown.
    bridged: Option<Duration>,
}

impl Streaks {
    /// Whether the latest readings of the condition `key` contradict its state.
    pub(super) fn runs(&self, key: &str) -> bool {
        self.running.contains_key(key)
    }

    /// The time since boot of the last bad reading of the bad condition `key`.
    pub(super) fn bad_at(&self, key: &str) -> Option<Duration> {
        match self.latest(key)? {
            Latest::Good { .. } => None,
            Latest::Bad { last, .. } => Some(last),
        }
    }

    /// What the readings since the start say about the bad condition `key`.
    pub(super) fn latest(&self, key: &str) -> Option<Latest> {
        self.latest.get(key).copied()
    }

    /// The readings since the start that show a bad condition once more, if they are as many as a new one needs.
    pub(super) fn again(&self, judged: &Judged<'_>) -> Option<Run> {
        match self.latest(&judged.key)? {
            Latest::Bad {
                since,
                last,
                readings,
                is_enough: true,
            } if judged.reading == Reading::Bad => Some(Run {
                readings,
                span: last.saturating_sub(since),
            }),
            _ => None,
        }
    }

    /// Restarts the count of the condition `key`.
    pub(super) fn forget(&mut self, key: &str) {
        self.latest.remove(key);
        self.running.remove(key);
    }

    /// No incident had room for the bad condition `key`: its readings still count, so that the next one tries again.
    pub(super) fn retry(&mut self, check: &'static str, key: &str, subject: Subject) {
        if let Some(Latest::Bad {
            since,
            last,
            readings,
            ..
        }) = self.latest.remove(key)
        {
            let streak = Streak {
                check,
                subject,
                readings,
                since,
                last,
                round: self.round,
                lasts: None,
            };
            self.running.insert(key.to_owned(), streak);
        }
    }

    /// The checks of conditions that were just read as bad and are not bad yet. A condition ends here when it becomes bad or
    /// is read as something else, and where later readings are unknown, at the latest [`PENDING`] or [`UNCONFIRMED`] after its last new reading.
    pub(super) fn pending<'a>(
        &'a self,
        bad: &'a BTreeSet<String>,
        now: Duration,
    ) -> impl Iterator<Item = &'static str> + 'a {
        let most = |s: &Streak| if s.lasts.is_some() { PENDING } else { UNCONFIRMED };
        let is_new = move |s: &Streak| now.saturating_sub(s.last) <= most(s);
        let pending = self
            .running
            .iter()
            .filter(move |(key, s)| !bad.contains(*key) && is_new(s));
        pending.map(|(_, s)| s.check)
    }

    /// The conditions of a subject whose latest readings contradict their state.
    pub(super) fn of(&self, subject: &Subject) -> Vec<String> {
        self.running
            .iter()
            .filter(|(_, s)| s.subject == *subject)
            .map(|(key, _)| key.clone())
            .collect()
    }

    /// A check starts a round. `bridged`: how long its bad readings count while later ones are unknown.
    pub(super) fn begin(&mut self, bridged: Option<Duration>) {
        self.round += 1;
        self.bridged = bridged;
    }

    /// The check's round has ended: conditions without a reading restart, unless their bad readings still count.
    pub(super) fn end(&mut self, check: &str, now: Duration) {
        let round = self.round;
        let stands = |s: &Streak| s.lasts.is_some_and(|long| now.saturating_sub(s.last) < long);
        self.running
            .retain(|_, s| s.check != check || s.round == round || stands(s));
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
        match judged.reading {
            Reading::Bad if is_bad => {
                let latest = Latest::after(self.latest(key), judged.at, judged.pace);
                self.latest.insert(key.to_owned(), latest);
            }
            Reading::Good if is_bad => {
                let after_bad = match self.latest(key) {
                    Some(Latest::Good { after_bad }) => after_bad,
                    Some(Latest::Bad { is_enough, .. }) => is_enough,
                    None => false,
                };
                self.latest.insert(key.to_owned(), Latest::Good { after_bad });
            }
            Reading::Good => {
                self.latest.remove(key);
            }
            Reading::Bad | Reading::Unknown => {}
        }
        let against = match judged.reading {
            Reading::Bad => !is_bad && bad.len() < MAX,
            Reading::Good => is_bad,
            Reading::Unknown => false,
        };
        if !against {
            let is_bridged = |s: &Streak| s.lasts.is_some() && judged.reading == Reading::Unknown;
            if !self.running.get(key).is_some_and(is_bridged) {
                self.running.remove(key);
            }
            return None;
        }
        if self.running.len() >= MAX && !self.running.contains_key(key) {
            return None;
        }
        let round = self.round;
        // Good readings must be consecutive: unknown never ends a finding.
        let lasts = self.bridged.filter(|_| !is_bad);
        let streak = self.running.entry(key.to_owned()).or_insert_with(|| Streak {
            check,
            subject: judged.subject.clone(),
            readings: 0,
            since: judged.at,
            last: judged.at,
            round,
            lasts,
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
            (run.readings >= pace.good && run.span >= pace.hold).then_some(Turn::Good(run))
        } else {
            (run.readings >= pace.bad && run.span >= pace.bad_span).then_some(Turn::Bad(run))
        };
        if let Some(turn) = turn {
            self.running.remove(key);
            match turn {
                Turn::Bad(_) | Turn::Again(_) => {
                    bad.insert(key.to_owned());
                    let latest = Latest::Bad {
                        since: judged.at.saturating_sub(run.span),
                        last: judged.at,
                        readings: run.readings,
                        is_enough: true,
                    };
                    self.latest.insert(key.to_owned(), latest);
                }
                Turn::Good(_) => {
                    bad.remove(key);
                    self.latest.remove(key);
                }
            }
        }
        turn
    }
}

#[cfg(test)]
mod tests;
