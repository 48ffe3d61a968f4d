//! Finds the ports, and selects those that are read.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::attribute::AttributeFiles;
use super::choice::{self, Choice};
use super::function;
use super::hub::Hub;
use super::port::{PortLocation, RdmaPort};
use super::settings::RdmaSettings;
use super::setup::{RdmaSetup, SetupPaths};
use super::stats::DeviceKey;
use crate::sys::kept::DescriptorBudget;
use crate::sys::netlink::IdleSocket;
use crate::sys::root::{self, Entry};
use crate::{Device, Devices, Env, Error};

/// The devices of `/sys/class/infiniband`.
pub(crate) struct RdmaDevices {
    choice: Choice,
    net: PathBuf,
    hub: Arc<Hub>,
    /// That of the ports' files, if this collector keeps them open.
    budget: Option<Arc<DescriptorBudget>>,
    make: MakePort,
    /// Netlink is available.
    netlink: Option<Netlink>,
    /// The socket that the ports share during a batch.
    idle: Arc<IdleSocket>,
    /// How often the marks of existing devices are compared, which costs a sixth of a reading.
    pace: Duration,
    seen: Option<Listing>,
    looked: Option<Instant>,
}

/// Makes the device of a port, with the ports' socket to RDMA; the flag marks the first port of the list. `None`: not
/// read.
pub(crate) type MakePort = Box<dyn FnMut(PortLocation, &Arc<IdleSocket>, bool) -> Option<PortDevice> + Send>;

/// The device made for a port.
pub(crate) struct PortDevice {
    pub(crate) device: Box<dyn Device>,
    /// Whether each of its folders could be listed.
    pub(crate) is_whole: bool,
}

/// How netlink is used.
struct Netlink {
    /// Files and netlink belong to one kernel.
    own_tree: bool,
    /// A recording replaces the kernel's answers.
    recorded: Option<PathBuf>,
}

/// The input of the list of ports.
#[derive(Debug, PartialEq, Eq)]
struct Listing(Vec<DeviceEntry>);

#[derive(Debug, PartialEq, Eq)]
struct DeviceEntry {
    /// A name that is reused has another inode.
    device: Entry,
    /// The numbers of its ports, ascending.
    ports: Vec<u32>,
    marks: Marks,
}

/// Shows, without a listing, that a device changed. The kernel shows a device before its ports, and a port before
/// its counters.
#[derive(Debug, PartialEq, Eq)]
struct Marks {
    /// The inodes of the folders of counters and of the next possible port, 0 if absent.
    inodes: Vec<u64>,
    /// Only if the rules name network interfaces: udev may rename one at any time, and a bond may take one.
    netdevs: Option<Vec<(Entry, Option<String>)>>,
}

impl RdmaDevices {
    pub(super) fn new(
        env: &Env,
        table: RdmaSettings,
        files: AttributeFiles,
        pace: Duration,
        hub: Arc<Hub>,
    ) -> Self {
        let setup = SetupPaths::new(env, table.nccl_gid_index);
        let known_to = Arc::clone(&hub);
        let budget = Arc::clone(&files.budget);
        let make = move |place, idle: &Arc<IdleSocket>, is_first| {
            let port = RdmaPort::new(place, &files, idle)
                .with_hub(&known_to)
                .with_setup(RdmaSetup::new(&setup, is_first));
            Some(PortDevice {
                is_whole: port.is_whole(),
                device: Box::new(port),
            })
        };
        Self {
            hub,
            budget: Some(budget),
            ..Self::making(env, table, Box::new(make), pace)
        }
    }

    /// The same ports with another kind of device.
    pub(crate) fn making(env: &Env, table: RdmaSettings, make: MakePort, pace: Duration) -> Self {
        Self {
            net: env.path("/sys/class/net"),
            netlink: (!table.sysfs_only).then(|| Netlink {
                own_tree: !(env.is_live() && env.is_tree()),
                recorded: env.recorded.clone(),
            }),
            choice: Choice {
                class: env.path("/sys/class/infiniband"),
                table,
            },
            hub: Hub::new(None),
            idle: IdleSocket::new(),
            budget: None,
            make,
            pace,
            seen: None,
            looked: None,
        }
    }

    /// Whether open files of a tree may have been replaced.
    fn look_at_files(&self) -> bool {
        self.budget.as_ref().is_some_and(|budget| budget.look())
    }

    /// The devices that are not excluded by name.
    fn devices(&self) -> Result<Vec<Entry>, Error> {
        // The class is absent: the modules are not loaded yet.
        let mut devices = root::entries(&self.choice.class)?.unwrap_or_default();
        devices.retain(|device| self.choice.table.takes_device(&device.name));
        Ok(devices)
    }

    /// Lists only folders. No driver is queried, and nothing below a device excluded by name is touched.
    fn list(&self) -> Result<Listing, Error> {
        let listed = self.devices()?.into_iter().map(|device| {
            let folder = self.choice.folder(&device.name);
            let ports = choice::numbers(&folder)?;
            Ok(DeviceEntry {
                marks: self.marks(&folder, &ports)?,
                ports,
                device,
            })
        });
        Ok(Listing(listed.collect::<Result<_, Error>>()?))
    }

