//! State shared by reader and supervisor: the devices, and the current place of each.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Busy, Number, Operation as Late, ScanResult};
use crate::{Block, Device, Devices, Error, SeriesBudget, Spec, Subject};

/// A device and its data.
pub(super) struct Slot {
    pub number: Number,
    pub device: Box<dyn Device>,
    pub block: Block,
    /// Its last reading exceeded its slice, so the next one gets its own thread.
    pub is_slow: bool,
}

/// A device of the list, wherever its slot is.
struct ListedDevice {
    subject: Subject,
    /// [`Device::identity`].
    identity: String,
    /// Whether the list that was delivered last has it.
    is_listed: bool,
    /// Its reading is outside of the batch and has not returned: it used up its slice, or an earlier one did.
    stuck: Option<(Instant, i32)>,
    /// The last scan did not find it; it is kept until its reading returns.
    gone: bool,
    /// The object that the last scan found for it, while its reading has not returned.
    next: Option<Box<dyn Device>>,
}

impl ListedDevice {
    /// One that has an identity leaves the list when it is gone: another may have taken its name.
    fn is_shown(&self) -> bool {
        !self.gone || self.identity.is_empty()
    }
}

/// The current work of the reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WorkItem {
    List,
    Device(Number),
}

pub(super) struct CurrentItem {
    pub what: WorkItem,
    pub since: Instant,
    pub tid: i32,
}

/// The next action of a reader.
pub(super) enum ReaderAction {
    Look {
        devices: Box<dyn Devices>,
        rescan: bool,
    },
    /// Start as many threads of [`Work::next_slow`].
    StartSlow(usize),
    Read(Slot),
}

/// The result of a check of the list. `Ok(None)`: unchanged.
pub(super) struct ListCheck {
    pub devices: Box<dyn Devices>,
    pub found: Result<Option<ScanResult>, Error>,
}

/// The result of a reading.
pub(super) struct ReadResult {
    pub slot: Slot,
    pub result: Result<(), Error>,
    pub began: Instant,
    pub ended: Instant,
}

/// Results to deliver.
pub(super) struct Delivery {
    /// The list, or the error of its scan, if not delivered yet.
    pub listed: Option<Result<Vec<(Number, Subject)>, Error>>,
    /// The notes of the list, if not delivered yet.
    pub notes: Option<String>,
    /// Readings of devices that are in the list.
    pub done: Vec<ReadResult>,
    /// Devices that have left it meanwhile and must be closed.
    pub left: Vec<Box<dyn Device>>,
    /// Whether a batch is under way.
    pub running: bool,
}

pub(super) struct Work {
    collector: &'static str,
    slice: Duration,
    /// The source's list; `None` while a reader uses it.
    devices: Option<Box<dyn Devices>>,
    known: BTreeMap<Number, ListedDevice>,
    next_number: Number,
    idle: Vec<Slot>,
    queue: VecDeque<Slot>,
    /// Slow devices of this batch, each for its own thread.
    slow: VecDeque<Slot>,
    /// Threads for the slow devices must be started.
    start_slow: bool,
    done: Vec<ReadResult>,
    /// The list must be checked before the queue is read.
    look: bool,
    /// The list must be scanned whether it changed or not: the last scan failed.
    rescan: bool,
    /// A check of the list is stuck: its start and its thread.
    list_stuck: Option<(Instant, i32)>,
    /// The result of the scan to deliver.
    relist: Option<Result<(), Error>>,
    /// The notes of the list, and whether they were delivered.
    notes: (Option<String>, bool),
    /// An error of the list was delivered, so its end must be delivered too.
    trouble: bool,
    /// Subjects that were found twice and logged.
    twice: BTreeSet<Subject>,
    /// The series budget shared by the devices.
    budget: Arc<SeriesBudget>,
    /// The current work of the current reader.
    pub current: Option<CurrentItem>,
    /// The current reader. A former reader ends when its call returns.
    pub reader: u64,
    /// A batch is under way.
    pub running: bool,
}

