//! One Ethernet port of an RDMA device.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::bond::{self, MemberLink};
use super::calls::CallKind;
use super::drivers::EthernetDriver;
use super::error::CallError;
use super::gate::Gate;
use super::interface::{Interface, Pace, PortOf, push_unreadable};
use super::metrics::{LAG_MEMBER_HAD_LINK, LAG_MEMBER_UP, Owner, RESTING};
use crate::netlink::nldev::NldevPort;
use crate::rdma::down::{self, DownAnswer};
use crate::rdma::facts::PortFacts;
use crate::rdma::function;
use crate::rdma::netlink_port::NetlinkPort;
use crate::rdma::port::{DOWN, PortLocation};
use crate::rdma::text::Reason;
use crate::sys::netlink::{NetlinkTransport, SharedTransport};
use crate::sys::root;
use crate::{Block, Device, Error, Subject, SubjectKind};

/// A port without flow control skips one reading, so it is read every 60 s. Readings begin at most this much earlier
/// or later than their period.
const SKIP: Duration = Duration::from_secs(45);

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
    /// Netlink's last answer, if it need not be asked for again.
    down: DownAnswer<NldevPort>,
    /// The port's interface, and the members of its bond, by name.
    interfaces: BTreeMap<String, Interface>,
    /// The reading that the next batch repeats only after [`SKIP`].
    stands: Option<Instant>,
}

/// An interface of a port, and whether its driver may be queried.
struct Target {
    name: String,
    /// `None`: its members are queried instead.
    may_ask: Option<Result<(), CallError>>,
    is_member: bool,
}

/// Whether 2 functions belong to one device: same domain, bus and device. In a virtual machine, unrelated devices
/// may share a bus.
fn is_one_card(one: &str, other: &str) -> bool {
    let card = |address: &str| Some(address.rsplit_once('.')?.0.to_owned());
    card(one).is_some_and(|one| Some(one) == card(other))
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
            down: DownAnswer::default(),
            interfaces: BTreeMap::new(),
            stands: None,
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
        let operstate = self.place.net.join(&self.facts.netdev).join("operstate");
        let is_down =
            || root::read_text(&operstate).is_ok_and(|text| text.is_some_and(|text| text == "down"));
        let answer = self.down.standing(now, is_down).or_else(|| {
            let query = self.port_query.as_mut().filter(|_| !self.gate.is_busy());
            let answer = query.and_then(|query| query.port(now));
            let is_noisy = down::is_noisy("Ethernet", &self.place.function.driver);
            let down = answer
                .clone()
                .filter(|answer| is_noisy && u64::from(answer.state) == DOWN);
            self.down.asked(now, down);
            answer
        });
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

    /// Whether a member of the port's bond is this port's: it is on the port's function, or on another function of
    /// the card without an RDMA device of its own (RoCE LAG: one device for both).
    fn is_own_member(&self, name: &str) -> bool {
        let PortLocation {
            net,
            port,
            of,
            function,
            ..
        } = &self.place;
        let folder = net.join(name);
        let device = folder.join("device");
        let found = function::pci_of(&device).unwrap_or_default();
        if found == function.pci {
            let number = |file: &str| {
                root::read_text(&folder.join(file))
                    .ok()
                    .flatten()?
                    .parse::<usize>()
                    .ok()
            };
            let is_on_port = || number("dev_port").and_then(|n| n.checked_add(1)) == port.parse().ok();
            return *of <= 1 || is_on_port();
        }
        let has_rdma = root::list(&device.join("infiniband"));
        is_one_card(&found, &function.pci) && has_rdma.is_ok_and(|list| list.unwrap_or_default().is_empty())
    }

    /// The port's interface, and the members of its bond.
    fn targets(&self) -> Vec<Target> {
        let name = self.facts.netdev.clone();
        let own = |may_ask| Target {
            name: name.clone(),
            may_ask,
            is_member: false,
        };
        match self.may_ask() {
            Err(CallError::Stacked) => match bond::members(&self.place.net, &name) {
                Ok(mut members) => {
                    members.retain(|member| self.is_own_member(member));
                    let bond = own(members.is_empty().then_some(Err(CallError::Stacked)));
                    let members = members.into_iter().map(|name| Target {
                        name,
                        may_ask: Some(Ok(())),
                        is_member: true,
                    });
                    std::iter::once(bond).chain(members).collect()
                }
                Err(error) => {
                    tracing::debug!(%error, "members unreadable");
                    vec![own(Some(Err(CallError::Refused(Reason::Io))))]
                }
            },
            may_ask => vec![own(Some(may_ask))],
        }
    }

    /// Forgets interfaces that are no longer the port's, and adds new ones.
    fn keep(&mut self, targets: &[Target]) {
        let is_there = |name: &String| targets.iter().any(|target| target.name == *name);
        self.interfaces.retain(|name, _| is_there(name));
        for target in targets {
            if !self.interfaces.contains_key(&target.name) {
                self.interfaces.insert(target.name.clone(), Interface::default());
            }
        }
    }
}

impl Device for EthernetPort {
    fn subject(&self) -> &Subject {
        &self.subject
    }

    fn is_due(&self) -> bool {
        let now = self.gate.now();
        self.on_disk
            || self
                .stands
                .is_none_or(|at| now.saturating_duration_since(at) >= SKIP)
    }

    fn read(&mut self, out: &mut Block) -> Result<(), Error> {
        let gate = Arc::clone(&self.gate);
        let now = gate.now();
        self.stands = None;
        self.refresh(now);
        if !["Ethernet", ""].contains(&self.facts.link_layer.as_str()) {
            // The port was set to InfiniBand after the list was made.
            return Ok(());
        }
        if self.facts.is_representor {
            return Ok(());
        }
        let targets = self.targets();
        self.keep(&targets);
        let PortLocation {
            device,
            port,
            function,
            net,
            ..
        } = &self.place;
        // Ports of one function share its firmware, and so do the members of its bond.
        let whole = if function.pci.is_empty() {
            device
        } else {
            &function.pci
        };
        let owner = |netdev| Owner { device, port, netdev };
        let mut stands = true;
        for Target {
            name,
            may_ask,
            is_member,
        } in &targets
        {
            let Some(interface) = self.interfaces.get_mut(name) else {
                continue;
            };
            let port = PortOf {
                owner: owner(name),
                gate: &gate,
                device: whole,
                function,
                driver: self.driver,
            };
            interface.setup.refresh((&gate, whole), net, name, self.on_disk);
            interface.setup.push(port.owner, out);
            if *is_member {
                let MemberLink { is_up, had_link } = MemberLink::of(net, name);
                let labels = port.owner.labels(&[]);
                out.maybe_u64(&LAG_MEMBER_UP, &labels, is_up.map(u64::from));
                out.maybe_u64(&LAG_MEMBER_HAD_LINK, &labels, had_link.map(u64::from));
            }
            match may_ask {
                Some(Ok(())) => stands &= interface.read(&port, out) == Pace::Second,
                Some(Err(why)) => {
                    stands = false;
                    push_unreadable(port.owner, CallKind::Dcb, *why, out);
                }
                None => {}
            }
        }
        self.stands = stands.then_some(now);
        let labels = owner(&self.facts.netdev).labels(&[]);
        out.u64(&RESTING, &labels, gate.rests(whole).into());
        Ok(())
    }
}
