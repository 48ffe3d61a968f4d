//! What is known of the kernel's log in this run: whether what it held at the start has been told, and whether it is
//! being read now. Nothing of it outlives the process.

use std::time::Duration;

use collectors::Event;

/// A line that is older when it is read says nothing about now: it counts only where the node itself agrees.
const STALE: Duration = Duration::from_secs(15 * 60);
/// What comes as it happens began no longer ago than this: it is folded, and passes through two processes.
const PROMPT: Duration = Duration::from_secs(5);
/// How long lines of a log that has not been read to its end wait for the rest.
const PATIENCE: Duration = Duration::from_secs(10);

/// The kernel's log.
#[derive(Debug, Default)]
pub(super) struct Log {
    /// The first event of this run came.
    begun: Option<Duration>,
    /// It was read to its end.
    read: Option<Duration>,
    /// Since when every snapshot has shown its watcher at work.
    seen: Option<Duration>,
    blind: bool,
    /// The node has none: a recording without one.
    absent: bool,
    /// Time stamps are of another machine.
    replayed: bool,
}

impl Log {
    /// The events are those of a recording.
    pub(super) fn replay(&mut self) {
        self.replayed = true;
    }

    /// An event came.
    pub(super) fn event(&mut self, now: Duration) {
        self.begun.get_or_insert(now);
    }

    /// Everything that it held at the start was told.
    pub(super) fn ended(&mut self, now: Duration) {
        self.read.get_or_insert(now);
    }

    /// A snapshot shows whether it is being read; `None`: there is none on this node.
    pub(super) fn snapshot(&mut self, seen: Option<bool>, now: Duration) {
        self.absent = seen.is_none();
        self.blind = seen == Some(false);
        if self.blind {
            self.seen = None;
        } else {
            self.seen.get_or_insert(now);
        }
    }

    /// Whether nothing that it could say is missing, as far as is known.
    pub(super) fn is_known(&self) -> bool {
        self.absent || (self.read.is_some() && !self.blind)
    }

    /// Whether it has been known for so long.
    pub(super) fn known_for(&self, hold: Duration, now: Duration) -> bool {
        let since = |at: Option<Duration>| at.is_some_and(|at| at.saturating_add(hold) <= now);
        self.is_known() && since(self.seen) && (self.absent || since(self.read))
    }

    /// Whether an event is too old to be news. A line that is followed as it is printed is not: suspended time is in our
    /// clock and not in the line's.
    pub(super) fn is_stale(&self, event: &Event, now: Duration) -> bool {
        !(self.replayed || self.is_followed())
            && now.saturating_sub(Duration::from_micros(event.at_us)) > STALE
    }

    fn is_followed(&self) -> bool {
        self.read.is_some() && !self.blind
    }

    /// Whether lines come as they are printed, so that an event happens when it comes.
    pub(super) fn is_live(&self) -> bool {
        !self.replayed && self.is_followed()
    }

    /// Whether an event happens when it comes. Others than the log's always do.
    fn is_now(&self, event: &Event, of_log: bool) -> bool {
        !event.history && (!of_log || self.is_live())
    }

    /// When an event happened at the earliest, as time since boot: it may be read long after. What comes as it happens is
    /// of now: the log's clock and ours drift apart by minutes over weeks.
    pub(super) fn earliest(&self, event: &Event, of_log: bool, now: Duration) -> Duration {
        if self.replayed {
            return now;
        }
        if self.is_now(event, of_log) {
            return now.saturating_sub(PROMPT);
        }
        let late = Duration::from_secs(u64::from(event.count > 1));
        Duration::from_micros(event.at_us).min(now).saturating_sub(late)
    }

    /// When an event happened, by the wall clock: now, or by the line's own clock where it may have been printed long
    /// before. Time in which the node was suspended is not known and counts as none.
    pub(super) fn wall(&self, event: &Event, of_log: bool, now: Duration, wall: i64) -> i64 {
        if self.replayed || self.is_now(event, of_log) {
            return wall;
        }
        let age = now.saturating_sub(Duration::from_micros(event.at_us));
        wall.saturating_sub(i64::try_from(age.as_secs()).unwrap_or(0))
    }

    /// Until when what was read so far must wait for the rest.
    pub(super) fn unfinished(&self, now: Duration) -> Option<Duration> {
        let until = self.begun?.saturating_add(PATIENCE);
        (self.read.is_none() && now < until).then_some(until)
    }
}