impl Work {
    /// Also returns duplicates, to be closed.
    pub(super) fn new(
        spec: &Spec,
        devices: Box<dyn Devices>,
        found: Vec<Box<dyn Device>>,
    ) -> (Self, Vec<Box<dyn Device>>) {
        let mut work = Self {
            collector: spec.name,
            slice: spec.slice,
            devices: Some(devices),
            known: BTreeMap::new(),
            next_number: 0,
            idle: Vec::new(),
            queue: VecDeque::new(),
            slow: VecDeque::new(),
            start_slow: false,
            done: Vec::new(),
            look: false,
            rescan: false,
            list_stuck: None,
            relist: None,
            notes: (None, true),
            trouble: false,
            twice: BTreeSet::new(),
            budget: Arc::default(),
            current: None,
            reader: 0,
            running: false,
        };
        let left = work.merge(found);
        work.idle.extend(work.queue.drain(..));
        work.relist = None;
        (work, left)
    }

    pub(super) fn list(&self) -> Vec<(Number, Subject)> {
        let shown = self.known.iter().filter(|(_, known)| known.is_shown());
        shown.map(|(n, k)| (*n, k.subject.clone())).collect()
    }

    /// The list to deliver.
    fn deliver_list(&mut self) -> Vec<(Number, Subject)> {
        for known in self.known.values_mut() {
            known.is_listed = known.is_shown();
        }
        self.list()
    }

    pub(super) fn busy(&self) -> Vec<Busy> {
        let list = self.list_stuck.map(|(since, tid)| Busy {
            what: Late::List,
            since,
            tid,
        });
        let devices = self.known.iter().filter_map(|(number, known)| {
            let (since, tid) = known.stuck?;
            let what = if known.is_listed {
                Late::Device(*number, known.subject.clone())
            } else {
                Late::Closing
            };
            Some(Busy { what, since, tid })
        });
        list.into_iter().chain(devices).collect()
    }

    /// Whether a call of the list has not returned. While a reader uses the list, the reading is not over.
    pub(super) fn is_asking(&self) -> bool {
        self.devices.as_ref().is_some_and(|devices| devices.is_asking())
    }

    /// Queues all idle devices that are due as a batch. False: there are none.
    pub(super) fn submit(&mut self) -> bool {
        self.idle.sort_unstable_by_key(|s| s.number);
        let due = self.idle.extract_if(.., |s| s.device.is_due());
        let (slow, quick): (Vec<Slot>, Vec<Slot>) = due.partition(|s| s.is_slow);
        self.queue.extend(quick);
        self.start_slow = !slow.is_empty();
        self.slow.extend(slow);
        self.look = self.devices.is_some();
        self.running = self.is_work_left();
        self.running
    }

    fn is_work_left(&self) -> bool {
        self.look || self.start_slow || !self.queue.is_empty()
    }

    /// The next action of the reader. `None`: the batch is over.
    pub(super) fn next(&mut self) -> Option<ReaderAction> {
        if std::mem::take(&mut self.look)
            && let Some(devices) = self.devices.take()
        {
            let rescan = self.rescan;
            return Some(ReaderAction::Look { devices, rescan });
        }
        if std::mem::take(&mut self.start_slow) && !self.slow.is_empty() {
            // Before its thread runs: a worker that leaves must wait for it.
            let numbers: Vec<Number> = self.slow.iter().map(|s| s.number).collect();
            let outside = Some((Instant::now(), 0));
            numbers.iter().for_each(|n| self.set_outside(*n, outside));
            return Some(ReaderAction::StartSlow(numbers.len()));
        }
        self.queue.pop_front().map(ReaderAction::Read)
    }

    /// The next slow device, for the thread with that id.
    pub(super) fn next_slow(&mut self, since: Instant, tid: i32) -> Option<Slot> {
        let slot = self.slow.pop_front()?;
        self.set_outside(slot.number, Some((since, tid)));
        Some(slot)
    }

