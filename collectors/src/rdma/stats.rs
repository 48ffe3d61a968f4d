//! The hardware counters of a port by one message instead of one file each. See
//! docs/decisions/0009-rdma-netlink.md.

use std::time::{Duration, Instant};

use nix::errno::Errno;

use super::attribute::{RefusalBackoff, reason};
use super::counter::{CounterReading, Meaning};
use super::metrics::drivers::Words;
use super::text::Reason;
use crate::netlink::nldev::{self, NldevDevice};
use crate::sys::netlink::{NetlinkError, NetlinkTransport};

/// The kernel's own lifespan for `hw_counters`, which netlink queries ignore (drivers/infiniband/core/nldev.c).
const LIFESPAN: Duration = Duration::from_millis(10);

/// The identity of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeviceKey {
    pub(super) device: String,
    /// In sysfs format; `None`: the name is sufficient.
    pub(super) guid: Option<String>,
}

/// The result of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StatsResult {
    /// The counters are available.
    Counters,
    /// The kernel does not report them this way, or not now: read the files.
    Files,
    /// The kernel reported them before, and the driver rejects the query now.
    Refused(Reason),
}

/// The index of a device, if it is the device of the files.
pub(super) fn find(kernel: &mut dyn NetlinkTransport, known: &DeviceKey) -> Result<u32, NetlinkError> {
    let mut index = None;
    kernel.ask(&mut nldev::devices(), &mut |payload| {
        // Malformed data of another device does not matter here.
        index = index.or(NldevDevice::parse(payload)
            .ok()
            .filter(|f| f.name == known.device)
            .map(|f| f.index));
        Ok(())
    })?;
    let index = index.ok_or(Errno::ENODEV)?;
    let Some(guid) = &known.guid else {
        return Ok(index);
    };
    let mut same = false;
    kernel.ask(&mut nldev::device(index), &mut |payload| {
        same |= NldevDevice::parse(payload)?.node_guid.as_ref() == Some(guid);
        Ok(())
    })?;
    same.then_some(index).ok_or(Errno::ENODEV.into())
}

/// One port's counters.
pub(super) struct NetlinkStats {
    kernel: Box<dyn NetlinkTransport>,
    known: DeviceKey,
    port: u32,
    /// The driver's names.
    words: Words,
    /// The device's index; `None`: not known yet, or outdated.
    index: Option<u32>,
    /// In the order of the driver, as of the last answer. Empty: no answer.
    counters: Vec<(Meaning, u64)>,
    last: Option<(Instant, StatsResult)>,
    patience: RefusalBackoff,
    /// Always use the files.
    never: bool,
}

impl NetlinkStats {
    /// Sends no query yet.
    pub(super) fn new(known: DeviceKey, port: u32, words: Words, kernel: Box<dyn NetlinkTransport>) -> Self {
        Self {
            kernel,
            known,
            port,
            words,
            index: None,
            counters: Vec::new(),
            last: None,
            patience: RefusalBackoff::default(),
            never: false,
        }
    }

    /// Takes over the index of the device that another query found.
    pub(super) fn found(&mut self, index: Option<u32>) {
        self.index = self.index.or(index);
    }

    /// Sends the query, unless the last answer is younger than `lifespan`.
    pub(super) fn ask(&mut self, now: Instant, lifespan: Duration) -> StatsResult {
        if self.never {
            return StatsResult::Files;
        }
        if let Some((at, asked)) = self.last
            && now.saturating_duration_since(at) < lifespan.max(LIFESPAN)
        {
            return asked;
        }
        if let Some(reason) = self.patience.rests(now) {
            return self.without(reason);
        }
        let asked = match self.answer() {
            Ok(()) => {
                self.patience = RefusalBackoff::default();
                StatsResult::Counters
            }
            Err(failed) => self.failed(now, failed),
        };
        self.last = Some((now, asked));
        asked
    }

    fn answer(&mut self) -> Result<(), NetlinkError> {
        let index = match self.index {
            Some(index) => index,
            None => find(&mut *self.kernel, &self.known)?,
        };
        let (counters, port, words) = (&mut self.counters, self.port, &self.words);
        let device = self.known.device.as_str();
        let (mut has_any, mut foreign) = (false, false);
        self.kernel
            .ask(&mut nldev::counters(index, port), &mut |payload| {
                if !nldev::is_of(payload, (index, device), port)? {
                    foreign = true;
                    return Ok(());
                }
                let mut at = 0;
                nldev::each_counter(payload, |name, count| {
                    take(counters, at, (name, count), words);
                    at += 1;
                })?;
                counters.truncate(at);
                has_any = at > 0;
                Ok(())
            })?;
        if foreign && !has_any {
            return Err(Errno::ENODEV.into());
        }
        self.index = Some(index);
        // A device with counter files has counters: a driver that reports none does not support this query.
        has_any.then_some(()).ok_or(Errno::EOPNOTSUPP.into())
    }

    fn failed(&mut self, now: Instant, failed: NetlinkError) -> StatsResult {
        let reason = match failed {
            NetlinkError::Kernel(Errno::EMSGSIZE | Errno::EOPNOTSUPP | Errno::EPROTONOSUPPORT) => {
                self.never = true;
                return StatsResult::Files;
            }
            NetlinkError::Kernel(errno) => reason(errno),
            NetlinkError::Garbled(_) => Reason::Malformed,
            // Not about this port, and its files do not wait.
            NetlinkError::Busy => return StatsResult::Files,
        };
        // An unassigned index is EINVAL too.
        if matches!(reason, Reason::Gone | Reason::Rejected) {
            self.index = None;
        }
        if self.patience.refused(now, reason) {
            let DeviceKey { device, .. } = &self.known;
            tracing::debug!(device, port = self.port, %failed, "counters unreadable by netlink");
        }
        self.without(reason)
    }

    /// Returns the result for a rejected query. The kernel turns every error of a driver into EINVAL (nldev.c): its
    /// files would fail the same way, each after the same time. Before the first answer, the driver may support
    /// only files.
    fn without(&self, reason: Reason) -> StatsResult {
        match reason {
            Reason::Rejected if !self.counters.is_empty() => StatsResult::Refused(reason),
            _ => StatsResult::Files,
        }
    }

    /// The counters of the last valid answer.
    pub(super) fn counters(&self) -> impl Iterator<Item = (&Meaning, Result<CounterReading, Reason>)> {
        let shown = self.counters.iter().filter(|(meaning, _)| meaning.is_shown);
        shown.map(|(meaning, count)| {
            // The value that drivers return for a count that the firmware could not read (ionic).
            let count = Some(*count).filter(|n| *n != u64::MAX).ok_or(Reason::AllOnes);
            (meaning, count.and_then(|n| meaning.reading(n)))
        })
    }
}

/// Names rarely change: only a new one is looked up.
fn take(counters: &mut Vec<(Meaning, u64)>, at: usize, (name, count): (&str, u64), words: &Words) {
    match counters.get_mut(at) {
        Some((meaning, known)) if *meaning.name == *name => *known = count,
        _ => {
            counters.truncate(at);
            let before = counters.iter().map(|(m, _)| m);
            let name = name.to_owned();
            let meaning = match words.port(&name) {
                Some(means) => Meaning::new(name, means, before),
                None => Meaning::nothing(name),
            };
            counters.push((meaning, count));
        }
    }
}

#[cfg(test)]
mod tests;
