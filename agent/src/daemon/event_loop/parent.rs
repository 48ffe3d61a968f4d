//! The loop's link to the parent: packets both ways, heartbeats, and a configuration that changes.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use health::Input;
use sys::packet::Received;

use super::{Daemon, PARENT, now};
use crate::config::Loaded;
use crate::link::{self, ToDaemon, ToParent};

impl Daemon {
    /// Heartbeats are sent at other wake-ups if possible, so that they seldom need one of their own.
    pub(super) fn show_life(&mut self, time: Duration) {
        let every = self.heartbeat;
        // A parent that does not read must not get a long queue of them.
        if time + every / 4 >= self.next_alive && self.to_parent.is_empty() {
            self.next_alive = time + every;
            self.tell_parent(&ToParent::Alive);
        }
    }

    pub(super) fn tell_parent(&mut self, packet: &ToParent) {
        match link::bytes(packet) {
            Ok(bytes) => self.to_parent.push_back(bytes),
            Err(e) => tracing::error!(error = %e, "packet to the parent lost"),
        }
        self.send_to_parent();
    }

    pub(super) fn send_to_parent(&mut self) {
        let mut full = false;
        while let Some(packet) = self.to_parent.front() {
            match self.parent.send(packet, None) {
                Ok(()) => {
                    self.to_parent.pop_front();
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    full = true;
                    break;
                }
                // Its end is noticed when receiving.
                Err(_) => self.to_parent.clear(),
            }
        }
        if std::mem::replace(&mut self.parent_full, full) != full {
            sys::ignore(self.poll.want_write(&self.parent, PARENT, full));
        }
    }

    pub(super) fn hear_parent(&mut self) -> io::Result<()> {
        loop {
            match self.parent.receive()? {
                Received::Nothing => return Ok(()),
                Received::Closed => {
                    if !self.parent_gone {
                        tracing::debug!("the parent is gone; stopping");
                        let waiting = self.engine.finish(now());
                        self.effects.push(waiting);
                    }
                    self.parent_gone = true;
                    self.poll.remove(&self.parent);
                    return Ok(());
                }
                Received::Packet(bytes, fd) => match postcard::from_bytes::<ToDaemon>(&bytes) {
                    Ok(packet) => self.packet(packet, fd),
                    Err(e) => tracing::error!(error = %e, "protocol error from the parent"),
                },
            }
        }
    }

    fn packet(&mut self, packet: ToDaemon, fd: Option<std::os::fd::OwnedFd>) {
        match packet {
            ToDaemon::Init(_) | ToDaemon::Socket => tracing::error!("protocol error: second start packet"),
            ToDaemon::Web(found) => {
                self.facts.web_config_error = self.web.change(found);
                self.changed = true;
            }
            ToDaemon::WebRejected => {
                self.facts.web_config_error = Some(true);
                self.changed = true;
            }
            ToDaemon::Config { loaded, error } => self.configure(*loaded, error),
            ToDaemon::Worker {
                domain,
                pid,
                starts,
                stuck_slots,
            } => {
                if self.releases.is_held(domain) {
                    // Started before the parent knew of the release. Closing its socket ends it.
                    return;
                }
                let Some(socket) = fd else {
                    tracing::error!(domain, "protocol error from the parent: worker without a socket");
                    return;
                };
                self.release_waiters(domain);
                self.changed = true;
                let worker = (pid, starts, stuck_slots);
                let (cursors, notes) = (self.engine.cursors(), self.engine.notes());
                match self.fleet.attach(domain, worker, socket, cursors, notes) {
                    Ok(told) => {
                        if let Some(fd) = self.fleet.fd(domain)
                            && let Err(e) = self.poll.add(fd, u64::from(domain))
                        {
                            tracing::error!(domain, error = %e, "cannot watch the worker's socket");
                        }
                        self.told(domain, told);
                    }
                    Err(e) => tracing::error!(domain, error = %e, "cannot use the worker's socket"),
                }
            }
            ToDaemon::WorkerDown {
                domain,
                why,
                stuck_slots,
            } => {
                if !self.releases.is_held(domain) {
                    self.release_waiters(domain);
                    self.fleet.down(domain, why, stuck_slots);
                }
            }
            ToDaemon::Held(domain, number) => {
                if let Some((lease, entry)) = self.releases.is_free(domain, number, now()) {
                    self.audit(entry);
                    self.fleet.lease(domain, Some(lease));
                    self.changed = true;
                }
            }
            ToDaemon::Slots(domain, stuck) => self.fleet.slots(domain, stuck),
            ToDaemon::Notified(counts) => self.facts.notifications = counts,
            ToDaemon::Checked(state) => {
                self.fleet.command(*state);
                self.changed = true;
            }
            ToDaemon::Looked(looked) => self.step(Input::Scheduler(looked.as_ref())),
            ToDaemon::Acted(id, outcome) => {
                self.journal.outcome(&outcome);
                self.step(Input::Done(id, &outcome));
            }
        }
    }

    /// Replaces a worker, which reads its settings only at its start. One that is stuck keeps its slot, and the next one
    /// takes the other.
    fn renew(&mut self, domain: u16) {
        // No driver is released, so no one waits for this number.
        self.tell_parent(&ToParent::Hold(domain, 0));
        let sent = self.fleet.readable(domain);
        self.told(domain, sent);
        self.release_waiters(domain);
        self.fleet.forget(domain);
        self.tell_parent(&ToParent::Free(domain));
    }

    fn configure(&mut self, loaded: Loaded, error: Option<String>) {
        self.facts.config_error = error.is_some();
        self.changed = true;
        if error.is_some() {
            return;
        }
        let is_elsewhere = loaded.config.listen != self.listen;
        if is_elsewhere {
            tracing::warn!("listen: the new addresses need a restart");
        }
        self.facts.restart_needed = is_elsewhere;
        self.web.listens_elsewhere(is_elsewhere);
        match loaded.policy() {
            Ok(policy) => {
                sys::log::set_level(&loaded.config.log_level);
                self.fleet.set_log_level(&loaded.config.log_level);
                self.notifies = loaded.config.notify.is_some();
                self.facts.mode = loaded.config.health.mode;
                self.facts.max_jobs = loaded.config.max_jobs();
                self.facts.metrics = Arc::new(loaded.config.metrics);
                self.facts.access = loaded.config.access;
                self.facts.operators = loaded.config.health.operators.into();
                self.facts.rdma = Arc::new(loaded.config.health.rdma);
                for domain in self.fleet.set_settings(loaded.config.collectors) {
                    self.renew(domain);
                }
                self.fleet.set_commands(&policy.site.settings.commands);
                let effects = self.engine.set_policy(now(), policy);
                self.effects.push(effects);
                tracing::info!("configuration in force");
            }
            Err(e) => {
                self.facts.config_error = true;
                tracing::error!("configuration rejected, the previous one stays in force: {e}");
            }
        }
    }
}
