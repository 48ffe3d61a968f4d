//! Whether enough of the node is readable to call it healthy.

use std::time::Duration;

use model::snapshot::{CollectorState, Presence, Snapshot};

/// A snapshot older than this is stale.
const MAX_AGE: Duration = Duration::from_secs(60);
/// The collectors that the verdict requires.
const NEEDED: [&str; 2] = [LOG, "host"];
const LOG: &str = "kernel_log";

/// A collector that the verdict requires and that cannot be read.
#[derive(Clone, Debug)]
pub(super) struct Blind {
    pub(super) collector: &'static str,
    why: String,
}

/// The readable sources of the last snapshot.
#[derive(Debug, Default)]
pub(super) struct Sight {
    at: Option<Duration>,
    blind: Option<Blind>,
    log: Option<bool>,
    bus_read_at: Option<Duration>,
    /// What the last snapshot could not answer.
    unjudged: Option<String>,
    /// The last snapshot that answered all, as time since boot.
    judged_at: Option<Duration>,
}

impl Sight {
    /// Takes a snapshot. Returns whether its reading of the PCI bus is new.
    pub(super) fn take(&mut self, snapshot: &Snapshot, bus_read_at: Option<Duration>) -> bool {
        self.at = Some(snapshot.at);
        self.blind = NEEDED.iter().find_map(|name| {
            let why = match snapshot.collector(name) {
                Some(collector) => blind(collector, snapshot.at)?,
                None => "no such collector".to_owned(),
            };
            Some(Blind { collector: name, why })
        });
        self.log = match snapshot.collector(LOG) {
            Some(log) if log.presence == Presence::NotHere => None,
            log => Some(log.is_some_and(|log| blind(log, snapshot.at).is_none())),
        };
        // A missing reading counts as new: it restarts the counts.
        let is_new = bus_read_at.is_none() || bus_read_at != self.bus_read_at;
        self.bus_read_at = bus_read_at;
        is_new
    }

    /// Whether the kernel log was being read in the last snapshot. `None`: absent on this node.
    pub(super) const fn log(&self) -> Option<bool> {
        self.log
    }

    /// Takes what a snapshot could not answer, although the node must have it.
    pub(super) fn judged(&mut self, at: Duration, unjudged: Option<String>) {
        if unjudged.is_none() {
            self.judged_at = Some(at);
        }
        self.unjudged = unjudged;
    }

    /// What could not be answered for longer than a bus takes to be scanned, or never.
    pub(super) fn unjudged(&self, now: Duration) -> Option<String> {
        let is_new = self.judged_at.is_some_and(|at| now.saturating_sub(at) <= MAX_AGE);
        self.unjudged.clone().filter(|_| !is_new)
    }

    /// The collector without which the node's health is unknown.
    pub(super) fn blind(&self, now: Duration) -> Option<&Blind> {
        let is_fresh = |at: Duration| now.saturating_sub(at) <= MAX_AGE;
        self.blind.as_ref().filter(|_| self.at.is_some_and(is_fresh))
    }

    /// Why the node's health is unknown. `None`: it is known.
    pub(super) fn unknown(&self, now: Duration) -> Option<String> {
        match self.at {
            None => Some("nothing was read yet".to_owned()),
            Some(at) if now.saturating_sub(at) > MAX_AGE => {
                Some(format!("nothing was read for {} s", MAX_AGE.as_secs()))
            }
            Some(_) => self
                .blind
                .as_ref()
                .map(|blind| format!("{}: {}", blind.collector, blind.why)),
        }
    }
}

/// Why a collector has no reading.
fn blind(collector: &CollectorState, at: Duration) -> Option<String> {
    match &collector.presence {
        Presence::Unknown => Some("nothing was read yet".to_owned()),
        Presence::Failed(_, text) => Some(text.clone()),
        Presence::NotHere => None,
        Presence::Open => {
            match &collector.watcher {
                Some(Err((_, text))) => return Some(text.clone()),
                None if collector.spec.name == LOG => return Some("it is not watched yet".to_owned()),
                Some(Ok(())) | None => {}
            }
            if collector.up(at) == Some(true) {
                return None;
            }
            let failed = collector.devices.iter().find_map(|d| d.error.as_ref());
            Some(failed.map_or_else(|| "a reading is late".to_owned(), |(_, text)| text.clone()))
        }
    }
}
