//! The worker of a domain: its processes, their helpers and lock slots, and when one is started.

use std::fs::File;
use std::io;
use std::iter;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use collectors::domain::Helper;
use collectors::sys::root;
use collectors::{Domain, Env, Settings};
use nix::unistd::Pid;

use super::backoff::Backoff;
use crate::link::{self, ToDaemon, WorkerDown};
use crate::parent::holders::SlotHolders;
use sys::packet::{self, Packets};
use sys::privileges::is_root;
use sys::users;
use sys::{dirs, fork, reap, slots};

/// Interval at which a held domain is checked for a remaining process.
const HELD_RETRY: Duration = Duration::from_millis(250);
/// Interval at which lock slots of stuck processes are checked.
const STUCK_RETRY: Duration = Duration::from_secs(5);
/// Interval at which a source that this node does not have is looked for: its modules may be loaded, and drives plugged in,
/// at any time.
const ABSENT_RETRY: Duration = Duration::from_secs(30);

/// The process of one domain: the running one, and earlier ones that have not ended.
#[derive(Debug)]
pub(super) struct WorkerProcess {
    number: u16,
    pub(super) domain: &'static Domain,
    pub(super) running: Option<RunningWorker>,
    /// Workers of a gone daemon: they end on their own, or are stuck and keep their slot.
    pub(super) leaving: Vec<Pid>,
    /// Helpers of workers that do not run any more: they end with their socket.
    pub(super) orphans: Vec<Pid>,
    pub(super) backoff: Backoff,
    /// Until then the second slot is left free: the leaving ones may end in time.
    pub(super) grace: Option<Instant>,
    /// The tree that it reads: without its source it is not started.
    env: Env,
    starts: u64,
    /// Earlier processes that had not ended at the last check of the slots.
    holders: SlotHolders,
    /// When to check the slots again; `None`: no earlier process holds one.
    pub(super) slots_due: Option<Instant>,
    /// The number of stuck processes that the daemon and the log know.
    told_stuck: u8,
    told_down: Option<(WorkerDown, u8)>,
    /// A release holds it back.
    paused: Option<Hold>,
}

/// A worker and its helpers.
#[derive(Debug)]
pub(super) struct RunningWorker {
    pub(super) pid: Pid,
    /// The number of its lock slot.
    pub(super) slot: usize,
    pub(super) started: Instant,
    pub(super) helpers: Vec<Pid>,
    /// When to check whether the node needs more helpers by now; `None`: it has all that this parent may start.
    pub(super) helpers_due: Option<Instant>,
}

/// The daemon ordered to start no worker.
#[derive(Clone, Copy, Debug)]
struct Hold {
    /// The order's number.
    number: u64,
    /// When to check again whether a process is left; `None`: the daemon knows that none is.
    look: Option<Instant>,
}

impl WorkerProcess {
    /// None runs yet.
    pub(super) fn new(number: u16, domain: &'static Domain, env: Env) -> Self {
        Self {
            number,
            domain,
            running: None,
            leaving: Vec::new(),
            orphans: Vec::new(),
            backoff: Backoff::new(),
            grace: None,
            env,
            starts: 0,
            holders: SlotHolders::default(),
            slots_due: None,
            told_stuck: 0,
            told_down: None,
            paused: None,
        }
    }