    /// No further thread can be started: the reader reads the slow devices.
    pub(super) fn read_slow_in_turn(&mut self) {
        while let Some(slot) = self.slow.pop_front() {
            self.set_outside(slot.number, None);
            self.queue.push_back(slot);
        }
    }

    fn set_outside(&mut self, number: Number, since: Option<(Instant, i32)>) {
        if let Some(known) = self.known.get_mut(&number) {
            known.stuck = since;
        }
    }

    /// Starts the term of another reader; returns its number.
    pub(super) fn next_reader(&mut self) -> u64 {
        self.reader += 1;
        self.reader
    }

    /// Abandons the current work of the reader. False: nothing is left to read, and the batch is over.
    pub(super) fn give_up(&mut self) -> bool {
        self.next_reader();
        if let Some(CurrentItem { what, since, tid }) = self.current.take() {
            match what {
                WorkItem::List => {
                    self.list_stuck = Some((since, tid));
                    self.trouble = true;
                }
                WorkItem::Device(number) => self.set_outside(number, Some((since, tid))),
            }
        }
        if !self.is_work_left() {
            self.end();
        }
        self.running
    }

    /// Ends the batch: nothing is left to read.
    pub(super) fn end(&mut self) {
        self.running = false;
        if let Some(devices) = &mut self.devices {
            devices.over();
        }
    }

    /// Ends the batch because no reader could be started.
    pub(super) fn call_off(&mut self) {
        self.idle.extend(self.queue.drain(..).chain(self.slow.drain(..)));
        self.look = false;
        self.start_slow = false;
        self.end();
    }

    pub(super) fn came_back(&mut self, mut done: ReadResult) {
        done.slot.is_slow = done.ended.saturating_duration_since(done.began) >= self.slice;
        self.set_outside(done.slot.number, None);
        self.done.push(done);
    }

    /// Takes over the result of a check; returns removed devices, which must be closed outside the lock.
    #[must_use]
    pub(super) fn looked(&mut self, looked: ListCheck) -> Vec<Box<dyn Device>> {
        self.devices = Some(looked.devices);
        self.list_stuck = None;
        match looked.found {
            Ok(found) => {
                self.rescan = false;
                if std::mem::take(&mut self.trouble) {
                    self.relist = Some(Ok(()));
                }
                let Some((found, notes)) = found else {
                    return Vec::new();
                };
                self.note(notes);
                self.merge(found)
            }
            Err(error) => {
                self.rescan = true;
                self.trouble = true;
                self.relist = Some(Err(error));
                Vec::new()
            }
        }
    }

    /// Stores the notes of the list.
    pub(super) fn note(&mut self, notes: Option<String>) {
        if notes.is_some() && self.notes.0 != notes {
            self.notes = (notes, false);
        }
    }

    /// Updates the list: known devices keep their slots, new ones get a number, missing ones are removed,
    /// immediately or when their reading returns.
    fn merge(&mut self, found: Vec<Box<dyn Device>>) -> Vec<Box<dyn Device>> {
        let mut left = Vec::new();
        let key = |known: &ListedDevice| (known.subject.clone(), known.identity.clone());
        let known = self.known.iter();
        let mut numbers: BTreeMap<(Subject, String), Number> =
            known.map(|(number, known)| (key(known), *number)).collect();
        let mut seen = BTreeSet::new();
        for device in found {
            let subject = device.subject().clone();
            if !seen.insert(subject.clone()) {
                if self.twice.insert(subject.clone()) {
                    let collector = self.collector;
                    tracing::warn!(collector, device = %subject, "found twice; the first one is read");
                }
                left.push(device);
                continue;
            }
            let identity = device.identity().to_owned();
            match numbers.remove(&(subject.clone(), identity.clone())) {
                Some(number) => left.extend(self.keep(number, device)),
                None => self.add((subject, identity), device),
            }
        }
        for number in numbers.into_values() {
            self.relist = Some(Ok(()));
            match self.take_waiting(number) {
                Some(slot) => {
                    self.known.remove(&number);
                    left.push(slot.device);
                }
                None => {
                    if let Some(known) = self.known.get_mut(&number) {
                        known.gone = true;
                        left.extend(known.next.take());
                    }
                }
            }
        }
        left
    }

