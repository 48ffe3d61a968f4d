//! The parent's child processes, and when they are restarted.

use std::fs::File;
use std::io;
use std::iter;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use collectors::domain::Helper;
use collectors::sys::root;
use collectors::{DOMAINS, Domain, Env, Settings};
use nix::unistd::Pid;

use super::holders::SlotHolders;
use super::silence::Silence;
use crate::link::{ToDaemon, WorkerDown};
use sys::packet::{self, Packets};
use sys::privileges::is_root;
use sys::users::{self, Ids};
use sys::{fork, reap, slots};

/// First back-off before an ended process is restarted; doubled each time.
const BACKOFF_MIN: Duration = Duration::from_millis(250);
/// Longest back-off.
const BACKOFF_MAX: Duration = Duration::from_secs(30);
/// Run time after which an end is no crash loop.
const SETTLED: Duration = Duration::from_secs(60);
/// Time limit for a daemon to read its record and listen. Long: a booting node is busy.
const READY_PATIENCE: Duration = Duration::from_secs(120);
/// Time limit for a daemon that has closed its socket: it finishes its records.
const UNLINKED_PATIENCE: Duration = Duration::from_secs(10);
/// Interval at which a held domain is checked for a remaining process.
const HELD_RETRY: Duration = Duration::from_millis(250);
/// Interval at which lock slots of stuck processes are checked.
const STUCK_RETRY: Duration = Duration::from_secs(5);
/// Interval at which a source that this node does not have is looked for: its modules may be loaded, and drives plugged in,
/// at any time.
const ABSENT_RETRY: Duration = Duration::from_secs(30);

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
    running: Option<RunningWorker>,
    /// Workers of a gone daemon: they end on their own, or are stuck and keep their slot.
    leaving: Vec<Pid>,
    /// Helpers of workers that do not run any more: they end with their socket.
    orphans: Vec<Pid>,
    backoff: Backoff,
    /// Until then the second slot is left free: the leaving ones may end in time.
    grace: Option<Instant>,
    /// The tree that it reads: without its source it is not started.
    env: Env,
    starts: u64,
    /// Earlier processes that had not ended at the last check of the slots.
    holders: SlotHolders,
    /// When to check the slots again; `None`: no earlier process holds one.
    slots_due: Option<Instant>,
    /// The number of stuck processes that the daemon and the log know.
    told_stuck: u8,
    told_down: Option<(WorkerDown, u8)>,
    /// A release holds it back.
    paused: Option<Hold>,
}

/// A worker and its helpers.
#[derive(Debug)]
struct RunningWorker {
    pid: Pid,
    /// The number of its lock slot.
    slot: usize,
    started: Instant,
    helpers: Vec<Pid>,
    /// When to check whether the node needs more helpers by now; `None`: it has all that this parent may start.
    helpers_due: Option<Instant>,
}

/// The daemon ordered to start no worker.
#[derive(Clone, Copy, Debug)]
struct Hold {
    /// The order's number.
    number: u64,
    /// When to check again whether a process is left; `None`: the daemon knows that none is.
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
    silence: Option<Silence>,
    /// It missed its deadline and was killed. SIGCHLD reports its end, which the kernel may delay.
    killed: bool,
    workers: Vec<WorkerProcess>,
}

