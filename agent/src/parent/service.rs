//! What the parent tells a service manager such as systemd, and the sockets that it has from it.
//!
//! The watchdog is fed by the daemon's heartbeats alone: a parent that fed it by itself would vouch for a daemon that
//! hangs. Workers have no part in it; one that is stuck in a driver is what this program is made for.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use crate::link::Summary;
use health::Mode;
use sys::activation::{self, ActivationError, PassedSocket};
use sys::notify::{Manager, NotifySocket, NotifyState};

/// When a datagram that found the manager's queue full is sent again.
const RETRY: Duration = Duration::from_secs(1);

/// The service manager, if there is one.
#[derive(Debug)]
pub struct Service {
    socket: Option<NotifySocket>,
    /// How often the daemon is to say that its loop runs: half of what the watchdog allows.
    pub heartbeat: Option<Duration>,
    /// Sockets that were passed on to us. Never accepted from here.
    pub sockets: Vec<PassedSocket>,
    mode: Mode,
    summary: Option<Summary>,
    ready: bool,
    reloading: bool,
    /// Did not fit into the manager's queue.
    unsent: Option<(String, Instant)>,
}

impl Service {
    /// Reads the environment and takes the sockets. Once, before anything else opens a descriptor.
    ///
    /// # Errors
    /// When something else than a listening socket was passed on.
    pub fn take(mode: Mode) -> Result<Self, ActivationError> {
        let sockets = activation::take()?;
        for socket in &sockets {
            tracing::info!("http://{} is passed on by the service manager", socket.address);
        }
        Ok(Self::new(Manager::from_env(), sockets, mode))
    }

    fn new(manager: Manager, sockets: Vec<PassedSocket>, mode: Mode) -> Self {
        Self {
            heartbeat: manager.watchdog.map(|w| w / 2),
            socket: manager.socket,
            sockets,
            mode,
            summary: None,
            ready: false,
            reloading: false,
            unsent: None,
        }
    }

    /// The daemon listens and has its record. Only the first time is news.
    pub fn ready(&mut self) {
        if !self.ready {
            self.ready = true;
            let status = self.status();
            self.tell(&[NotifyState::Ready, NotifyState::Status(&status)]);
        }
    }

    /// The configuration is being read again.
    pub fn reloading(&mut self) {
        if self.ready {
            self.reloading = true;
            let now = NotifyState::monotonic_usec_now();
            let states: Vec<_> = [NotifyState::Reloading].into_iter().chain(now).collect();
            self.tell(&states);
        }
    }

    /// It has been read, and `mode` is in force.
    pub fn reloaded(&mut self, mode: Mode) {
        self.mode = mode;
        if std::mem::take(&mut self.reloading) {
            let status = self.status();
            self.tell(&[NotifyState::Ready, NotifyState::Status(&status)]);
        }
    }

    /// An order to stop is being carried out.
    pub fn stopping(&mut self) {
        self.tell(&[NotifyState::Stopping, NotifyState::Status("stopping")]);
    }

    /// The daemon's loop runs.
    pub fn alive(&mut self) {
        if self.heartbeat.is_some() {
            self.tell(&[NotifyState::Watchdog]);
        }
    }

    /// The daemon's verdict is another.
    pub fn summary(&mut self, summary: Summary) {
        self.summary = Some(summary);
        if self.ready {
            let status = self.status();
            self.tell(&[NotifyState::Status(&status)]);
        }
    }

    /// The daemon has ended; what it has said holds no longer.
    pub fn daemon_ended(&mut self) {
        self.summary = None;
        if self.ready {
            self.tell(&[NotifyState::Status("the daemon has ended and is started again")]);
        }
    }

    /// When [`Service::retry`] is to be called.
    pub fn deadline(&self) -> Option<Instant> {
        self.unsent.as_ref().map(|(_, at)| *at)
    }

    /// Sends again what did not fit.
    pub fn retry(&mut self) {
        if let Some((lines, _)) = self.unsent.take_if(|(_, at)| *at <= Instant::now()) {
            self.tell(&[NotifyState::Custom(&lines)]);
        }
    }

    /// Nothing of people, jobs or log lines: every user can read it.
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
        // In order: what could not be said before comes first, and a later line of one name stands.
        let lines = match self.unsent.take() {
            Some((before, _)) => format!("{before}\n{lines}"),
            None => lines,
        };
        match socket.send(&lines) {
            Ok(()) => {}
            Err(e) if e.kind() == ErrorKind::WouldBlock => {
                // A heartbeat that is late by then would say what nobody knows.
                let kept: Vec<&str> = lines.lines().filter(|l| *l != "WATCHDOG=1").collect();
                if !kept.is_empty() {
                    self.unsent = Some((kept.join("\n"), Instant::now() + RETRY));
                }
            }
            Err(e) => tracing::warn!(error = %e, "the service manager cannot be told"),
        }
    }
}

#[cfg(test)]
mod tests;
