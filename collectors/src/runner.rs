//! Reads a collector's devices in turn. One that exceeds the slice keeps its thread, and a new thread takes the rest:
//! threads exist only for stuck devices.

use std::collections::{BTreeSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::sys::task;
use crate::{Block, Budget, Device, Error, Source, Spec, Subject};

/// What became of one device in one reading.
#[derive(Debug)]
pub struct Reading {
    /// The device's number within this runner; a device keeps it until the next scan.
    pub device: usize,
    /// The device.
    pub subject: Subject,
    /// Why there is no reading, where there is none.
    pub result: Result<(), Error>,
    /// How long the reading took.
    pub took: Duration,
}

/// A device whose reading has not come back.
#[derive(Clone, Debug)]
pub struct Busy {
    /// The device's number within this runner.
    pub device: usize,
    /// The device.
    pub subject: Subject,
    /// Since when.
    pub since: Instant,
    /// The thread that is in it.
    pub tid: i32,
}

struct Slot {
    number: usize,
    device: Box<dyn Device>,
    block: Block,
}

struct Work {
    slots: VecDeque<Slot>,
    /// The reader that may take slots. A reader with another number ends once its device comes back.
    reader: u64,
}

struct Shared {
    work: Mutex<Work>,
    wake: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Work> {
        // A device's panic is caught outside the lock, so a poisoned one still holds whole slots.
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum Report {
    Started {
        number: usize,
        tid: i32,
        at: Instant,
    },
    Done {
        slot: Slot,
        result: Result<(), Error>,
        took: Duration,
    },
}

/// Runs one collector's devices.
pub struct Runner {
    spec: &'static Spec,
    idle: Vec<Slot>,
    subjects: Vec<Subject>,
    busy: Vec<Option<Busy>>,
    shared: Arc<Shared>,
    reader_runs: bool,
    from: Receiver<Report>,
    to: Sender<Report>,
}

impl Runner {
    /// Scans the source's devices.
    ///
    /// # Errors
    /// When the scan fails.
    pub fn new(spec: &'static Spec, source: &mut Source) -> Result<Self, Error> {
        let (to, from) = mpsc::channel();
        let devices = source.devices.scan()?;
        let subjects: Vec<Subject> = devices.iter().map(|d| d.subject().clone()).collect();
        let budget: Arc<Budget> = Arc::default();
        let idle = devices
            .into_iter()
            .enumerate()
            .map(|(number, device)| Slot {
                number,
                device,
                block: Block::within(&budget),
            })
            .collect();
        let busy = vec![None; subjects.len()];
        let work = Mutex::new(Work {
            slots: VecDeque::new(),
            reader: 0,
        });
        let shared = Arc::new(Shared {
            work,
            wake: Condvar::new(),
        });
        Ok(Self {
            spec,
            idle,
            subjects,
            busy,
            shared,
            reader_runs: false,
            from,
            to,
        })
    }

    /// The collector.
    pub fn spec(&self) -> &'static Spec {
        self.spec
    }

    /// The devices, by number.
    pub fn subjects(&self) -> &[Subject] {
        &self.subjects
    }

    /// Devices whose reading has not come back.
    pub fn busy(&self) -> impl Iterator<Item = &Busy> {
        self.busy.iter().flatten()
    }

    /// Reads every device that is not still busy from before; `emit` gets each reading as it comes. Returns when each
    /// has answered or used up its slice. A late reading is handed out by [`Runner::take_late`] or the next call.
    pub fn read(&mut self, mut emit: impl FnMut(Reading, &Block)) {
        self.take_late(&mut emit);
        let mut pending: BTreeSet<usize> = self.idle.iter().map(|s| s.number).collect();
        if pending.is_empty() || !self.ensure_reader() {
            return;
        }
        self.shared.lock().slots.extend(self.idle.drain(..));
        self.shared.wake.notify_all();

        let mut current: Option<(usize, Instant)> = None;
        while !pending.is_empty() {
            // Before a device has started there is nothing to be late: the thread has just not run yet.
            let wait = match current {
                Some((_, since)) => self.spec.slice.saturating_sub(since.elapsed()),
                None => self.spec.deadline,
            };
            match self.from.recv_timeout(wait) {
                Ok(Report::Started { number, tid, at }) => {
                    self.start(number, tid, at);
                    current = Some((number, at));
                }
                Ok(Report::Done { slot, result, took }) => {
                    pending.remove(&slot.number);
                    if current.is_some_and(|(number, _)| number == slot.number) {
                        current = None;
                    }
                    self.finish(slot, result, took, &mut emit);
                }
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {
                    if let Some((stuck, _)) = current.take() {
                        pending.remove(&stuck);
                    } else {
                        continue;
                    }
                    self.reader_runs = false;
                    if !self.ensure_reader() {
                        let left = std::mem::take(&mut self.shared.lock().slots);
                        self.idle.extend(left);
                        return;
                    }
                }
            }
        }
    }

    /// Hands out readings that came back since the last call, without starting any.
    pub fn take_late(&mut self, emit: &mut impl FnMut(Reading, &Block)) {
        while let Ok(report) = self.from.try_recv() {
            match report {
                Report::Done { slot, result, took } => self.finish(slot, result, took, emit),
                Report::Started { number, tid, at } => self.start(number, tid, at),
            }
        }
    }

    fn start(&mut self, number: usize, tid: i32, since: Instant) {
        if let (Some(busy), Some(subject)) = (self.busy.get_mut(number), self.subjects.get(number)) {
            *busy = Some(Busy {
                device: number,
                subject: subject.clone(),
                since,
                tid,
            });
        }
    }

    fn finish(
        &mut self,
        slot: Slot,
        result: Result<(), Error>,
        took: Duration,
        emit: &mut impl FnMut(Reading, &Block),
    ) {
        if let Some(busy) = self.busy.get_mut(slot.number) {
            *busy = None;
        }
        let subject = slot.device.subject().clone();
        emit(
            Reading {
                device: slot.number,
                subject,
                result,
                took,
            },
            &slot.block,
        );
        self.idle.push(slot);
        self.idle.sort_unstable_by_key(|s| s.number);
    }

    /// Makes sure that a reader may take slots: a new one where the last is stuck. False: no thread is to be had.
    fn ensure_reader(&mut self) -> bool {
        if self.reader_runs {
            return true;
        }
        let number = {
            let mut work = self.shared.lock();
            work.reader += 1;
            work.reader
        };
        let (shared, to) = (Arc::clone(&self.shared), self.to.clone());
        let name: String = format!("r:{}", self.spec.name).chars().take(15).collect();
        self.reader_runs = thread::Builder::new()
            .name(name)
            .spawn(move || reader(number, &shared, &to))
            .is_ok();
        self.reader_runs
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        self.shared.lock().reader += 1;
        self.shared.wake.notify_all();
    }
}

fn reader(number: u64, shared: &Shared, to: &Sender<Report>) {
    let tid = task::own_tid();
    loop {
        let mut work = shared.lock();
        let mut slot = loop {
            if work.reader != number {
                return;
            }
            match work.slots.pop_front() {
                Some(slot) => break slot,
                None => work = shared.wake.wait(work).unwrap_or_else(PoisonError::into_inner),
            }
        };
        drop(work);
        let at = Instant::now();
        if to
            .send(Report::Started {
                number: slot.number,
                tid,
                at,
            })
            .is_err()
        {
            return;
        }
        slot.block.clear();
        // A collector's bug costs its own device only.
        let result = catch_unwind(AssertUnwindSafe(|| slot.device.read(&mut slot.block)))
            .unwrap_or_else(|_| Err(Error::Panic(slot.device.subject().to_string())));
        if result.is_err() {
            slot.block.clear();
        }
        slot.block.finish();
        if to
            .send(Report::Done {
                slot,
                result,
                took: at.elapsed(),
            })
            .is_err()
        {
            return;
        }
    }
}

#[cfg(test)]
mod tests;
