//! One collector in its worker: opened on a thread of its own, then read whenever it is asked for.
//!
//! The main thread starts a reading and goes back to its socket; the reader answers the daemon itself at the end, and
//! calls off the timer that would have woken the main thread to look after it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use collectors::runner::{Busy, Number, Reading, Runner, Sink};
use collectors::sys::{boot, task};
use collectors::{Block, Cadence, Cursor, Env, Error, Settings, Spec, Subject};

use super::monitor::{Late, PERIOD, SOURCE, Watched, nanos};
use super::out::Out;
use super::proto::{self, Failure, FromWorker, SentLayouts, WireValue};
use super::watch;
use crate::sys::timer::Timer;

/// What a collector is made of.
pub(super) struct Parts {
    pub number: u16,
    pub spec: &'static Spec,
    pub env: Env,
    pub settings: Settings,
    pub cursor: Option<Cursor>,
    pub out: Out,
}

/// One collector.
pub(super) struct Job {
    pub(super) parts: Parts,
    /// When the main thread is to come back to it.
    pub(super) timer: Timer,
    pub(super) watched: Mutex<Watched>,
    state: Mutex<State>,
}

enum Phase {
    Opening { since: Instant, tid: i32 },
    NotOpen,
    Open(Runner),
}

struct State {
    phase: Phase,
    /// Somebody waits for the end of a reading.
    asked: bool,
    /// A reading is under way.
    reading: bool,
    /// Nothing more is begun.
    leaving: bool,
    /// When it is read by its own clock.
    due: Option<Instant>,
    /// The last look found something late.
    reported: bool,
    sent: SentLayouts,
    /// Kept for its memory.
    values: Vec<WireValue>,
}

