//! The parent's child processes, and when they are restarted.

mod backoff;
#[cfg(test)]
mod tests;
mod worker_process;

use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use collectors::{DOMAINS, Env, Settings};
use nix::unistd::Pid;

use super::silence::Silence;
use backoff::Backoff;
use sys::packet::{self, Packets};
use sys::users::Ids;
use sys::{fork, reap};
use worker_process::WorkerProcess;

/// Time limit for a daemon to read its record and listen. Long: a booting node is busy.
const READY_PATIENCE: Duration = Duration::from_secs(120);
/// Time limit for a daemon that has closed its socket: it finishes its records.
const UNLINKED_PATIENCE: Duration = Duration::from_secs(10);

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
            .map(|(number, domain)| WorkerProcess::new(number, domain, env.clone()))
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
        let workers = self.workers.iter().filter(|_| may_start);
        let workers = workers.filter_map(WorkerProcess::next_deadline).min();
        [workers, self.daemon_deadline()].into_iter().flatten().min()
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
            worker.daemon_ended();
        }
        Some(status)
    }

    /// Starts no worker for a domain. The running one exits when the daemon closes its socket.
    pub fn hold(&mut self, domain: u16, number: u64) {
        if let Some(worker) = self.workers.get_mut(usize::from(domain)) {
            worker.hold(number);
        }
    }

    /// Allows workers for it again, if it was held.
    pub fn free(&mut self, domain: u16) {
        if let Some(worker) = self.workers.get_mut(usize::from(domain)) {
            worker.free();
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
        self.workers.iter_mut().for_each(WorkerProcess::reap);
    }

    /// Starts missing workers, and reports them to the daemon.
    pub fn tend_workers(&mut self, link: &Packets, settings: &Settings) {
        if self.ready {
            for worker in &mut self.workers {
                worker.tend(&self.slots, link, settings);
            }
        }
    }
}