    /// When to tend it next, if a time is set.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        match &self.running {
            Some(running) => [self.slots_due, running.helpers_due].into_iter().flatten().min(),
            None => self.paused.map_or(Some(self.due()), |hold| hold.look),
        }
    }

    /// The daemon has ended, and with it the worker's input.
    pub(super) fn daemon_ended(&mut self) {
        if self.leaves() {
            self.grace = Some(Instant::now() + Duration::from_secs(1));
        }
        // A new daemon learns at once that there is no such hardware.
        if matches!(self.told_down.take(), Some((WorkerDown::Absent, _))) {
            self.backoff.due = Instant::now();
        }
        // The client of a release has lost the daemon too.
        self.paused = None;
    }

    /// Starts none. The running one exits when the daemon closes its socket.
    pub(super) fn hold(&mut self, number: u64) {
        // A worker that never exits must not block later starts.
        self.leaves();
        let look = Some(Instant::now());
        self.paused = Some(Hold { number, look });
    }

    /// Allows starts again, if it was held.
    pub(super) fn free(&mut self) {
        if self.paused.take().is_none() {
            return;
        }
        // It exited by order, so there is no back-off.
        self.backoff = Backoff::new();
        if !self.leaving.is_empty() {
            // A worker that waits for events exits within 5 s.
            self.grace = Some(Instant::now() + Duration::from_secs(6));
        }
        self.told_down = None;
    }

    /// Reaps its ended processes.
    pub(super) fn reap(&mut self) {
        self.leaving.retain(|pid| reap::ended(*pid).is_none());
        self.orphans.retain(|pid| reap::ended(*pid).is_none());
        if self.leaving.is_empty() && self.orphans.is_empty() {
            self.grace = None;
        }
        let name = self.domain.name;
        let Some(running) = &mut self.running else {
            return;
        };
        if let Some(status) = reap::ended(running.pid) {
            let pid = running.pid.as_raw();
            match status {
                // The daemon is stopping, and the worker has noticed first.
                Some(0) => tracing::debug!(worker = name, pid, "worker exited"),
                Some(code) => tracing::warn!(worker = name, pid, code, "worker failed"),
                None => tracing::warn!(worker = name, pid, "worker was ended by a signal"),
            }
            self.backoff.ended(running.started);
            self.orphans.append(&mut running.helpers);
            self.running = None;
            return;
        }
        let ended = running.helpers.extract_if(.., |pid| reap::ended(*pid).is_some());
        if let Some(helper) = ended.last() {
            // Workers with helpers may be signalled. The next one starts with new helpers.
            tracing::warn!(
                worker = name,
                pid = helper.as_raw(),
                "a helper ended; the worker is restarted"
            );
            reap::kill(running.pid);
            // One that is stuck in the kernel must not delay the next one.
            self.backoff.ended(running.started);
            self.leaves();
        }
    }

    /// Starts a missing worker, and reports it to the daemon.
    pub(super) fn tend(&mut self, slots: &Path, link: &Packets, settings: &Settings) {
        if self.running.is_some() {
            self.look_at_slots(slots, link);
            self.look_at_helpers(slots, settings);
            return;
        }
        if self.paused.is_some() {
            self.tell_held(slots, link);
            return;
        }
        if self.due() <= Instant::now() {
            if !self.may_be_here(settings) {
                self.backoff.due = Instant::now() + ABSENT_RETRY;
                self.tell_down(link, WorkerDown::Absent);
                return;
            }
            if let Err(e) = self.start(slots, link, settings) {
                tracing::error!(worker = self.domain.name, error = %e, "cannot start the worker");
                self.backoff.ended(Instant::now());
                self.tell_down(link, WorkerDown::Start);
            }
        } else if self.told_down.is_none() {
            self.tell_down(link, WorkerDown::Backoff);
        }
    }

    /// When it may be started.
    pub(super) fn due(&self) -> Instant {
        self.grace.map_or(self.backoff.due, |at| at.max(self.backoff.due))
    }

    pub(super) fn may_be_here(&self, settings: &Settings) -> bool {
        let is_named = self.domain.named_by.is_some_and(|key| settings.has(key));
        is_named || root::has_source(&self.env, self.domain.only_with)
    }

    fn start(&mut self, dir: &Path, link: &Packets, settings: &Settings) -> io::Result<()> {
        let slots = match slots::take(dir, self.domain.name) {
            // The run directory was emptied.
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                dirs::private(dir).map_err(io::Error::other)?;
                slots::take(dir, self.domain.name)?
            }
            taken => taken?,
        };
        let stuck = self.note(slots.held, None);
        let Some((slot, lock)) = slots.free else {
            let is_over = usize::from(stuck) == slots.held.len();
            let (why, wait) = match is_over {
                true => (WorkerDown::Stuck, STUCK_RETRY),
                // They are ending, as far as is known.
                false => (WorkerDown::Backoff, HELD_RETRY),
            };
            self.backoff.due = Instant::now() + wait;
            self.tell_down(link, why);
            return Ok(());
        };
        let (ours, theirs) = UnixStream::pair()?;
        let ids = users::worker(self.domain);
        let (uid, gid) = (ids.uid.to_string(), ids.gid.to_string());
        // Without root no process has a right of its own.
        let wanted = if is_root() {
            self.wanted(dir, settings)?
        } else {
            Vec::new()
        };
        let is_left_out = |helper: &&Helper| {
            let is_started = wanted.iter().any(|(of, _)| std::ptr::eq(*of, *helper));
            !is_started && is_root() && collectors::needs(helper, &self.env, settings)
        };
        if let Some(helper) = self.domain.helpers.iter().copied().find(is_left_out) {
            tracing::warn!(
                worker = self.domain.name,
                helper = helper.name,
                "2 earlier processes of the helper have not ended; the worker runs without it until one ends"
            );
        }
        let (mut helpers, mut sockets) = (Vec::new(), Vec::new());
        for (helper, own) in &wanted {
            let lock = own.as_ref().map_or(lock.as_fd(), AsFd::as_fd);
            let started = start_helper(helper, lock);
            let (pid, socket) = started.inspect_err(|_| self.orphans.append(&mut helpers))?;
            helpers.push(pid);
            sockets.push(socket);
        }
        let named: Vec<String> = (wanted.iter().zip(&helpers))
            .map(|((helper, _), pid)| format!("{}={pid}", helper.name))
            .collect();
        let fixed = ["worker", self.domain.name, &uid, &gid];
        let args: Vec<&str> = fixed
            .into_iter()
            .chain(named.iter().map(String::as_str))
            .collect();
        let passed: Vec<BorrowedFd<'_>> = iter::once(lock.as_fd())
            .chain(sockets.iter().map(AsFd::as_fd))
            .collect();
        let started = fork::start_self(&args, theirs.as_fd(), &passed);
        let pid = started.inspect_err(|_| self.orphans.append(&mut helpers))?;
        self.running = Some(RunningWorker {
            pid,
            slot,
            started: Instant::now(),
            helpers_due: (is_root() && helpers.len() < self.domain.helpers.len()).then(next_look),
            helpers,
        });
        self.starts += 1;
        self.told_down = None;
        let packet = ToDaemon::Worker {
            domain: self.number,
            pid: pid.as_raw(),
            starts: self.starts,
            stuck_slots: stuck,
        };
        // A worker that does not reach the daemon sees the end of its input and exits; it is then restarted.
        link::send(link, &packet, Some(ours.as_fd()))
    }

    /// Takes the slots that processes hold. Returns how many of these processes are stuck, and logs a change: not before
    /// they had time to end.
    fn note(&mut self, held: [bool; 2], own: Option<usize>) -> u8 {
        let now = Instant::now();
        self.holders.look(held, own, now);
        let again = || self.holders.grace_ends(now).unwrap_or(now + STUCK_RETRY);
        self.slots_due = self.holders.any().then(again);
        let (stuck, before) = (self.holders.stuck(now), self.told_stuck);
        self.told_stuck = stuck;
        let worker = self.domain.name;
        if stuck > before {
            tracing::warn!(
                worker,
                stuck,
                "earlier processes have not ended for 10 s; each keeps one of 2 lock slots"
            );
        } else if stuck < before {
            tracing::info!(
                worker,
                stuck,
                "an earlier process has ended; its lock slot is free"
            );
        }
        stuck
    }

    /// Checks from time to time, while a worker runs, whether earlier processes have ended.
    fn look_at_slots(&mut self, dir: &Path, link: &Packets) {
        let Some(running) = self
            .running
            .as_ref()
            .filter(|_| self.slots_due.is_some_and(|at| at <= Instant::now()))
        else {
            return;
        };
        let (own, before) = (running.slot, self.told_stuck);
        let held = match slots::take(dir, self.domain.name) {
            Ok(slots) => slots.held,
            Err(e) => {
                tracing::error!(worker = self.domain.name, error = %e, "cannot check the lock slots");
                self.slots_due = Some(Instant::now() + STUCK_RETRY);
                return;
            }
        };
        let stuck = self.note(held, Some(own));
        if stuck != before {
            let packet = ToDaemon::Slots(self.number, stuck);
            sys::ignore(link::send(link, &packet, None));
        }
    }

    /// The helpers that the node needs now and that have a free slot, with the lock of their own ones.
    pub(super) fn wanted(
        &self,
        dir: &Path,
        settings: &Settings,
    ) -> io::Result<Vec<(&'static Helper, Option<File>)>> {
        let all = self.domain.helpers.iter().copied();
        let mut wanted = Vec::new();
        for helper in all.filter(|helper| collectors::needs(helper, &self.env, settings)) {
            if !helper.own_slots {
                wanted.push((helper, None));
            } else if let Some((_, lock)) = slots::take(dir, helper.name)?.free {
                wanted.push((helper, Some(lock)));
            }
        }
        Ok(wanted)
    }

    /// Restarts a worker that lacks a helper which the node needs by now: a process gets its sockets at its start.
    pub(super) fn look_at_helpers(&mut self, dir: &Path, settings: &Settings) {
        let is_due = |running: &RunningWorker| running.helpers_due.is_some_and(|at| at <= Instant::now());
        if !self.running.as_ref().is_some_and(is_due) {
            return;
        }
        // The locks are released again: the next worker takes them.
        let wanted = self.wanted(dir, settings).map_or_else(
            |e| {
                tracing::error!(worker = self.domain.name, error = %e, "cannot check the lock slots of its helpers");
                0
            },
            |wanted| wanted.len(),
        );
        let Some(running) = self.running.as_mut() else {
            return;
        };
        running.helpers_due = Some(next_look());
        // It may be stuck itself. With an earlier process that is, no slot would be left for the next one.
        if running.helpers.len() >= wanted || self.slots_due.is_some() {
            return;
        }
        let pid = running.pid;
        tracing::info!(
            worker = self.domain.name,
            "a helper is needed and can be started now; the worker is restarted"
        );
        // Workers with helpers may be signalled.
        reap::kill(pid);
        self.leaves();
    }

    /// It has lost its daemon and ends on its own, and its helpers with it. Whether one ran.
    fn leaves(&mut self) -> bool {
        let Some(running) = self.running.take() else {
            return false;
        };
        self.leaving.push(running.pid);
        self.orphans.extend(running.helpers);
        true
    }

    /// Reports once to the daemon that no process of ours is left, including those of an earlier parent.
    fn tell_held(&mut self, dir: &Path, link: &Packets) {
        let Some(hold) = self.paused.as_mut() else { return };
        if hold.look.is_none_or(|at| at > Instant::now()) {
            return;
        }
        let is_free = match slots::take(dir, self.domain.name) {
            Ok(slots) => slots.held == [false; 2] && self.leaving.is_empty(),
            Err(e) => {
                tracing::error!(worker = self.domain.name, error = %e, "cannot check the lock slots");
                false
            }
        };
        let packet = ToDaemon::Held(self.number, hold.number);
        let told = is_free && link::send(link, &packet, None).is_ok();
        hold.look = (!told).then(|| Instant::now() + HELD_RETRY);
    }

    fn tell_down(&mut self, link: &Packets, why: WorkerDown) {
        let stuck_slots = self.told_stuck;
        if self.told_down == Some((why, stuck_slots)) {
            return;
        }
        if why == WorkerDown::Stuck {
            let worker = self.domain.name;
            tracing::error!(
                worker,
                "2 earlier processes have not ended; no new one is started until one ends"
            );
        }
        let packet = ToDaemon::WorkerDown {
            domain: self.number,
            why,
            stuck_slots,
        };
        // On a full link it is said at the next pass.
        let sent = link::send(link, &packet, None);
        self.told_down = sent.is_ok().then_some((why, stuck_slots));
    }
}

fn next_look() -> Instant {
    Instant::now() + ABSENT_RETRY
}

/// Starts a helper, which holds that lock: a slot is free when all of its processes have ended.
fn start_helper(helper: &Helper, lock: BorrowedFd<'_>) -> io::Result<(Pid, OwnedFd)> {
    let (ours, theirs) = packet::waiting_pair()?;
    let ids = users::helper(helper);
    let (uid, gid) = (ids.uid.to_string(), ids.gid.to_string());
    let args = ["helper", helper.name, &uid, &gid];
    let pid = fork::start_self(&args, theirs.as_fd(), &[lock])?;
    Ok((pid, ours))
}