impl Job {
    /// # Errors
    /// When there is no timer.
    pub(super) fn new(parts: Parts) -> std::io::Result<Self> {
        let state = State {
            // Replaced as soon as the thread runs that opens it.
            phase: Phase::Opening {
                since: Instant::now(),
                tid: 0,
            },
            asked: false,
            reading: false,
            leaving: false,
            due: None,
            reported: false,
            sent: SentLayouts::default(),
            values: Vec::new(),
        };
        Ok(Self {
            parts,
            timer: Timer::new()?,
            watched: Mutex::default(),
            state: Mutex::new(state),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the source, on the calling thread.
    pub(super) fn open(self: &Arc<Self>) {
        let Parts {
            number,
            spec,
            ref out,
            ..
        } = self.parts;
        self.lock().phase = Phase::Opening {
            since: Instant::now(),
            tid: task::own_tid(),
        };
        let opened = (spec.open)(&self.parts.env, &self.parts.settings).and_then(|source| {
            let Some(mut source) = source else { return Ok(None) };
            let job = Arc::downgrade(self);
            let notice = move || {
                if let Some(job) = job.upgrade() {
                    job.settle(&mut job.lock());
                }
            };
            let runner = Runner::with_notice(spec, &mut source, notice)?;
            Ok(Some((runner, source.watcher)))
        });
        let mut state = self.lock();
        let state = &mut *state;
        state.phase = match opened {
            Ok(Some((runner, watcher))) => {
                let subjects = runner.subjects().into_iter().map(|(_, s)| s).collect();
                out.send(&FromWorker::Opened(number, Ok(Some(subjects))));
                if let Some(watcher) = watcher {
                    watch::start(self, watcher);
                }
                Phase::Open(runner)
            }
            Ok(None) => {
                out.send(&FromWorker::Opened(number, Ok(None)));
                Phase::NotOpen
            }
            Err(e) => {
                out.send(&FromWorker::Opened(number, Err(Failure::from(&e))));
                Phase::NotOpen
            }
        };
        if state.asked {
            self.start(state);
        } else {
            self.set_due(state);
        }
    }

    /// The daemon wants a reading. Answered in any case, so that nobody waits for a collector that is not on this node.
    pub(super) fn ask(&self) {
        let mut state = self.lock();
        state.asked = true;
        if !matches!(state.phase, Phase::Opening { .. }) {
            self.start(&mut state);
        }
    }

    /// The timer has gone off: a slice is over, or the collector's own time has come.
    pub(super) fn timer(&self) {
        let mut state = self.lock();
        let state = &mut *state;
        self.timer.unset();
        if state.reading {
            let Phase::Open(runner) = &mut state.phase else {
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

    fn start(&self, state: &mut State) {
        self.settle(state);
        if state.reading || state.leaving {
            return;
        }
        state.reading = match &mut state.phase {
            Phase::Open(runner) => runner.begin(),
            Phase::NotOpen | Phase::Opening { .. } => false,
        };
        if state.reading {
            // A reading that is over by now waits for our lock, and calls it off after us.
            self.timer.set(self.parts.spec.slice);
        } else {
            self.finish(state);
        }
    }

    /// Sends what has come back; at the end of a reading, that it is over.
    fn settle(&self, state: &mut State) {
        let Phase::Open(runner) = &mut state.phase else {
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

    fn finish(&self, state: &mut State) {
        let (number, out) = (self.parts.number, &self.parts.out);
        if let Phase::Open(runner) = &state.phase {
            let late: Vec<Late> = runner.busy().map(|b| late(&b)).collect();
            if !late.is_empty() {
                out.queue(&FromWorker::Late(number, late));
            }
        }
        if std::mem::take(&mut state.asked) {
            out.send(&FromWorker::Done(number));
        }
        self.set_due(state);
    }

    fn set_due(&self, state: &mut State) {
        let Cadence::Every(period) = self.parts.spec.cadence else {
            self.timer.unset();
            return;
        };
        let now = Instant::now();
        let due = state.due.filter(|at| *at > now).unwrap_or(now + period);
        state.due = Some(due);
        self.timer.set(due - now);
    }

    /// Looks at every thread in question, and tells what has been late for a while. Whether to look again soon.
    pub(super) fn look(&self) -> bool {
        let mut state = self.lock();
        let old = |since: Instant| since.elapsed() >= PERIOD;
        let mut found: Vec<Late> = match &state.phase {
            Phase::Opening { since, tid } if old(*since) => {
                vec![(SOURCE, since_boot(*since), task::read(*tid))]
            }
            Phase::Open(runner) => runner.busy().filter(|b| old(b.since)).map(|b| late(&b)).collect(),
            Phase::Opening { .. } | Phase::NotOpen => Vec::new(),
        };
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        found.extend(watched.look());
        let over = found.is_empty() && state.reported;
        state.reported = !found.is_empty();
        if over || state.reported {
            self.parts.out.send(&FromWorker::Late(self.parts.number, found));
        }
        state.reported || watched.is_suspect() || in_flight(&state)
    }

    /// Whether something may get late that nobody else would look at.
    pub(super) fn is_in_flight(&self) -> bool {
        in_flight(&self.lock())
    }

    /// Begins nothing more. Whether something is in flight that must not be interrupted.
    pub(super) fn leave(&self) -> bool {
        let mut state = self.lock();
        state.leaving = true;
        state.reading || in_flight(&state)
    }
}

fn in_flight(state: &State) -> bool {
    match &state.phase {
        Phase::Opening { .. } => true,
        Phase::NotOpen => false,
        Phase::Open(runner) => runner.busy().next().is_some(),
    }
}

fn since_boot(at: Instant) -> u64 {
    nanos(boot::boottime().saturating_sub(at.elapsed()))
}

fn late(busy: &Busy) -> Late {
    let device = busy.device.as_ref().map_or(SOURCE, |(number, _)| *number);
    (device, since_boot(busy.since), task::read(busy.tid))
}

/// What a reading gives, as frames.
struct Frames<'a> {
    out: &'a Out,
    collector: u16,
    sent: &'a mut SentLayouts,
    values: &'a mut Vec<WireValue>,
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
        values.clear();
        values.extend(block.values().iter().map(|v| WireValue::from(*v)));
        let frame = FromWorker::Block {
            collector,
            device,
            // A reading is as old as its first value: one file of it may have blocked for a minute.
            at: nanos(boot::boottime().saturating_sub(reading.ended.elapsed() + reading.took)),
            took,
            values,
        };
        self.out.queue(&frame);
        if let FromWorker::Block { values, .. } = frame {
            *self.values = values;
        }
    }
}

/// How long until a thread that was found blocked is looked at again.
pub(super) fn next_look(again: bool, now: Instant) -> Option<Instant> {
    again.then(|| now + PERIOD)
}

/// A wait for poll(2), rounded up so that a deadline is past when we wake for it.
pub(super) fn until(at: Instant) -> Duration {
    at.saturating_duration_since(Instant::now()) + Duration::from_millis(1)
}
