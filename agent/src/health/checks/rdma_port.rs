//! RDMA ports as one snapshot shows them, with the ports that stand or fall with each: their peers.

use std::collections::BTreeMap;
use std::time::Duration;

use collectors::rdma::metrics::{
    CARRIER_DOWN, LINK_DOWNED, PORT_INFO, PORT_PHYSICAL_STATE, PORT_RATE, PORT_STATE,
};
use collectors::{Metric, PciAddress, Subject, SubjectKind, Value};

use crate::core::snapshot::Sample;
use crate::health::judge::Judge;
use crate::health::memory::{Memory, Role};

/// A group smaller than this says nothing about whose fault it is.
const ENOUGH: usize = 4;

/// InfiniBand's numbers.
const ACTIVE: [u64; 2] = [4, 5];
const DISABLED: u64 = 3;
const LINK_UP: u64 = 5;

/// What a port's states say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Link {
    /// It carries traffic.
    Up,
    /// It does not.
    Down,
    /// An administrator switched it off.
    Disabled,
    /// It could not be seen.
    Unknown,
}

/// One port.
#[derive(Debug)]
pub(super) struct Port<'a> {
    /// Where it is: PCI address and port, which outlive a renaming; by name where it has no address.
    pub id: String,
    /// `mlx5_0/1`.
    pub name: String,
    pub pci: Option<PciAddress>,
    link_layer: &'a str,
    driver: &'a str,
    pub state: Option<Sample<'a>>,
    pub physical: Option<Sample<'a>>,
    pub link_downed: Option<Sample<'a>>,
    pub carrier_down: Option<Sample<'a>>,
    rate: u64,
    /// When it was read.
    pub at: Duration,
}

/// A whole number, or nothing.
pub(super) fn number(sample: Option<&Sample<'_>>) -> Option<u64> {
    match sample?.value {
        Value::U64(value) => Some(value),
        Value::F64(_) | Value::Absent => None,
    }
}

impl Port<'_> {
    /// What its states say. Drivers of Ethernet adapters report `disabled` for every port without a carrier, so there it is
    /// no administrator's act.
    pub(super) fn link(&self) -> Link {
        if !self.is_told() {
            return Link::Unknown;
        }
        let physical = number(self.physical.as_ref()).filter(|p| *p != 0);
        match number(self.state.as_ref()) {
            None | Some(0) => Link::Unknown,
            Some(s) if ACTIVE.contains(&s) && physical.is_none_or(|p| p == LINK_UP) => Link::Up,
            Some(_) if physical == Some(DISABLED) && self.link_layer == "InfiniBand" => Link::Disabled,
            Some(_) => Link::Down,
        }
    }

    /// Whether it is known what it is. Every port of a PCI function has a link layer and a driver: without, they could not be
    /// read. Devices of software have neither for certain.
    fn is_told(&self) -> bool {
        self.pci.is_none() || !(self.link_layer.is_empty() || self.driver.is_empty())
    }

    fn role(&self) -> Role {
        Role {
            name: self.name.clone(),
            pci: self.pci.as_ref().map(|pci| pci.0.clone()).unwrap_or_default(),
            layer: self.link_layer.to_owned(),
            driver: self.driver.to_owned(),
        }
    }

    /// Whether the cable has a link, whatever the port above it does.
    pub(super) fn has_link(&self) -> bool {
        number(self.physical.as_ref()) == Some(LINK_UP)
    }

    pub(super) fn subject(&self) -> Subject {
        Subject::new(SubjectKind::RdmaPort, self.name.as_str())
    }

    /// ` at 0000:19:00.0`, where the address is known: names change.
    pub(super) fn place(&self) -> String {
        self.pci
            .as_ref()
            .map(|pci| format!(" at {pci}"))
            .unwrap_or_default()
    }
}

