//! The PCI function behind a device and the network interfaces on it, from links and folders, without reading a
//! file of the device.

use std::path::Path;

use super::setup::pci_path;
use crate::sys::root::{self, Entry};
use crate::{Error, PciAddress};

/// The function of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeviceFunction {
    /// The PCI address, empty for a software device.
    pub(crate) pci: String,
    /// The bound driver, empty if none is bound.
    pub(crate) driver: String,
    /// A virtual function or a subfunction.
    pub(super) is_virtual: bool,
    /// The functions from the root complex to this one; empty if the path does not show them.
    pub(super) path: String,
}

impl DeviceFunction {
    /// Follows the links of `/sys/class/infiniband/<device>`.
    ///
    /// # Errors
    /// Any error of a link except that it is absent: an unknown function could be one that is excluded.
    pub(super) fn of(device: &Path) -> Result<Self, Error> {
        let parent = device.join("device");
        // The target of the link is enough for a PCI function.
        let Some(target) = root::link_name(&parent)? else {
            return Ok(Self::default());
        };
        let address = PciAddress::parse(&target).filter(|a| a.0 == target);
        let (pci, is_subfunction) = match address {
            Some(address) => (address.0, false),
            None => {
                // A subfunction is an auxiliary device below a function. A platform or virtio device is not.
                let pci = pci_of(&parent)?;
                let bus = root::link_name(&parent.join("subsystem"))?;
                let is_subfunction = !pci.is_empty() && bus.as_deref() == Some("auxiliary");
                (pci, is_subfunction)
            }
        };
        Ok(Self {
            pci,
            driver: root::link_name(&parent.join("driver"))?.unwrap_or_default(),
            path: root::resolve(&parent)
                .map(|path| pci_path(&path))
                .unwrap_or_default(),
            is_virtual: is_subfunction || root::link_name(&parent.join("physfn"))?.is_some(),
        })
    }

    /// The value of the `function` label.
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

/// The NUMA node of a device, empty if the kernel reports none (-1).
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

/// The PCI function of a device, or the nearest above it; empty if none exists.
///
/// # Errors
/// When the path cannot be followed.
pub(crate) fn pci_of(path: &Path) -> Result<String, Error> {
    let resolved = root::resolve(path)?;
    let name = resolved
        .ancestors()
        .filter_map(|p| p.file_name()?.to_str())
        .find(|name| PciAddress::parse(name).is_some_and(|a| a.0 == *name));
    Ok(name.map(str::to_owned).unwrap_or_default())
}

/// A network interface on a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Netdev {
    pub(super) name: String,
    /// The bond or bridge that it belongs to.
    pub(super) master: Option<String>,
    /// The port of the function that it is on, from 0. Unknown if the function has one port.
    pub(super) dev_port: Option<u64>,
}

/// The network interfaces on the function of a device, each with its master. No file is read.
///
/// # Errors
/// When the folder or a link cannot be read: an unknown interface could be one that is excluded.
pub(super) fn masters(device: &Path) -> Result<Vec<(Entry, Option<String>)>, Error> {
    let folder = device.join("device/net");
    let entries = root::entries(&folder)?.unwrap_or_default();
    entries
        .into_iter()
        .map(|entry| {
            let master = root::link_name(&folder.join(&entry.name).join("master"))?;
            Ok((entry, master))
        })
        .collect()
}

/// The network interfaces on the function of a device with this number of ports.
///
/// # Errors
/// Like [`masters`], and when the file with an interface's port cannot be read.
pub(super) fn netdevs(device: &Path, ports: usize) -> Result<Vec<Netdev>, Error> {
    let with_port = |(Entry { name, .. }, master)| {
        let file = device.join("device/net").join(&name).join("dev_port");
        let dev_port = if ports > 1 {
            root::read_text(&file)?.and_then(|t| t.parse().ok())
        } else {
            None
        };
        Ok(Netdev {
            name,
            master,
            dev_port,
        })
    };
    masters(device)?.into_iter().map(with_port).collect()
}

/// The interfaces on a port, counted from 1: those with that number if the function has several ports.
pub(super) fn on_port<'a>(netdevs: &'a [Netdev], port: &str, of: usize) -> Vec<&'a Netdev> {
    let wanted = port.parse::<u64>().ok().and_then(|p| p.checked_sub(1));
    let mut on_it: Vec<&Netdev> = netdevs.iter().collect();
    on_it.retain(|n| of <= 1 || n.dev_port == wanted);
    on_it
}
