//! The state of the kernel log since start: whether its old lines were read, and whether it is being read now. It is
//! not stored.

use std::time::Duration;

use collectors::Event;

/// A line older than this when read is stale: it counts only if the node confirms it.
const STALE: Duration = Duration::from_secs(15 * 60);
/// The most delay of a live event, which is folded and passes through two processes.
const PROMPT: Duration = Duration::from_secs(5);
/// How long lines wait until the log has been read to its end.
const PATIENCE: Duration = Duration::from_secs(10);

/// The kernel log.
#[derive(Debug, Default)]
pub(super) struct Log {
    /// The start of the engine.
    begun: Duration,
    /// The time at which it was read to its end.
    read: Option<Duration>,
    /// Since when every snapshot has shown its watcher running.
    seen: Option<Duration>,
    blind: bool,
    /// The node has no kernel log: a recording without one.
    absent: bool,
    /// Time stamps come from another machine.
    replayed: bool,
    /// How far its clock was behind when the last line was followed. Suspended time counts, and drift: minutes over weeks.
    behind: Duration,
}

impl Log {
    /// From the start of the engine on, nothing of it is read.
    pub(super) fn new(now: Duration) -> Self {
        Self {
            begun: now,
            ..Self::default()
        }
    }

    /// Whether the events come from a recording.
    pub(super) const fn is_replayed(&self) -> bool {
        self.replayed
    }

    /// The events come from a recording.
    pub(super) fn replay(&mut self) {
        self.replayed = true;
    }

    /// All old lines were delivered.
    pub(super) fn ended(&mut self, now: Duration) {
        self.read.get_or_insert(now);
    }

    /// A snapshot shows whether it is being read; `None`: absent on this node.
    pub(super) fn snapshot(&mut self, seen: Option<bool>, now: Duration) {
        self.absent = seen.is_none();
        self.blind = seen == Some(false);
        if self.blind {
            self.seen = None;
        } else {
            self.seen.get_or_insert(now);
        }
    }

    /// Whether it has been read completely.
    pub(super) fn is_known(&self) -> bool {
        self.absent || (self.read.is_some() && !self.blind)
    }

    /// Whether it has been read completely for this time.
    pub(super) fn known_for(&self, hold: Duration, now: Duration) -> bool {
        let since = |at: Option<Duration>| at.is_some_and(|at| at.saturating_add(hold) <= now);
        self.is_known() && since(self.seen) && (self.absent || since(self.read))
    }

    /// A line that was read as it was printed shows how far the log's clock is behind.
    pub(super) fn followed(&mut self, event: &Event, now: Duration) {
        self.behind = now.saturating_sub(Duration::from_micros(event.at_us));
    }

    /// The time since boot of an event, as far as its clock shows it.
    pub(super) fn at(&self, event: &Event, of_log: bool) -> Duration {
        let behind = if of_log { self.behind } else { Duration::ZERO };
        Duration::from_micros(event.at_us).saturating_add(behind)
    }

    /// Whether an event is stale. A live line is not: its clock may be behind by more than before.
    pub(super) fn is_stale(&self, event: &Event, of_log: bool, now: Duration) -> bool {
        !(self.replayed || self.is_followed()) && now.saturating_sub(self.at(event, of_log)) > STALE
    }

    fn is_followed(&self) -> bool {
        self.read.is_some() && !self.blind
    }

    /// Whether lines arrive as they are printed.
    pub(super) fn is_live(&self) -> bool {
        !self.replayed && self.is_followed()
    }

    /// Whether an event occurs when it arrives. Events of other sources always do.
    fn is_now(&self, event: &Event, of_log: bool) -> bool {
        !event.history && (!of_log || self.is_live())
    }

    /// The earliest time since boot of an event, which may be read much later. Live events use this clock: the log's
    /// clock drifts by minutes over weeks.
    pub(super) fn earliest(&self, event: &Event, of_log: bool, now: Duration) -> Duration {
        if self.replayed {
            return now;
        }
        if self.is_now(event, of_log) {
            return now.saturating_sub(PROMPT);
        }
        let late = Duration::from_secs(u64::from(event.count > 1));
        self.at(event, of_log).min(now).saturating_sub(late)
    }

    /// The wall clock time of an event: now, or by the line's clock if it may be old. Time suspended since the last line
    /// that was followed is unknown and counts as 0.
    pub(super) fn wall(&self, event: &Event, of_log: bool, now: Duration, wall: i64) -> i64 {
        if self.replayed || self.is_now(event, of_log) {
            return wall;
        }
        let age = now.saturating_sub(self.at(event, of_log));
        wall.saturating_sub(i64::try_from(age.as_secs()).unwrap_or(0))
    }

    /// The time until which acts wait for the end of the log: a line in it may say that the fault is over.
    pub(super) fn unfinished(&self, now: Duration) -> Option<Duration> {
        let until = self.begun.saturating_add(PATIENCE);
        let comes = self.read.is_none() && !self.absent && !self.blind;
        (comes && now < until).then_some(until)
    }
}
