//! Netlink queries about a port besides its counters: states and interface in one message, and the open objects of
//! its device. Files show the states and the interface too, but may name an interface of another network namespace.

use std::time::{Duration, Instant};

use nix::errno::Errno;

use super::attribute::{RefusalBackoff, reason};
use super::stats::{DeviceKey, find};
use super::text::Reason;
use crate::netlink::Garbled;
use crate::netlink::message::Request;
use crate::netlink::nldev::{self, NldevPort};
use crate::sys::netlink::{NetlinkError, NetlinkTransport};

/// Maximum age of the number of objects. The kernel walks over each of them to count.
const KEEP: Duration = Duration::from_secs(60);

/// A query that may be suspended for a while, or permanently.
#[derive(Default)]
struct QueryState {
    patience: RefusalBackoff,
    never: bool,
}

/// The netlink queries of one port.
pub(crate) struct NetlinkPort {
    kernel: Box<dyn NetlinkTransport>,
    known: DeviceKey,
    port: u32,
    /// The device's index; `None`: not known yet, or outdated.
    index: Option<u32>,
    of_port: QueryState,
    of_resources: QueryState,
    /// Kinds of objects and their counts, as of the last answer.
    resources: Vec<(String, u64)>,
    counted: Option<Instant>,
}

impl NetlinkPort {
    /// Sends no query yet.
    pub(crate) fn new(known: DeviceKey, port: u32, kernel: impl NetlinkTransport + 'static) -> Self {
        Self {
            kernel: Box::new(kernel),
            known,
            port,
            index: None,
            of_port: QueryState::default(),
            of_resources: QueryState::default(),
            resources: Vec::new(),
            counted: None,
        }
    }

    /// The index of the device, if known.
    pub(super) const fn index(&self) -> Option<u32> {
        self.index
    }

    /// The port's current state. `None`: read the files.
    pub(crate) fn port(&mut self, now: Instant) -> Option<NldevPort> {
        let mut answer = None;
        let port = self.port;
        let request = |index| nldev::port(index, port);
        let answered = self.ask(
            now,
            |t| &mut t.of_port,
            request,
            |device, payload| {
                if nldev::is_of(payload, device, port)? {
                    answer = Some(NldevPort::parse(payload)?);
                }
                Ok(())
            },
        );
        if answered && answer.is_none() {
            // Another device has the index now.
            self.index = None;
        }
        answer
    }

    /// Kinds of open objects on the device, and their counts, at most 60 s old. `None`: not reported.
    pub(super) fn resources(&mut self, now: Instant) -> Option<&[(String, u64)]> {
        let is_young = |at: Instant| now.saturating_duration_since(at) < KEEP;
        if !self.counted.is_some_and(is_young) {
            let mut counts = Vec::new();
            let answered = self.ask(
                now,
                |t| &mut t.of_resources,
                nldev::resources,
                |_, payload| nldev::each_resource(payload, |name, n| counts.push((name.to_owned(), n))),
            );
            self.counted = answered.then_some(now);
            self.resources = if answered { counts } else { Vec::new() };
        }
        self.counted.map(|_| self.resources.as_slice())
    }

    /// Sends one query. False: it was not answered, or is suspended.
    fn ask(
        &mut self,
        now: Instant,
        question: impl Fn(&mut Self) -> &mut QueryState,
        request: impl Fn(u32) -> Request,
        mut take: impl FnMut((u32, &str), &[u8]) -> Result<(), Garbled>,
    ) -> bool {
        let QueryState { patience, never } = question(self);
        if *never || patience.rests(now).is_some() {
            return false;
        }
        let mut attempt = || {
            let index = match self.index {
                Some(index) => index,
                None => find(&mut *self.kernel, &self.known)?,
            };
            self.index = Some(index);
            let device = (index, self.known.device.as_str());
            self.kernel
                .ask(&mut request(index), &mut |payload| take(device, payload))
        };
        let answer = attempt();
        let question = question(self);
        let reason = match answer {
            Ok(()) => {
                question.patience = RefusalBackoff::default();
                return true;
            }
            Err(NetlinkError::Kernel(Errno::EMSGSIZE | Errno::EOPNOTSUPP | Errno::EPROTONOSUPPORT)) => {
                question.never = true;
                return false;
            }
            Err(NetlinkError::Kernel(errno)) => reason(errno),
            Err(NetlinkError::Garbled(_)) => Reason::Malformed,
            // Not about this port, and its files do not wait.
            Err(NetlinkError::Busy) => return false,
        };
        // The files have their own back-off.
        question.patience.refused(now, reason);
        // An unassigned index is EINVAL too.
        if matches!(reason, Reason::Gone | Reason::Rejected) {
            self.index = None;
        }
        false
    }
}

#[cfg(test)]
pub(crate) mod tests;
