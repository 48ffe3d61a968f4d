//! Reads a collector's devices in turn. A device that exceeds the slice keeps its thread, and a new thread reads
//! the rest. Its next reading has its own thread from the start, so that the others do not wait for it again: extra
//! threads exist only for stuck and slow devices.
//!
//! A reading is one batch on one thread, the reader: it checks whether the list of devices changed, scans if so,
//! and reads each device. No thread is woken between 2 devices. The supervisor is notified at the end, and checks
//! for stuck devices itself ([`Runner::check`]) after each slice.

mod disposal;
mod reader;
mod work;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::{Block, Device, Devices, Error, MAX_DEVICES, NoDevices, Source, Spec, Subject};
use disposal::Disposal;
use work::Work;

/// A device's number within its runner. Numbers are never reused, so results of a device cannot be taken for those
/// of its successor.
pub type Number = u32;

/// The result of one device in one reading.
#[derive(Debug)]
pub struct Reading<'a> {
    /// The device's number.
    pub device: Number,
    /// The device.
    pub subject: &'a Subject,
    /// Why the device has no reading, if so.
    pub result: Result<(), Error>,
    /// How long the reading took.
    pub took: Duration,
    /// When it ended.
    pub ended: Instant,
}

/// The purpose of a call that has not returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// The list of devices.
    List,
    /// The reading of a device.
    Device(Number, Subject),
    /// The closing of a device that left the list or was replaced, or its last reading.
    Closing,
}

/// A call that has not returned within its slice.
#[derive(Clone, Debug)]
pub struct Busy {
    /// Its purpose.
    pub what: Operation,
    /// Its start.
    pub since: Instant,
    /// The thread inside it.
    pub tid: i32,
}

/// Receives the results of a reading.
pub trait Sink {
    /// The list of devices changed, or could not be read: then the old one stands. Called before the first reading
    /// of a new device, and after the last of one that left.
    fn devices(&mut self, list: Result<Vec<(Number, Subject)>, Error>);
    /// The notes to keep for the next worker ([`Devices::notes`]), whenever they changed.
    fn notes(&mut self, _notes: String) {}
    /// A device has answered.
    fn reading(&mut self, reading: Reading<'_>, block: &Block);
}

/// Receives only readings.
struct Readings<F>(F);

impl<F: FnMut(Reading<'_>, &Block)> Sink for Readings<F> {
    fn devices(&mut self, list: Result<Vec<(Number, Subject)>, Error>) {
        if let Err(error) = list {
            tracing::warn!(%error, "devices cannot be listed");
        }
    }

    fn reading(&mut self, reading: Reading<'_>, block: &Block) {
        (self.0)(reading, block);
    }
}

struct RunnerShared {
    collector: &'static str,
    work: Mutex<Work>,
    /// Signalled when the reader has work, or must end.
    wake: Condvar,
    /// Signalled at the end of a batch; only for [`Runner::read`].
    over: Condvar,
    /// Closes devices that left.
    disposal: Arc<Disposal>,
    /// Called at the end of a batch and when a late call returned, on the thread that did it.
    notice: Option<Box<dyn Fn() + Send + Sync>>,
}

impl RunnerShared {
    fn lock(&self) -> MutexGuard<'_, Work> {
        // A device's panic is caught outside the lock, so the data behind a poisoned lock is consistent.
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the end of the batch, at most for `wait`.
    fn wait(&self, wait: Duration) {
        let work = self.lock();
        if work.running {
            drop(self.over.wait_timeout(work, wait));
        }
    }

    /// Starts a thread that reads devices.
    fn thread(&self, run: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
        let name: String = format!("r:{}", self.collector).chars().take(15).collect();
        thread::Builder::new().name(name).spawn(run).map(drop)
    }

    fn tell(&self) {
        match &self.notice {
            Some(notice) => notice(),
            None => self.over.notify_all(),
        }
    }
}

/// Runs one collector's devices.
pub struct Runner {
    spec: &'static Spec,
    shared: Arc<RunnerShared>,
    /// A reader thread waits for work or is reading.
    reader_runs: bool,
    /// Kept to reuse its memory.
    spare: Vec<work::ReadResult>,
}

impl Runner {
    /// Scans the source's devices, and keeps the source's list to scan it again.
    ///
    /// # Errors
    /// When the scan fails.
    pub fn new(spec: &'static Spec, source: &mut Source) -> Result<Self, Error> {
        Self::start(spec, source, None)
    }

    /// As [`Runner::new`], for a supervisor that does not wait: `notice` is called, on another thread, when
    /// [`Runner::drain`] has results.
    ///
    /// # Errors
    /// When the scan fails.
    pub fn with_notice(
        spec: &'static Spec,
        source: &mut Source,
        notice: impl Fn() + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        Self::start(spec, source, Some(Box::new(notice)))
    }

    fn start(
        spec: &'static Spec,
        source: &mut Source,
        notice: Option<Box<dyn Fn() + Send + Sync>>,
    ) -> Result<Self, Error> {
        let mut devices = std::mem::replace(&mut source.devices, Box::new(NoDevices));
        let (found, notes) = catch_unwind(AssertUnwindSafe(|| scan(&mut *devices)))
            .unwrap_or_else(|_| Err(Error::Panic("list of devices".to_owned())))?;
        let (mut work, left) = Work::new(spec, devices, found);
        work.note(notes);
        let disposal = Disposal::new(spec.name, spec.slice);
        disposal.take(left);
        let shared = RunnerShared {
            collector: spec.name,
            work: Mutex::new(work),
            wake: Condvar::new(),
            over: Condvar::new(),
            disposal,
            notice,
        };
        Ok(Self {
            spec,
            shared: Arc::new(shared),
            reader_runs: false,
            spare: Vec::new(),
        })
    }

