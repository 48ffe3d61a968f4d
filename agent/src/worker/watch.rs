//! A collector's watcher runs on two threads: it emits into a bounded channel, and a second one forwards to the
//! socket. A failed watcher is restarted with back-off: one bad read must not end the monitoring.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use collectors::{Cursor, Error, Event, Events, Watcher};

use super::child::thread_name;
use super::collector::CollectorTask;
use super::proto::{Failure, FromWorker};

/// Limit of events queued for the socket; a slow daemon then blocks the watcher.
const EVENTS_WAITING: usize = 256;
/// First back-off before a failed watcher is restarted; doubled each time.
const BACKOFF_MIN: Duration = Duration::from_secs(1);
/// Longest back-off.
const BACKOFF_MAX: Duration = Duration::from_secs(60);

/// State shared by both threads.
struct Progress {
    /// The last forwarded event: where a restarted watcher resumes.
    cursor: Mutex<Option<Cursor>>,
    /// It has failed, and has neither emitted anything since nor reported that it listens.
    failing: AtomicBool,
}

impl Progress {
    /// It works, or works again.
    fn recovered(&self, task: &CollectorTask) {
        if self.failing.swap(false, Ordering::AcqRel) {
            let (number, out) = (task.parts.number, &task.parts.out);
            out.send(&FromWorker::Watching(number, Ok(())));
        }
    }
}

/// Starts a collector's watcher.
///
/// # Errors
/// When no thread can be started.
pub(super) fn start(task: &Arc<CollectorTask>, watcher: Box<dyn Watcher>) -> std::io::Result<()> {
    let progress = Arc::new(Progress {
        cursor: Mutex::new(task.parts.cursor.clone()),
        failing: AtomicBool::new(false),
    });
    let (to, events) = sync_channel(EVENTS_WAITING);
    let (watches, carries) = (Arc::clone(task), Arc::clone(task));
    // It ends where the other one does not start.
    thread::Builder::new()
        .name(thread_name("e", task.parts.spec))
        .spawn({
            let progress = Arc::clone(&progress);
            move || carry(&carries, &events, &progress)
        })?;
    thread::Builder::new()
        .name(thread_name("w", task.parts.spec))
        .spawn(move || watch(&watches, watcher, &progress, &to))?;
    Ok(())
}

fn watch(
    task: &Arc<CollectorTask>,
    mut watcher: Box<dyn Watcher>,
    progress: &Arc<Progress>,
    to: &SyncSender<Event>,
) {
    let (number, out) = (task.parts.number, &task.parts.out);
    let watched = || task.watched.lock().unwrap_or_else(PoisonError::into_inner);
    let mut wait = BACKOFF_MIN;
    // The last failure that the daemon knows of.
    let mut told: Option<Failure> = None;
    loop {
        watched().begins();
        // The stopping thread sets this first, and then checks whether the watcher runs.
        if task.stop.load(Ordering::Acquire) {
            watched().ends();
            return;
        }
        // Most nodes have nothing to watch, and few get it later.
        while !watcher.ready(BACKOFF_MAX) {
            if task.stop.load(Ordering::Acquire) {
                watched().ends();
                return;
            }
        }
        // After a failure it counts as running only once it has emitted something, or reported that it listens.
        if !progress.failing.load(Ordering::Acquire) {
            out.send(&FromWorker::Watching(number, Ok(())));
        }
        let from = progress
            .cursor
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let started = Instant::now();
        let (listening, goes_on) = (Arc::clone(task), Arc::clone(progress));
        let events =
            Events::until(to.clone(), Arc::clone(&task.stop)).heeding(move || goes_on.recovered(&listening));
        let ended = catch_unwind(AssertUnwindSafe(|| watcher.run(from, &events)))
            .unwrap_or_else(|_| Err(Error::Panic("watcher".to_owned())));
        watched().ends();
        let why = match ended {
            // A recording has an end, and all of it was read.
            Ok(()) if !task.parts.env.is_live() => return,
            Ok(()) => Failure {
                reason: "ended".to_owned(),
                text: "its source has ended".to_owned(),
            },
            Err(e) => Failure::from(&e),
        };
        let is_new = !progress.failing.swap(true, Ordering::AcqRel);
        // A log that was removed has ended first, and does not exist at the next attempt.
        if is_new || told.as_ref() != Some(&why) {
            out.send(&FromWorker::Watching(number, Err(why.clone())));
            told = Some(why);
        }
        if started.elapsed() > BACKOFF_MAX {
            wait = BACKOFF_MIN;
        }
        thread::sleep(wait);
        wait = (wait * 2).min(BACKOFF_MAX);
    }
}

fn carry(task: &CollectorTask, events: &Receiver<Event>, progress: &Progress) {
    let (number, out) = (task.parts.number, &task.parts.out);
    for event in events {
        progress.recovered(task);
        let seen = Cursor {
            boot: event.boot.clone(),
            seq: event.seq,
        };
        out.send(&FromWorker::Event(number, event));
        *progress.cursor.lock().unwrap_or_else(PoisonError::into_inner) = Some(seen);
    }
}
