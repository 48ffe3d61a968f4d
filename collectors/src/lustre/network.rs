//! What all mounts share: the network LNet, and the state of the modules.

use std::sync::{Arc, Mutex, PoisonError};

use super::files::{LustreFiles, Place, Reason};
use super::lnet::{self, LnetStats, Traffic};
use super::metrics as m;
use super::sources::{HEALTH, LNET_NIS, LNET_PEERS, LNET_STATS, LustreSource};
use super::totals::{Last, Narrow};
use crate::{Block, Device, Env, Error, Metric, Subject, SubjectKind};

/// The name of the device.
pub(super) const NAME: &str = "lnet";

/// LNet. A new list of devices has a new object with the same state, so that counters go on.
pub(super) struct LnetDevice {
    subject: Subject,
    state: Arc<Mutex<LnetState>>,
}

/// What readings leave for the next one.
#[derive(Debug)]
pub(super) struct LnetState {
    files: LustreFiles,
    counters: LnetCounters,
}

/// The kernel counts messages in 32 bits; here they have 64.
#[derive(Debug, Default)]
struct LnetCounters {
    last_bytes: Option<[u64; 4]>,
    errors: (Narrow, u64),
    messages: [(Narrow, u64); 4],
    bytes: [(Last, u64); 4],
}

impl LnetCounters {
    fn take(&mut self, stats: &LnetStats) {
        let now: [Traffic; 4] = [stats.sent, stats.received, stats.routed, stats.dropped];
        let bytes = now.map(|traffic| traffic.bytes);
        // Bytes have 64 bits: if they fall, the file was cleared, and its messages did not wrap.
        let restarted = self
            .last_bytes
            .is_some_and(|before| before.iter().zip(bytes).any(|(before, now)| now < *before));
        self.last_bytes = Some(bytes);
        self.errors.1 += self.errors.0.growth(stats.errors, restarted);
        for ((messages, bytes), now) in self.messages.iter_mut().zip(&mut self.bytes).zip(now) {
            messages.1 += messages.0.growth(now.messages, restarted);
            bytes.1 = bytes.1.wrapping_add(bytes.0.growth(now.bytes));
        }
    }
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
            counters: LnetCounters::default(),
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
        if let Some(stats) = &stats {
            self.counters.take(stats);
        }
        let has = |value: u64| stats.as_ref().map(|_| value);
        out.maybe_u64(&m::LNET_MESSAGES, &[], stats.map(|s| s.messages.into()));
        out.maybe_u64(&m::LNET_MESSAGES_MAX, &[], stats.map(|s| s.most_messages.into()));
        out.maybe_u64(&m::LNET_ERRORS, &[], has(self.counters.errors.1));
        let metrics: [[&'static Metric; 2]; 4] = [
            [&m::LNET_SENT, &m::LNET_SENT_BYTES],
            [&m::LNET_RECEIVED, &m::LNET_RECEIVED_BYTES],
            [&m::LNET_ROUTED, &m::LNET_ROUTED_BYTES],
            [&m::LNET_DROPPED, &m::LNET_DROPPED_BYTES],
        ];
        let counters = self.counters.messages.iter().zip(&self.counters.bytes);
        for ([messages, bytes], (message, byte)) in metrics.into_iter().zip(counters) {
            out.maybe_u64(messages, &[], has(message.1));
            out.maybe_u64(bytes, &[], has(byte.1));
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

    fn stats(sent: u32, bytes: u64) -> LnetStats {
        let sent = Traffic {
            messages: sent,
            bytes,
        };
        LnetStats {
            sent,
            ..LnetStats::default()
        }
    }

    #[test]
    fn messages_go_on_when_32_bits_are_full_and_start_again_when_bytes_do() {
        let mut counters = LnetCounters::default();
        counters.take(&stats(u32::MAX, 1000));
        counters.take(&stats(9, 2000));
        assert_eq!(counters.messages[0].1, u64::from(u32::MAX) + 10);
        assert_eq!(counters.bytes[0].1, 2000);
        counters.take(&stats(3, 300));
        assert_eq!(
            counters.messages[0].1,
            u64::from(u32::MAX) + 13,
            "cleared by a write to the file"
        );
        assert_eq!(counters.bytes[0].1, 2300);
    }

    #[test]
    fn the_words_of_health_are_known() {
        let text = "device scratch-OST0000 reported unhealthy\nNOT HEALTHY\n";
        assert_eq!(
            ["healthy\n", text, "LBUG\n", "", "?"].map(health),
            [Some(1), Some(0), Some(0), None, None]
        );
    }
}
