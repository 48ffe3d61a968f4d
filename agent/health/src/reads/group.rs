//! Groups of RDMA ports of one fabric, and the attribution of their faults.

use std::collections::BTreeMap;
use std::fmt;

use super::known::Known;
use super::port::{Link, Port};
use crate::settings::Rdma;

/// The least size of a group that attributes a fault.
pub(crate) const ENOUGH: usize = 4;

/// The attribution of a fault of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// At least half of the group is up: cable, transceiver or adapter of this node.
    Node,
    /// Most of the group is down: a switch, or the subnet manager.
    Shared,
    /// The group is too small.
    Untold,
    /// Too few ports of the group are readable.
    Unknown,
}

/// What ports of a node have in common that fail together: link layer, driver, and whether the site says that they are
/// of the storage fabric.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Fabric {
    layer: String,
    driver: String,
    is_storage: bool,
}

impl Fabric {
    /// Its part of a condition's key. Records hold it.
    pub(crate) fn key(&self) -> String {
        let storage = if self.is_storage { "storage: " } else { "" };
        format!("{storage}{} {}", self.layer, self.driver)
    }
}

/// `InfiniBand ports of mlx5_core`.
impl fmt::Display for Fabric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let storage = if self.is_storage { " (storage)" } else { "" };
        write!(f, "{} ports of {}{storage}", self.layer, self.driver)
    }
}

/// Ports of one fabric and rate that were ever in use.
#[derive(Debug)]
pub struct Group<'a> {
    pub(crate) fabric: Fabric,
    /// The highest rate of its ports, in bytes per second; 0: unknown.
    rate: u64,
    /// The ports in the snapshot.
    pub(crate) ports: Vec<&'a Port<'a>>,
    /// Those of them that are disabled, or without a cable: they are no peers.
    pub(crate) disabled: Vec<&'a Port<'a>>,
    /// The number of ports, including absent ones that were seen in this boot: another boot may have removed an adapter
    /// or changed its address.
    members: usize,
    /// The ids of the ports that are not in the snapshot.
    pub(crate) absent: Vec<String>,
}

/// The groups, including groups without a port in the snapshot. Ports that were never in use or that the
/// site excludes belong to no group.
pub(crate) fn groups<'a>(ports: &'a [Port<'a>], known: &Known, rdma: &Rdma) -> Vec<Group<'a>> {
    let mut groups: BTreeMap<(Fabric, u64), Group<'a>> = BTreeMap::new();
    let mut of =
        |name: &str, (layer, driver): (&str, &str), rate: u64, join: &mut dyn FnMut(&mut Group<'a>)| {
            if !rdma.is_about(name) {
                return;
            }
            let fabric = Fabric {
                layer: layer.to_owned(),
                driver: driver.to_owned(),
                is_storage: rdma.is_storage(name),
            };
            join(groups.entry((fabric.clone(), rate)).or_insert_with(|| Group {
                fabric,
                rate,
                ports: Vec::new(),
                disabled: Vec::new(),
                members: 0,
                absent: Vec::new(),
            }));
        };
    for (id, role, rate) in known.once_in_use() {
        of(&role.name, (&role.layer, &role.driver), rate, &mut |group| {
            // They are in the order of their ids.
            let is_absent = ports.binary_search_by(|p| p.id.as_str().cmp(id)).is_err();
            group.members += usize::from(known.present.get(id).is_some());
            if is_absent {
                group.absent.push(id.to_owned());
            }
        });
    }
    for port in ports {
        let Some(&rate) = known.rates.get(&port.id) else {
            continue;
        };
        let (layer, driver) = match known.roles.get(&port.id) {
            Some(role) => (role.layer.as_str(), role.driver.as_str()),
            None if port.is_identified() => (port.link_layer, port.driver),
            None => continue,
        };
        of(
            &port.name,
            (layer, driver),
            rate,
            &mut |group| match port.link() {
                Link::Disabled => {
                    group.members = group.members.saturating_sub(1);
                    group.disabled.push(port);
                }
                Link::Up | Link::Down | Link::Unknown => group.ports.push(port),
            },
        );
    }
    groups.into_values().collect()
}

impl Group<'_> {
    /// Ports by the state of all their links.
    fn count(&self, link: Link) -> usize {
        self.ports.iter().filter(|p| p.full_link() == link).count()
    }

    /// More ports than recorded members are possible when the record is full.
    fn members(&self) -> usize {
        self.members.max(self.ports.len())
    }

    /// `times` of each other port, by id. An absent port counts only with a result: it may never come back.
    pub(crate) fn others<T>(&self, port: &Port<'_>, times: impl Fn(&str) -> Vec<T>) -> Vec<Vec<T>> {
        let shown = self.ports.iter().filter(|p| p.id != port.id);
        let absent = self.absent.iter().map(|id| times(id));
        shown
            .map(|p| times(&p.id))
            .chain(absent.filter(|times| !times.is_empty()))
            .collect()
    }

    /// Distinguishes it from other groups.
    pub(crate) fn name(&self) -> String {
        format!("{} {}", self.fabric.key(), self.rate)
    }

    /// The attribution of its ports that are down.
    pub(crate) fn fault(&self) -> Fault {
        fault(self.members(), self.count(Link::Up), self.count(Link::Down))
    }

    /// The attribution of its ports that are disabled: as if they were down.
    pub(crate) fn fault_of_disabled(&self) -> Fault {
        let disabled = self.disabled.len();
        let down = self.count(Link::Down) + disabled;
        fault(self.members() + disabled, self.count(Link::Up), down)
    }

    /// Whether at least half of it is up, with ports that left in this boot counted as down.
    pub(crate) fn is_up(&self) -> bool {
        self.count(Link::Up) * 2 >= self.members()
    }

    /// `7 of 8 InfiniBand ports of mlx5_core up`.
    pub(crate) fn words(&self) -> String {
        let count = |link: Link| self.ports.iter().filter(|p| p.link() == link).count();
        let (up, known) = (count(Link::Up), count(Link::Up) + count(Link::Down));
        let reduced = match self.ports.iter().filter(|p| p.is_reduced()).count() {
            0 => String::new(),
            reduced => format!(", {reduced} of them with a member of their bond down"),
        };
        format!("{up} of {known} {} up{reduced}", self.fabric)
    }
}

/// The attribution with `up` healthy and `down` faulty ports of `members`.
pub(crate) fn fault(members: usize, up: usize, down: usize) -> Fault {
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
