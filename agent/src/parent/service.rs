//! Notifications to a service manager such as systemd, and the sockets passed by it.
//!
//! Only the daemon's heartbeats feed the watchdog: a parent that fed it alone would vouch for a daemon that hangs.
//! Workers have no part in it; a worker that is stuck in a driver is expected.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use crate::bucket::Bucket;
use crate::link::Summary;
use health::Mode;
use sys::activation::{self, ActivationError, PassedSocket};
use sys::notify::{Manager, NotifySocket, NotifyState};

/// Delay before a datagram is sent again that found the manager's queue full.
const RETRY: Duration = Duration::from_secs(1);

/// Changes of the status at once, and the time in which as many more are passed on.
const CHANGES: (u32, Duration) = (10, Duration::from_secs(10));
/// Interval of the daemon's heartbeats without a watchdog.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// Heartbeats at once, and the number of intervals in which as many more are passed on.
const HEARTBEATS: (u32, u32) = (4, 2);

/// The service manager, if there is one.
#[derive(Debug)]
pub struct Service {
    socket: Option<NotifySocket>,
    /// Interval of the daemon's heartbeats: half of the watchdog's time-out.
    pub heartbeat: Duration,
    /// The manager has a watchdog.
    watched: bool,
    /// Sockets passed to this process. Never accepted from here.
    pub sockets: Vec<PassedSocket>,
    mode: Mode,
    summary: Option<Summary>,
    ready: bool,
    reloading: bool,
    /// Did not fit into the manager's queue.
    unsent: Option<(String, Instant)>,
    /// Limits outlive the daemon: a restarted one gets no new burst.
    changes: Bucket,
    heartbeats: Bucket,
    /// When to send the status that was changed too often.
    late_status: Option<Instant>,
}

impl Service {
    /// Reads the environment and takes the sockets. Once, before anything else opens a descriptor.
    ///
    /// # Errors
    /// When a passed descriptor is no listening socket.
    pub fn take(mode: Mode) -> Result<Self, ActivationError> {
        let sockets = activation::take()?;
        for socket in &sockets {
            tracing::info!("http://{}: socket passed by the service manager", socket.address);
        }
        Ok(Self::new(Manager::from_env(), sockets, mode))
    }

    fn new(manager: Manager, sockets: Vec<PassedSocket>, mode: Mode) -> Self {
        let heartbeat = manager.watchdog.map_or(HEARTBEAT, |w| w / 2);
        Self {
            heartbeat,
            watched: manager.watchdog.is_some(),
            socket: manager.socket,
            sockets,
            mode,
            summary: None,
            ready: false,
            reloading: false,
            unsent: None,
            changes: Bucket::new(CHANGES.0, CHANGES.1),
            heartbeats: Bucket::new(HEARTBEATS.0, heartbeat * HEARTBEATS.1),
            late_status: None,
        }
    }

    /// Whether a service manager started this process.
    pub fn is_managed(&self) -> bool {
        self.socket.is_some()
    }

    /// The daemon listens and has its record. Only the first time is reported.
    pub fn ready(&mut self) {
        if !self.ready {
            self.ready = true;
            let status = self.status();
            self.tell(&[NotifyState::Ready, NotifyState::Status(&status)]);
        }
    }

    /// A reload has started.
    pub fn reloading(&mut self) {
        if self.ready {
            self.reloading = true;
            let now = NotifyState::monotonic_usec_now();
            let states: Vec<_> = [NotifyState::Reloading].into_iter().chain(now).collect();
            self.tell(&states);
        }
    }

    /// The reload has ended, and `mode` is in force.
    pub fn reloaded(&mut self, mode: Mode) {
        self.mode = mode;
        if std::mem::take(&mut self.reloading) {
            let status = self.status();
            self.tell(&[NotifyState::Ready, NotifyState::Status(&status)]);
        }
    }

    /// The program is stopping.
    pub fn stopping(&mut self) {
        self.late_status = None;
        self.tell(&[NotifyState::Stopping, NotifyState::Status("stopping")]);
    }

    /// The interval of heartbeats by which the parent judges the daemon. `None`: the manager's watchdog does.
    pub fn judged(&self) -> Option<Duration> {
        (!self.watched).then_some(self.heartbeat)
    }

    /// A heartbeat of the daemon's loop. Whether it was in the limit.
    pub fn alive(&mut self) -> bool {
        let is_allowed = self.heartbeats.take(1, Instant::now());
        if is_allowed && self.watched {
            self.tell(&[NotifyState::Watchdog]);
        }
        is_allowed
    }

    /// The daemon's verdict has changed. Whether that was in the limit; beyond it, the last one is passed on later.
    pub fn summary(&mut self, summary: Summary) -> bool {
        if self.summary.replace(summary) == Some(summary) || !self.ready {
            return true;
        }
        let is_allowed = self.changes.take(1, Instant::now());
        if is_allowed {
            self.tell_status();
        } else {
            self.late_status.get_or_insert_with(|| Instant::now() + RETRY);
        }
        is_allowed
    }

    fn tell_status(&mut self) {
        self.late_status = None;
        let status = self.status();
        self.tell(&[NotifyState::Status(&status)]);
    }

    /// The daemon has ended; its summary is void.
    pub fn daemon_ended(&mut self) {
        self.summary = None;
        self.late_status = None;
        if self.ready {
            self.tell(&[NotifyState::Status("the daemon exited and is restarted")]);
        }
    }

    /// When to call [`Service::retry`].
    pub fn deadline(&self) -> Option<Instant> {
        let unsent = self.unsent.as_ref().map(|(_, at)| *at);
        [unsent, self.late_status].into_iter().flatten().min()
    }

    /// Sends again what did not fit, and a late status.
    pub fn retry(&mut self) {
        if let Some((lines, _)) = self.unsent.take_if(|(_, at)| *at <= Instant::now()) {
            self.tell(&[NotifyState::Custom(&lines)]);
        }
        if self.late_status.is_some_and(|at| at <= Instant::now()) {
            self.tell_status();
        }
    }

    /// Without users, jobs or log lines: every user can read it.
    fn status(&self) -> String {
        let mode = self.mode.word();
        match self.summary {
            None => format!("no verdict yet, mode {mode}"),
            Some(Summary { health, open }) => {
                let incidents = if open == 1 { "incident" } else { "incidents" };
                format!("{}, {open} {incidents} open, mode {mode}", health.word())
            }
        }
    }

    fn tell(&mut self, states: &[NotifyState<'_>]) {
        let Some(socket) = &self.socket else { return };
        let lines: Vec<String> = states.iter().map(ToString::to_string).collect();
        let lines = lines.join("\n");
        // In order: unsent lines come first, and the last line of a name counts.
        let lines = match self.unsent.take() {
            Some((before, _)) => format!("{before}\n{lines}"),
            None => lines,
        };
        match socket.send(&lines) {
            Ok(()) => {}
            Err(e) if e.kind() == ErrorKind::WouldBlock => {
                // A late heartbeat would report an unknown state.
                let kept: Vec<&str> = lines.lines().filter(|l| *l != "WATCHDOG=1").collect();
                if !kept.is_empty() {
                    self.unsent = Some((kept.join("\n"), Instant::now() + RETRY));
                }
            }
            Err(e) => tracing::warn!(error = %e, "cannot notify the service manager"),
        }
    }
}

#[cfg(test)]
mod tests;
