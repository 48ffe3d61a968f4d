//! Records to events: cursor, history, loss, floods.
//!
//! Delivery is at least once. Events leave with increasing sequence numbers, so the number of the last event that
//! the daemon stored is the cursor. A restart reads the ring buffer from its start and skips records up to the
//! cursor. Records held back as part of a flood at a crash are read again, except for kinds whose tail precedes a
//! stored tail: the count of such a flood is short by them. The first event of a kind is always stored before
//! anything after it.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use super::counts::LogCounts;
use super::fold::Fold;
use super::grammar::{self, LogLine};
use super::lines;
use super::lost::Parts;
use super::record::KmsgRecord;
use super::sections::Sections;
use super::text::unescape;
use crate::event::{Closed, MAX_TEXT};
use crate::sys::kmsg::KmsgRead;
use crate::text::printable;
use crate::{BootId, Cursor, Error, Event, EventBody, Events};

/// The lines of one report come within this time (microseconds).
const REPORT_US: u64 = 2_000_000;
/// A cursor that lags further behind is advanced, even without any event.
const PROGRESS_RECORDS: u64 = 1000;
/// As above, as a duration.
const PROGRESS_TIME: Duration = Duration::from_secs(10);

/// A source of records.
pub(super) trait Ring {
    /// Reads one record into `record`.
    fn read(&mut self, record: &mut Vec<u8>) -> Result<KmsgRead, Error>;
    /// Waits for the next record. May return early.
    fn wait(&mut self, timeout: Option<Duration>) -> Result<(), Error>;
    /// Goes back to the oldest record. False: the source cannot, and its records come once.
    fn rewind(&mut self) -> Result<bool, Error>;
    /// A monotonic clock.
    fn now(&self) -> Duration;
}

/// Where and when following starts.
#[derive(Clone, Debug)]
pub(super) struct Start {
    /// This boot.
    pub(super) boot: BootId,
    /// The last event that was stored, of this boot or an earlier one.
    pub(super) from: Option<Cursor>,
    /// Without a cursor, records held at the start with a time stamp before this are history, in microseconds.
    pub(super) before_us: u64,
    /// Accept lines written by programs.
    pub(super) accept_user: bool,
}

/// Follows one log.
pub(super) struct Follow<'a> {
    start: Start,
    counts: &'a LogCounts,
    out: &'a Events,
    fold: Fold,
    parts: Parts,
    sections: Sections,
    /// The last line of the table, and its time stamp.
    last_line: Option<(lines::Read, u64)>,
    ready: Vec<Event>,
    /// The last stored record of this boot.
    stored: Option<u64>,
    /// The last record read, or known to be lost.
    last: Option<LogPosition>,
    /// The kernel reported that records before the next one are lost.
    gap: bool,
    /// No cursor, and the ring buffer as of the start is not yet read to its end.
    old: bool,
    /// The end of the log was already reported.
    at_end: bool,
    unreported: u64,
    unreported_since: Option<Duration>,
}

#[derive(Clone, Copy)]
struct LogPosition {
    seq: u64,
    at_us: u64,
}

impl<'a> Follow<'a> {
    /// Follows a log from `start` on.
    pub(super) fn new(start: Start, counts: &'a LogCounts, out: &'a Events) -> Self {
        let stored = start
            .from
            .as_ref()
            .filter(|c| c.boot == start.boot)
            .map(|c| c.seq);
        Self {
            // A cursor of another boot proves an earlier run: this boot's records are new and unread.
            old: start.from.is_none(),
            start,
            counts,
            out,
            fold: Fold::default(),
            parts: Parts::default(),
            sections: Sections::default(),
            last_line: None,
            ready: Vec::new(),
            stored,
            last: None,
            gap: false,
            at_end: false,
            unreported: 0,
            unreported_since: None,
        }
    }

