//! What all mounts share: the network LNet, and the state of the modules.

use std::sync::{Arc, Mutex, PoisonError};

use super::files::{LustreFiles, Place, Reason};
use super::lnet::{self, Traffic};
use super::metrics as m;
use super::sources::{HEALTH, LNET_NIS, LNET_PEERS, LNET_STATS, LustreSource};
use crate::{Block, Device, Env, Error, Metric, Subject, SubjectKind};

/// The name of the device.
pub(super) const NAME: &str = "lnet";

/// LNet. A new list of devices has a new object with the same state.
pub(super) struct LnetDevice {
    subject: Subject,
    state: Arc<Mutex<LnetState>>,
}

/// What readings leave for the next one.
#[derive(Debug)]
pub(super) struct LnetState {
    files: LustreFiles,
}

impl LnetDevice {
    pub(super) fn new(state: Arc<Mutex<LnetState>>) -> Self {
        Self {
            subject: Subject::new(SubjectKind::NetworkInterface, NAME),
            state,
        }
    }
}

impl LnetState {
    pub(super) fn new(env: &Env) -> Self {
        Self {
            files: LustreFiles::new(env),
        }
    }

    /// Reads a table; rows that are none are recorded.
    fn table<T>(
        &mut self,
        source: &'static LustreSource,
        parse: impl FnOnce(&str) -> Option<(T, usize)>,
    ) -> Option<T> {
        let (table, odd) = self.files.read(source, Place::ROOT, parse)?;
        if odd > 0 {
            self.files.fail(source, Reason::Malformed);
        }
        Some(table)
    }

    fn read(&mut self, out: &mut Block) {
        self.files.begin();
        let healthy = self.files.read(&HEALTH, Place::ROOT, health);
        out.maybe_u64(&m::HEALTHY, &[], healthy);
        let stats = self.files.read(&LNET_STATS, Place::ROOT, lnet::stats);
        out.maybe_u64(&m::LNET_MESSAGES, &[], stats.map(|s| s.messages.into()));
        out.maybe_u64(&m::LNET_MESSAGES_MAX, &[], stats.map(|s| s.most_messages.into()));
        out.maybe_u64(&m::LNET_ERRORS, &[], stats.map(|s| s.errors.into()));
        let traffic = stats.map(|s| [s.sent, s.received, s.routed, s.dropped]);
        let metrics: [[&'static Metric; 2]; 4] = [
            [&m::LNET_SENT, &m::LNET_SENT_BYTES],
            [&m::LNET_RECEIVED, &m::LNET_RECEIVED_BYTES],
            [&m::LNET_ROUTED, &m::LNET_ROUTED_BYTES],
            [&m::LNET_DROPPED, &m::LNET_DROPPED_BYTES],
        ];
        // Messages have 32 bits in the kernel. A wrap is a counter reset; a total of ours would be lost with the worker.
        for (at, [messages, bytes]) in metrics.into_iter().enumerate() {
            let traffic: Option<Traffic> = traffic.and_then(|all| all.get(at).copied());
            out.maybe_u64(messages, &[], traffic.map(|t| t.messages.into()));
            out.maybe_u64(bytes, &[], traffic.map(|t| t.bytes));
        }
        for interface in self.table(&LNET_NIS, lnet::interfaces).unwrap_or_default() {
            let nid = [interface.nid.as_str()];
            out.u64(&m::NI_UP, &nid, interface.is_up.into());
            for (metric, value) in [
                (&m::NI_CREDITS, interface.credits),
                (&m::NI_CREDITS_MAX, interface.most_credits),
                (&m::NI_CREDITS_MIN, interface.least_credits),
            ] {
                if let Some(value) = value {
                    out.f64(metric, &nid, value as f64);
                }
            }
        }
        if let Some(peers) = self.table(&LNET_PEERS, lnet::peers) {
            for (state, count) in [("up", peers.up), ("down", peers.down), ("unknown", peers.unknown)] {
                out.u64(&m::PEERS_STATE, &[state], count);
            }
            out.u64(&m::PEERS_EXHAUSTED, &[], peers.exhausted);
            out.u64(&m::PEERS_QUEUED, &[], peers.queued_bytes);
        }
        self.files.push("", out);
    }
}

impl Device for LnetDevice {
    fn subject(&self) -> &Subject {
        &self.subject
    }

    fn read(&mut self, out: &mut Block) -> Result<(), Error> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.read(out);
        Ok(())
    }
}

/// `healthy`, else `NOT HEALTHY` or `LBUG`, on a server after lines about its devices.
fn health(text: &str) -> Option<u64> {
    let last = text.lines().map(str::trim).rfind(|line| !line.is_empty())?;
    match last {
        "healthy" => Some(1),
        "NOT HEALTHY" | "LBUG" => Some(0),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_health_are_known() {
        let text = "device scratch-OST0000 reported unhealthy\nNOT HEALTHY\n";
        assert_eq!(
            ["healthy\n", text, "LBUG\n", "", "?"].map(health),
            [Some(1), Some(0), Some(0), None, None]
        );
    }
}
