//! One collector in its worker: opened on a thread of its own, then read on request.
//!
//! The main thread starts a reading and returns to its socket. The reader replies to the daemon at the end, and
//! cancels the timer that would wake the main thread to check it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use collectors::runner::{Busy, Number, Operation, Reading, Runner, Sink};
use collectors::sys::{boot, task};
use collectors::{Block, Cadence, Cursor, Env, Error, Settings, Spec, Subject, Watcher};

use super::child::thread_name;
use super::monitor::{CLOSING, LateThread, PERIOD, SOURCE, WatcherThread, nanos};
use super::out::Out;
use super::proto::{self, Failure, FromWorker, SentLayouts, WireValues};
use super::watch;
use crate::random;
use sys::timer::Timer;

/// The inputs of a collector's task.
pub(super) struct TaskParts {
    pub number: u16,
    pub spec: &'static Spec,
    pub env: Env,
    pub settings: Settings,
    pub cursor: Option<Cursor>,
    pub notes: Option<String>,
    pub out: Out,
}

/// One collector.
pub(super) struct CollectorTask {
    pub(super) parts: TaskParts,
    /// When the main thread must check it.
    pub(super) timer: Timer,
    pub(super) watched: Mutex<WatcherThread>,
    /// The watcher must return.
    pub(super) stop: Arc<AtomicBool>,
    state: Mutex<TaskState>,
}

enum SourcePhase {
    Opening {
        since: Instant,
        tid: i32,
    },
    /// Opened again at that time: a driver may be loaded long after the boot.
    NotOpen {
        again: Instant,
    },
    Open(Runner),
}

/// First back-off before a failed source is opened again; doubled each time.
const BACKOFF_MIN: Duration = Duration::from_secs(1);
/// Longest back-off.
const BACKOFF_MAX: Duration = Duration::from_secs(60);
/// Interval at which a missing source is looked for.
const ABSENT: Duration = Duration::from_secs(60);

/// An opened source.
type Opened = (Runner, Option<Box<dyn Watcher>>);

struct TaskState {
    phase: SourcePhase,
    /// A requester waits for the end of a reading.
    asked: bool,
    /// A reading is under way.
    reading: bool,
    /// Nothing more is started.
    leaving: bool,
    /// When its own clock starts the next reading.
    due: Option<Instant>,
    /// The last look found something late.
    reported: bool,
    /// Back-off after the next failure to open the source.
    backoff: Duration,
    /// The last reported failure to open it. `None`: nothing reported, or open.
    told: Option<Option<Failure>>,
    sent: SentLayouts,
    /// Kept to reuse its memory.
    values: WireValues,
}

impl CollectorTask {
    /// # Errors
    /// When no timer can be created.
    pub(super) fn new(parts: TaskParts) -> std::io::Result<Self> {
        let state = TaskState {
            // Replaced when the opening thread runs.
            phase: SourcePhase::Opening {
                since: Instant::now(),
                tid: 0,
            },
            asked: false,
            reading: false,
            leaving: false,
            due: None,
            reported: false,
            backoff: BACKOFF_MIN,
            told: None,
            sent: SentLayouts::default(),
            values: WireValues::default(),
        };
        Ok(Self {
            parts,
            timer: Timer::new()?,
            watched: Mutex::default(),
            stop: Arc::default(),
            state: Mutex::new(state),
        })
    }

    fn lock(&self) -> MutexGuard<'_, TaskState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the source, on a thread of its own.
    ///
    /// # Errors
    /// When no thread can be started.
    pub(super) fn start_open(self: &Arc<Self>) -> std::io::Result<()> {
        let task = Arc::clone(self);
        let name = thread_name("o", self.parts.spec);
        thread::Builder::new().name(name).spawn(move || task.open())?;
        Ok(())
    }

    fn open(self: &Arc<Self>) {
        self.lock().phase = SourcePhase::Opening {
            since: Instant::now(),
            tid: task::own_tid(),
        };
        // A collector's bug costs its own source only.
        let opened = catch_unwind(AssertUnwindSafe(|| self.try_open()))
            .unwrap_or_else(|_| Err(Error::Panic(self.parts.spec.name.to_owned())));
        if matches!(opened, Ok(Some(_))) {
            // A driver's library, and the first list of devices, require more than what they keep.
            sys::memory::settle();
        }
        let mut state = self.lock();
        let state = &mut *state;
        match opened {
            Ok(Some((runner, watcher))) => self.is_open(state, runner, watcher),
            Ok(None) => self.not_open(state, None, ABSENT),
            Err(e) => {
                let wait = state.backoff;
                state.backoff = (wait * 2).min(BACKOFF_MAX);
                self.not_open(state, Some(Failure::from(&e)), wait);
            }
        }
        if state.asked {
            self.start(state);
        } else {
            self.set_due(state);
        }
    }