    /// The collector.
    pub fn spec(&self) -> &'static Spec {
        self.spec
    }

    /// The devices, by number.
    pub fn subjects(&self) -> Vec<(Number, Subject)> {
        self.shared.lock().list()
    }

    /// Calls that have not returned.
    pub fn busy(&self) -> impl Iterator<Item = Busy> + use<> {
        let busy = self.shared.lock().busy();
        let closing = self.shared.disposal.closing();
        let late = closing.filter(|(since, _)| since.elapsed() >= self.spec.slice);
        let closing = late.map(|(since, tid)| Busy {
            what: Operation::Closing,
            since,
            tid,
        });
        busy.into_iter().chain(closing)
    }

    /// Whether a device is being closed, or queued for it.
    pub fn is_closing(&self) -> bool {
        self.shared.disposal.is_busy()
    }

    /// Whether a call of the list has not returned that no reading waits for.
    pub fn is_asking(&self) -> bool {
        self.shared.lock().is_asking()
    }

    /// Devices that were left open permanently, because the closing of an earlier one is stuck.
    #[cfg(test)]
    pub(crate) fn left_open(&self) -> u64 {
        self.shared.disposal.leaked()
    }

    /// Starts a reading of every device that is not still busy. False: no device to read, or no thread.
    pub fn begin(&mut self) -> bool {
        {
            let mut work = self.shared.lock();
            if work.running {
                return true;
            }
            if !work.submit() {
                return false;
            }
        }
        if !self.ensure_reader() {
            return false;
        }
        self.shared.wake.notify_one();
        true
    }

    /// Abandons a call that has used its slice; a new reader continues. Returns the wait until the next check;
    /// `None`: no reading is under way.
    pub fn check(&mut self) -> Option<Duration> {
        {
            let mut work = self.shared.lock();
            if !work.running {
                return None;
            }
            // Before a device is started nothing can be late: the thread has not run yet.
            let left = work.current.as_ref().map_or(self.spec.slice, |c| {
                self.spec.slice.saturating_sub(c.since.elapsed())
            });
            if !left.is_zero() {
                return Some(left);
            }
            self.reader_runs = false;
            if !work.give_up() {
                return None;
            }
        }
        self.ensure_reader().then_some(self.spec.slice)
    }

    /// Delivers results since the last call. Returns whether a reading was still under way.
    pub fn drain(&mut self, sink: &mut dyn Sink) -> bool {
        let work::Delivery {
            listed,
            notes,
            mut done,
            left,
            running,
        } = self.shared.lock().take(std::mem::take(&mut self.spare));
        self.shared.disposal.take(left);
        if let Some(list) = listed {
            sink.devices(list);
        }
        if let Some(notes) = notes {
            sink.notes(notes);
        }
        for done in &mut done {
            let reading = Reading {
                device: done.slot.number,
                subject: done.slot.device.subject(),
                result: std::mem::replace(&mut done.result, Ok(())),
                took: done.ended.saturating_duration_since(done.began),
                ended: done.ended,
            };
            sink.reading(reading, &done.slot.block);
        }
        let left = self.shared.lock().put_back(&mut done);
        self.shared.disposal.take(left);
        self.spare = done;
        running
    }

    /// Reads every device that is not still busy, and waits; `emit` gets each reading. Returns when each device has
    /// answered or used up its slice. [`Runner::take_late`] or the next call delivers late readings.
    pub fn read(&mut self, emit: impl FnMut(Reading<'_>, &Block)) {
        self.read_to(&mut Readings(emit));
    }

    /// As [`Runner::read`], including changes of the list.
    pub fn read_to(&mut self, sink: &mut dyn Sink) {
        self.drain(sink);
        if !self.begin() {
            return;
        }
        while let Some(wait) = self.check() {
            self.shared.wait(wait);
            self.drain(sink);
        }
        self.drain(sink);
    }

    /// Delivers readings since the last call, without starting any.
    pub fn take_late(&mut self, emit: impl FnMut(Reading<'_>, &Block)) {
        self.drain(&mut Readings(emit));
    }

    /// Ensures that a reader takes slots: a new one if the last is stuck. False: no thread could be started, and
    /// the batch is over.
    fn ensure_reader(&mut self) -> bool {
        if self.reader_runs {
            return true;
        }
        let number = self.shared.lock().next_reader();
        let shared = Arc::clone(&self.shared);
        let own = Arc::clone(&shared);
        match shared.thread(move || reader::run(number, &own)) {
            Ok(()) => self.reader_runs = true,
            Err(error) => {
                tracing::error!(collector = self.spec.name, %error, "cannot start a reader thread");
                self.shared.lock().call_off();
            }
        }
        self.reader_runs
    }
}

/// The result of a scan, and the list's notes.
type ScanResult = (Vec<Box<dyn Device>>, Option<String>);

fn scan(devices: &mut dyn Devices) -> Result<ScanResult, Error> {
    let mut found = devices.scan()?;
    if let Some(first) = found.get(MAX_DEVICES) {
        let (all, first) = (found.len(), first.subject());
        tracing::error!(all, %first, "more than {MAX_DEVICES} devices: this one and later ones are not read");
        found.truncate(MAX_DEVICES);
    }
    Ok((found, devices.notes()))
}

impl Drop for Runner {
    fn drop(&mut self) {
        self.shared.lock().next_reader();
        self.shared.wake.notify_all();
    }
}

#[cfg(test)]
mod tests;
