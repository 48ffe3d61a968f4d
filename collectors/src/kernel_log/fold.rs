//! Folds floods: the first event of a kind passes at once, equal ones within a second are counted into one.
//!
//! The daemon stores the sequence number of the last event and drops what is not behind it, so numbers only grow here:
//! before an event passes, everything held back goes out in order. Hence
//! - storing an event never steps over the first of another kind: firsts are never held back;
//! - what a crash can lose or count twice is the tail of a flood whose first was stored.

use std::collections::HashMap;
use std::time::Duration;

use crate::{Event, EventBody};

/// How long equal events are counted into one, by their own time stamps and by the clock.
pub(super) const WINDOW: Duration = Duration::from_secs(1);
const WINDOW_US: u64 = 1_000_000;
/// Kinds held at once. Beyond, all are forgotten, so the next of each kind passes at once again.
pub(super) const MAX_KINDS: usize = 1024;

/// Equal apart from text, process and number of lost records.
type FloodKey = (bool, EventBody);

#[derive(Debug)]
struct Flood {
    /// When the last of the kind came.
    last_us: u64,
    /// What was counted since the last flush and is held back.
    held: Option<Event>,
}

/// The floods under way.
#[derive(Debug, Default)]
pub(super) struct Fold {
    kinds: HashMap<FloodKey, Flood>,
    latest_us: u64,
    /// The time stamp of the first event held back: one window for all kinds, since all go out together.
    window_us: u64,
    /// When what is held back is due, by the watcher's clock.
    due: Option<Duration>,
}

impl Fold {
    /// When [`Fold::flush`] is due. `None`: nothing is held back.
    pub(super) fn due(&self) -> Option<Duration> {
        self.due
    }

    /// Takes one event; `out` gets what is to be emitted now, in order.
    pub(super) fn push(&mut self, event: Event, now: Duration, out: &mut Vec<Event>) {
        self.latest_us = self.latest_us.max(event.at_us);
        let kind = kind(&event);
        let at_us = event.at_us;
        let flood = self.kinds.get(&kind);
        let goes_on = flood.is_some_and(|f| at_us.saturating_sub(f.last_us) < WINDOW_US);
        if !goes_on || self.due.is_some() && at_us.saturating_sub(self.window_us) >= WINDOW_US {
            self.flush(out);
        }
        let Some(flood) = self.kinds.get_mut(&kind).filter(|_| goes_on) else {
            if self.kinds.len() >= MAX_KINDS {
                self.kinds.clear();
            }
            let flood = Flood {
                last_us: at_us,
                held: None,
            };
            self.kinds.insert(kind, flood);
            out.push(event);
            return;
        };
        flood.last_us = flood.last_us.max(at_us);
        match &mut flood.held {
            Some(held) => add(held, event),
            None => flood.held = Some(event),
        }
        if self.due.is_none() {
            self.window_us = at_us;
            self.due = Some(now + WINDOW);
        }
    }

    /// Gives out everything held back, by sequence number, and forgets the kinds that have gone quiet.
    pub(super) fn flush(&mut self, out: &mut Vec<Event>) {
        if self.due.take().is_some() {
            let mut held: Vec<Event> = self.kinds.values_mut().filter_map(|f| f.held.take()).collect();
            held.sort_unstable_by_key(|e| e.seq);
            out.append(&mut held);
        }
        let latest = self.latest_us;
        self.kinds
            .retain(|_, f| latest.saturating_sub(f.last_us) < WINDOW_US);
    }
}

fn kind(event: &Event) -> FloodKey {
    let mut body = event.body.clone();
    match &mut body {
        EventBody::Xid(xid) => {
            xid.pid = None;
            xid.process = None;
        }
        EventBody::Overrun { lost } => *lost = None,
        EventBody::Sxid(_)
        | EventBody::FallenOffBus { .. }
        | EventBody::Identity { .. }
        | EventBody::Driver { .. }
        | EventBody::Rdma(_)
        | EventBody::Firmware { .. }
        | EventBody::Kernel(_)
        | EventBody::Job(_)
        | EventBody::JobEnd(_)
        | EventBody::CursorAhead { .. }
        | EventBody::Progress => {}
    }
    (event.history, body)
}

/// Counts `next` into `held`, which takes its place in the order of records.
fn add(held: &mut Event, next: Event) {
    match (&mut held.body, &next.body) {
        // It stands for several processes now: naming one of them would accuse it alone.
        (EventBody::Xid(held), EventBody::Xid(next)) => {
            if held.pid != next.pid {
                held.pid = None;
            }
            if held.process != next.process {
                held.process = None;
            }
        }
        (EventBody::Overrun { lost: held }, EventBody::Overrun { lost: next }) => {
            *held = held.zip(*next).map(|(a, b)| a.saturating_add(b));
        }
        _ => {}
    }
    held.seq = next.seq;
    held.at_us = next.at_us;
    held.count = held.count.saturating_add(next.count);
    held.text = next.text;
}

#[cfg(test)]
#[path = "fold_tests.rs"]
mod tests;