/// Every port of a physical function, in order of [`Port::id`]. Remembers those that are in use.
pub(super) fn ports<'a>(judge: &mut Judge<'a>) -> Vec<Port<'a>> {
    let snapshot = judge.snapshot;
    let mut found: BTreeMap<(&str, &str), Port<'a>> = BTreeMap::new();
    for sample in snapshot.samples(&PORT_INFO) {
        let label = |name: &str| label_of(&sample, name);
        if label("function") == "virtual" {
            continue;
        }
        let (device, port) = (label("device"), label("port"));
        let pci = PciAddress::parse(label("pci"));
        let owner = pci.as_ref().map_or(device, |_| label("pci"));
        let fresh = Port {
            id: format!("{owner}/{port}"),
            name: format!("{device}/{port}"),
            pci,
            link_layer: label("link_layer"),
            driver: label("driver"),
            state: None,
            physical: None,
            link_downed: None,
            carrier_down: None,
            rate: 0,
            at: judge.read_at(&sample),
        };
        found.insert((device, port), fresh);
    }
    let mut fill = |metric: &'static Metric, put: fn(&mut Port<'a>, Sample<'a>)| {
        for sample in snapshot.samples(metric) {
            let key = (label_of(&sample, "device"), label_of(&sample, "port"));
            if let Some(port) = found.get_mut(&key) {
                put(port, sample);
            }
        }
    };
    fill(&PORT_STATE, |port, sample| port.state = Some(sample));
    fill(&PORT_PHYSICAL_STATE, |port, sample| port.physical = Some(sample));
    fill(&LINK_DOWNED, |port, sample| port.link_downed = Some(sample));
    fill(&CARRIER_DOWN, |port, sample| port.carrier_down = Some(sample));
    fill(&PORT_RATE, |port, sample| {
        // A rate is a whole number of bytes, far below the bound.
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "saturates, and only equal rates are compared"
        )]
        let rate = sample.as_f64() as u64;
        port.rate = rate;
    });
    let mut ports: Vec<Port<'a>> = found.into_values().collect();
    name_apart(&mut ports, judge.memory);
    ports.sort_by(|a, b| a.id.cmp(&b.id));
    for port in &ports {
        if port.link() == Link::Up {
            judge.memory.in_use(&port.id, port.rate);
        }
        // One beside another device must be told from it also when it is seen alone, whether or not it is in use.
        let beside = port.pci.is_some() && port.id == port.name;
        if port.is_told() && (beside || judge.memory.best_rate(&port.id).is_some()) {
            judge.memory.is(&port.id, port.role());
        }
    }
    ports
}

/// The value of one label, for as long as the snapshot lives.
fn label_of<'a>(sample: &Sample<'a>, name: &str) -> &'a str {
    let at = sample.metric.labels.iter().position(|l| *l == name);
    at.and_then(|at| sample.labels.get(at)).map_or("", String::as_str)
}

/// Of several devices of one PCI function one goes by the address, the one that did before; the others go by their names.
/// So a port keeps its id when others come and go.
fn name_apart(ports: &mut [Port<'_>], memory: &Memory) {
    let by_name = |p: &Port<'_>| {
        let pci = p.pci.as_ref().map(|pci| pci.0.as_str());
        pci.is_some() && memory.role(&p.name).map(|r| r.pci.as_str()) == pci
    };
    let mut owners: BTreeMap<String, String> = BTreeMap::new();
    for port in ports.iter().filter(|p| !by_name(p)) {
        let owner = owners.entry(port.id.clone()).or_insert_with(|| port.name.clone());
        if memory.role(&port.id).is_some_and(|r| r.name == port.name) {
            owner.clone_from(&port.name);
        }
    }
    for port in ports {
        if owners.get(&port.id) != Some(&port.name) {
            port.id.clone_from(&port.name);
        }
    }
}

/// Whose fault it is that a port of a group is down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// At least half of the group is up: cable, transceiver or adapter of this node.
    Node,
    /// Most of the group is down: a switch, or what configures the fabric.
    Shared,
    /// The group is too small to tell.
    Untold,
    /// Too little of the group could be seen.
    Unknown,
}