    /// Reads the marks of a device with these ports: one stat(2) for each folder.
    fn marks(&self, folder: &Path, ports: &[u32]) -> Result<Marks, Error> {
        let inode = |path: &Path| Ok::<_, Error>(root::inode(path)?.unwrap_or_default());
        let mut inodes = vec![inode(&folder.join("hw_counters"))?];
        let all = folder.join("ports");
        for port in ports {
            let port = all.join(port.to_string());
            let (hw, pma) = (inode(&port.join("hw_counters"))?, inode(&port.join("counters"))?);
            inodes.extend([hw, pma]);
            // Otherwise they show whether the port exists.
            if (hw, pma) == (0, 0) {
                inodes.push(inode(&port)?);
            }
        }
        // The kernel numbers ports without gaps, from 1.
        let next = ports.last().map_or(1, |last| last.saturating_add(1));
        inodes.push(inode(&all.join(next.to_string()))?);
        let netdevs = self
            .choice
            .table
            .asks_netdevs()
            .then(|| function::masters(folder));
        Ok(Marks {
            inodes,
            netdevs: netdevs.transpose()?,
        })
    }

    /// Added and removed devices are detected immediately, and so is any change that could exclude a port. Late
    /// additions to a known device may wait.
    fn has_changed(&self, seen: &Listing, look: bool) -> Result<bool, Error> {
        if !self.devices()?.iter().eq(seen.0.iter().map(|l| &l.device)) {
            return Ok(true);
        }
        if !look && !self.choice.table.asks_netdevs() {
            return Ok(false);
        }
        for DeviceEntry { device, ports, marks } in &seen.0 {
            if self.marks(&self.choice.folder(&device.name), ports)? != *marks {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The netlink key of a device. `None`: netlink is not used for it.
    fn by_netlink(&self, device: &str, folder: &Path) -> Option<DeviceKey> {
        let netlink = self.netlink.as_ref()?;
        let guid = root::read_text(&folder.join("node_guid")).ok().flatten();
        // Some drivers report no GUID.
        let guid = guid.filter(|guid| guid.chars().any(|c| c.is_ascii_hexdigit() && c != '0'));
        // In a tree other than the kernel's own, a name does not identify a device.
        (guid.is_some() || netlink.own_tree).then(|| DeviceKey {
            device: device.to_owned(),
            guid,
        })
    }

    /// The ports of one device that are read.
    fn places(&self, listed: &DeviceEntry) -> Result<Vec<PortLocation>, Error> {
        let device = &listed.device.name;
        let (function, taken) = self.choice.ports(device, &listed.ports)?;
        if taken.is_empty() {
            return Ok(Vec::new());
        }
        let folder = self.choice.folder(device);
        let numa_node = function::numa_node(&folder);
        let netlink = self.by_netlink(device, &folder);
        let places = taken
            .into_iter()
            .enumerate()
            .map(|(at, number)| PortLocation {
                device: device.clone(),
                port: number.to_string(),
                of: listed.ports.len(),
                folder: folder.clone(),
                net: self.net.clone(),
                function: function.clone(),
                numa_node: numa_node.clone(),
                speaks_for_device: at == 0,
                netlink: netlink.clone(),
                recorded: self.netlink.as_ref().and_then(|n| n.recorded.clone()),
            })
            .collect();
        Ok(places)
    }
}

impl Devices for RdmaDevices {
    fn scan(&mut self) -> Result<Vec<Box<dyn Device>>, Error> {
        // After a scan that failed, this is called in place of `changed`, and the ports known before are read.
        self.look_at_files();
        self.idle.keep();
        // A failed scan is repeated, even if nothing changes.
        self.seen = None;
        let began = Instant::now();
        self.looked = Some(began);
        let listing = self.list()?;
        let mut found: Vec<Box<dyn Device>> = Vec::new();
        let (mut folders, mut names) = (BTreeSet::new(), Vec::new());
        let (mut places, mut is_whole) = (Vec::new(), true);
        for listed in &listing.0 {
            // Two names for one device would count everything twice.
            if !folders.insert(resolved(&self.choice.folder(&listed.device.name))) {
                tracing::debug!(
                    device = listed.device.name,
                    "ignored: another name of the same device"
                );
                continue;
            }
            places.extend(self.places(listed)?);
        }
        // At the limit of series, virtual functions must not take the place of the node's own ports.
        places.sort_by_key(|place| place.function.is_virtual);
        for place in places {
            let name = place.port.parse().ok().map(|n| (place.device.clone(), n));
            let Some(made) = (self.make)(place, &self.idle, found.is_empty()) else {
                continue;
            };
            is_whole &= made.is_whole;
            names.extend(name);
            found.push(made.device);
        }
        self.hub.list(began, &names);
        // A folder that could not be listed is looked for again.
        self.seen = is_whole.then_some(listing);
        Ok(found)
    }

    fn changed(&mut self) -> bool {
        let replaced = self.look_at_files();
        self.idle.keep();
        let doubt = self.hub.take_doubt() || replaced;
        let look = doubt || self.looked.is_none_or(|at| at.elapsed() >= self.pace);
        if look {
            self.looked = Some(Instant::now());
        }
        // Errors of the listing are reported by the scan.
        self.hub.is_forgotten()
            || self
                .seen
                .as_ref()
                .is_none_or(|seen| self.has_changed(seen, look).unwrap_or(true))
    }

    fn over(&mut self) {
        self.idle.close();
    }
}

fn resolved(path: &Path) -> PathBuf {
    root::resolve(path).unwrap_or_else(|_| path.to_owned())
}