    fn try_open(self: &Arc<Self>) -> Result<Option<Opened>, Error> {
        let spec = self.parts.spec;
        let Some(mut source) = (spec.open)(&self.parts.env, &self.parts.settings)? else {
            return Ok(None);
        };
        if let Some(notes) = &self.parts.notes {
            source.devices.recall(notes);
        }
        let task = Arc::downgrade(self);
        let notice = move || {
            if let Some(task) = task.upgrade() {
                task.settle(&mut task.lock());
            }
        };
        let runner = Runner::with_notice(spec, &mut source, notice)?;
        Ok(Some((runner, source.watcher)))
    }

    fn is_open(self: &Arc<Self>, state: &mut TaskState, runner: Runner, watcher: Option<Box<dyn Watcher>>) {
        let subjects = runner.subjects().into_iter().map(|(_, s)| s).collect();
        let opened = FromWorker::Opened(self.parts.number, Ok(Some(subjects)));
        self.parts.out.send(&opened);
        state.told = None;
        match watcher.map_or(Ok(()), |watcher| watch::start(self, watcher)) {
            Ok(()) => state.phase = SourcePhase::Open(runner),
            Err(e) => {
                let why = Failure {
                    reason: "thread".to_owned(),
                    text: format!("cannot start a thread: {e}"),
                };
                self.not_open(state, Some(why), BACKOFF_MAX);
            }
        }
    }

    fn not_open(&self, state: &mut TaskState, why: Option<Failure>, wait: Duration) {
        state.phase = SourcePhase::NotOpen {
            again: Instant::now() + wait,
        };
        if state.told.as_ref() != Some(&why) {
            let opened = why.clone().map_or(Ok(None), Err);
            self.parts
                .out
                .send(&FromWorker::Opened(self.parts.number, opened));
            state.told = Some(why);
        }
    }

    /// The daemon requests a reading. Always answered, so that no requester waits for a missing collector.
    pub(super) fn ask(&self) {
        let mut state = self.lock();
        state.asked = true;
        if !matches!(state.phase, SourcePhase::Opening { .. }) {
            self.start(&mut state);
        }
    }

    /// The timer has expired: a slice is over, or a reading or the next attempt to open is due.
    pub(super) fn timer(self: &Arc<Self>) {
        let mut state = self.lock();
        let state = &mut *state;
        self.timer.unset();
        if let SourcePhase::NotOpen { again } = &state.phase
            && *again <= Instant::now()
            && !state.leaving
        {
            self.open_again(state);
        } else if state.reading {
            let SourcePhase::Open(runner) = &mut state.phase else {
                return;
            };
            if let Some(wait) = runner.check() {
                self.timer.set(wait);
            }
            self.settle(state);
        } else if state.due.is_some_and(|at| at <= Instant::now()) {
            self.start(state);
        } else {
            self.set_due(state);
        }
    }

    fn open_again(self: &Arc<Self>, state: &mut TaskState) {
        // The thread sets its own id.
        state.phase = SourcePhase::Opening {
            since: Instant::now(),
            tid: 0,
        };
        if let Err(e) = self.start_open() {
            let why = Failure {
                reason: "thread".to_owned(),
                text: e.to_string(),
            };
            self.not_open(state, Some(why), BACKOFF_MAX);
            self.set_due(state);
        }
    }

    fn start(&self, state: &mut TaskState) {
        self.settle(state);
        if state.reading || state.leaving {
            return;
        }
        state.reading = match &mut state.phase {
            SourcePhase::Open(runner) => runner.begin(),
            SourcePhase::NotOpen { .. } | SourcePhase::Opening { .. } => false,
        };
        if state.reading {
            // A reading that ends now waits for our lock, and cancels the timer after us.
            self.timer.set(self.parts.spec.slice);
        } else {
            self.finish(state);
        }
    }

    /// Sends finished readings; at the end of a reading, that it is over.
    fn settle(&self, state: &mut TaskState) {
        let SourcePhase::Open(runner) = &mut state.phase else {
            return;
        };
        let mut frames = Frames {
            out: &self.parts.out,
            collector: self.parts.number,
            sent: &mut state.sent,
            values: &mut state.values,
        };
        let running = runner.drain(&mut frames);
        if state.reading && !running {
            state.reading = false;
            self.finish(state);
        }
        self.parts.out.flush();
    }

    fn finish(&self, state: &mut TaskState) {
        let (number, out) = (self.parts.number, &self.parts.out);
        let late = self.late(state, self.watched().blocked());
        if !late.is_empty() || state.reported {
            state.report(&late);
            out.queue(&FromWorker::Late(number, late));
        }
        if std::mem::take(&mut state.asked) {
            out.send(&FromWorker::Done(number));
        }
        self.set_due(state);
    }

    fn set_due(&self, state: &mut TaskState) {
        let now = Instant::now();
        if let SourcePhase::NotOpen { again } = &state.phase {
            self.timer.set(again.saturating_duration_since(now));
            return;
        }
        let Cadence::Every(period) = self.parts.spec.cadence else {
            self.timer.unset();
            return;
        };
        // Nodes that start together would ask the servers of a filesystem together.
        let due = match state.due {
            None => now + period.mul_f64(random::share()),
            Some(at) if at > now => at,
            Some(_) => now + period,
        };
        state.due = Some(due);
        self.timer.set(due - now);
    }

