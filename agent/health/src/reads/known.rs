//! What earlier snapshots had: RDMA ports and adapters, kept while they are unreadable, and links of GPUs.

use collectors::PciAddress;
use serde::{Deserialize, Serialize};

use crate::bounded::{Bounded, STORED};

/// The identity of a port when last read.
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

/// The known ports and adapters.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Known {
    /// The highest rate of each port that was ever in use, in bytes per second.
    pub rates: Bounded<String, u64, STORED>,
    /// Ports that ever had a routable GID.
    pub addressed: Bounded<String, (), STORED>,
    /// The identity of those ports, and of ports that share a PCI function with another device.
    pub roles: Bounded<String, Role, STORED>,
    /// Ports seen in this boot that were ever in use.
    pub present: Bounded<String, (), STORED>,
    /// RDMA adapters seen in this boot.
    pub adapters: Bounded<PciAddress, Role, STORED>,
    /// Ports whose interface has members that were read, by port and interface.
    pub bonds: Bounded<String, (), STORED>,
    /// Members of bonds that were ever up, by port and interface.
    pub members: Bounded<String, (), STORED>,
    /// The address at which each GPU was first seen, by its name.
    pub gpus: Bounded<String, PciAddress, STORED>,
    /// The highest number of links up of each GPU, by place.
    pub links: Bounded<String, u64, STORED>,
}

impl Known {
    /// The ports that were ever in use: id, identity when last read, highest rate.
    pub fn once_in_use(&self) -> impl Iterator<Item = (&str, &Role, u64)> {
        let known = self.rates.iter();
        known.filter_map(|(port, rate)| Some((port.as_str(), self.roles.get(port)?, *rate)))
    }

    /// Notes the address of a GPU, if it is the first.
    pub fn place_gpu(&mut self, uuid: &str, pci: &PciAddress) {
        self.gpus.slot_or(uuid.to_owned(), || pci.clone());
    }

    /// Whether this GPU was at another address before: the firmware may number the buses again when a card comes or goes.
    pub fn has_moved(&self, gpu: &str, pci: &PciAddress) -> bool {
        self.gpus.get(gpu).is_some_and(|first| first != pci)
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
        known.roles.set("p".to_owned(), role.clone());
        assert_eq!(known.once_in_use().count(), 0, "seen, but never in use");
        known.rates.raise("p".to_owned(), 50);
        let mut known: Known = serde_json::from_str(&serde_json::to_string(&known).unwrap()).unwrap();
        assert_eq!(known.once_in_use().collect::<Vec<_>>(), [("p", &role, 50)]);
        assert!(!known.roles.set("p".to_owned(), role) && !known.rates.raise("p".to_owned(), 50));
    }

    #[test]
    fn a_record_without_members_of_bonds_is_read() {
        let known: Known = serde_json::from_str(r#"{"rates":{"p":50},"roles":{}}"#).unwrap();
        assert_eq!(
            (known.rates.get("p"), known.members.iter().count()),
            (Some(&50), 0)
        );
        let mut known = Known::default();
        assert!(known.members.set("p eth0".to_owned(), ()) && !known.members.set("p eth0".to_owned(), ()));
        let known: Known = serde_json::from_str(&serde_json::to_string(&known).unwrap()).unwrap();
        assert!(known.members.get("p eth0").is_some());
    }
}
