//! RDMA ports that stand or fall together, and whose fault it is when some of them are ill.

use std::collections::BTreeMap;

use crate::reads::known::Known;
use crate::reads::port::{Link, Port};

/// A group smaller than this says nothing about whose fault it is.
pub(super) const ENOUGH: usize = 4;

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
    /// The best rate at which its ports were in use, in bytes per second; 0: not known.
    rate: u64,
    /// Those that the snapshot shows.
    pub ports: Vec<&'p Port<'a>>,
    /// How many there are with those that it does not show.
    members: usize,
    /// The ids of those that it does not show.
    pub absent: Vec<String>,
}

/// The groups, also those of which nothing can be seen now. Ports that were never in use and ports that are switched off
/// belong to none.
pub(super) fn groups<'p, 'a>(ports: &'p [Port<'a>], known: &Known) -> Vec<Group<'p, 'a>> {
    let mut groups: BTreeMap<(String, String, u64), Group<'p, 'a>> = BTreeMap::new();
    let mut of = |layer: &str, driver: &str, rate: u64, join: &mut dyn FnMut(&mut Group<'p, 'a>)| {
        let role = (layer.to_owned(), driver.to_owned(), rate);
        join(groups.entry(role).or_insert_with(|| Group {
            layer: layer.to_owned(),
            driver: driver.to_owned(),
            rate,
            ports: Vec::new(),
            members: 0,
            absent: Vec::new(),
        }));
    };
    for (id, role, rate) in known.once_in_use() {
        of(&role.layer, &role.driver, rate, &mut |group| {
            group.members += 1;
            if ports.iter().all(|p| p.id != id) {
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

    /// What `times` gives for each of the others, by its id. One that is out of sight counts where it gives anything: it
    /// may be gone for good.
    pub(super) fn others<T>(&self, port: &Port<'_>, times: impl Fn(&str) -> Vec<T>) -> Vec<Vec<T>> {
        let shown = self.ports.iter().filter(|p| p.id != port.id);
        let absent = self.absent.iter().map(|id| times(id));
        shown
            .map(|p| times(&p.id))
            .chain(absent.filter(|times| !times.is_empty()))
            .collect()
    }

    /// What tells it from other groups.
    pub(super) fn name(&self) -> String {
        format!("{} {} {}", self.layer, self.driver, self.rate)
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

/// Whose fault it is that so many of a group are not well, `up` being those that are.
pub(super) fn fault(members: usize, up: usize, down: usize) -> Fault {
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
