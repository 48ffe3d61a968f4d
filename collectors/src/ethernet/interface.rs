//! One network interface: the port's own, or a member of its bond.

use std::time::Instant;

use super::calls::{CallKind, CallTarget};
use super::counts::EthernetCounts;
use super::drivers::{EthernetDriver, counts_by_dcb};
use super::error::CallError;
use super::gate::{CallResult, Gate};
use super::metrics::{
    CALL_SECONDS, FEC_CORRECTED_BLOCKS, FEC_MODE, FEC_UNCORRECTABLE_BLOCKS, Owner, PAUSE_RX_FRAMES,
    PAUSE_TX_FRAMES, PFC_ENABLED, PFC_RX_FRAMES, PFC_TX_FRAMES, PHY_LINK_DOWN, QOS_DSCP_PRIORITY, QOS_TRUST,
    UNREADABLE,
};
use super::setup::EthernetSetup;
use super::statistics::Statistics;
use crate::netlink::dcb::{DcbSettings, Pfc, Trust};
use crate::rdma::attribute::RefusalBackoff;
use crate::rdma::function::DeviceFunction;
use crate::rdma::text::Reason;
use crate::{Block, Metric};

/// The state of an interface between two readings.
#[derive(Default)]
pub(super) struct Interface {
    pub(super) setup: EthernetSetup,
    statistics: Statistics,
    /// Indexed by [`CallKind`].
    patience: [RefusalBackoff; CallKind::ALL.len()],
}

/// How often the driver of an interface is queried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    /// At each reading: a priority has flow control, or the statistics cost the firmware nothing. Or nothing was
    /// asked at all.
    Each,
    /// At every second reading.
    Second,
}

/// The port of an interface.
pub(super) struct PortOf<'a> {
    pub(super) owner: Owner<'a>,
    pub(super) gate: &'a Gate,
    /// The device whose calls are suspended after a slow one.
    pub(super) device: &'a str,
    pub(super) function: &'a DeviceFunction,
    pub(super) driver: Option<&'static EthernetDriver>,
}

impl Interface {
    /// Queries the driver: DCB first, which shows the priorities with flow control.
    pub(super) fn read(&mut self, port: &PortOf<'_>, out: &mut Block) -> Pace {
        let mut reading = InterfaceReading {
            about: CallTarget {
                gate: port.gate,
                device: port.device,
                netdev: port.owner.netdev,
            },
            owner: port.owner,
            now: port.gate.now(),
            patience: self.patience,
            out,
        };
        let pace = self.ask(port, &mut reading);
        self.patience = reading.patience;
        pace
    }

    fn ask(&mut self, port: &PortOf<'_>, reading: &mut InterfaceReading<'_>) -> Pace {
        let ieee = reading.ask(CallKind::Dcb, CallTarget::dcb);
        let hides_pfc = port.driver.is_some_and(|d| d.hides_pfc);
        if let Ok(ieee) = &ieee
            && (!hides_pfc || ieee.pfc.is_some_and(|pfc| pfc.enabled != 0))
        {
            reading.push_setup(ieee);
        }
        // Which priorities have flow control. `None`: no DCB shows it.
        let pfc = match ieee {
            Ok(ieee) => Some(ieee.pfc.unwrap_or_default()),
            Err(CallError::Refused(Reason::Unsupported)) => None,
            Err(CallError::Resting | CallError::Busy) => return Pace::Each,
            Err(_) => Some(Pfc::default()),
        };
        let is_on = pfc.is_some_and(|pfc| pfc.enabled != 0);
        let is_free = pfc.is_none() && port.driver.is_some_and(|d| d.without_dcb);
        if !is_on && port.function.pci.is_empty() {
            // The interface below a software device is no port of RDMA's.
            return Pace::Second;
        }
        // Which priorities have it is unknown where it is hidden.
        let known = pfc.as_ref().filter(|_| is_on || !hides_pfc);
        let counts = match (port.driver, &pfc) {
            (Some(driver), _) => reading.counts(driver, known, &mut self.statistics),
            (None, Some(pfc)) if counts_by_dcb(&port.function.driver) => {
                reading.push_frames(pfc);
                None
            }
            (None, _) => None,
        };
        reading.push_rest(counts.as_ref());
        if is_on || is_free {
            Pace::Each
        } else {
            Pace::Second
        }
    }
}

/// A reading in progress.
struct InterfaceReading<'a> {
    about: CallTarget<'a>,
    owner: Owner<'a>,
    now: Instant,
    patience: [RefusalBackoff; CallKind::ALL.len()],
    out: &'a mut Block,
}

