//! The PCI function behind a device and the network interfaces on it: by links and folders, without reading a file of
//! the device.

use std::path::Path;

use crate::PciAddress;
use crate::sys::root;

/// What carries a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Function {
    /// The PCI address, empty for a software device.
    pub(super) pci: String,
    /// The bound driver, empty where there is none.
    pub(super) driver: String,
    /// A virtual function or a subfunction.
    pub(super) is_virtual: bool,
}

impl Function {
    /// Follows the links of `/sys/class/infiniband/<device>`.
    pub(super) fn of(device: &Path) -> Self {
        let parent = device.join("device");
        // The link's text is enough for a PCI function. A subfunction is an auxiliary device below one.
        let Some(target) = link(&parent) else {
            return Self::default();
        };
        let address = PciAddress::parse(&target).filter(|a| a.0 == target);
        let (pci, is_subfunction) = match address {
            Some(address) => (address.0, false),
            None => (ancestor(&parent), true),
        };
        Self {
            pci,
            driver: link(&parent.join("driver")).unwrap_or_default(),
            is_virtual: is_subfunction || link(&parent.join("physfn")).is_some(),
        }
    }

    /// The word of the `function` label.
    pub(super) const fn word(&self) -> &'static str {
        if self.pci.is_empty() {
            ""
        } else if self.is_virtual {
            "virtual"
        } else {
            "physical"
        }
    }
}

/// The NUMA node of a device, empty where the kernel knows none (-1).
pub(super) fn numa_node(device: &Path) -> String {
    let node = text(&device.join("device/numa_node"));
    if node.bytes().all(|b| b.is_ascii_digit()) {
        node
    } else {
        String::new()
    }
}

fn text(path: &Path) -> String {
    root::read_text(path).ok().flatten().unwrap_or_default()
}

fn link(path: &Path) -> Option<String> {
    root::link_name(path).ok().flatten()
}

/// The nearest PCI function above an auxiliary device, empty where there is none.
fn ancestor(path: &Path) -> String {
    let Ok(resolved) = root::resolve(path) else {
        return String::new();
    };
    resolved
        .ancestors()
        .filter_map(|p| p.file_name()?.to_str())
        .find(|name| PciAddress::parse(name).is_some_and(|a| a.0 == *name))
        .map(str::to_owned)
        .unwrap_or_default()
}

/// A network interface on a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Netdev {
    pub(super) name: String,
    /// The bond or bridge that it belongs to.
    pub(super) master: Option<String>,
    /// Which port of the function it is on, from 0. Not known where the function has one port.
    pub(super) dev_port: Option<u64>,
}

/// The network interfaces on the function of a device with so many ports.
pub(super) fn netdevs(device: &Path, ports: usize) -> Vec<Netdev> {
    let folder = device.join("device/net");
    let names = root::list(&folder).ok().flatten().unwrap_or_default();
    names
        .into_iter()
        .map(|name| {
            let netdev = folder.join(&name);
            Netdev {
                master: link(&netdev.join("master")),
                dev_port: (ports > 1)
                    .then(|| text(&netdev.join("dev_port")).parse().ok())
                    .flatten(),
                name,
            }
        })
        .collect()
}

/// Those of them that are on a port, from 1: the ones of that number where the function has several ports.
pub(super) fn on_port<'a>(netdevs: &'a [Netdev], port: &str, of: usize) -> Vec<&'a Netdev> {
    let wanted = port.parse::<u64>().ok().and_then(|p| p.checked_sub(1));
    let mut on_it: Vec<&Netdev> = netdevs.iter().collect();
    on_it.retain(|n| of <= 1 || n.dev_port == wanted);
    on_it
}
