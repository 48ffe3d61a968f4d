//! The processes that the parent starts, and when it starts them again.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use collectors::{DOMAINS, Domain};
use nix::unistd::Pid;

use crate::link::{ToDaemon, WorkerDown};
use sys::packet::{self, Packets};
use sys::users::{self, Ids};
use sys::{fork, reap, slots};

/// The shortest wait before a process that has ended is started again; doubled each time.
const BACKOFF_MIN: Duration = Duration::from_millis(250);
/// The longest.
const BACKOFF_MAX: Duration = Duration::from_secs(30);
/// A process that has run for so long is no crash loop.
const SETTLED: Duration = Duration::from_secs(60);
/// How long a daemon may take to read its record and listen. Long: a node that boots is busy.
const READY_PATIENCE: Duration = Duration::from_secs(120);
/// How long a daemon may live on after it has closed its socket: it finishes its records.
const UNLINKED_PATIENCE: Duration = Duration::from_secs(10);
/// How often it is looked whether a process that a driver has to be free of has left.
const HELD_RETRY: Duration = Duration::from_millis(250);
/// How often it is looked whether a stuck process has let go of its slot.
const STUCK_RETRY: Duration = Duration::from_secs(5);

#[derive(Debug)]
struct Backoff {
    wait: Duration,
    due: Instant,
}

impl Backoff {
    fn new() -> Self {
        Self {
            wait: BACKOFF_MIN,
            due: Instant::now(),
        }
    }

    fn ended(&mut self, started: Instant) {
        if started.elapsed() >= SETTLED {
            self.wait = BACKOFF_MIN;
        }
        self.due = Instant::now() + self.wait;
        self.wait = (self.wait * 2).min(BACKOFF_MAX);
    }

    fn is_due(&self) -> bool {
        self.due <= Instant::now()
    }
}

#[derive(Debug)]
struct WorkerProcess {
    number: u16,
    domain: &'static Domain,
    running: Option<(Pid, Instant)>,
    /// Of a daemon that has gone: they end by themselves, or are stuck and keep their slot.
    leaving: Vec<Pid>,
    backoff: Backoff,
    starts: u64,
    /// Slots that were held by others at the last look.
    held: u8,
    told_down: Option<(WorkerDown, u8)>,
    /// A person has it released.
    paused: Option<Hold>,
}

/// No worker is started, by order of the daemon's.
#[derive(Clone, Copy, Debug)]
struct Hold {
    /// The order's number.
    number: u64,
    /// When it is looked again whether one is left; `None`: the daemon knows that none is.
    look: Option<Instant>,
}

/// The daemon and the workers.
#[derive(Debug)]
pub struct Children {
    ids: Ids,
    slots: PathBuf,
    daemon: Option<(Pid, Instant)>,
    backoff: Backoff,
    ready: bool,
    unlinked: Option<Instant>,
    workers: Vec<WorkerProcess>,
}

impl Children {
    /// Nothing runs yet. `slots` is the folder of lock slots.
    pub fn new(ids: Ids, slots: PathBuf) -> Self {
        let workers = (0..)
            .zip(DOMAINS.iter().copied())
            .map(|(number, domain)| WorkerProcess {
                number,
                domain,
                running: None,
                leaving: Vec::new(),
                backoff: Backoff::new(),
                starts: 0,
                held: 0,
                told_down: None,
                paused: None,
            })
            .collect();
        Self {
            ids,
            slots,
            daemon: None,
            backoff: Backoff::new(),
            ready: false,
            unlinked: None,
            workers,
        }
    }

    /// The daemon's process.
    pub fn daemon_pid(&self) -> Option<Pid> {
        self.daemon.map(|(pid, _)| pid)
    }

    /// Whether a daemon is to be started now.
    pub fn daemon_is_due(&self) -> bool {
        self.daemon.is_none() && self.backoff.is_due()
    }

    /// The daemon listens and has its record: it may have workers.
    pub fn daemon_is_ready(&mut self) {
        self.ready = true;
    }

    /// Our end of the daemon's socket is gone, but the daemon may not be.
    pub fn daemon_is_unlinked(&mut self) {
        self.unlinked.get_or_insert_with(Instant::now);
    }

