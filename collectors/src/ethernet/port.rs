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

/// How long it is believed that a port has no priority with flow control: then its driver is asked half as often.
const KEEP_WITHOUT: Duration = Duration::from_secs(60);

/// One port.
pub(super) struct EthernetPort {
    subject: Subject,
    place: PortLocation,
    /// A recording: what is kept for a while otherwise is read each time.
    on_disk: bool,
    gate: Arc<Gate>,
    driver: Option<&'static EthernetDriver>,
    facts: PortFacts,
    /// Asked which interface is the port's own, where netlink may be asked: files may name another one.
    told: Option<NetlinkPort>,
    setup: EthernetSetup,
    statistics: Statistics,
    /// By [`CallKind`].
    patience: [RefusalBackoff; CallKind::ALL.len()],
    /// The last answer that had no priority with flow control, of that interface.
    without: Option<(Instant, String, DcbSettings)>,
}

/// One reading on its way.
struct PortReading<'a> {
    about: CallTarget<'a>,
    port: [&'a str; 2],
    now: Instant,
    patience: [RefusalBackoff; CallKind::ALL.len()],
    out: &'a mut Block,
}

impl<'a> PortReading<'a> {
    /// Makes a call, unless its driver has refused it too often, and notes what came of it.
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
                        tracing::debug!(device, port, call, reason, "left out");
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

    /// A count that is told by itself.
    fn count(&mut self, metric: &'static Metric, count: Option<u64>) {
        let count = count.filter(|n| *n != u64::MAX);
        self.out.maybe_u64(metric, &self.port, count);
    }

    /// How priorities are set up.
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

    /// Frames as DCB counts them, for a driver whose statistics are not known and that fills them in.
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

    /// What the driver counts, as far as it has a table.
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

    /// What the driver's statistics do not tell and its other answers do.
    fn push_rest(&mut self, counts: Option<&EthernetCounts>) {
        let tells = |metric| counts.is_some_and(|c| c.tells(metric));
        if !tells(&PAUSE_RX_FRAMES)
            && !tells(&PAUSE_TX_FRAMES)
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
            if !tells(&FEC_CORRECTED_BLOCKS) && !tells(&FEC_UNCORRECTABLE_BLOCKS) {
                self.count(&FEC_CORRECTED_BLOCKS, fec.corrected);
                self.count(&FEC_UNCORRECTABLE_BLOCKS, fec.uncorrectable);
            }
        }
        if !tells(&PHY_LINK_DOWN)
            && let Some(count) = self.ask(CallKind::LinkState, CallTarget::link_down)
        {
            self.count(&PHY_LINK_DOWN, Some(count.into()));
        }
    }
}

/// Whether two functions are of one device: domain, bus and device are the same. In a virtual machine, devices of all kinds
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
    /// `rdma` answers questions about RDMA devices.
    pub(super) fn new(
        place: PortLocation,
        gate: &Arc<Gate>,
        rdma: Box<dyn NetlinkTransport>,
        on_disk: bool,
    ) -> Self {
        let known = place.netlink.clone().zip(place.port.parse().ok());
        Self {
            told: known.map(|(known, port)| NetlinkPort::new(known, port, SharedTransport::new(rdma))),
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

    /// Learns which interface is the port's own. Some drivers take the kernel's lock to tell it: while a call holds that,
    /// what was told last stands, since nothing is asked of the interface either.
    fn refresh(&mut self, now: Instant) {
        if self.gate.is_busy() && !self.facts.netdev.is_empty() {
            return;
        }
        let told = self.told.as_mut().filter(|_| !self.gate.is_busy());
        let told = told.and_then(|told| told.port(now));
        self.facts.refresh(now, &self.place, told.as_ref());
    }

    /// Whether the interface may be asked: it must be the port's own, and here.
    fn may_ask(&self) -> Result<(), CallError> {
        let gone = Err(CallError::Refused(Reason::Gone));
        if self.facts.netdev.is_empty() {
            return gone;
        }
        let netdev = self.place.net.join(&self.facts.netdev);
        let below = root::link_name(&netdev.join("device")).map_err(|_| CallError::Refused(Reason::Io))?;
        if self.place.function.pci.is_empty() {
            // A software device is on any interface.
            return Ok(());
        }
        // The second port of mlx5 may be on the card's other function.
        let found = function::pci_of(&netdev.join("device")).unwrap_or_default();
        match below {
            Some(_) if is_one_card(&found, &self.place.function.pci) => Ok(()),
            // Its own is in another network namespace, and this one has its name.
            Some(_) => gone,
            None if root::inode(&netdev).ok().flatten().is_none() => gone,
            None => Err(CallError::Stacked),
        }
    }

    /// What DCB says. `None`: nothing.
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

    /// Asks the driver. DCB first: of a port without flow control nothing more is asked.
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
            // Set to InfiniBand since the list was made.
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
