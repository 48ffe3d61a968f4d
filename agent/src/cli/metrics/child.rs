//! The process that reads: one that is stuck in a driver cannot be ended, so the command leaves it behind.

use std::collections::BTreeSet;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use collectors::domain::Signals;
use collectors::runner::Runner;
use collectors::sys::{boot, task};
use collectors::{COLLECTORS, Env, Settings, Spec};
use serde::{Deserialize, Serialize};

use super::{MetricsArgs, Plan, read};
use crate::worker::proto::{Decoder, encode};
use model::snapshot::{CollectorState, Late, Presence, Snapshot};
use sys::poll::Poll;
use sys::signals::SignalReader;
use sys::{fork, stdin_socket};

/// Longest time for a collector to open its source: a GPU driver may have to initialise every GPU first.
const OPEN: Duration = Duration::from_secs(30);
/// Time that the child has beyond its own limits: to start, and to send.
const SLACK: Duration = Duration::from_secs(15);
/// How often a thread is checked that the process waits for at its end.
const LOOK: Duration = Duration::from_millis(100);
/// Bytes of a part of the page.
const PART: usize = 64 * 1024;

/// What the child sends.
#[derive(Serialize, Deserialize)]
enum Frame {
    /// The collectors that it reads.
    Reads(Vec<String>),
    /// One of them has finished.
    Done(String),
    /// A part of the page.
    Part(Vec<u8>),
    /// The page is complete. What did not answer: a collector, or a collector with its device.
    End(Vec<String>),
    /// Nothing was read, and why.
    Failed(String),
}

/// The result of the child.
pub(super) struct Answer {
    /// The page, if it is complete.
    pub(super) page: Option<Vec<u8>>,
    /// What did not answer.
    pub(super) missing: Vec<String>,
    /// A signal asked the command to end.
    pub(super) interrupted: bool,
}

/// Starts the child with these arguments and takes its answer. Never waits for its end.
///
/// # Errors
/// When it cannot be started, or reads nothing.
pub(super) fn ask(args: &[String]) -> anyhow::Result<Answer> {
    // Before the child exists, so that a signal cannot leave only one of them.
    let signals = SignalReader::block()?;
    let (ours, theirs) = UnixStream::pair()?;
    let args: Vec<&str> = ["metrics-reader"]
        .into_iter()
        .chain(args.iter().map(String::as_str))
        .collect();
    fork::start_self(&args, theirs.as_fd(), &[])?;
    drop(theirs);
    let mut poll = Poll::new()?;
    poll.add(&ours, 0)?;
    poll.add(&signals, 1)?;
    let longest = COLLECTORS.iter().map(|s| s.deadline).max().unwrap_or_default();
    let until = Instant::now() + OPEN + longest + SLACK;
    let (mut decoder, mut page, mut open) = (Decoder::default(), Vec::new(), BTreeSet::new());
    let unfinished = |open: BTreeSet<String>, interrupted| Answer {
        page: None,
        missing: open.into_iter().collect(),
        interrupted,
    };
    loop {
        while let Some(frame) = decoder.take::<Frame>().map_err(|e| anyhow::anyhow!(e.0))? {
            match frame {
                Frame::Reads(names) => open.extend(names),
                Frame::Done(name) => _ = open.remove(&name),
                Frame::Part(bytes) => page.extend(bytes),
                Frame::End(missing) => {
                    return Ok(Answer {
                        page: Some(page),
                        missing,
                        interrupted: false,
                    });
                }
                Frame::Failed(text) => anyhow::bail!(text),
            }
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(unfinished(open, false));
        }
        for token in poll.wait(Some(left))? {
            if token == 0 {
                let mut bytes = [0; 16 * 1024];
                match std::io::Read::read(&mut &ours, &mut bytes)? {
                    0 => anyhow::bail!("the process that reads has ended before its answer"),
                    n => decoder.push(bytes.get(..n).unwrap_or_default()),
                }
            } else if !matches!(signals.next()?, None | Some(sys::signals::Signal::Child)) {
                return Ok(unfinished(open, true));
            }
        }
    }
}

