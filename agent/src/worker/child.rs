//! A worker's main loop: frames in on descriptor 0, frames out on the same socket. The end of the input is the only
//! order to stop.

use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use collectors::Error;
use collectors::domain::Signals;
use collectors::runner::{Reading, Runner};
use collectors::sys::boot;
use collectors::{
    Block, COLLECTORS, Cadence, Cursor, DOMAINS, Domain, Env, Event, Events, Settings, Spec, Watcher,
};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::monitor::{Monitor, PERIOD, SOURCE, nanos};
use super::proto::{self, Decoder, Failure, FromWorker, SentLayouts, ToWorker};
use crate::sys::{self, privileges};

/// Events that wait for the socket; a slow daemon then makes the watcher wait.
const EVENTS_WAITING: usize = 256;
/// The first wait before a watcher that failed is run again; doubled each time.
const WATCHER_BACKOFF_MIN: Duration = Duration::from_secs(1);
/// The longest.
const WATCHER_BACKOFF_MAX: Duration = Duration::from_secs(60);

/// `nodewarden worker DOMAIN UID GID`, started by the parent only.
///
/// # Errors
/// When it cannot begin, or the daemon sends garbage.
pub fn main(args: Vec<String>) -> anyhow::Result<ExitCode> {
    start(&args)?;
    Ok(ExitCode::SUCCESS)
}

fn start(args: &[String]) -> anyhow::Result<()> {
    let [domain, uid, gid] = args else {
        anyhow::bail!("for the parent only: worker DOMAIN UID GID")
    };
    let domain = DOMAINS
        .iter()
        .copied()
        .find(|d| d.name == domain)
        .ok_or_else(|| anyhow::anyhow!("{domain:?} is no domain"))?;
    privileges::drop_to(uid.parse()?, gid.parse()?, domain.capability_mask())?;
    sys::set_process_name(&format!("nw-{}", domain.name));
    run(domain, sys::stdin_socket()?)
}

/// The sending side, shared by the threads. A failed write means that the daemon is gone; the end of the input, which
/// follows, ends the process.
#[derive(Clone)]
struct Out(Arc<Mutex<UnixStream>>);

impl Out {
    fn send(&self, frame: &FromWorker) {
        let bytes = proto::encode(frame);
        crate::ignore(
            self.0
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .write_all(&bytes),
        );
    }
}

