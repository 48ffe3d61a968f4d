//! The RDMA ports of a snapshot.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use collectors::ethernet::metrics::{LAG_MEMBER_HAD_LINK, LAG_MEMBER_UP, RESTING, UNREADABLE};
use collectors::rdma::metrics::{
    CARRIER_DOWN, COUNTER_SATURATED, DEVICE_INFO, LINK_DOWNED, NETDEV_UP, PORT_INFO, PORT_PHYSICAL_STATE,
    PORT_RATE, PORT_STATE, ROCE_V2_GIDS,
};
use collectors::{Label, Metric, PciAddress, Subject, SubjectKind, Value, ethernet};

use super::by_metric::ByMetric;
use super::host::{Host, Slot};
use super::known::{Known, Role};
use model::snapshot::{Presence, Sample, Snapshot};

/// InfiniBand's numbers of port states.
const ACTIVE: [u64; 2] = [4, 5];
const DISABLED: u64 = 3;
const LINK_UP: u64 = 5;

/// The link state of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    /// It carries traffic.
    Up,
    /// It does not carry traffic.
    Down,
    /// An administrator disabled it.
    Disabled,
    /// Not readable.
    Unknown,
}

/// One port.
#[derive(Debug)]
pub struct Port<'a> {
    /// PCI address and port number, which survive a renaming; or its name if it has no address.
    pub(crate) id: String,
    /// `mlx5_0/1`.
    pub(crate) name: String,
    pub(crate) pci: Option<PciAddress>,
    pub(crate) link_layer: &'a str,
    pub(crate) driver: &'a str,
    /// Its network interface, or empty.
    pub(crate) netdev: &'a str,
    /// Its device's board and firmware, or empty.
    pub(crate) board: &'a str,
    pub(crate) firmware: &'a str,
    pub(crate) state: Option<Sample<'a>>,
    pub(crate) physical: Option<Sample<'a>>,
    pub(crate) link_downed: Option<Sample<'a>>,
    pub(crate) carrier_down: Option<Sample<'a>>,
    /// In bytes per second; 0: unknown.
    pub(crate) rate: u64,
    /// The time of its reading.
    pub(crate) at: Duration,
    /// Its own link state.
    link: Link,
    /// The members of its bond that have lost their link.
    lost: Vec<Sample<'a>>,
    /// Its interface is a bond whose members were read before and are not read now.
    is_unread: bool,
    /// All its series, of any collector.
    series: ByMetric<'a>,
}

/// The value, if it is a whole number.
pub(crate) fn number(sample: Option<&Sample<'_>>) -> Option<u64> {
    match sample?.value {
        Value::U64(value) => Some(value),
        Value::F64(_) | Value::Absent => None,
    }
}

