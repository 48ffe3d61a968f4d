//! The hardware's counters of a port by one message in place of a file each. See docs/decisions/0009-rdma-netlink.md.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use nix::errno::Errno;

use super::attribute::{Patience, reason};
use super::counter::{Meaning, Reading};
use super::metrics::{self, HW_COUNTER};
use super::text::Reason;
use crate::netlink::message::Request;
use crate::netlink::nldev::{self, Found};
use crate::sys::netlink::{Failed, Socket};

/// The kernel's own lifespan for `hw_counters`, which this way of asking does not heed (drivers/infiniband/core/nldev.c).
pub(super) const LIFESPAN: Duration = Duration::from_millis(10);

/// The devices that netlink knows, by name. Empty where it cannot be asked: then there are the files.
pub(super) fn devices() -> BTreeMap<String, Found> {
    let mut found = BTreeMap::new();
    let asked = Socket::rdma().map_err(Failed::from).and_then(|mut socket| {
        socket.ask(&mut nldev::devices(), |payload| {
            let device = Found::parse(payload)?;
            found.insert(device.name.clone(), device);
            Ok(())
        })
    });
    if let Err(error) = asked {
        tracing::debug!(%error, "no RDMA by netlink; files are read");
        found.clear();
    }
    found
}

/// What came of asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// The counters are there.
    Told,
    /// This driver has no such counters, or more than fit: there are the files.
    NotSo,
    /// The kernel or the driver refused.
    Refused(Reason),
}

/// One port's counters.
pub(super) struct Stats {
    socket: Socket,
    request: Request,
    device: u32,
    port: u32,
    /// In the order of the driver, as of the last answer.
    counters: Vec<(Meaning, u64)>,
    asked: Option<(Instant, Asked)>,
    patience: Patience,
}

impl Stats {
    /// `None` where there is no socket to be had.
    pub(super) fn new(device: u32, port: u32) -> Option<Self> {
        Some(Self {
            socket: Socket::rdma().ok()?,
            request: nldev::counters(device, port),
            device,
            port,
            counters: Vec::new(),
            asked: None,
            patience: Patience::default(),
        })
    }

    /// Asks, unless the last answer is younger than that.
    pub(super) fn ask(&mut self, now: Instant, lifespan: Duration) -> Asked {
        if let Some((at, asked)) = self.asked
            && now.saturating_duration_since(at) < lifespan.max(LIFESPAN)
        {
            return asked;
        }
        if let Some(reason) = self.patience.rests(now) {
            return Asked::Refused(reason);
        }
        let Self {
            socket,
            request,
            counters,
            device,
            port,
            ..
        } = self;
        let mut told = false;
        let answer = socket.ask(request, |payload| {
            if !nldev::is_of(payload, *device, *port)? {
                return Ok(());
            }
            told = true;
            let mut at = 0;
            nldev::each_counter(payload, |name, count| {
                take(counters, at, name, count);
                at += 1;
            })?;
            counters.truncate(at);
            Ok(())
        });
        let asked = match answer {
            Ok(()) if told => Asked::Told,
            Ok(()) => Asked::NotSo,
            Err(Failed::Kernel(
                Errno::EINVAL | Errno::EMSGSIZE | Errno::EOPNOTSUPP | Errno::EPROTONOSUPPORT,
            )) => Asked::NotSo,
            Err(Failed::Kernel(errno)) => Asked::Refused(reason(errno)),
            Err(Failed::Garbled(_)) => Asked::Refused(Reason::Malformed),
        };
        match asked {
            Asked::Refused(reason) if reason.is_refusal() => {
                if self.patience.refused(now, reason) {
                    let (device, port) = (self.device, self.port);
                    tracing::debug!(
                        device,
                        port,
                        reason = reason.word(),
                        "counters not told by netlink"
                    );
                }
            }
            _ => self.patience = Patience::default(),
        }
        self.asked = Some((now, asked));
        asked
    }

    /// The counters of the last answer that was one.
    pub(super) fn counters(&self) -> impl Iterator<Item = (&Meaning, Result<Reading, Reason>)> {
        self.counters.iter().map(|(meaning, count)| {
            // A driver's word for a number that its firmware could not tell (ionic).
            let count = Some(*count).filter(|n| *n != u64::MAX).ok_or(Reason::AllOnes);
            (meaning, count.and_then(|n| meaning.reading(n)))
        })
    }
}

/// Names hardly ever change: only a new one is looked up.
fn take(counters: &mut Vec<(Meaning, u64)>, at: usize, name: &str, count: u64) {
    match counters.get_mut(at) {
        Some((meaning, known)) if meaning.name == name => *known = count,
        _ => {
            let row = metrics::hw::ROWS.iter().find(|r| r.file == name);
            counters.truncate(at);
            counters.push((Meaning::new(name.to_owned(), row, &HW_COUNTER), count));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(counters: &[(Meaning, u64)]) -> Vec<(&str, u64)> {
        counters.iter().map(|(m, n)| (m.name.as_str(), *n)).collect()
    }

    #[test]
    fn names_are_looked_up_once_and_again_from_where_they_differ() {
        let mut counters = Vec::new();
        for (at, name) in ["np_cnp_sent", "made_up", "out_of_buffer"]
            .into_iter()
            .enumerate()
        {
            take(&mut counters, at, name, 1);
        }
        assert_eq!(counters[0].0.metric.name, "rdma_np_cnp_sent_total");
        assert!(counters[1].0.is_named && !counters[2].0.is_named);
        take(&mut counters, 0, "np_cnp_sent", 2);
        take(&mut counters, 1, "rx_read_requests", 3);
        assert_eq!(names(&counters), [("np_cnp_sent", 2), ("rx_read_requests", 3)]);
    }

    #[test]
    fn without_rdma_in_the_kernel_there_are_no_devices_and_no_error() {
        for (name, found) in devices() {
            assert_eq!(name, found.name);
        }
    }
}