    /// When a daemon that does not get ready, or talks to nobody, is given up.
    fn daemon_deadline(&self) -> Option<Instant> {
        let (_, started) = self.daemon?;
        let ready = (!self.ready).then_some(started + READY_PATIENCE);
        let gone = self.unlinked.map(|since| since + UNLINKED_PATIENCE);
        [ready, gone].into_iter().flatten().min()
    }

    /// Kills a daemon that does not get ready, or talks to nobody. It never runs a driver, and its record is whole.
    pub fn kill_overdue_daemon(&self) {
        if self.daemon_deadline().is_some_and(|at| at <= Instant::now()) {
            tracing::error!("the daemon does not answer; killed, and started again");
            self.kill_daemon();
        }
    }

    /// When something has to be started or given up.
    pub fn next_deadline(&self) -> Option<Instant> {
        if self.daemon.is_none() {
            return Some(self.backoff.due);
        }
        let may_start = self.ready && self.unlinked.is_none();
        let workers = self
            .workers
            .iter()
            .filter(|w| may_start && w.running.is_none())
            .filter_map(|w| w.paused.map_or(Some(w.backoff.due), |hold| hold.look))
            .min();
        [workers, self.daemon_deadline()].into_iter().flatten().min()
    }

    /// Starts the daemon and returns our end of its socket. `None`: it could not be started, and is tried again later.
    ///
    /// # Errors
    /// When no socket can be made.
    pub fn start_daemon(&mut self) -> io::Result<Option<Packets>> {
        let (ours, theirs) = packet::pair()?;
        let (uid, gid) = (self.ids.uid.to_string(), self.ids.gid.to_string());
        match fork::start_self(&["daemon", &uid, &gid], theirs.as_fd(), None) {
            Ok(pid) => {
                self.daemon = Some((pid, Instant::now()));
                self.unlinked = None;
                Ok(Some(Packets::new(ours)))
            }
            Err(e) => {
                tracing::error!(error = %e, "the daemon cannot be started");
                self.backoff.ended(Instant::now());
                Ok(None)
            }
        }
    }

    /// Looks whether the daemon has ended: its exit status, or `Some(None)` for a signal.
    pub fn reap_daemon(&mut self) -> Option<Option<i32>> {
        let (pid, started) = self.daemon?;
        let status = reap::ended(pid)?;
        self.daemon = None;
        self.ready = false;
        self.backoff.ended(started);
        for worker in &mut self.workers {
            // Their input has ended with the daemon. They are given a moment before the second slot is taken.
            if let Some((pid, _)) = worker.running.take() {
                worker.leaving.push(pid);
                worker.backoff.due = worker.backoff.due.max(Instant::now() + Duration::from_secs(1));
            }
            worker.told_down = None;
            // Whoever it was released for has lost the daemon too.
            worker.paused = None;
        }
        Some(status)
    }

    /// Starts no worker for a domain. The one that runs leaves when the daemon closes its socket.
    pub fn hold(&mut self, domain: u16, number: u64) {
        if let Some(worker) = self.workers.get_mut(usize::from(domain)) {
            // One that never leaves is no reason to start none later on.
            worker.leaving.extend(worker.running.take().map(|(pid, _)| pid));
            let look = Some(Instant::now());
            worker.paused = Some(Hold { number, look });
        }
    }

    /// Starts workers for it again.
    pub fn free(&mut self, domain: u16) {
        if let Some(worker) = self.workers.get_mut(usize::from(domain)) {
            worker.paused = None;
            // It left because it was told to.
            worker.backoff = Backoff::new();
            if !worker.leaving.is_empty() {
                // One that waits for events leaves within five seconds: no second slot is taken before.
                worker.backoff.due += Duration::from_secs(6);
            }
            worker.told_down = None;
        }
    }

    /// Kills a daemon that does not leave. It never runs a driver.
    pub fn kill_daemon(&self) {
        if let Some((pid, _)) = self.daemon {
            reap::kill(pid);
        }
    }