    /// All outstanding devices. Always the whole list, so that a missing one has returned.
    fn late(&self, state: &TaskState, watcher: Option<LateThread>) -> Vec<LateThread> {
        let mut found: Vec<LateThread> = match &state.phase {
            SourcePhase::Opening { since, tid } if since.elapsed() >= PERIOD => {
                vec![(SOURCE, since_boot(*since), task::read(*tid))]
            }
            SourcePhase::Open(runner) => runner.busy().map(|b| late(&b)).collect(),
            SourcePhase::Opening { .. } | SourcePhase::NotOpen { .. } => Vec::new(),
        };
        found.extend(watcher);
        found
    }

    fn watched(&self) -> MutexGuard<'_, WatcherThread> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks every outstanding thread, and reports the late ones. Returns whether to check again soon.
    pub(super) fn look(&self) -> bool {
        let mut state = self.lock();
        let mut watched = self.watched();
        let watcher = watched.look();
        let found = self.late(&state, watcher);
        let over = found.is_empty() && state.reported;
        state.report(&found);
        if over || state.reported {
            self.parts.out.send(&FromWorker::Late(self.parts.number, found));
        }
        state.reported || watched.is_suspect() || in_flight(&state)
    }

    /// Whether a reading may become late that no other code would check.
    pub(super) fn is_in_flight(&self) -> bool {
        in_flight(&self.lock())
    }

    /// Starts nothing more. Returns whether something uninterruptible is in flight.
    pub(super) fn leave(&self) -> bool {
        let mut state = self.lock();
        state.leaving = true;
        self.stop.store(true, Ordering::Release);
        state.reading || in_flight(&state) || self.watched().runs()
    }
}

impl TaskState {
    /// Notes what is reported of late threads. While the daemon knows that an attempt to open blocks, it knows no other
    /// cause: the end of the attempt is reported even if it ends as the one before.
    fn report(&mut self, late: &[LateThread]) {
        self.reported = !late.is_empty();
        if late.iter().any(|(part, ..)| *part == SOURCE) {
            self.told = None;
        }
    }
}

fn in_flight(state: &TaskState) -> bool {
    match &state.phase {
        SourcePhase::Opening { .. } => true,
        SourcePhase::NotOpen { .. } => false,
        SourcePhase::Open(runner) => {
            runner.busy().next().is_some() || runner.is_closing() || runner.is_asking()
        }
    }
}

fn since_boot(at: Instant) -> u64 {
    nanos(boot::boottime().saturating_sub(at.elapsed()))
}

fn late(busy: &Busy) -> LateThread {
    let device = match &busy.what {
        Operation::List => SOURCE,
        Operation::Device(number, _) => *number,
        Operation::Closing => CLOSING,
    };
    (device, since_boot(busy.since), task::read(busy.tid))
}

/// Turns a reading into frames.
struct Frames<'a> {
    out: &'a Out,
    collector: u16,
    sent: &'a mut SentLayouts,
    values: &'a mut WireValues,
}

impl Sink for Frames<'_> {
    fn devices(&mut self, list: Result<Vec<(Number, Subject)>, Error>) {
        if let Ok(list) = &list {
            self.sent
                .keep(self.collector, |d| list.iter().any(|(n, _)| *n == d));
        }
        let list = list.map_err(|e| Failure::from(&e));
        self.out.queue(&FromWorker::Devices(self.collector, list));
    }

    fn notes(&mut self, notes: String) {
        self.out.queue(&FromWorker::Notes(self.collector, notes));
    }

    fn reading(&mut self, reading: Reading<'_>, block: &Block) {
        let (collector, device) = (self.collector, reading.device);
        let took = nanos(reading.took);
        if let Err(e) = &reading.result {
            self.out.queue(&FromWorker::Failed {
                collector,
                device,
                took,
                why: Failure::from(e),
            });
            return;
        }
        if self.sent.is_new(collector, device, block.layout()) {
            let layout = proto::to_wire(block.layout());
            self.out.queue(&FromWorker::Layout(collector, device, layout));
        }
        if let Some(refused) = self.sent.refused(collector, device, block.refused()) {
            self.out.queue(&FromWorker::Refused(collector, device, refused));
        }
        let mut values = std::mem::take(self.values);
        values.set(block.values());
        let frame = FromWorker::Block {
            collector,
            device,
            // A reading is as old as its first value: one file of it may have blocked for 1 min.
            at: nanos(boot::boottime().saturating_sub(reading.ended.elapsed() + reading.took)),
            took,
            values,
            fault: block.fault().map(|fault| Failure {
                reason: fault.reason.to_owned(),
                text: fault.text.clone(),
            }),
        };
        self.out.queue(&frame);
        if let FromWorker::Block { values, .. } = frame {
            *self.values = values;
        }
    }
}

/// Time until a blocked thread is checked again.
pub(super) fn next_look(again: bool, now: Instant) -> Option<Instant> {
    again.then(|| now + PERIOD)
}

/// A time-out for poll(2), rounded up so that a deadline has passed when we wake for it.
pub(super) fn until(at: Instant) -> Duration {
    at.saturating_duration_since(Instant::now()) + Duration::from_millis(1)
}

#[cfg(test)]
mod tests;
