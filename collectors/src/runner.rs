//! Reads a collector's devices in turn. One that exceeds the slice keeps its thread, and a new thread takes the rest:
//! threads exist only for stuck devices.
//!
//! A reading is one batch on one thread, the reader: it asks whether the list of devices is still right, scans where it
//! is not, and reads each device. Nobody is woken between two devices; whoever supervises is told at the end, and looks
//! by himself ([`Runner::check`]) when a slice has passed.

mod disposal;
mod reader;
mod work;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::{Block, Device, Devices, Error, NoDevices, Source, Spec, Subject};
use disposal::Disposal;
use work::Work;

/// A device's number within its runner. Given once and never again, so that what was said of it cannot be taken for
/// something about its successor.
pub type Number = u32;

/// What became of one device in one reading.
#[derive(Debug)]
pub struct Reading<'a> {
    /// The device's number.
    pub device: Number,
    /// The device.
    pub subject: &'a Subject,
    /// Why there is no reading, where there is none.
    pub result: Result<(), Error>,
    /// How long the reading took.
    pub took: Duration,
    /// When it ended.
    pub ended: Instant,
}

/// What a call that has not come back was for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// The list of devices.
    List,
    /// The reading of a device.
    Device(Number, Subject),
    /// The end of a device that has left the list, or was found anew.
    Closing,
}

/// A call that has not come back within its slice.
#[derive(Clone, Debug)]
pub struct Busy {
    /// What it was for.
    pub what: Operation,
    /// Since when.
    pub since: Instant,
    /// The thread that is in it.
    pub tid: i32,
}

/// Takes what a reading gives.
pub trait Sink {
    /// The list of devices has changed, or could not be read: then the old one stands. Told before the first reading
    /// of a device that is new in it, and after the last of one that has left.
    fn devices(&mut self, list: Result<Vec<(Number, Subject)>, Error>);
    /// What is to be kept for the next worker ([`Devices::notes`]), whenever it has changed.
    fn notes(&mut self, _notes: String) {}
    /// A device has answered.
    fn reading(&mut self, reading: Reading<'_>, block: &Block);
}

/// Takes readings alone.
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
    work: Mutex<Work>,
    /// There is work for the reader, or it is to end.
    wake: Condvar,
    /// A batch is over; for [`Runner::read`] alone.
    over: Condvar,
    /// Closes what has left.
    disposal: Arc<Disposal>,
    /// Called at the end of a batch and when something late has come back, on the thread that did it.
    notice: Option<Box<dyn Fn() + Send + Sync>>,
}

impl RunnerShared {
    fn lock(&self) -> MutexGuard<'_, Work> {
        // A device's panic is caught outside the lock, so a poisoned one still holds whole slots.
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the end of the batch, or as long as that.
    fn wait(&self, wait: Duration) {
        let work = self.lock();
        if work.running {
            drop(self.over.wait_timeout(work, wait));
        }
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
    /// A reader waits for work, or is at it.
    reader_runs: bool,
    /// Kept for its memory.
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

    /// The same for a supervisor that does not wait: `notice` is called, on another thread, when there is something for
    /// [`Runner::drain`].
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
        let (mut work, left) = Work::new(spec.name, devices, found);
        work.note(notes);
        let disposal = Disposal::new(spec.name);
        disposal.take(left);
        let shared = RunnerShared {
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

    /// What has not come back.
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

    /// Whether a device is being closed, or waits for it.
    pub fn is_closing(&self) -> bool {
        self.shared.disposal.is_busy()
    }

    /// How many devices were left open for good, because the closing of an earlier one is stuck.
    pub fn left_open(&self) -> u64 {
        self.shared.disposal.leaked()
    }

    /// Starts to read every device that is not still busy from before. False: there is nothing to read, or no thread.
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

    /// Gives up what has used its slice; a new reader goes on behind it. How long to wait until the next look; `None`:
    /// no reading is under way.
    pub fn check(&mut self) -> Option<Duration> {
        {
            let mut work = self.shared.lock();
            if !work.running {
                return None;
            }
            // Before a device has started there is nothing to be late: the thread has just not run yet.
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

    /// Hands out what came back since the last call. Whether a reading was under way still.
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

    /// Reads every device that is not still busy from before, and waits; `emit` gets each reading. Returns when each
    /// has answered or used up its slice. A late reading is handed out by [`Runner::take_late`] or the next call.
    pub fn read(&mut self, emit: impl FnMut(Reading<'_>, &Block)) {
        self.read_to(&mut Readings(emit));
    }

    /// The same, with what is told of the list.
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

    /// Hands out readings that came back since the last call, without starting any.
    pub fn take_late(&mut self, emit: impl FnMut(Reading<'_>, &Block)) {
        self.drain(&mut Readings(emit));
    }

    /// Makes sure that a reader may take slots: a new one where the last is stuck. False: no thread is to be had, and
    /// the batch is over.
    fn ensure_reader(&mut self) -> bool {
        if self.reader_runs {
            return true;
        }
        let number = self.shared.lock().next_reader();
        let shared = Arc::clone(&self.shared);
        let name: String = format!("r:{}", self.spec.name).chars().take(15).collect();
        let started = thread::Builder::new()
            .name(name)
            .spawn(move || reader::run(number, &shared));
        match started {
            Ok(_) => self.reader_runs = true,
            Err(error) => {
                tracing::error!(collector = self.spec.name, %error, "no thread to read with");
                self.shared.lock().call_off();
            }
        }
        self.reader_runs
    }
}

/// What a scan has found, and what the list notes of it.
type ScanResult = (Vec<Box<dyn Device>>, Option<String>);

fn scan(devices: &mut dyn Devices) -> Result<ScanResult, Error> {
    let found = devices.scan()?;
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
