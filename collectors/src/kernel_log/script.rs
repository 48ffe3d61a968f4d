//! A ring that a script plays, for the tests of the watcher.

use std::collections::VecDeque;
use std::sync::mpsc;
use std::time::Duration;

use super::counts::LogCounts;
use super::follow::{Follow, Ring, Start};
use crate::sys::kmsg::KmsgRead;
use crate::{BootId, Cursor, Error, Event, EventBody, Events};

/// What the ring does next.
pub(super) enum Step {
    Line(String),
    Lost,
    /// Nothing there: the watcher waits for as long as it wants.
    Wait,
    /// Nothing there, and then something comes after this time.
    Pause(Duration),
    Fail,
}

#[derive(Default)]
pub(super) struct Script {
    pub(super) steps: VecDeque<Step>,
    pub(super) now: Duration,
    pub(super) pause: Option<Duration>,
    pub(super) waits: Vec<Option<Duration>>,
    /// What was read, where the ring can be read again.
    pub(super) read: Option<Vec<String>>,
}

impl Ring for Script {
    fn read(&mut self, record: &mut Vec<u8>) -> Result<KmsgRead, Error> {
        match self.steps.pop_front() {
            None => Ok(KmsgRead::End),
            Some(Step::Line(line)) => {
                self.read.iter_mut().for_each(|read| read.push(line.clone()));
                *record = line.into_bytes();
                Ok(KmsgRead::Record)
            }
            Some(Step::Lost) => Ok(KmsgRead::Overrun),
            Some(Step::Fail) => Err(Error::NotRecorded("script")),
            Some(Step::Wait) => Ok(KmsgRead::Empty),
            Some(Step::Pause(time)) => {
                self.pause = Some(time);
                Ok(KmsgRead::Empty)
            }
        }
    }

    fn wait(&mut self, timeout: Option<Duration>) -> Result<(), Error> {
        self.waits.push(timeout);
        self.now += match (self.pause.take(), timeout) {
            (Some(pause), Some(timeout)) => pause.min(timeout),
            (Some(time), None) | (None, Some(time)) => time,
            (None, None) => Duration::ZERO,
        };
        Ok(())
    }

    fn rewind(&mut self) -> Result<bool, Error> {
        let Some(read) = self.read.take() else {
            return Ok(false);
        };
        // Nothing has come meanwhile.
        self.steps.push_front(Step::Wait);
        for line in read.into_iter().rev() {
            self.steps.push_front(Step::Line(line));
        }
        Ok(true)
    }

    fn now(&self) -> Duration {
        self.now
    }
}

pub(super) fn line(seq: u64, at_us: u64, text: &str) -> Step {
    Step::Line(format!("3,{seq},{at_us},-;{text}\n"))
}

pub(super) fn xid_text(bus: u64, code: u64) -> String {
    format!("NVRM: Xid (PCI:0000:{bus:02x}:00): {code}, pid='<unknown>', name=<unknown>, text")
}

pub(super) fn xid(seq: u64, code: u64) -> Step {
    line(seq, 1_000_000 + seq, &xid_text(0x3b, code))
}

pub(super) fn other(seq: u64) -> Step {
    line(seq, 1_000_000 + seq, "eth0: link up")
}

pub(super) fn boot(name: &str) -> BootId {
    BootId(name.to_owned())
}

pub(super) fn cursor(seq: u64) -> Option<Cursor> {
    Some(Cursor {
        boot: boot("now"),
        seq,
    })
}

pub(super) struct Run {
    /// Without the ends that no record stands behind.
    pub(super) events: Vec<Event>,
    /// All of them.
    pub(super) all: Vec<Event>,
    pub(super) waits: Vec<Option<Duration>>,
    pub(super) counts: LogCounts,
    pub(super) result: Result<(), Error>,
}

pub(super) fn run_with(steps: Vec<Step>, start: Start) -> Run {
    let (to, from) = mpsc::sync_channel(100_000);
    let counts = LogCounts::default();
    let mut ring = Script {
        steps: steps.into(),
        read: Some(Vec::new()),
        ..Script::default()
    };
    let out = Events::new(to);
    let result = Follow::new(start, &counts, &out).run(&mut ring);
    drop(out);
    let all: Vec<Event> = from.iter().collect();
    Run {
        events: all.iter().filter(|e| e.count > 0).cloned().collect(),
        all,
        waits: ring.waits,
        counts,
        result,
    }
}

pub(super) fn start(from: Option<Cursor>) -> Start {
    Start {
        boot: boot("now"),
        from,
        before_us: 0,
        accept_user: false,
    }
}

pub(super) fn run(from: Option<Cursor>, steps: Vec<Step>) -> Vec<Event> {
    run_with(steps, start(from)).events
}

/// Each event's sequence number, count and a word for its body.
pub(super) fn words(events: &[Event]) -> Vec<String> {
    let word = |body: &EventBody| match body {
        EventBody::Xid(xid) => format!("xid {}", xid.code),
        EventBody::Sxid(sxid) => format!("sxid {}", sxid.code),
        EventBody::FallenOffBus { .. } => "fallen".to_owned(),
        EventBody::Identity { uuid, .. } => uuid.clone(),
        EventBody::Overrun { lost } => format!("lost {lost:?}"),
        EventBody::Rdma(_) => "rdma".to_owned(),
        EventBody::Job(job) => job.what.word().to_owned(),
        EventBody::JobEnd(end) => format!("record {}", end.record.job),
        EventBody::Driver { .. } => "driver".to_owned(),
        EventBody::Firmware { what, .. } => what.word().to_owned(),
        EventBody::Kernel(line) => line.row.clone(),
        EventBody::CursorAhead { cursor, newest } => format!("ahead {cursor} {newest:?}"),
        EventBody::Progress => "progress".to_owned(),
    };
    let word = |e: &Event| format!("{}x{} {}", e.seq, e.count, word(&e.body));
    events.iter().map(word).collect()
}