fn run(domain: &'static Domain, socket: UnixStream) -> anyhow::Result<()> {
    let out = Out(Arc::new(Mutex::new(socket.try_clone()?)));
    out.send(&FromWorker::Hello {
        build: crate::BUILD.to_owned(),
    });
    let (mut input, mut decoder) = (socket, Decoder::default());
    let first = proto::read_frame(&mut input, &mut decoder)?;
    let Some(ToWorker::Start {
        build,
        env,
        collectors,
    }) = first
    else {
        return Ok(());
    };
    anyhow::ensure!(
        build == crate::BUILD,
        "the daemon is build {build}, this worker is {}",
        crate::BUILD
    );

    let monitor = Arc::new(Monitor::default());
    let mut readers: Vec<(u16, Sender<()>)> = Vec::new();
    for (number, settings, cursor) in collectors {
        let Some(spec) = COLLECTORS
            .get(usize::from(number))
            .copied()
            .filter(|s| s.domain.name == domain.name)
        else {
            anyhow::bail!("collector {number} does not belong to {}", domain.name);
        };
        let (ask, asked) = channel();
        let job = Collector {
            number,
            spec,
            env: env.clone(),
            settings: Settings::new(settings),
            cursor,
            out: out.clone(),
            monitor: Arc::clone(&monitor),
            sent: SentLayouts::default(),
        };
        thread::Builder::new()
            .name(thread_name("c", spec))
            .spawn(move || job.run(&asked))?;
        readers.push((number, ask));
    }

    let mut looked = Instant::now();
    loop {
        while let Some(frame) = decoder.take()? {
            if let ToWorker::Read(numbers) = frame {
                for (_, ask) in readers.iter().filter(|(n, _)| numbers.contains(n)) {
                    // A collector's thread ends only with the process.
                    crate::ignore(ask.send(()));
                }
            }
        }
        // By the clock, not after silence: a busy scraper must not keep anybody from looking.
        if looked.elapsed() >= PERIOD {
            looked = Instant::now();
            monitor.look().iter().for_each(|frame| out.send(frame));
        }
        let mut ready = [PollFd::new(input.as_fd(), PollFlags::POLLIN)];
        let wait = PERIOD.saturating_sub(looked.elapsed()) + Duration::from_millis(1);
        let timeout = PollTimeout::try_from(wait).unwrap_or(PollTimeout::MAX);
        if poll(&mut ready, timeout).is_ok_and(|n| n == 0) {
            continue;
        }
        let mut bytes = [0; 4096];
        match std::io::Read::read(&mut input, &mut bytes) {
            Ok(0) => break,
            Ok(n) => decoder.push(bytes.get(..n).unwrap_or_default()),
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    // The end of a process is a signal to its threads: one inside a GPU driver is waited for, however long it takes.
    while domain.signals == Signals::Never && monitor.in_flight() {
        thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

fn thread_name(prefix: &str, spec: &Spec) -> String {
    format!("{prefix}:{}", spec.name).chars().take(15).collect()
}

struct Collector {
    number: u16,
    spec: &'static Spec,
    env: Env,
    settings: Settings,
    cursor: Option<Cursor>,
    out: Out,
    monitor: Arc<Monitor>,
    sent: SentLayouts,
}

impl Collector {
    fn run(mut self, asked: &Receiver<()>) {
        let Some(mut runner) = self.open() else {
            // Still answers, so that nobody waits for a collector that is not on this node.
            for () in asked {
                self.out.send(&FromWorker::Done(self.number));
            }
            return;
        };
        let period = match self.spec.cadence {
            Cadence::OnDemand { .. } => None,
            Cadence::Every(period) => Some(period),
        };
        let mut due = period.map(|period| Instant::now() + period);
        loop {
            // Late readings come back without being asked for, and are looked for only while there are any.
            let late = runner.busy().next().is_some().then_some(Duration::from_secs(1));
            let until_due = due.map(|at| at.saturating_duration_since(Instant::now()));
            let asked = match [until_due, late].into_iter().flatten().min() {
                Some(wait) => asked.recv_timeout(wait),
                None => asked.recv().map_err(RecvTimeoutError::from),
            };
            let all = match asked {
                Ok(()) => true,
                Err(RecvTimeoutError::Timeout) => due.is_some_and(|at| at <= Instant::now()),
                Err(RecvTimeoutError::Disconnected) => return,
            };
            self.read(&mut runner, all);
            if all {
                due = period.map(|period| Instant::now() + period);
            }
        }
    }

    fn open(&mut self) -> Option<Runner> {
        self.monitor.begin(self.number, SOURCE);
        let opened = (self.spec.open)(&self.env, &self.settings).and_then(|source| {
            let Some(mut source) = source else { return Ok(None) };
            let runner = Runner::new(self.spec, &mut source)?;
            Ok(Some((runner, source.watcher)))
        });
        self.monitor.end(self.number, SOURCE);
        match opened {
            Ok(Some((runner, watcher))) => {
                self.out.send(&FromWorker::Opened(
                    self.number,
                    Ok(Some(runner.subjects().to_vec())),
                ));
                if let Some(watcher) = watcher {
                    self.watch(watcher);
                }
                Some(runner)
            }
            Ok(None) => {
                self.out.send(&FromWorker::Opened(self.number, Ok(None)));
                None
            }
            Err(e) => {
                self.out
                    .send(&FromWorker::Opened(self.number, Err(Failure::from(&e))));
                None
            }
        }
    }

    /// Runs the watcher on two threads: it emits into a bounded channel, and a second thread carries to the socket. One
    /// that fails is run again, ever more slowly: a node must not stay blind for one bad read.
    fn watch(&self, mut watcher: Box<dyn Watcher>) {
        let (number, out, carrier) = (self.number, self.out.clone(), self.out.clone());
        let (monitor, live) = (Arc::clone(&self.monitor), self.env.is_live());
        let cursor = Arc::new(Mutex::new(self.cursor.clone()));
        let carried = Arc::clone(&cursor);
        let failing = Arc::new(AtomicBool::new(false));
        let failed = Arc::clone(&failing);
        let (to, events) = sync_channel::<Event>(EVENTS_WAITING);
        let watching = thread::Builder::new()
            .name(thread_name("w", self.spec))
            .spawn(move || {
                let mut wait = WATCHER_BACKOFF_MIN;
                loop {
                    monitor.watcher(number);
                    // After a failure it counts as running only once it has told something.
                    if !failing.load(Ordering::Acquire) {
                        out.send(&FromWorker::Watching(number, Ok(())));
                    }
                    let from = cursor.lock().unwrap_or_else(PoisonError::into_inner).clone();
                    let started = Instant::now();
                    let events = Events::new(to.clone());
                    let ended = catch_unwind(AssertUnwindSafe(|| watcher.run(from, &events)))
                        .unwrap_or_else(|_| Err(Error::Panic("watcher".to_owned())));
                    monitor.watcher_ended(number);
                    let why = match ended {
                        // A recording has an end, and everything in it was seen.
                        Ok(()) if !live => return,
                        Ok(()) => Failure {
                            reason: "ended".to_owned(),
                            text: "its source has ended".to_owned(),
                        },
                        Err(e) => Failure::from(&e),
                    };
                    if !failing.swap(true, Ordering::AcqRel) {
                        out.send(&FromWorker::Watching(number, Err(why)));
                    }
                    if started.elapsed() > WATCHER_BACKOFF_MAX {
                        wait = WATCHER_BACKOFF_MIN;
                    }
                    thread::sleep(wait);
                    wait = (wait * 2).min(WATCHER_BACKOFF_MAX);
                }
            });
        let carrying = thread::Builder::new()
            .name(thread_name("e", self.spec))
            .spawn(move || {
                for event in events {
                    if failed.swap(false, Ordering::AcqRel) {
                        carrier.send(&FromWorker::Watching(number, Ok(())));
                    }
                    let seen = Cursor {
                        boot: event.boot.clone(),
                        seq: event.seq,
                    };
                    carrier.send(&FromWorker::Event(number, event));
                    *carried.lock().unwrap_or_else(PoisonError::into_inner) = Some(seen);
                }
            });
        if let Err(e) = watching.and(carrying) {
            let why = Failure {
                reason: "thread".to_owned(),
                text: e.to_string(),
            };
            self.out.send(&FromWorker::Watching(self.number, Err(why)));
        }
    }

    fn read(&mut self, runner: &mut Runner, all: bool) {
        let (out, sent, number) = (&self.out, &mut self.sent, self.number);
        let mut emit = |reading: Reading, block: &Block| send_reading(out, sent, number, &reading, block);
        if all {
            runner.read(&mut emit);
        } else {
            runner.take_late(&mut emit);
        }
        let (now, instant) = (boot::boottime(), Instant::now());
        let busy: Vec<(u16, Duration, i32)> = runner
            .busy()
            .filter_map(|b| {
                let since = now.saturating_sub(instant.duration_since(b.since));
                Some((u16::try_from(b.device).ok()?, since, b.tid))
            })
            .collect();
        if all && !busy.is_empty() {
            let late = busy
                .iter()
                .map(|(d, since, tid)| (*d, nanos(*since), collectors::sys::task::read(*tid)));
            self.out.send(&FromWorker::Late(number, late.collect()));
        }
        self.monitor.set_busy(number, busy.into_iter());
        if all {
            self.out.send(&FromWorker::Done(number));
        }
    }
}

fn send_reading(out: &Out, sent: &mut SentLayouts, collector: u16, reading: &Reading, block: &Block) {
    let Ok(device) = u16::try_from(reading.device) else {
        return;
    };
    let took = nanos(reading.took);
    if let Err(e) = &reading.result {
        out.send(&FromWorker::Failed {
            collector,
            device,
            took,
            why: Failure::from(e),
        });
        return;
    }
    if sent.is_new(collector, device, block.layout()) {
        out.send(&FromWorker::Layout(
            collector,
            device,
            proto::to_wire(block.layout()),
        ));
    }
    if let Some(refused) = sent.refused(collector, device, block.refused()) {
        out.send(&FromWorker::Refused(collector, device, refused));
    }
    let values = block.values().iter().map(|v| (*v).into()).collect();
    out.send(&FromWorker::Block {
        collector,
        device,
        at: nanos(boot::boottime()),
        took,
        values,
    });
}