    /// The slot of a device that no thread reads.
    fn take_waiting(&mut self, number: Number) -> Option<Slot> {
        let at = |s: &Slot| s.number == number;
        if let Some(at) = self.idle.iter().position(at) {
            return Some(self.idle.remove(at));
        }
        let mut queues = [&mut self.queue, &mut self.slow].into_iter();
        queues.find_map(|queue| queue.remove(queue.iter().position(at)?))
    }

    /// Handles a device that was known before. The new object replaces the old one, immediately or when the old one
    /// returns: the old one's state may belong to another device of the same name. Returns the unneeded object.
    fn keep(&mut self, number: Number, found: Box<dyn Device>) -> Option<Box<dyn Device>> {
        let mut slots = self.idle.iter_mut().chain(&mut self.queue).chain(&mut self.slow);
        let slot = slots.find(|s| s.number == number);
        let known = self.known.get_mut(&number);
        match (slot, known) {
            (Some(slot), _) => Some(std::mem::replace(&mut slot.device, found)),
            (None, Some(known)) => {
                known.gone = false;
                if !known.is_listed {
                    self.relist = Some(Ok(()));
                }
                known.next.replace(found)
            }
            (None, None) => Some(found),
        }
    }

    fn add(&mut self, (subject, identity): (Subject, String), device: Box<dyn Device>) {
        let number = self.next_number;
        self.next_number += 1;
        self.relist = Some(Ok(()));
        self.known.insert(
            number,
            ListedDevice {
                subject,
                identity,
                is_listed: true,
                stuck: None,
                gone: false,
                next: None,
            },
        );
        self.queue.push_back(Slot {
            number,
            device,
            block: Block::within(&self.budget),
            is_slow: false,
        });
    }

    /// The results to deliver. `empty` replaces the list of readings.
    pub(super) fn take(&mut self, empty: Vec<ReadResult>) -> Delivery {
        let mut done = std::mem::replace(&mut self.done, empty);
        let is_gone = |known: &BTreeMap<Number, ListedDevice>, d: &ReadResult| {
            known.get(&d.slot.number).is_none_or(|k| k.gone)
        };
        let mut left = Vec::new();
        let gone: Vec<ReadResult> = done.extract_if(.., |d| is_gone(&self.known, d)).collect();
        for ReadResult { slot, .. } in gone {
            left.extend(self.forget(slot.number));
            left.push(slot.device);
        }
        let relist = self.relist.take();
        let listed = relist.map(|relist| relist.map(|()| self.deliver_list()));
        let delivered = std::mem::replace(&mut self.notes.1, true);
        let notes = (!delivered).then(|| self.notes.0.clone()).flatten();
        Delivery {
            listed,
            notes,
            done,
            left,
            running: self.running,
        }
    }

    /// Removes a device from the list; returns the object that was to replace it.
    #[must_use]
    fn forget(&mut self, number: Number) -> Option<Box<dyn Device>> {
        self.relist = self.relist.take().or(Some(Ok(())));
        self.known.remove(&number)?.next
    }

    /// Delivered devices become idle again, unless they were removed or replaced meanwhile.
    #[must_use]
    pub(super) fn put_back(&mut self, done: &mut Vec<ReadResult>) -> Vec<Box<dyn Device>> {
        let mut left = Vec::new();
        for ReadResult { mut slot, .. } in done.drain(..) {
            match self.known.get_mut(&slot.number).filter(|k| !k.gone) {
                Some(known) => {
                    if let Some(next) = known.next.take() {
                        left.push(std::mem::replace(&mut slot.device, next));
                    }
                    self.idle.push(slot);
                }
                None => {
                    left.extend(self.forget(slot.number));
                    left.push(slot.device);
                }
            }
        }
        left
    }
}