/// The child: reads, sends, and ends unless a thread is inside a driver that must not be signalled.
pub(crate) fn main(args: &MetricsArgs) -> anyhow::Result<ExitCode> {
    let mut socket = stdin_socket()?;
    // A pipe behind the command ends with the command, not with this process.
    sys::silence()?;
    sys::set_process_name("nw-metrics");
    let mut send = |frame: &Frame| socket.write_all(&encode(frame));
    let plan = match Plan::of(args) {
        Ok(plan) => plan,
        Err(error) => {
            send(&Frame::Failed(format!("{error:#}")))?;
            return Ok(ExitCode::FAILURE);
        }
    };
    let names = plan.specs.iter().map(|s| s.name.to_owned()).collect();
    // The command has ended: nothing is read.
    send(&Frame::Reads(names))?;
    let (states, inside) = each(&plan, |name| sys::ignore(send(&Frame::Done(name.to_owned()))));
    let missing = unanswered(&states);
    let page = plan.page(&Snapshot::new(boot::boottime(), states, Vec::new()));
    let parts = page.chunks(PART).map(|part| Frame::Part(part.to_vec()));
    for frame in parts.chain([Frame::End(missing)]) {
        if send(&frame).is_err() {
            // The command has ended: its reader closed the page.
            break;
        }
    }
    drop(socket);
    // The end of the process is a signal to its threads.
    while inside.iter().any(|thread| !thread.is_finished()) {
        thread::sleep(LOOK);
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads all collectors, each on its own thread. Also returns the threads of drivers that must not be signalled.
fn each(plan: &Plan, mut done: impl FnMut(&str)) -> (Vec<CollectorState>, Vec<thread::JoinHandle<()>>) {
    let (to, results) = mpsc::channel();
    let mut inside = Vec::new();
    let started = Instant::now();
    for (at, spec) in plan.specs.iter().copied().enumerate() {
        let (to, env, settings) = (to.clone(), plan.env.clone(), plan.settings.clone());
        let thread = thread::Builder::new().name(format!("m:{}", spec.name));
        let spawned =
            thread.spawn(move || one(spec, &env, &settings, |event| sys::ignore(to.send((at, event)))));
        match spawned {
            Ok(thread) if spec.domain.signals == Signals::Never => inside.push(thread),
            Ok(_) => {}
            Err(error) => tracing::error!(collector = spec.name, %error, "cannot start a thread"),
        }
    }
    drop(to);
    let mut found: Vec<Option<CollectorState>> = plan.specs.iter().map(|_| None).collect();
    let mut tids = vec![0; plan.specs.len()];
    let longest = plan.specs.iter().map(|s| s.deadline).max().unwrap_or_default();
    let until = started + OPEN + longest;
    while found.iter().any(Option::is_none) {
        match results.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok((at, Event::Began(tid))) => {
                if let Some(of) = tids.get_mut(at) {
                    *of = tid;
                }
            }
            Ok((at, Event::Read(state))) => {
                done(state.spec.name);
                if let Some(of) = found.get_mut(at) {
                    *of = Some(*state);
                }
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
        }
    }
    let since = boot::boottime().saturating_sub(started.elapsed());
    let states = plan.specs.iter().zip(found).zip(tids);
    let states = states.map(|((spec, state), tid)| state.unwrap_or_else(|| blocked(spec, since, tid)));
    (states.collect(), inside)
}

enum Event {
    /// The thread that reads.
    Began(i32),
    Read(Box<CollectorState>),
}

fn one(spec: &'static Spec, env: &Env, settings: &Settings, send: impl Fn(Event)) {
    send(Event::Began(task::own_tid()));
    let (state, runner) = read(spec, env, settings);
    send(Event::Read(Box::new(state)));
    let is_inside = |r: &Runner| r.busy().next().is_some() || r.is_closing() || r.is_asking();
    while runner.as_ref().is_some_and(is_inside) {
        thread::sleep(LOOK);
    }
}

/// A collector whose source was not opened in time.
fn blocked(spec: &'static Spec, since: Duration, tid: i32) -> CollectorState {
    let late = Late {
        since,
        heard: boot::boottime(),
        task: task::read(tid),
    };
    let text = format!("no answer{}", late.waits());
    CollectorState {
        spec,
        presence: Presence::Failed("blocked".to_owned(), text),
        watcher: None,
        devices: Vec::new(),
        late: vec![late],
    }
}

/// `nvidia`, or `nvidia: gpu GPU-..., state S in futex_do_wait`.
fn unanswered(states: &[CollectorState]) -> Vec<String> {
    let of = |c: &CollectorState| {
        let name = c.spec.name;
        let whole = c.late.iter().map(move |late| format!("{name}{}", late.waits()));
        let late = c
            .devices
            .iter()
            .filter_map(|d| Some((&d.subject, d.late.as_ref()?)));
        let devices = late.map(move |(subject, late)| format!("{name}: {subject}{}", late.waits()));
        whole.chain(devices).collect::<Vec<_>>()
    };
    states.iter().flat_map(of).collect()
}