impl<'a> InterfaceReading<'a> {
    /// Makes a call, unless the driver rejected it too often, and records its result.
    fn ask<T>(
        &mut self,
        call: CallKind,
        ask: impl FnOnce(&CallTarget<'a>) -> CallResult<T>,
    ) -> Result<T, CallError> {
        let mut patience = self.patience.get(call as usize).copied().unwrap_or_default();
        let answer = match patience.rests(self.now) {
            Some(reason) => CallResult {
                result: Err(CallError::Refused(reason)),
                took: None,
            },
            None => ask(&self.about),
        };
        if let Some(took) = answer.took {
            match &answer.result {
                Err(CallError::Refused(reason)) if reason.is_refusal() => {
                    if patience.refused(self.now, *reason) {
                        let (netdev, call, reason) = (self.owner.netdev, call.word(), reason.word());
                        tracing::debug!(netdev, call, reason, "unreadable; omitted");
                    }
                }
                _ => patience = RefusalBackoff::default(),
            }
            let labels = self.owner.labels(&[call.word()]);
            self.out.f64(&CALL_SECONDS, &labels, took.as_secs_f64());
        }
        if let Some(slot) = self.patience.get_mut(call as usize) {
            *slot = patience;
        }
        answer.result.inspect_err(|why| self.without(call, *why))
    }

    fn without(&mut self, call: CallKind, why: CallError) {
        push_unreadable(self.owner, call, why, self.out);
    }

    /// Adds one count of the interface.
    fn count(&mut self, metric: &'static Metric, count: Option<u64>) {
        let count = count.filter(|n| *n != u64::MAX);
        self.out.maybe_u64(metric, &self.owner.labels(&[]), count);
    }

    /// Adds the priority settings.
    fn push_setup(&mut self, ieee: &DcbSettings) {
        for (priority, on) in ieee.pfc.iter().flat_map(each) {
            let priority = priority.to_string();
            let labels = self.owner.labels(&[&priority]);
            self.out.u64(&PFC_ENABLED, &labels, on.into());
        }
        let trust = match ieee.trust() {
            Trust::Dscp => "dscp",
            Trust::Pcp => "pcp",
        };
        self.out.info(&QOS_TRUST, &self.owner.labels(&[trust]));
        for (dscp, priority) in &ieee.dscp {
            let dscp = dscp.to_string();
            let labels = self.owner.labels(&[&dscp]);
            self.out.u64(&QOS_DSCP_PRIORITY, &labels, (*priority).into());
        }
    }

    /// Adds frames as DCB counts them, for a driver without a table that fills them in.
    fn push_frames(&mut self, pfc: &Pfc) {
        for (metric, counts) in [(&PFC_RX_FRAMES, pfc.indications), (&PFC_TX_FRAMES, pfc.requests)] {
            let on = each(pfc).zip(counts).filter(|((_, on), _)| *on);
            for ((priority, _), count) in on {
                let (priority, count) = (priority.to_string(), Some(count).filter(|n| *n != u64::MAX));
                self.out
                    .maybe_u64(metric, &self.owner.labels(&[&priority]), count);
            }
        }
    }

    /// Adds the statistics that the driver's table lists.
    fn counts(
        &mut self,
        driver: &EthernetDriver,
        pfc: Option<&Pfc>,
        statistics: &mut Statistics,
    ) -> Option<EthernetCounts> {
        self.ask(CallKind::Statistics, |about| about.statistics(statistics))
            .ok()?;
        let counts = EthernetCounts::of(driver, pfc, statistics.iter());
        counts.push(self.owner, self.out);
        if counts.all_ones > 0 {
            self.without(CallKind::Statistics, CallError::Refused(Reason::AllOnes));
        }
        Some(counts)
    }

    /// Adds what the driver's statistics lack and its other answers have.
    fn push_rest(&mut self, counts: Option<&EthernetCounts>) {
        let has = |metric| counts.is_some_and(|c| c.has(metric));
        if !has(&PAUSE_RX_FRAMES)
            && !has(&PAUSE_TX_FRAMES)
            && let Ok(pause) = self.ask(CallKind::Pause, CallTarget::pause)
        {
            self.count(&PAUSE_RX_FRAMES, pause.rx);
            self.count(&PAUSE_TX_FRAMES, pause.tx);
        }
        if let Ok(fec) = self.ask(CallKind::Fec, CallTarget::fec) {
            if let Some(mode) = fec.mode {
                self.out.info(&FEC_MODE, &self.owner.labels(&[mode]));
            }
            if !has(&FEC_CORRECTED_BLOCKS) && !has(&FEC_UNCORRECTABLE_BLOCKS) {
                self.count(&FEC_CORRECTED_BLOCKS, fec.corrected);
                self.count(&FEC_UNCORRECTABLE_BLOCKS, fec.uncorrectable);
            }
        }
        if !has(&PHY_LINK_DOWN)
            && let Ok(count) = self.ask(CallKind::LinkState, CallTarget::link_down)
        {
            self.count(&PHY_LINK_DOWN, Some(count.into()));
        }
    }
}

/// Adds the reason why a call has no result.
pub(super) fn push_unreadable(owner: Owner<'_>, call: CallKind, why: CallError, out: &mut Block) {
    out.u64(&UNREADABLE, &owner.labels(&[call.word(), why.word()]), 1);
}

/// Each priority, and whether it has flow control.
fn each(pfc: &Pfc) -> impl Iterator<Item = (u8, bool)> + use<> {
    let pfc = *pfc;
    (0..8).map(move |priority| (priority, pfc.is_on(priority)))
}