/// Ports of one link layer, driver and rate that were in use once: what belongs to one fabric, as far as can be seen.
#[derive(Debug)]
pub(super) struct Group<'p, 'a> {
    pub layer: String,
    pub driver: String,
    /// Those that the snapshot shows.
    pub ports: Vec<&'p Port<'a>>,
    /// How many there are with those that it does not show.
    members: usize,
}

/// The groups, also those of which nothing can be seen now. Ports that were never in use and ports that are switched off
/// belong to none.
pub(super) fn groups<'p, 'a>(ports: &'p [Port<'a>], memory: &Memory) -> Vec<Group<'p, 'a>> {
    let mut groups: BTreeMap<(String, String, u64), Group<'p, 'a>> = BTreeMap::new();
    let mut of = |layer: &str, driver: &str, rate: u64, join: &mut dyn FnMut(&mut Group<'p, 'a>)| {
        let role = (layer.to_owned(), driver.to_owned(), rate);
        join(groups.entry(role).or_insert_with(|| Group {
            layer: layer.to_owned(),
            driver: driver.to_owned(),
            ports: Vec::new(),
            members: 0,
        }));
    };
    for (role, rate) in memory.once_in_use() {
        of(&role.layer, &role.driver, rate, &mut |group| group.members += 1);
    }
    for port in ports {
        let Some(rate) = memory.best_rate(&port.id) else {
            continue;
        };
        let (layer, driver) = match memory.role(&port.id) {
            Some(role) => (role.layer.as_str(), role.driver.as_str()),
            None if port.is_told() => (port.link_layer, port.driver),
            None => continue,
        };
        of(layer, driver, rate, &mut |group| match port.link() {
            Link::Disabled => group.members = group.members.saturating_sub(1),
            Link::Up | Link::Down | Link::Unknown => group.ports.push(port),
        });
    }
    groups.into_values().collect()
}

impl Group<'_, '_> {
    fn count(&self, link: Link) -> usize {
        self.ports.iter().filter(|p| p.link() == link).count()
    }

    /// Those that the snapshot shows may be more, where memory is full.
    fn members(&self) -> usize {
        self.members.max(self.ports.len())
    }

    /// Whose fault it is that a port of it is down.
    pub(super) fn fault(&self) -> Fault {
        fault(self.members(), self.count(Link::Up), self.count(Link::Down))
    }

    /// Whether at least half of it is up, whatever the ports do that cannot be seen.
    pub(super) fn is_up(&self) -> bool {
        self.count(Link::Up) * 2 >= self.members()
    }

    /// `7 of 8 InfiniBand ports of mlx5_core up`.
    pub(super) fn words(&self) -> String {
        let (up, known) = (
            self.count(Link::Up),
            self.count(Link::Up) + self.count(Link::Down),
        );
        format!("{up} of {known} {} ports of {} up", self.layer, self.driver)
    }
}

fn fault(members: usize, up: usize, down: usize) -> Fault {
    let known = up + down;
    match () {
        () if members < ENOUGH => Fault::Untold,
        () if known < ENOUGH => Fault::Unknown,
        () if up * 2 >= known => Fault::Node,
        () => Fault::Shared,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_eight_is_the_nodes_and_eight_of_eight_are_not() {
        for (members, up, down, expected) in [
            (8, 7, 1, Fault::Node),
            (8, 4, 4, Fault::Node),
            (8, 3, 5, Fault::Shared),
            (8, 0, 8, Fault::Shared),
            (9, 4, 5, Fault::Shared),
            (4, 3, 1, Fault::Node),
            (4, 0, 4, Fault::Shared),
            (3, 2, 1, Fault::Untold),
            (1, 0, 1, Fault::Untold),
            (8, 2, 1, Fault::Unknown),
            (4, 2, 1, Fault::Unknown),
        ] {
            assert_eq!(fault(members, up, down), expected, "{members} {up} {down}");
        }
    }
}