    /// Looks which workers have ended.
    pub fn reap_workers(&mut self) {
        for worker in &mut self.workers {
            let had_leaving = !worker.leaving.is_empty();
            worker.leaving.retain(|pid| reap::ended(*pid).is_none());
            if had_leaving && worker.leaving.is_empty() && worker.running.is_none() {
                worker.backoff.due = Instant::now();
            }
            let Some((pid, started)) = worker.running else {
                continue;
            };
            if let Some(status) = reap::ended(pid) {
                let (name, pid) = (worker.domain.name, pid.as_raw());
                match status {
                    // The daemon is leaving, and it has seen that first.
                    Some(0) => tracing::debug!(worker = name, pid, "worker has left"),
                    Some(code) => tracing::warn!(worker = name, pid, code, "worker has failed"),
                    None => tracing::warn!(worker = name, pid, "worker was ended by a signal"),
                }
                worker.running = None;
                worker.backoff.ended(started);
            }
        }
    }

    /// Starts the workers that are missing, and tells the daemon.
    pub fn tend_workers(&mut self, link: &Packets) {
        if !self.ready {
            return;
        }
        for worker in &mut self.workers {
            if worker.running.is_some() {
                continue;
            }
            if worker.paused.is_some() {
                worker.tell_held(&self.slots, link);
                continue;
            }
            if worker.backoff.is_due() {
                if let Err(e) = worker.start(&self.slots, link) {
                    tracing::error!(worker = worker.domain.name, error = %e, "worker cannot be started");
                    worker.backoff.ended(Instant::now());
                    worker.tell_down(link, WorkerDown::Start);
                }
            } else if worker.told_down.is_none() {
                worker.tell_down(link, WorkerDown::Backoff);
            }
        }
    }
}

impl WorkerProcess {
    fn start(&mut self, dir: &std::path::Path, link: &Packets) -> io::Result<()> {
        let slots = slots::take(dir, self.domain.name)?;
        self.held = slots.held;
        let Some(lock) = slots.free else {
            self.backoff.due = Instant::now() + STUCK_RETRY;
            self.tell_down(link, WorkerDown::Stuck);
            return Ok(());
        };
        let (ours, theirs) = UnixStream::pair()?;
        let ids = users::worker(self.domain);
        let (uid, gid) = (ids.uid.to_string(), ids.gid.to_string());
        let args = ["worker", self.domain.name, &uid, &gid];
        let pid = fork::start_self(&args, theirs.as_fd(), Some(lock.as_fd()))?;
        self.running = Some((pid, Instant::now()));
        self.starts += 1;
        self.told_down = None;
        let packet = ToDaemon::Worker {
            domain: self.number,
            pid: pid.as_raw(),
            starts: self.starts,
            stuck_slots: slots.held,
        };
        // A worker that the daemon never gets sees the end of its input and leaves; it is then started again.
        link.send(
            &postcard::to_stdvec(&packet).unwrap_or_default(),
            Some(ours.as_fd()),
        )
    }

    /// Tells the daemon once that no process of ours is left, also none of an earlier parent's.
    fn tell_held(&mut self, dir: &std::path::Path, link: &Packets) {
        let Some(hold) = self.paused.as_mut() else { return };
        if hold.look.is_none_or(|at| at > Instant::now()) {
            return;
        }
        let is_free = match slots::take(dir, self.domain.name) {
            Ok(slots) => slots.held == 0 && self.leaving.is_empty(),
            Err(e) => {
                tracing::error!(worker = self.domain.name, error = %e, "lock slots cannot be looked at");
                false
            }
        };
        let packet = ToDaemon::Held(self.number, hold.number);
        let told = is_free && (link.send(&postcard::to_stdvec(&packet).unwrap_or_default(), None)).is_ok();
        hold.look = (!told).then(|| Instant::now() + HELD_RETRY);
    }

    fn tell_down(&mut self, link: &Packets, why: WorkerDown) {
        let stuck_slots = self.held;
        if self.told_down == Some((why, stuck_slots)) {
            return;
        }
        if why == WorkerDown::Stuck {
            let worker = self.domain.name;
            tracing::error!(
                worker,
                "two earlier processes cannot end; none is started until one lets go"
            );
        }
        self.told_down = Some((why, stuck_slots));
        let packet = ToDaemon::WorkerDown {
            domain: self.number,
            why,
            stuck_slots,
        };
        sys::ignore(link.send(&postcard::to_stdvec(&packet).unwrap_or_default(), None));
    }
}