impl<'a> Port<'a> {
    /// The series of a metric.
    pub(crate) fn all(&self, metric: &'static Metric) -> impl Iterator<Item = &Sample<'a>> {
        self.series.all(metric)
    }

    /// The only series of a metric.
    pub(crate) fn one(&self, metric: &'static Metric) -> Option<&Sample<'a>> {
        self.series.one(metric)
    }

    /// The series of a metric with this label.
    pub(crate) fn with(&self, metric: &'static Metric, label: &str, value: &str) -> Option<&Sample<'a>> {
        self.all(metric).find(|s| s.label(label) == Some(value))
    }

    /// Whether a counter, by its file's name, is saturated.
    pub(crate) fn is_full(&self, file: &str) -> bool {
        number(self.with(&COUNTER_SATURATED, "counter", file)) == Some(1)
    }

    /// Whether its link values are invented: a software device, or EFA.
    pub(crate) fn is_made_up(&self) -> bool {
        self.pci.is_none() || self.driver == "efa"
    }

    /// Its own link state. A bond that lost a member is up: the other members carry its traffic.
    pub(crate) const fn link(&self) -> Link {
        self.link
    }

    /// The state of all its links together: down also while a member of its bond is, unknown until the members are read.
    pub(crate) fn full_link(&self) -> Link {
        match self.link {
            Link::Up if !self.lost.is_empty() => Link::Down,
            Link::Up if self.is_unread => Link::Unknown,
            link => link,
        }
    }

    /// Whether it is up although a member of its bond is down.
    pub(crate) fn is_reduced(&self) -> bool {
        self.link == Link::Up && !self.lost.is_empty()
    }

    /// Parses its link state. Ethernet drivers report `disabled` for every port without a carrier, so it proves no
    /// administrator's act. EFA reports every port as active, so only its network interface counts.
    fn read_link(&self) -> Link {
        let interface = number(self.one(&NETDEV_UP));
        if !self.is_identified() {
            return Link::Unknown;
        }
        if self.driver == "efa" {
            return match interface {
                None => Link::Unknown,
                Some(0) => Link::Down,
                Some(_) => Link::Up,
            };
        }
        let physical = number(self.physical.as_ref()).filter(|p| *p != 0);
        match number(self.state.as_ref()) {
            None | Some(0) => Link::Unknown,
            Some(s) if ACTIVE.contains(&s) && interface == Some(0) => Link::Down,
            Some(s) if ACTIVE.contains(&s) && physical.is_none_or(|p| p == LINK_UP) => Link::Up,
            Some(_) if physical == Some(DISABLED) && self.link_layer == "InfiniBand" => Link::Disabled,
            Some(_) => Link::Down,
        }
    }

    /// The first member of its bond that is down. The bond carries half then, and the kernel may report a rate that no link has.
    pub(crate) fn lost_member(&self) -> Option<&Sample<'a>> {
        self.lost.first()
    }

    /// Whether this interface is a member of its bond that is down.
    pub(crate) fn has_lost(&self, netdev: &str) -> bool {
        self.lost.iter().any(|s| s.label("netdev") == Some(netdev))
    }

    /// Whether its interface is a bond. `None`: unknown.
    pub(crate) fn is_bond(&self) -> Option<bool> {
        let has = |metric: &'static Metric| self.one(metric).is_some();
        let is_failed = self.all(&UNREADABLE).any(|s| s.label("reason") == Some("io"));
        match () {
            () if self.is_unread || has(&LAG_MEMBER_UP) || has(&LAG_MEMBER_HAD_LINK) => Some(true),
            () if has(&RESTING) && !is_failed => Some(false),
            () => None,
        }
    }

    /// Takes and records the members of its bond. Returns whether any is new. `are_read`: some collector reads members.
    fn note_members(&mut self, known: &mut Known, are_read: bool) -> bool {
        let member = |s: &Sample<'_>| format!("{} {}", self.id, s.label("netdev").unwrap_or_default());
        let mut changed = false;
        for sample in self.all(&LAG_MEMBER_UP).filter(|s| number(Some(s)) == Some(1)) {
            changed |= known.members.set(member(sample), ());
        }
        let is_down = |s: &&Sample<'_>| number(Some(s)) == Some(0);
        // A reboot creates the interface again, and the kernel no longer knows that it had a link.
        let had_link = |s: &&Sample<'_>| known.members.get(&member(s)).is_some();
        let forgotten = self.all(&LAG_MEMBER_HAD_LINK).filter(is_down).filter(had_link);
        let lost: Vec<Sample<'a>> = self
            .all(&LAG_MEMBER_UP)
            .filter(is_down)
            .chain(forgotten)
            .copied()
            .collect();
        let is_bond = self.is_bond();
        let bond = format!("{} {}", self.id, self.netdev);
        if is_bond == Some(true) {
            changed |= known.bonds.set(bond, ());
        } else if !are_read || is_bond == Some(false) {
            // No collector reads members, or its interface was read and has none.
            changed |= known.bonds.remove(&bond).is_some();
        } else {
            self.is_unread = known.bonds.get(&bond).is_some();
        }
        self.lost = lost;
        changed
    }

    /// Whether it is in use. A port of EFA without an interface always is.
    fn is_in_use(&self) -> bool {
        match self.link() {
            Link::Up => true,
            Link::Unknown => self.is_identified() && self.driver == "efa",
            Link::Down | Link::Disabled => false,
        }
    }

    /// Whether its identity is known. A port of a PCI function without link layer or driver was unreadable. Software
    /// devices may lack both.
    pub(crate) fn is_identified(&self) -> bool {
        self.pci.is_none() || !(self.link_layer.is_empty() || self.driver.is_empty())
    }

    pub(crate) fn role(&self) -> Role {
        Role {
            name: self.name.clone(),
            pci: self.pci.as_ref().map(|pci| pci.0.clone()).unwrap_or_default(),
            layer: self.link_layer.to_owned(),
            driver: self.driver.to_owned(),
        }
    }

    /// Whether the physical link is up.
    pub(crate) fn has_link(&self) -> bool {
        number(self.physical.as_ref()) == Some(LINK_UP)
    }

    /// Whether it is a port of this device.
    pub(crate) fn is_of(&self, device: &str) -> bool {
        self.name.split_once('/').is_some_and(|(of, _)| of == device)
    }

    pub(crate) fn subject(&self) -> Subject {
        Subject::new(SubjectKind::RdmaPort, self.name.as_str())
    }

    /// ` at 0000:19:00.0`, if the address is known: names change.
    pub(crate) fn place(&self) -> String {
        self.pci
            .as_ref()
            .map(|pci| format!(" at {pci}"))
            .unwrap_or_default()
    }

    /// Name, place and network interface, for evidence: `mlx5_0/1 at 0000:19:00.0, ens1np0`.
    pub(crate) fn whereabouts(&self) -> String {
        let netdev = match self.netdev {
            "" => String::new(),
            netdev => format!(", {netdev}"),
        };
        format!("{}{}{netdev}", self.name, self.place())
    }
}

/// Every port of a physical function, in order of [`Port::id`]. Records ports in use, members of bonds and adapters, and returns whether
/// any are new. It walks all series, so all checks share the result.
pub(crate) fn ports<'a>(snapshot: &'a Snapshot, host: &Host, known: &mut Known) -> (Vec<Port<'a>>, bool) {
    let mut series: BTreeMap<(&str, &str), Vec<Sample<'a>>> = BTreeMap::new();
    let mut boards: BTreeMap<&str, (&str, &str)> = BTreeMap::new();
    let of_port = |(_, sample): (_, Sample<'a>)| match (sample.metric.labels, sample.labels) {
        (["device", "port", ..], [device, port, ..]) => Some(((device.as_str(), port.as_str()), sample)),
        _ => None,
    };
    let all: Vec<_> = snapshot.all_samples().filter_map(of_port).collect();
    // Series of one port mostly follow each other.
    for together in all.chunk_by(|(of, _), (other, _)| of == other) {
        let Some((of, _)) = together.first() else { continue };
        let own = series.entry(*of).or_default();
        own.extend(together.iter().map(|(_, sample)| *sample));
    }
    for sample in snapshot.samples(&DEVICE_INFO) {
        let board = label_of(&sample, "board_id");
        let firmware = label_of(&sample, "firmware_version");
        boards.insert(label_of(&sample, "device"), (board, firmware));
    }
    let mut ports: Vec<Port<'a>> = series
        .into_values()
        .filter_map(|samples| port(snapshot, samples, &boards))
        .collect();
    name_apart(&mut ports, known);
    ports.sort_by(|a, b| a.id.cmp(&b.id));
    let collector = snapshot.collector(ethernet::SPEC.name);
    let are_read = collector.is_none_or(|c| c.presence != Presence::NotHere);
    let mut changed = false;
    for port in &mut ports {
        changed |= port.note_members(known, are_read);
        if port.is_in_use() {
            // Without all its members a bond may have the kernel's default rate, which its links may not have.
            let is_full = !port.is_reduced() && !port.is_unread;
            let rate = if is_full { port.rate } else { 0 };
            changed |= known.rates.raise(port.id.clone(), rate);
        }
        if known.rates.get(&port.id).is_some() {
            changed |= known.present.set(port.id.clone(), ());
        }
        if number(port.one(&ROCE_V2_GIDS)).is_some_and(|gids| gids > 0) {
            changed |= known.addressed.set(port.id.clone(), ());
        }
        // A port that shares a PCI function keeps its id even when it is the only one visible, in use or not.
        let beside = port.pci.is_some() && port.id == port.name;
        if port.is_identified() && (beside || known.rates.get(&port.id).is_some()) {
            changed |= known.roles.set(port.id.clone(), port.role());
        }
    }
    let mut adapters = BTreeSet::new();
    for port in &ports {
        let Some(pci) = &port.pci else { continue };
        // Only adapters in the PCI listing can be missing. The first of several ports counts.
        if adapters.insert(pci) && port.is_identified() && host.slot(pci) == Slot::Registered {
            changed |= known.adapters.set(pci.clone(), port.role());
        }
    }
    (ports, changed)
}

/// One port from its series. `None`: no identity, or a virtual function.
fn port<'a>(
    snapshot: &'a Snapshot,
    samples: Vec<Sample<'a>>,
    boards: &BTreeMap<&'a str, (&'a str, &'a str)>,
) -> Option<Port<'a>> {
    let series = ByMetric::new(samples);
    let of = |metric: &'static Metric| series.one(metric).copied();
    let info = of(&PORT_INFO)?;
    let label = |name: &str| label_of(&info, name);
    if label("function") == "virtual" {
        return None;
    }
    let (device, number) = (label("device"), label("port"));
    let pci = PciAddress::parse(label("pci"));
    let owner = pci.as_ref().map_or(device, |_| label("pci"));
    let (board, firmware) = boards.get(device).copied().unwrap_or_default();
    // A rate is a whole number of bytes, far below the limit.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "saturates, and only rates are compared"
    )]
    let rate = of(&PORT_RATE).map_or(0, |s| s.as_f64() as u64);
    let mut port = Port {
        id: format!("{owner}/{number}"),
        name: format!("{device}/{number}"),
        pci,
        link_layer: label("link_layer"),
        driver: label("driver"),
        netdev: label("netdev"),
        board,
        firmware,
        state: of(&PORT_STATE),
        physical: of(&PORT_PHYSICAL_STATE),
        link_downed: of(&LINK_DOWNED),
        carrier_down: of(&CARRIER_DOWN),
        rate,
        at: snapshot.at.saturating_sub(info.age),
        link: Link::Unknown,
        lost: Vec::new(),
        is_unread: false,
        series,
    };
    port.link = port.read_link();
    Some(port)
}

/// The value of one label.
fn label_of<'a>(sample: &Sample<'a>, name: &str) -> &'a str {
    let at = sample.metric.labels.iter().position(|l| *l == name);
    at.and_then(|at| sample.labels.get(at)).map_or("", Label::as_str)
}

/// Of several devices of one PCI function, the one that had the address as id keeps it; the others use their names. So
/// a port keeps its id when others come and go.
fn name_apart(ports: &mut [Port<'_>], known: &Known) {
    let by_name = |p: &Port<'_>| {
        let pci = p.pci.as_ref().map(|pci| pci.0.as_str());
        pci.is_some() && known.roles.get(&p.name).map(|r| r.pci.as_str()) == pci
    };
    let mut owners: BTreeMap<String, String> = BTreeMap::new();
    for port in ports.iter().filter(|p| !by_name(p)) {
        let owner = owners.entry(port.id.clone()).or_insert_with(|| port.name.clone());
        if known.roles.get(&port.id).is_some_and(|r| r.name == port.name) {
            owner.clone_from(&port.name);
        }
    }
    for port in ports {
        if owners.get(&port.id) != Some(&port.name) {
            port.id.clone_from(&port.name);
        }
    }
}
