//! Selects the ports of a device that are read. Ports excluded by name, PCI function or network interface are never
//! touched and never reported.

use std::path::{Path, PathBuf};

use super::function::{self, DeviceFunction};
use super::settings::RdmaSettings;
use crate::Error;
use crate::sys::root;

/// The rules, and the paths of devices.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    /// `/sys/class/infiniband`.
    pub(super) class: PathBuf,
    pub(super) table: RdmaSettings,
}

impl Choice {
    /// The folder of a device.
    pub(super) fn folder(&self, device: &str) -> PathBuf {
        self.class.join(device)
    }

    /// The ports of a device to read, and the function behind it.
    ///
    /// # Errors
    /// When the function or an interface is unknown, since it could be excluded.
    pub(super) fn ports(&self, device: &str, numbers: &[u32]) -> Result<(DeviceFunction, Vec<u32>), Error> {
        let folder = self.folder(device);
        let function = DeviceFunction::of(&folder)?;
        if !self.table.takes_pci(&function.pci) || (function.is_virtual && !self.table.virtual_functions) {
            tracing::debug!(device, pci = function.pci, "excluded by its PCI function");
            return Ok((function, Vec::new()));
        }
        let of = numbers.len();
        let netdevs = if self.table.asks_netdevs() {
            function::netdevs(&folder, of)?
        } else {
            Vec::new()
        };
        let taken = numbers.iter().copied().filter(|number| {
            let number = number.to_string();
            let mut on_it = function::on_port(&netdevs, &number, of).into_iter();
            let by_netdev = on_it.all(|n| {
                let master = n.master.as_deref().is_none_or(|m| self.table.takes_netdev(m));
                master && self.table.takes_netdev(&n.name)
            });
            by_netdev && self.table.takes_port(device, &format!("{device}/{number}"))
        });
        let taken = taken.collect();
        Ok((function, taken))
    }

    /// As [`Self::ports`] for a device that was just added, by name only. Empty: none is read, or the device was
    /// removed again.
    pub(super) fn of_new(&self, device: &str) -> Vec<u32> {
        if !self.table.takes_device(device) {
            return Vec::new();
        }
        let numbers = numbers(&self.folder(device));
        let taken = numbers.and_then(|numbers| self.ports(device, &numbers));
        taken.map(|(_, taken)| taken).unwrap_or_default()
    }
}

/// The numbers of a device's ports, ascending.
///
/// # Errors
/// When their folder exists and cannot be listed.
pub(super) fn numbers(device: &Path) -> Result<Vec<u32>, Error> {
    let ports = root::list(&device.join("ports"))?.unwrap_or_default();
    let mut ports: Vec<u32> = ports.iter().filter_map(|name| name.parse().ok()).collect();
    ports.sort_unstable();
    Ok(ports)
}