    /// Runs until the log ends or the receiver of the events is gone.
    pub(super) fn run(mut self, ring: &mut dyn Ring) -> Result<(), Error> {
        let mut record = Vec::new();
        let mut listens = false;
        loop {
            let read = ring.read(&mut record)?;
            // A log that can be opened but not read does not count as listening.
            if !std::mem::replace(&mut listens, true) {
                self.out.listens();
            }
            let now = ring.now();
            if matches!(read, KmsgRead::Empty | KmsgRead::End) && self.is_ahead() && ring.rewind()? {
                if let Err(Closed) = self.disbelieve() {
                    return Ok(());
                }
                continue;
            }
            let step = match read {
                KmsgRead::Record => self.record(&record, now).and_then(|()| self.tick(now)),
                KmsgRead::Overrun => {
                    self.gap = true;
                    Ok(())
                }
                KmsgRead::Empty | KmsgRead::End => {
                    self.old = false;
                    self.end(now).and_then(|()| self.tick(now))
                }
            };
            let step = step.and_then(|()| {
                if read == KmsgRead::End {
                    self.finish()
                } else {
                    Ok(())
                }
            });
            match (step, read) {
                (Err(Closed), _) | (Ok(()), KmsgRead::End) => return Ok(()),
                (Ok(()), KmsgRead::Empty) => ring.wait(self.due().map(|due| due.saturating_sub(now)))?,
                (Ok(()), KmsgRead::Record | KmsgRead::Overrun) => {}
            }
        }
    }

    /// Whether the log was read to its end and holds no record as new as the cursor. Sequence numbers never decrease
    /// within a boot, so such a cursor is damaged or forged, and would hide every event until its number is reached.
    fn is_ahead(&self) -> bool {
        let newest = self.last.map(|last| last.seq);
        !self.at_end
            && self
                .stored
                .is_some_and(|stored| newest.is_none_or(|newest| newest < stored))
    }

    /// Starts again without the cursor, as a first start does. Nothing was emitted yet: every record was passed over.
    fn disbelieve(&mut self) -> Result<(), Closed> {
        let newest = self.last.take().map(|last| last.seq);
        let cursor = self.stored.take().unwrap_or_default();
        let mut event = self.event(
            EventBody::CursorAhead { cursor, newest },
            0,
            0,
            false,
            String::new(),
        );
        event.count = 0;
        self.old = true;
        self.gap = false;
        self.parts = Parts::default();
        self.sections = Sections::default();
        self.out.emit(event)
    }

    fn record(&mut self, bytes: &[u8], now: Duration) -> Result<(), Closed> {
        LogCounts::add(&self.counts.records, 1);
        let Ok(record) = KmsgRecord::parse(bytes) else {
            LogCounts::add(&self.counts.parse_errors, 1);
            return Ok(());
        };
        self.lost_before(&record, now)?;
        self.last = Some(LogPosition {
            seq: record.seq,
            at_us: record.at_us,
        });

        let text = unescape(record.text);
        let line = grammar::parse(&text, record.whole, record.pci().as_ref(), record.at_us);
        let forged = record.facility != 0 && !self.start.accept_user;
        // Skipped records still count as parts of a message that ends after the cursor.
        let line = if forged {
            line
        } else {
            self.sections.join(self.parts.join(line), &text)
        };
        if self.stored.is_some_and(|stored| record.seq <= stored) {
            return Ok(());
        }
        if self.unreported == 0 {
            self.unreported_since = Some(now);
        }
        self.unreported += 1;
        let ignored: &AtomicU64 = match line {
            LogLine::Event(_) | LogLine::Kernel(_) | LogLine::Malformed if forged => &self.counts.user_space,
            LogLine::Suppressed(_) if forged => return Ok(()),
            LogLine::Suppressed(count) => {
                LogCounts::add(&self.counts.suppressed, count);
                return Ok(());
            }
            LogLine::Kernel(read) if self.repeats(&read, record.at_us) => return Ok(()),
            LogLine::Kernel(read) => {
                return self.event_of(EventBody::Kernel(read.line), &record, &text, now);
            }
            LogLine::Event(body) => return self.event_of(body, &record, &text, now),
            LogLine::Malformed => &self.counts.malformed,
            _ => return Ok(()),
        };
        LogCounts::add(ignored, 1);
        Ok(())
    }

    fn event_of(
        &mut self,
        body: EventBody,
        record: &KmsgRecord<'_>,
        text: &[u8],
        now: Duration,
    ) -> Result<(), Closed> {
        let history = self.old && record.at_us < self.start.before_us;
        let text = printable(text, MAX_TEXT);
        let event = self.event(body, record.seq, record.at_us, history, text);
        self.push(event, now)
    }

    /// Whether a line only continues the report of the one before it. Otherwise the next are compared with it.
    fn repeats(&mut self, read: &lines::Read, at_us: u64) -> bool {
        let last = self.last_line.as_mut();
        if let Some((before, at)) = last
            && at_us.saturating_sub(*at) < REPORT_US
            && lines::repeats(read, before)
        {
            return true;
        }
        self.last_line = Some((read.clone(), at_us));
        false
    }