impl Children {
    /// Nothing runs yet. `slots` is the folder of lock slots.
    pub fn new(ids: Ids, slots: PathBuf, env: &Env) -> Self {
        let workers = (0..)
            .zip(DOMAINS.iter().copied())
            .map(|(number, domain)| WorkerProcess {
                number,
                domain,
                running: None,
                leaving: Vec::new(),
                orphans: Vec::new(),
                backoff: Backoff::new(),
                grace: None,
                env: env.clone(),
                starts: 0,
                holders: SlotHolders::default(),
                slots_due: None,
                told_stuck: 0,
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
            silence: None,
            killed: false,
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

    /// A heartbeat of the daemon, which sends one in each interval. Without one in three, it is taken for stopped.
    pub fn daemon_is_alive(&mut self, interval: Duration) {
        self.silence = Some(Silence::after(Instant::now(), interval));
    }

    /// Our end of the daemon's socket is closed, but the daemon may still run.
    pub fn daemon_is_unlinked(&mut self) {
        self.unlinked.get_or_insert_with(Instant::now);
    }

    /// The deadline of a daemon that is not ready or has closed its socket, and was not killed for it yet.
    fn daemon_deadline(&self) -> Option<Instant> {
        let (_, started) = self.daemon.filter(|_| !self.killed)?;
        let ready = (!self.ready).then_some(started + READY_PATIENCE);
        let gone = self.unlinked.map(|since| since + UNLINKED_PATIENCE);
        let silent = self.silence.as_ref().map(Silence::until);
        [ready, gone, silent].into_iter().flatten().min()
    }

    /// Kills a daemon that is not ready in time, sends no heartbeat or outlives its socket. It never runs a driver, and
    /// its record is whole.
    pub fn kill_overdue_daemon(&mut self) {
        let now = Instant::now();
        if let Some(silence) = &mut self.silence {
            silence.look(now);
        }
        if self.daemon_deadline().is_some_and(|at| at <= now) {
            self.killed = true;
            tracing::error!("the daemon does not answer; killed, restarting it");
            self.kill_daemon();
        }
    }

    /// When the next start or deadline is due.
    pub fn next_deadline(&self) -> Option<Instant> {
        if self.daemon.is_none() {
            return Some(self.backoff.due);
        }
        let may_start = self.ready && self.unlinked.is_none();
        let workers = self
            .workers
            .iter()
            .filter(|w| may_start && w.running.is_none())
            .filter_map(|w| w.paused.map_or(Some(w.due()), |hold| hold.look))
            .min();
        let running = self.workers.iter().filter(|w| may_start && w.running.is_some());
        let of_running = |w: &WorkerProcess| [w.slots_due, w.running.as_ref().and_then(|r| r.helpers_due)];
        let running = running.flat_map(of_running).flatten().min();
        [workers, running, self.daemon_deadline()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Starts the daemon and returns our end of its socket. `None`: the start failed, and is retried later.
    ///
    /// # Errors
    /// When no socket can be created.
    pub fn start_daemon(&mut self) -> io::Result<Option<Packets>> {
        let (ours, theirs) = packet::pair()?;
        let (uid, gid) = (self.ids.uid.to_string(), self.ids.gid.to_string());
        match fork::start_self(&["daemon", &uid, &gid], theirs.as_fd(), &[]) {
            Ok(pid) => {
                self.daemon = Some((pid, Instant::now()));
                self.unlinked = None;
                self.silence = None;
                self.killed = false;
                Ok(Some(Packets::new(ours)))
            }
            Err(e) => {
                tracing::error!(error = %e, "cannot start the daemon");
                self.backoff.ended(Instant::now());
                Ok(None)
            }
        }
    }

    /// Checks whether the daemon has ended: its exit status, or `Some(None)` for a signal.
    pub fn reap_daemon(&mut self) -> Option<Option<i32>> {
        let (pid, started) = self.daemon?;
        let status = reap::ended(pid)?;
        self.daemon = None;
        self.ready = false;
        self.backoff.ended(started);
        for worker in &mut self.workers {
            // Their input has ended with the daemon.
            if worker.leaves() {
                worker.grace = Some(Instant::now() + Duration::from_secs(1));
            }
            // A new daemon learns at once that there is no such hardware.
            if matches!(worker.told_down.take(), Some((WorkerDown::Absent, _))) {
                worker.backoff.due = Instant::now();
            }
            // The client of a release has lost the daemon too.
            worker.paused = None;
        }
        Some(status)
    }

    /// Starts no worker for a domain. The running one exits when the daemon closes its socket.
    pub fn hold(&mut self, domain: u16, number: u64) {
        if let Some(worker) = self.workers.get_mut(usize::from(domain)) {
            // A worker that never exits must not block later starts.
            worker.leaves();
            let look = Some(Instant::now());
            worker.paused = Some(Hold { number, look });
        }
    }

    /// Allows workers for it again, if it was held.
    pub fn free(&mut self, domain: u16) {
        if let Some(worker) = self.workers.get_mut(usize::from(domain))
            && worker.paused.take().is_some()
        {
            // It exited by order, so there is no back-off.
            worker.backoff = Backoff::new();
            if !worker.leaving.is_empty() {
                // A worker that waits for events exits within 5 s.
                worker.grace = Some(Instant::now() + Duration::from_secs(6));
            }
            worker.told_down = None;
        }
    }

    /// Kills a daemon that does not stop. It never runs a driver.
    pub fn kill_daemon(&self) {
        if let Some((pid, _)) = self.daemon {
            reap::kill(pid);
        }
    }

    /// Reaps ended workers.
    pub fn reap_workers(&mut self) {
        for worker in &mut self.workers {
            worker.leaving.retain(|pid| reap::ended(*pid).is_none());
            worker.orphans.retain(|pid| reap::ended(*pid).is_none());
            if worker.leaving.is_empty() && worker.orphans.is_empty() {
                worker.grace = None;
            }
            let name = worker.domain.name;
            let Some(running) = &mut worker.running else {
                continue;
            };
            if let Some(status) = reap::ended(running.pid) {
                let pid = running.pid.as_raw();
                match status {
                    // The daemon is stopping, and the worker has noticed first.
                    Some(0) => tracing::debug!(worker = name, pid, "worker exited"),
                    Some(code) => tracing::warn!(worker = name, pid, code, "worker failed"),
                    None => tracing::warn!(worker = name, pid, "worker was ended by a signal"),
                }
                worker.backoff.ended(running.started);
                worker.orphans.append(&mut running.helpers);
                worker.running = None;
                continue;
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
                worker.backoff.ended(running.started);
                worker.leaves();
            }
        }
    }

    /// Starts missing workers, and reports them to the daemon.
    pub fn tend_workers(&mut self, link: &Packets, settings: &Settings) {
        if !self.ready {
            return;
        }
        for worker in &mut self.workers {
            if worker.running.is_some() {
                worker.look_at_slots(&self.slots, link);
                worker.look_at_helpers(&self.slots, settings);
                continue;
            }
            if worker.paused.is_some() {
                worker.tell_held(&self.slots, link);
                continue;
            }
            if worker.due() <= Instant::now() {
                if !worker.may_be_here(settings) {
                    worker.backoff.due = Instant::now() + ABSENT_RETRY;
                    worker.tell_down(link, WorkerDown::Absent);
                    continue;
                }
                if let Err(e) = worker.start(&self.slots, link, settings) {
                    tracing::error!(worker = worker.domain.name, error = %e, "cannot start the worker");
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
    /// When it may be started.
    fn due(&self) -> Instant {
        self.grace.map_or(self.backoff.due, |at| at.max(self.backoff.due))
    }

    fn may_be_here(&self, settings: &Settings) -> bool {
        let is_named = self.domain.named_by.is_some_and(|key| settings.has(key));
        is_named || root::has_source(&self.env, self.domain.only_with)
    }

    fn start(&mut self, dir: &Path, link: &Packets, settings: &Settings) -> io::Result<()> {
        let slots = slots::take(dir, self.domain.name)?;
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
        link.send(
            &postcard::to_stdvec(&packet).unwrap_or_default(),
            Some(ours.as_fd()),
        )
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
            sys::ignore(link.send(&postcard::to_stdvec(&packet).unwrap_or_default(), None));
        }
    }

    /// The helpers that the node needs now and that have a free slot, with the lock of their own ones.
    fn wanted(&self, dir: &Path, settings: &Settings) -> io::Result<Vec<(&'static Helper, Option<File>)>> {
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
    fn look_at_helpers(&mut self, dir: &Path, settings: &Settings) {
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
        let told = is_free && (link.send(&postcard::to_stdvec(&packet).unwrap_or_default(), None)).is_ok();
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
        let sent = link.send(&postcard::to_stdvec(&packet).unwrap_or_default(), None);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// No process has this number: to the parent it has ended.
    const GONE: Pid = Pid::from_raw(i32::MAX);
    const LONG: Duration = Duration::from_secs(1000);

    fn children() -> Children {
        let ids = Ids { uid: 1, gid: 1 };
        let mut children = Children::new(ids, PathBuf::new(), &Env::default());
        children.daemon = Some((GONE, Instant::now()));
        children.ready = true;
        children
    }

    #[test]
    fn a_worker_runs_where_the_tree_it_reads_has_its_source_or_the_site_names_one() {
        let root = tempfile::tempdir().unwrap();
        let ids = Ids { uid: 1, gid: 1 };
        let children = Children::new(ids, PathBuf::new(), &Env::with_sysroot(root.path()));
        let run = |settings: &Settings| {
            let all = children.workers.iter().filter(|w| w.may_be_here(settings));
            let names = ["lustre", "host", "gpfs", "nvidia"];
            let all: Vec<&str> = all.map(|w| w.domain.name).filter(|n| names.contains(n)).collect();
            all
        };
        let none = Settings::default();
        assert_eq!(run(&none), ["host"]);
        std::fs::create_dir_all(root.path().join("sys/module/lnet")).unwrap();
        assert_eq!(run(&none), ["host", "lustre"]);
        let library = "library = \"/opt/libnvidia-ml.so\"\n";
        let named = collectors::nvidia::SPEC.settings(library).unwrap();
        assert_eq!(run(&named), ["host", "nvidia", "lustre"]);
        std::fs::create_dir_all(root.path().join("proc/driver/nvidia")).unwrap();
        assert_eq!(run(&none), ["host", "nvidia", "lustre"]);
    }

    /// The drives of such a node had no log until the next start of nodewarden.
    #[test]
    #[allow(clippy::disallowed_methods, reason = "the test makes a drive")]
    fn a_worker_is_restarted_when_a_later_drive_needs_a_helper_that_it_lacks() {
        let root = tempfile::tempdir().unwrap();
        let ids = Ids { uid: 1, gid: 1 };
        let mut children = Children::new(ids, PathBuf::new(), &Env::with_sysroot(root.path()));
        children.daemon = Some((GONE, Instant::now()));
        children.ready = true;
        let place = children.workers.iter().position(|w| w.domain.name == "mounts");
        let worker = &mut children.workers[place.unwrap()];
        worker.running = Some(RunningWorker {
            pid: GONE,
            slot: 0,
            started: Instant::now(),
            helpers: Vec::new(),
            helpers_due: Some(Instant::now()),
        });
        let settings = Settings::default();
        let locks = root.path().join("locks");
        std::fs::create_dir(&locks).unwrap();
        let due = |worker: &mut WorkerProcess, at| worker.running.as_mut().unwrap().helpers_due = at;
        worker.look_at_helpers(&locks, &settings);
        assert!(worker.running.is_some(), "no drive");
        let drive = root.path().join("sys/class/nvme/nvme0");
        std::fs::create_dir_all(&drive).unwrap();
        std::fs::write(drive.join("transport"), "pcie\n").unwrap();
        std::fs::write(drive.join("address"), "0000:01:00.0\n").unwrap();
        worker.look_at_helpers(&locks, &settings);
        assert!(worker.running.is_some(), "not yet due");
        due(worker, None);
        worker.look_at_helpers(&locks, &settings);
        assert!(worker.running.is_some(), "without root");
        due(worker, Some(Instant::now()));
        worker.slots_due = Some(Instant::now());
        worker.look_at_helpers(&locks, &settings);
        assert!(
            worker.running.is_some(),
            "an earlier process holds the other slot"
        );
        worker.slots_due = None;
        // Commands that never returned: without the slots of the helper, a restart would repeat every 30 s.
        let stuck = ["nvme"; 2].map(|helper| slots::take(&locks, helper).unwrap());
        due(worker, Some(Instant::now()));
        worker.look_at_helpers(&locks, &settings);
        assert!(worker.running.is_some(), "no helper can be started");
        assert_eq!(slots::take(&locks, "mounts").unwrap().held, [false; 2]);
        assert!(worker.wanted(&locks, &settings).unwrap().is_empty());
        drop(stuck);
        assert_eq!(worker.wanted(&locks, &settings).unwrap().len(), 1);
        due(worker, Some(Instant::now()));
        worker.look_at_helpers(&locks, &settings);
        assert!(worker.running.is_none() && worker.leaving == [GONE]);
        assert!(worker.due() <= Instant::now(), "the next one starts at once");
    }

    /// The end of its helpers let it start at once, 100 times a second.
    #[test]
    fn the_end_of_helpers_does_not_shorten_the_back_off_of_their_worker() {
        let mut children = children();
        let worker = &mut children.workers[0];
        worker.running = Some(RunningWorker {
            pid: GONE,
            slot: 0,
            started: Instant::now(),
            helpers: vec![GONE],
            helpers_due: None,
        });
        worker.backoff.wait = LONG;
        let before = Instant::now();
        // The worker, and then its helper.
        for _ in 0..2 {
            children.reap_workers();
            let worker = &children.workers[0];
            assert!(worker.running.is_none() && worker.due() >= before + LONG);
        }
        assert!(children.workers[0].orphans.is_empty());
    }

    #[test]
    fn the_grace_of_leaving_workers_ends_with_them() {
        let mut children = children();
        let worker = &mut children.workers[0];
        worker.leaving.push(GONE);
        worker.grace = Some(Instant::now() + LONG);
        assert!(worker.due() > Instant::now());
        children.reap_workers();
        assert!(children.workers[0].due() <= Instant::now());
    }

    /// One in state D was killed again in each turn, without a pause between them.
    #[test]
    fn a_daemon_that_cannot_be_killed_is_killed_once() {
        let mut children = children();
        children.unlinked = Instant::now().checked_sub(UNLINKED_PATIENCE);
        assert!(children.next_deadline().is_some_and(|at| at <= Instant::now()));
        children.kill_overdue_daemon();
        assert!(children.daemon_pid().is_some());
        assert_eq!(children.next_deadline(), None);
    }

    /// Free in a loop started a worker that ends at once without a pause.
    #[test]
    fn only_the_end_of_a_hold_ends_a_back_off() {
        let mut children = children();
        children.workers[0].backoff.due += LONG;
        children.free(0);
        assert!(children.workers[0].due() > Instant::now());
        children.hold(0, 1);
        children.free(0);
        assert!(children.workers[0].due() <= Instant::now());
    }
}
