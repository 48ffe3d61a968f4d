//! The calls that are made for one port. Each is one question to its driver, and stands for itself.

use super::error::CallError;
use super::gate::{CallResult, Gate, Transports};
use super::statistics::Statistics;
use crate::netlink::Garbled;
use crate::netlink::dcb::{self, DcbSettings};
use crate::netlink::ethtool::{self, EthtoolQuery, Fec, Pause};
use crate::rdma::text::Reason;

/// A kind of call: a word for the `call` label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallKind {
    /// How priorities are set up, by DCB.
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

/// Whom to ask about what.
pub(super) struct CallTarget<'a> {
    pub(super) gate: &'a Gate,
    /// What is given a rest where it is slow.
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

    /// No count at all is no answer.
    pub(super) fn pause(&self) -> CallResult<Pause> {
        self.ethtool(EthtoolQuery::Pause, |payload, netdev| {
            let found = Pause::parse(payload, netdev)?;
            Ok((found != Pause::default()).then_some(found))
        })
    }

    /// Likewise.
    pub(super) fn fec(&self) -> CallResult<Fec> {
        self.ethtool(EthtoolQuery::Fec, |payload, netdev| {
            let found = Fec::parse(payload, netdev)?;
            Ok((found != Fec::default()).then_some(found))
        })
    }

    /// Likewise.
    pub(super) fn link_down(&self) -> CallResult<u32> {
        self.ethtool(EthtoolQuery::LinkState, ethtool::down_count)
    }

    /// A kernel that knows no statistics of the question is asked without, and once that is sure not for them again.
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
                if !question.tells_more() {
                    return Err(unsupported);
                }
                ask(ways, false)
            } else {
                match ask(ways, true) {
                    Err(rejected @ CallError::Refused(Reason::Rejected)) => {
                        // The driver may have said so, and then says it again.
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

/// So often a question was answered without statistics alone: once may have been the driver's mood.
const SURE: usize = 2;

/// The number of ethtool's family, which does not change while the kernel runs.
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
