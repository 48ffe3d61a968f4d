//! The calls made for one port. Each is one query to its driver, independent of the others.

use super::error::CallError;
use super::gate::{CallResult, Gate, Transports};
use super::statistics::Statistics;
use crate::netlink::Garbled;
use crate::netlink::dcb::{self, DcbSettings};
use crate::netlink::ethtool::{self, EthtoolQuery, Fec, Pause};
use crate::rdma::text::Reason;

/// A kind of call: a value of the `call` label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallKind {
    /// Priority settings, by DCB.
    Dcb,
    /// The driver's statistics.
    Statistics,
    /// Pause frames of the whole link.
    Pause,
    /// Forward error correction.
    Fec,
    /// How often the link went down.
    LinkState,
}

impl CallKind {
    pub(super) const ALL: [Self; 5] = [
        Self::Dcb,
        Self::Statistics,
        Self::Pause,
        Self::Fec,
        Self::LinkState,
    ];

    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Dcb => "dcb",
            Self::Statistics => "statistics",
            Self::Pause => "pause",
            Self::Fec => "fec",
            Self::LinkState => "link_state",
        }
    }
}

/// The device and interface of a call.
pub(super) struct CallTarget<'a> {
    pub(super) gate: &'a Gate,
    /// The device whose calls are suspended after a slow one.
    pub(super) device: &'a str,
    pub(super) netdev: &'a str,
}

impl CallTarget<'_> {
    pub(super) fn dcb(&self) -> CallResult<DcbSettings> {
        self.gate.call(self.device, |ways| {
            let mut found = None;
            ways.route.ask(&mut dcb::ieee(self.netdev), &mut |payload| {
                found = Some(DcbSettings::parse(payload, self.netdev)?);
                Ok(())
            })?;
            found.ok_or(CallError::Refused(Reason::Unsupported))
        })
    }

    pub(super) fn statistics(&self, into: &mut Statistics) -> CallResult<()> {
        self.gate
            .call(self.device, |ways| into.read(&mut *ways.ethtool, self.netdev))
    }

    /// An answer without any count counts as no answer.
    pub(super) fn pause(&self) -> CallResult<Pause> {
        self.ethtool(EthtoolQuery::Pause, |payload, netdev| {
            let found = Pause::parse(payload, netdev)?;
            Ok((found != Pause::default()).then_some(found))
        })
    }

    pub(super) fn fec(&self) -> CallResult<Fec> {
        self.ethtool(EthtoolQuery::Fec, |payload, netdev| {
            let found = Fec::parse(payload, netdev)?;
            Ok((found != Fec::default()).then_some(found))
        })
    }

    pub(super) fn link_down(&self) -> CallResult<u32> {
        self.ethtool(EthtoolQuery::LinkState, ethtool::down_count)
    }

    /// A kernel that does not support statistics in this query gets the query without them. Once that is certain,
    /// nodewarden stops asking for statistics.
    fn ethtool<T>(
        &self,
        question: EthtoolQuery,
        read: fn(&[u8], &str) -> Result<Option<T>, Garbled>,
    ) -> CallResult<T> {
        self.gate.call(self.device, |ways| {
            let family = family(ways)?;
            let ask = |ways: &mut Transports, statistics| {
                let mut found = None;
                let mut request = question.of(family, self.netdev, statistics);
                let asked = ways.generic.ask(&mut request, &mut |payload| {
                    found = read(payload, self.netdev)?;
                    Ok(())
                });
                asked.map(|()| found).map_err(CallError::from)
            };
            let unsupported = CallError::Refused(Reason::Unsupported);
            let refused = ways.without_statistics.iter().filter(|q| **q == question).count();
            let found = if refused >= SURE {
                if !question.has_more() {
                    return Err(unsupported);
                }
                ask(ways, false)
            } else {
                match ask(ways, true) {
                    Err(rejected @ CallError::Refused(Reason::Rejected)) => {
                        // The driver itself may have rejected it, and then rejects it again.
                        let found = ask(ways, false).map_err(|_| rejected)?;
                        ways.without_statistics.push(question);
                        Ok(found)
                    }
                    answer => answer,
                }
            };
            found?.ok_or(unsupported)
        })
    }
}

/// Successful answers without statistics after which the kernel is known not to support them. One could be a
/// transient error of the driver.
const SURE: usize = 2;

/// The id of ethtool's netlink family, which is constant while the kernel runs.
fn family(ways: &mut Transports) -> Result<u16, CallError> {
    if let Some(family) = ways.family {
        return Ok(family);
    }
    let mut found = None;
    ways.generic.ask(&mut ethtool::family(), &mut |payload| {
        found = Some(ethtool::family_id(payload)?);
        Ok(())
    })?;
    ways.family = found;
    found.ok_or(CallError::Refused(Reason::Unsupported))
}
