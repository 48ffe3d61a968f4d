//! Which ports there are, and which of them are read.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::attribute::Files;
use super::function::{self, Function};
use super::port::{Place, Port};
use super::settings::Table;
use crate::sys::root::{self, Entry};
use crate::{Device, Devices, Env, Error};

/// The devices of `/sys/class/infiniband`.
pub(super) struct Rdma {
    class: PathBuf,
    net: PathBuf,
    table: Table,
    files: Files,
    seen: Option<Listing>,
}

/// What the list of ports is made from: a name that comes back has another inode.
#[derive(Debug, PartialEq, Eq)]
struct Listing(Vec<Listed>);

#[derive(Debug, PartialEq, Eq)]
struct Listed {
    device: Entry,
    ports: Option<Vec<Entry>>,
    /// Only where network interfaces decide: udev may rename one at any time.
    netdevs: Option<Vec<Entry>>,
}

impl Rdma {
    pub(super) fn new(env: &Env, table: Table, files: Files) -> Self {
        Self {
            class: env.path("/sys/class/infiniband"),
            net: env.path("/sys/class/net"),
            table,
            files,
            seen: None,
        }
    }

    /// Lists folders only. No driver is asked, and nothing below a device that is left out by name.
    fn list(&self) -> Result<Listing, Error> {
        // No such class: the modules are not loaded yet.
        let devices = root::entries(&self.class)?.unwrap_or_default();
        let listed = devices
            .into_iter()
            .filter(|device| self.table.takes_device(&device.name))
            .map(|device| {
                let folder = self.class.join(&device.name);
                let netdevs = self.table.asks_netdevs().then(|| folder.join("device/net"));
                Listed {
                    ports: root::entries(&folder.join("ports")).unwrap_or_default(),
                    netdevs: netdevs.and_then(|f| root::entries(&f).unwrap_or_default()),
                    device,
                }
            });
        Ok(Listing(listed.collect()))
    }

    /// The ports of one device that are read.
    fn ports(&self, listed: &Listed) -> Vec<Port> {
        let device = &listed.device.name;
        let folder = self.class.join(device);
        let function = Function::of(&folder);
        if !self.table.takes_pci(&function.pci) || (function.is_virtual && !self.table.virtual_functions) {
            tracing::debug!(device, pci = function.pci, "left out by its PCI function");
            return Vec::new();
        }
        let mut numbers: Vec<u32> = listed
            .ports
            .iter()
            .flatten()
            .filter_map(|p| p.name.parse().ok())
            .collect();
        numbers.sort_unstable();
        let of = numbers.len();
        let netdevs = if self.table.asks_netdevs() {
            function::netdevs(&folder, of)
        } else {
            Vec::new()
        };
        let numa_node = function::numa_node(&folder);
        let taken = numbers.into_iter().filter_map(|number| {
            let number = number.to_string();
            let mut on_it = function::on_port(&netdevs, &number, of).into_iter();
            let by_netdev = on_it.all(|n| {
                let master = n.master.as_deref().is_none_or(|m| self.table.takes_netdev(m));
                master && self.table.takes_netdev(&n.name)
            });
            let by_name = self.table.takes_port(device, &format!("{device}/{number}"));
            (by_netdev && by_name).then_some(number)
        });
        taken
            .enumerate()
            .map(|(at, number)| {
                let place = Place {
                    device: device.clone(),
                    port: number,
                    of,
                    folder: folder.clone(),
                    net: self.net.clone(),
                    function: function.clone(),
                    numa_node: numa_node.clone(),
                    speaks_for_device: at == 0,
                };
                Port::new(place, &self.files)
            })
            .collect()
    }
}

impl Devices for Rdma {
    fn scan(&mut self) -> Result<Vec<Box<dyn Device>>, Error> {
        let listing = self.list()?;
        let mut found: Vec<Box<dyn Device>> = Vec::new();
        let mut folders = BTreeSet::new();
        for listed in &listing.0 {
            // Two names for one device would count everything twice.
            if !folders.insert(resolved(&self.class.join(&listed.device.name))) {
                tracing::debug!(
                    device = listed.device.name,
                    "left out: another name of the same device"
                );
                continue;
            }
            found.extend(
                self.ports(listed)
                    .into_iter()
                    .map(|p| Box::new(p) as Box<dyn Device>),
            );
        }
        self.seen = Some(listing);
        Ok(found)
    }

    fn changed(&mut self) -> bool {
        // What cannot be listed is for the scan to say.
        self.list().map_or(true, |now| self.seen.as_ref() != Some(&now))
    }
}

fn resolved(path: &Path) -> PathBuf {
    root::resolve(path).unwrap_or_else(|_| path.to_owned())
}
