//! What one worker may send, and what it may make the daemon hold. A worker that was taken over costs its own collectors
//! and nothing else: beyond a limit its socket is closed.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use collectors::block::{MAX_LABEL_BYTES, MAX_SERIES};
use collectors::subject::MAX_NAME;
use collectors::text::{is_printable, printable};
use collectors::{Layout, MAX_DEVICES, Spec, Subject};

use crate::bucket::Bucket;
use crate::worker::monitor::LateThread;
use crate::worker::proto::{Failure, Garbage};

/// The longest text of a failure, in bytes.
const MAX_TEXT: usize = 500;

/// Why a worker's socket was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Breach {
    /// Bytes that no worker of this build sends.
    #[error("{0}")]
    Protocol(#[from] Garbage),
    /// More than a worker may send or hold.
    #[error("limit exceeded: {0}")]
    Limit(&'static str),
}

/// The limits of one worker process and of those that follow it.
#[derive(Debug)]
pub(super) struct WorkerLimits {
    frames: Bucket,
    bytes: Bucket,
    events: Bucket,
    lists: Bucket,
    notes: Bucket,
    lines: Bucket,
    unlogged: u64,
    /// Series and label bytes of each device, by collector and number.
    held: BTreeMap<(u16, u32), (usize, usize)>,
}

impl WorkerLimits {
    /// A start sends three frames a device and a reading one, ten times a second at most; a kernel log that is read from its
    /// start has thousands of events. Jobs that begin and end all the time change the lists of two collectors at each reading, of
    /// which a page that is read all the time demands 5 a second.
    pub(super) fn new() -> Self {
        Self {
            frames: Bucket::new(500_000, Duration::from_secs(10)),
            bytes: Bucket::new(32 << 20, Duration::from_secs(10)),
            events: Bucket::new(20_000, Duration::from_secs(100)),
            lists: Bucket::new(1000, Duration::from_secs(100)),
            notes: Bucket::new(10, Duration::from_secs(60)),
            lines: Bucket::new(20, Duration::from_secs(200)),
            unlogged: 0,
            held: BTreeMap::new(),
        }
    }

    pub(super) fn bytes(&mut self, n: usize, now: Instant) -> Result<(), Breach> {
        let n = u32::try_from(n).unwrap_or(u32::MAX);
        within(self.bytes.take(n, now), "32 MiB in 10 s")
    }

    pub(super) fn frame(&mut self, now: Instant) -> Result<(), Breach> {
        within(self.frames.take(1, now), "500000 frames in 10 s")
    }

    pub(super) fn event(&mut self, now: Instant) -> Result<(), Breach> {
        within(self.events.take(1, now), "20000 events in 100 s")
    }

    /// A list of devices: costly, and new only when a device or a job comes or goes.
    pub(super) fn list(&mut self, now: Instant) -> Result<(), Breach> {
        within(self.lists.take(1, now), "1000 lists of devices in 100 s")
    }

    /// Whether notes are taken: each stores a record. Later ones replace what was not taken.
    pub(super) fn notes(&mut self, now: Instant) -> bool {
        self.notes.take(1, now)
    }

    /// Whether a line of its text may be logged, and how many were not since the last one.
    pub(super) fn line(&mut self, now: Instant) -> Option<u64> {
        if self.lines.take(1, now) {
            return Some(std::mem::take(&mut self.unlogged));
        }
        self.unlogged += 1;
        None
    }

    /// Notes what the layout of a device takes.
    pub(super) fn layout(&mut self, collector: u16, device: u32, layout: &Layout) -> Result<(), Breach> {
        let bytes = layout.iter().flat_map(|s| s.labels.iter()).map(|l| l.len()).sum();
        self.held.insert((collector, device), (layout.len(), bytes));
        let (mut series, mut bytes) = (0_usize, 0_usize);
        for (s, b) in self
            .held
            .range((collector, 0)..=(collector, u32::MAX))
            .map(|(_, v)| v)
        {
            series += s;
            bytes += b;
        }
        // Twice what the worker grants itself: a device that failed to read has given its share back, and keeps its layout here.
        within(series <= 2 * MAX_SERIES, "40000 series of a collector")?;
        within(
            bytes <= 2 * MAX_LABEL_BYTES,
            "1.5 MiB of label values of a collector",
        )
    }

    /// Forgets devices that are no longer listed.
    pub(super) fn keep(&mut self, collector: u16, listed: impl Fn(u32) -> bool) {
        self.held
            .retain(|(c, device), _| *c != collector || listed(*device));
    }

    /// Forgets all devices.
    pub(super) fn clear(&mut self) {
        self.held.clear();
    }
}

fn within(holds: bool, limit: &'static str) -> Result<(), Breach> {
    if holds { Ok(()) } else { Err(Breach::Limit(limit)) }
}

/// A failure as it may be shown, logged and used as a label.
pub(super) fn failure(why: Failure) -> Result<Failure, Breach> {
    let reason = &why.reason;
    let is_word = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    if reason.is_empty() || reason.len() > 32 || !reason.bytes().all(is_word) {
        return Err(Garbage("reason of a failure").into());
    }
    Ok(Failure {
        text: printable(why.text.as_bytes(), MAX_TEXT),
        ..why
    })
}

/// A list of devices, whose names become labels.
pub(super) fn devices(list: &[(u32, Subject)]) -> Result<(), Breach> {
    within(list.len() <= MAX_DEVICES, "2048 devices of a collector")?;
    if list
        .iter()
        .all(|(_, subject)| is_printable(&subject.name, MAX_NAME))
    {
        return Ok(());
    }
    Err(Garbage("device name").into())
}

/// Threads that have not come back.
pub(super) fn late(late: &mut [LateThread]) -> Result<(), Breach> {
    within(late.len() <= MAX_DEVICES + 3, "2051 late threads of a collector")?;
    for task in late.iter_mut().filter_map(|(_, _, task)| task.as_mut()) {
        for text in [&mut task.name, &mut task.wchan, &mut task.call] {
            *text = printable(text.as_bytes(), MAX_NAME);
        }
        if !task.state.is_ascii_alphabetic() {
            return Err(Garbage("state of a thread").into());
        }
    }
    Ok(())
}

/// Series that the collector declares. Those of another one would be evidence against devices that it does not read.
pub(super) fn declared(spec: &Spec, layout: &Layout) -> Result<(), Breach> {
    let is_declared = |s: &collectors::Series| spec.metrics.iter().any(|m| std::ptr::eq(*m, s.metric));
    if layout.iter().all(is_declared) {
        return Ok(());
    }
    Err(Garbage("metric of another collector").into())
}
