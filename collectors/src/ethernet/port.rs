//! One Ethernet port of an RDMA device.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::calls::{CallKind, CallTarget};
use super::counts::EthernetCounts;
use super::drivers::{EthernetDriver, counts_by_dcb};
use super::error::CallError;
use super::gate::{CallResult, Gate};
use super::metrics::{
    CALL_SECONDS, FEC_CORRECTED_BLOCKS, FEC_MODE, FEC_UNCORRECTABLE_BLOCKS, PAUSE_RX_FRAMES, PAUSE_TX_FRAMES,
    PFC_ENABLED, PFC_RX_FRAMES, PFC_TX_FRAMES, PHY_LINK_DOWN, QOS_DSCP_PRIORITY, QOS_TRUST, RESTING,
    UNREADABLE,
};
use super::setup::EthernetSetup;
use super::statistics::Statistics;
use crate::netlink::dcb::{DcbSettings, Pfc, Trust};
use crate::rdma::attribute::RefusalBackoff;
use crate::rdma::facts::PortFacts;
use crate::rdma::function;
use crate::rdma::netlink_port::NetlinkPort;
use crate::rdma::port::PortLocation;
use crate::rdma::text::Reason;
use crate::sys::netlink::{NetlinkTransport, SharedTransport};
use crate::sys::root;
use crate::{Block, Device, Error, Metric, Subject, SubjectKind};

/// How long a port without flow control is assumed to stay so, which halves the queries to its driver.
const KEEP_WITHOUT: Duration = Duration::from_secs(60);

/// One port.
pub(super) struct EthernetPort {
    subject: Subject,
    place: PortLocation,
    /// The environment is a recording: values that are otherwise cached are read each time.
    on_disk: bool,
    gate: Arc<Gate>,
    driver: Option<&'static EthernetDriver>,
    facts: PortFacts,
    /// Netlink's answer to which interface belongs to the port, if netlink is available: files may name another
    /// interface.
    port_query: Option<NetlinkPort>,
    setup: EthernetSetup,
    statistics: Statistics,
    /// Indexed by [`CallKind`].
    patience: [RefusalBackoff; CallKind::ALL.len()],
    /// The last answer without flow control, and the interface that gave it.
    without: Option<(Instant, String, DcbSettings)>,
}

/// A reading in progress.
struct PortReading<'a> {
    about: CallTarget<'a>,
    port: [&'a str; 2],
    now: Instant,
    patience: [RefusalBackoff; CallKind::ALL.len()],
    out: &'a mut Block,
}

