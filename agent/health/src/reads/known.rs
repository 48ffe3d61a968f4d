//! RDMA ports and adapters of earlier snapshots: what they were, also while they are out of sight.

use collectors::PciAddress;
use serde::{Deserialize, Serialize};

use crate::bounded::{Bounded, STORED};

/// What a port was when it was read last, also for while it cannot be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Role {
    /// Device and port, by their names.
    pub name: String,
    /// Address of its PCI function, or empty.
    pub pci: String,
    /// Its link layer.
    pub layer: String,
    /// Its driver.
    pub driver: String,
}

/// The ports and adapters that were seen.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Known {
    /// Ports that were in use once, with the best rate at which they were, in bytes per second.
    rates: Bounded<String, u64, STORED>,
    /// What those ports are, and those that share a PCI function with another device.
    roles: Bounded<String, Role, STORED>,
    /// RDMA adapters that were there in this boot.
    adapters: Bounded<PciAddress, Role, STORED>,
    /// It differs from what was stored last.
    #[serde(skip)]
    pub(crate) changed: bool,
}

impl Known {
    /// A port is in use.
    pub fn in_use(&mut self, port: &str, rate: u64) {
        self.changed |= self.rates.raise(port.to_owned(), rate);
    }

    /// The best rate at which a port ever was in use. `None`: it never was, since the record was begun.
    pub fn best_rate(&self, port: &str) -> Option<u64> {
        self.rates.get(&port.to_owned()).copied()
    }

    /// What a port is now.
    pub fn is(&mut self, port: &str, role: Role) {
        self.changed |= self.roles.set(port.to_owned(), role);
    }

    /// What a port was when it was read last.
    pub fn role(&self, port: &str) -> Option<&Role> {
        self.roles.get(&port.to_owned())
    }

    /// The ports that were in use once: its name here, what each was when it was read last, and its best rate.
    pub fn once_in_use(&self) -> impl Iterator<Item = (&str, &Role, u64)> {
        let known = self.rates.iter();
        known.filter_map(|(port, rate)| Some((port.as_str(), self.roles.get(port)?, *rate)))
    }

    /// An RDMA adapter is there.
    pub fn is_there(&mut self, pci: &PciAddress, role: Role) {
        self.changed |= self.adapters.set(pci.clone(), role);
    }

    /// The RDMA adapters that were there in this boot.
    pub fn adapters(&self) -> impl Iterator<Item = (&PciAddress, &Role)> {
        self.adapters.iter()
    }

    /// Another boot: adapters may have been taken out.
    pub fn rebooted(&mut self) {
        self.adapters.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_port_is_outlives_a_restart_and_is_stored_once() {
        let mut known = Known::default();
        let role = Role {
            name: "mlx5_0/1".to_owned(),
            ..Role::default()
        };
        known.is("p", role.clone());
        assert_eq!(known.once_in_use().count(), 0, "seen, but never in use");
        known.in_use("p", 50);
        let mut known: Known = serde_json::from_str(&serde_json::to_string(&known).unwrap()).unwrap();
        assert_eq!(known.once_in_use().collect::<Vec<_>>(), [("p", &role, 50)]);
        known.is("p", role);
        known.in_use("p", 50);
        assert!(!known.changed, "nothing to store");
    }
}