    /// Reports the records lost before this one: after the kernel reported a loss, and between the cursor and the
    /// first record of the ring buffer. Other gaps are no loss: a recording may hold only the relevant lines.
    fn lost_before(&mut self, record: &KmsgRecord<'_>, now: Duration) -> Result<(), Closed> {
        let first = self.last.is_none();
        let before = self.last.map(|p| p.seq).max(self.stored);
        let said = std::mem::take(&mut self.gap);
        let lost = before.map(|before| record.seq.saturating_sub(before).saturating_sub(1));
        if !(said || first) || lost == Some(0) || (lost.is_none() && !said) {
            return Ok(());
        }
        // The other half of a message may have been overwritten.
        self.parts = Parts::default();
        self.sections = Sections::default();
        LogCounts::add(&self.counts.lost, lost.unwrap_or(0));
        // The loss takes the number of the last lost record, which no other event can have.
        let Some(seq) = record.seq.checked_sub(1) else {
            return Ok(());
        };
        if self.stored.is_some_and(|stored| seq <= stored) {
            return Ok(());
        }
        self.last = Some(LogPosition {
            seq,
            at_us: record.at_us,
        });
        let event = self.event(
            EventBody::Overrun { lost },
            seq,
            record.at_us,
            false,
            String::new(),
        );
        self.push(event, now)
    }

    fn event(&self, body: EventBody, seq: u64, at_us: u64, history: bool, text: String) -> Event {
        Event {
            boot: self.start.boot.clone(),
            seq,
            at_us,
            history,
            count: 1,
            text,
            body,
        }
    }

    fn push(&mut self, event: Event, now: Duration) -> Result<(), Closed> {
        let mut ready = std::mem::take(&mut self.ready);
        self.fold.push(event, now, &mut ready);
        self.emit(ready, now)
    }

    fn flush(&mut self, now: Duration) -> Result<(), Closed> {
        let mut ready = std::mem::take(&mut self.ready);
        self.fold.flush(&mut ready);
        self.emit(ready, now)
    }

    fn emit(&mut self, mut events: Vec<Event>, now: Duration) -> Result<(), Closed> {
        for event in events.drain(..) {
            let behind = self.last.is_some_and(|last| event.seq < last.seq);
            self.unreported = u64::from(behind);
            self.unreported_since = behind.then_some(now);
            self.out.emit(event)?;
        }
        self.ready = events;
        Ok(())
    }

    /// When [`Follow::tick`] has something to do. `None`: not before the next record.
    fn due(&self) -> Option<Duration> {
        self.fold
            .due()
            .or(self.unreported_since.map(|since| since + PROGRESS_TIME))
    }

    /// Reports, once, that every record held by the log was processed, so earlier events can be judged as a whole.
    /// No progress is sent before it, so the first one has this meaning.
    fn end(&mut self, now: Duration) -> Result<(), Closed> {
        if std::mem::replace(&mut self.at_end, true) {
            return Ok(());
        }
        self.flush(now)?;
        if self.unreported > 0 {
            return self.progress(now);
        }
        // No record belongs to it, so its number advances no cursor.
        let (seq, at_us) = self.last.map_or((0, 0), |last| (last.seq, last.at_us));
        let mut event = self.event(EventBody::Progress, seq, at_us, false, String::new());
        event.count = 0;
        self.emit(vec![event], now)
    }

    /// Does what is due: the end of a window, or a cursor that lags too far behind. While a flood is held back, its
    /// own end advances the cursor.
    fn tick(&mut self, now: Duration) -> Result<(), Closed> {
        if let Some(due) = self.fold.due() {
            return if due <= now { self.flush(now) } else { Ok(()) };
        }
        if !self.at_end {
            return Ok(());
        }
        let late = self
            .unreported_since
            .is_some_and(|since| since + PROGRESS_TIME <= now);
        if late || self.unreported >= PROGRESS_RECORDS {
            return self.progress(now);
        }
        Ok(())
    }

    fn progress(&mut self, now: Duration) -> Result<(), Closed> {
        let Some(last) = self.last.filter(|_| self.unreported > 0) else {
            return Ok(());
        };
        let event = self.event(EventBody::Progress, last.seq, last.at_us, false, String::new());
        self.emit(vec![event], now)
    }

    /// Sends held-back events, and the end of the log.
    fn finish(&mut self) -> Result<(), Closed> {
        self.flush(Duration::ZERO)?;
        self.progress(Duration::ZERO)
    }
}

#[cfg(test)]
#[path = "follow_tests.rs"]
mod tests;