impl<'a> PortReading<'a> {
    /// Makes a call, unless the driver rejected it too often, and records its result.
    fn ask<T>(&mut self, call: CallKind, ask: impl FnOnce(&CallTarget<'a>) -> CallResult<T>) -> Option<T> {
        let [device, port] = self.port;
        let patience = self.patience.get_mut(call as usize)?;
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
                        let (call, reason) = (call.word(), reason.word());
                        tracing::debug!(device, port, call, reason, "unreadable; omitted");
                    }
                }
                _ => *patience = RefusalBackoff::default(),
            }
            let labels = &[device, port, call.word()];
            self.out.f64(&CALL_SECONDS, labels, took.as_secs_f64());
        }
        answer.result.map_err(|why| self.without(call, why)).ok()
    }

    fn without(&mut self, call: CallKind, why: CallError) {
        let [device, port] = self.port;
        self.out
            .u64(&UNREADABLE, &[device, port, call.word(), why.word()], 1);
    }

    /// Adds one count of the port.
    fn count(&mut self, metric: &'static Metric, count: Option<u64>) {
        let count = count.filter(|n| *n != u64::MAX);
        self.out.maybe_u64(metric, &self.port, count);
    }

    /// Adds the priority settings.
    fn push_setup(&mut self, ieee: &DcbSettings) {
        let [device, port] = self.port;
        for (priority, on) in ieee.pfc.iter().flat_map(each) {
            let priority = priority.to_string();
            self.out.u64(&PFC_ENABLED, &[device, port, &priority], on.into());
        }
        let trust = match ieee.trust() {
            Trust::Dscp => "dscp",
            Trust::Pcp => "pcp",
        };
        self.out.info(&QOS_TRUST, &[device, port, trust]);
        for (dscp, priority) in &ieee.dscp {
            let dscp = dscp.to_string();
            self.out
                .u64(&QOS_DSCP_PRIORITY, &[device, port, &dscp], (*priority).into());
        }
    }

    /// Adds frames as DCB counts them, for a driver without a table that fills them in.
    fn push_frames(&mut self, pfc: &Pfc) {
        let [device, port] = self.port;
        for (metric, counts) in [(&PFC_RX_FRAMES, pfc.indications), (&PFC_TX_FRAMES, pfc.requests)] {
            let on = each(pfc).zip(counts).filter(|((_, on), _)| *on);
            for ((priority, _), count) in on {
                let (priority, count) = (priority.to_string(), Some(count).filter(|n| *n != u64::MAX));
                self.out.maybe_u64(metric, &[device, port, &priority], count);
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
        self.ask(CallKind::Statistics, |about| about.statistics(statistics))?;
        let counts = EthernetCounts::of(driver, pfc, statistics.iter());
        counts.push(self.port, self.out);
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
            && let Some(pause) = self.ask(CallKind::Pause, CallTarget::pause)
        {
            self.count(&PAUSE_RX_FRAMES, pause.rx);
            self.count(&PAUSE_TX_FRAMES, pause.tx);
        }
        if let Some(fec) = self.ask(CallKind::Fec, CallTarget::fec) {
            let [device, port] = self.port;
            if let Some(mode) = fec.mode {
                self.out.info(&FEC_MODE, &[device, port, mode]);
            }
            if !has(&FEC_CORRECTED_BLOCKS) && !has(&FEC_UNCORRECTABLE_BLOCKS) {
                self.count(&FEC_CORRECTED_BLOCKS, fec.corrected);
                self.count(&FEC_UNCORRECTABLE_BLOCKS, fec.uncorrectable);
            }
        }
        if !has(&PHY_LINK_DOWN)
            && let Some(count) = self.ask(CallKind::LinkState, CallTarget::link_down)
        {
            self.count(&PHY_LINK_DOWN, Some(count.into()));
        }
    }
}

/// Whether 2 functions belong to one device: same domain, bus and device. In a virtual machine, unrelated devices
/// may share a bus.
fn is_one_card(one: &str, other: &str) -> bool {
    let card = |address: &str| Some(address.rsplit_once('.')?.0.to_owned());
    card(one).is_some_and(|one| Some(one) == card(other))
}

/// Each priority, and whether it has flow control.
fn each(pfc: &Pfc) -> impl Iterator<Item = (u8, bool)> + use<> {
    let pfc = *pfc;
    (0..8).map(move |priority| (priority, pfc.is_on(priority)))
}

impl EthernetPort {
    /// `rdma` answers queries about RDMA devices.
    pub(super) fn new(
        place: PortLocation,
        gate: &Arc<Gate>,
        rdma: Box<dyn NetlinkTransport>,
        on_disk: bool,
    ) -> Self {
        let known = place.netlink.clone().zip(place.port.parse().ok());
        Self {
            port_query: known.map(|(known, port)| NetlinkPort::new(known, port, SharedTransport::new(rdma))),
            subject: Subject::new(SubjectKind::RdmaPort, format!("{}/{}", place.device, place.port)),
            driver: EthernetDriver::named(&place.function.driver),
            gate: Arc::clone(gate),
            facts: PortFacts::default(),
            setup: EthernetSetup::default(),
            statistics: Statistics::default(),
            patience: Default::default(),
            without: None,
            on_disk,
            place,
        }
    }

    /// Queries which interface belongs to the port. Some drivers take RTNL to answer. While a call holds RTNL the
    /// previous answer stands, since the interface is not queried then either.
    fn refresh(&mut self, now: Instant) {
        if self.gate.is_busy() && !self.facts.netdev.is_empty() {
            return;
        }
        let query = self.port_query.as_mut().filter(|_| !self.gate.is_busy());
        let answer = query.and_then(|query| query.port(now));
        self.facts.refresh(now, &self.place, answer.as_ref());
    }

    /// Whether the interface may be queried: it must belong to the port and be in this network namespace.
    fn may_ask(&self) -> Result<(), CallError> {
        let gone = Err(CallError::Refused(Reason::Gone));
        if self.facts.netdev.is_empty() {
            return gone;
        }
        let netdev = self.place.net.join(&self.facts.netdev);
        let below = root::link_name(&netdev.join("device")).map_err(|_| CallError::Refused(Reason::Io))?;
        if self.place.function.pci.is_empty() {
            // A software device can use any interface.
            return Ok(());
        }
        // The second port of mlx5 may be on the card's other function.
        let found = function::pci_of(&netdev.join("device")).unwrap_or_default();
        match below {
            Some(_) if is_one_card(&found, &self.place.function.pci) => Ok(()),
            // The port's interface is in another network namespace, and an interface in this one has its name.
            Some(_) => gone,
            None if root::inode(&netdev).ok().flatten().is_none() => gone,
            None => Err(CallError::Stacked),
        }
    }

    /// DCB's settings. `None`: no answer.
    fn dcb(&mut self, reading: &mut PortReading<'_>) -> Option<DcbSettings> {
        let (now, netdev) = (reading.now, reading.about.netdev);
        if let Some((at, of, ieee)) = &self.without
            && !self.on_disk
            && of == netdev
            && now.saturating_duration_since(*at) < KEEP_WITHOUT
        {
            return Some(ieee.clone());
        }
        let ieee = reading.ask(CallKind::Dcb, CallTarget::dcb);
        let without = ieee.clone().filter(|i| i.pfc.is_none_or(|pfc| pfc.enabled == 0));
        self.without = without.map(|ieee| (now, netdev.to_owned(), ieee));
        ieee
    }

    /// Queries the driver, DCB first: a port without flow control gets no further queries.
    fn ask(&mut self, reading: &mut PortReading<'_>) {
        let ieee = self.dcb(reading);
        if let Some(ieee) = &ieee {
            reading.push_setup(ieee);
        }
        let pfc = ieee.as_ref().and_then(|i| i.pfc).filter(|pfc| pfc.enabled != 0);
        let is_free = ieee.is_none() && self.driver.is_some_and(|d| d.without_dcb);
        if pfc.is_none() && !is_free {
            return;
        }
        let counts = match (self.driver, &pfc) {
            (Some(driver), pfc) => reading.counts(driver, pfc.as_ref(), &mut self.statistics),
            (None, Some(pfc)) if counts_by_dcb(&self.place.function.driver) => {
                reading.push_frames(pfc);
                None
            }
            (None, _) => None,
        };
        reading.push_rest(counts.as_ref());
    }
}

impl Device for EthernetPort {
    fn subject(&self) -> &Subject {
        &self.subject
    }

    fn read(&mut self, out: &mut Block) -> Result<(), Error> {
        let gate = Arc::clone(&self.gate);
        let now = gate.now();
        self.refresh(now);
        if !["Ethernet", ""].contains(&self.facts.link_layer.as_str()) {
            // The port was set to InfiniBand after the list was made.
            return Ok(());
        }
        let PortLocation {
            device,
            port,
            function,
            net,
            ..
        } = &self.place;
        let (device, number) = (device.clone(), port.clone());
        let netdev = self.facts.netdev.clone();
        // Ports of one function share its firmware.
        let whole = if function.pci.is_empty() {
            device.clone()
        } else {
            function.pci.clone()
        };
        let port = [device.as_str(), number.as_str()];
        self.setup.refresh((&gate, &whole), net, &netdev, self.on_disk);
        self.setup.push(port, out);
        let mut reading = PortReading {
            about: CallTarget {
                gate: &gate,
                device: &whole,
                netdev: &netdev,
            },
            port,
            now,
            patience: self.patience,
            out,
        };
        match self.may_ask() {
            Ok(()) => self.ask(&mut reading),
            Err(why) => reading.without(CallKind::Dcb, why),
        }
        self.patience = reading.patience;
        out.u64(&RESTING, &port, gate.rests(&whole).into());
        Ok(())
    }
}
