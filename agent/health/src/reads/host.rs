//! GPUs and network functions on the PCI bus, and memory controllers, from the host collector's series.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use collectors::device_files::{self, DeviceFiles};
use collectors::host::is_vfio;
use collectors::host::metrics::{
    EDAC_CONTROLLER_INFO, EDAC_OF_GPU, EDAC_UNCORRECTED, PCI_FUNCTION_RESPONDING, PCI_GPU_INFO, PCI_GPUS,
    PCI_NETWORK_INFO, PCI_RDMA_REGISTERED,
};
use collectors::{PciAddress, SubjectKind, Value};

use model::snapshot::{Sample, Snapshot};

/// One GPU of the PCI listing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Gpu {
    driver: String,
    /// Whether no recording of real hardware has proven the checks of such GPUs.
    is_unproven: bool,
    is_virtual: bool,
    responding: Option<bool>,
}

impl Gpu {
    /// Whether it is bound to a driver that assigns it to a virtual machine or to user space.
    fn is_reassigned(&self) -> bool {
        hands_on(&self.driver)
    }

    /// Its driver. Empty: none that serves or assigns it, but perhaps one of the kernel (nouveau, nova_core).
    fn served_by(&self) -> &str {
        let is_usual = device_files::ALL.iter().any(|files| files.driver == self.driver);
        if is_usual || self.is_reassigned() {
            &self.driver
        } else {
            ""
        }
    }
}

/// The visible state of a PCI address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A GPU is present. `true`: it responded to a read.
    Present(bool),
    /// It is in the listing but does not respond.
    Silent,
    /// It is not in the complete listing.
    Gone,
    /// It is assigned to a virtual machine or to user space (vfio-pci).
    Reassigned,
    /// The listing is incomplete.
    Unknown,
}

impl Place {
    /// Whether the GPU is certainly off the bus.
    pub const fn is_absent(self) -> bool {
        matches!(self, Self::Silent | Self::Gone)
    }
}

/// The visible state of the address of an RDMA adapter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Slot {
    /// A driver has registered an RDMA device, in any network namespace.
    Registered,
    /// A driver is bound but has registered no RDMA device.
    Unregistered(String),
    /// No driver is bound.
    Unbound,
    /// A driver that assigns the function to a virtual machine or to user space is bound.
    Released,
    /// It is not in the complete listing.
    Gone,
    /// Not readable.
    Unknown,
}

/// Drivers that assign a function to others and create no device, besides those with `vfio` in their name.
const HANDS_ON: [&str; 4] = ["pci-stub", "pciback", "uio_pci_generic", "xen-pciback"];

/// Whether a driver assigns a function to a virtual machine or to user space.
fn hands_on(driver: &str) -> bool {
    is_vfio(driver) || HANDS_ON.contains(&driver)
}

/// The host in one snapshot.
#[derive(Clone, Debug, Default)]
pub struct Host {
    /// The time since boot of the reading of the PCI bus. `None`: missing, failed, late or stale.
    pub read_at: Option<Duration>,
    complete: bool,
    gpus: BTreeMap<PciAddress, Gpu>,
    /// Network functions: the bound driver, and whether an RDMA device is registered there.
    networks: BTreeMap<PciAddress, (String, Option<bool>)>,
    /// The memory controllers, also unreadable ones.
    controllers: BTreeSet<String>,
    /// Uncorrected errors by memory controller, in this boot.
    pub uncorrected: BTreeMap<String, u64>,
    /// The memory controllers of GPUs.
    pub of_gpus: BTreeSet<String>,
}

impl Host {
    /// Reads a snapshot.
    pub fn of(snapshot: &Snapshot) -> Self {
        let mut host = Self::default();
        host.read_bus(snapshot);
        let devices = snapshot.collector("host").map(|host| host.devices.as_slice());
        let subjects = devices.unwrap_or_default().iter().map(|device| &device.subject);
        let controllers = subjects.filter(|subject| subject.kind == SubjectKind::MemoryController);
        host.controllers = controllers.map(|subject| subject.name.clone()).collect();
        for sample in snapshot.samples(&EDAC_UNCORRECTED) {
            if let (Some(controller), Value::U64(count)) = (sample.label("controller"), sample.value) {
                host.uncorrected.insert(controller.to_owned(), count);
            }
        }
        let controllers = snapshot.samples(&EDAC_CONTROLLER_INFO);
        let of_gpus = controllers.filter(|sample| sample.label("name") == Some(EDAC_OF_GPU));
        host.of_gpus = of_gpus
            .filter_map(|sample| sample.label("controller").map(str::to_owned))
            .collect();
        host
    }

    fn read_bus(&mut self, snapshot: &Snapshot) {
        let Some(collector) = snapshot.collector("host") else {
            return;
        };
        let Some(bus) = collector
            .devices
            .iter()
            .find(|d| d.subject.kind == SubjectKind::Pci && d.is_current(snapshot.at, collector.max_age()))
        else {
            return;
        };
        // An absent count means that a function was unreadable: the listing is incomplete.
        let mut counts = bus
            .layout
            .series
            .iter()
            .zip(bus.values.iter())
            .filter(|(series, _)| *series.metric == PCI_GPUS)
            .peekable();
        self.complete = counts.peek().is_some() && counts.all(|(_, value)| *value != Value::Absent);
        self.read_at = Some(bus.at);
        let at = |s: &Sample<'_>| s.label("pci").and_then(PciAddress::parse);
        for sample in snapshot.samples(&PCI_GPU_INFO) {
            if let Some(address) = at(&sample) {
                let gpu = self.gpus.entry(address).or_default();
                sample
                    .label("driver")
                    .unwrap_or_default()
                    .clone_into(&mut gpu.driver);
                let vendor = sample.label("vendor").and_then(DeviceFiles::of_vendor);
                gpu.is_unproven = vendor.is_some_and(|vendor| !vendor.is_proven);
                gpu.is_virtual = sample.label("function") == Some("virtual");
            }
        }
        for sample in snapshot.samples(&PCI_NETWORK_INFO) {
            if let (Some(address), Some(driver)) = (at(&sample), sample.label("driver")) {
                self.networks.insert(address, (driver.to_owned(), None));
            }
        }
        for sample in snapshot.samples(&PCI_RDMA_REGISTERED) {
            if let Some((_, registered)) = at(&sample).and_then(|a| self.networks.get_mut(&a)) {
                *registered = Some(sample.value != Value::U64(0));
            }
        }
        for sample in snapshot.samples(&PCI_FUNCTION_RESPONDING) {
            if let Some(gpu) = at(&sample).and_then(|a| self.gpus.get_mut(&a)) {
                gpu.responding = match sample.value {
                    Value::U64(v) => Some(v != 0),
                    Value::F64(_) | Value::Absent => None,
                };
            }
        }
    }

    /// Whether the PCI listing is present and complete.
    pub fn is_complete(&self) -> bool {
        self.read_at.is_some() && self.complete
    }

    /// Whether no listing has any function: this machine has no PCI bus, or /sys is not there.
    pub fn lists_nothing(&self) -> bool {
        !self.is_complete() && self.gpus.is_empty() && self.networks.is_empty()
    }

    /// The state of an address.
    pub fn place(&self, address: &PciAddress) -> Place {
        match self.gpus.get(address) {
            None if self.is_complete() => Place::Gone,
            None => Place::Unknown,
            Some(gpu) if gpu.is_reassigned() => Place::Reassigned,
            Some(gpu) => match gpu.responding {
                Some(false) => Place::Silent,
                Some(true) => Place::Present(true),
                None => Place::Present(false),
            },
        }
    }

    /// Whether the host's memory has other controllers, and not this one: its name may be of another driver.
    pub fn lacks_controller(&self, name: &str) -> bool {
        !self.controllers.contains(name) && self.controllers.difference(&self.of_gpus).next().is_some()
    }

    /// Whether the driver of this GPU may take lanes from its link while it is idle.
    pub fn drops_lanes(&self, address: &PciAddress) -> bool {
        let driver = self.gpus.get(address).map(|gpu| gpu.driver.as_str());
        let mut all = device_files::ALL.iter();
        all.any(|files| files.drops_lanes && driver == Some(files.driver))
    }

    /// The state of an RDMA adapter's address.
    pub fn slot(&self, address: &PciAddress) -> Slot {
        match self.networks.get(address) {
            None if self.is_complete() => Slot::Gone,
            None => Slot::Unknown,
            Some((_, Some(true))) => Slot::Registered,
            Some((driver, _)) if driver.is_empty() => Slot::Unbound,
            Some((driver, _)) if hands_on(driver) => Slot::Released,
            Some((driver, Some(false))) => Slot::Unregistered(driver.clone()),
            Some((_, None)) => Slot::Unknown,
        }
    }

    /// Network functions that are assigned to a virtual machine or to user space.
    pub fn released(&self) -> impl Iterator<Item = &PciAddress> {
        self.networks
            .keys()
            .filter(|address| self.slot(address) == Slot::Released)
    }

    /// The other functions of the same card on which an RDMA device is registered.
    pub fn registered_siblings<'a>(
        &'a self,
        address: &'a PciAddress,
    ) -> impl Iterator<Item = &'a PciAddress> {
        let card = |a: &'a PciAddress| a.0.rsplit_once('.').map(|(card, _)| card);
        let others = self.networks.iter().filter(move |(a, _)| *a != address);
        let registered = others.filter(|(_, (_, registered))| *registered == Some(true));
        registered
            .map(|(a, _)| a)
            .filter(move |a| card(a) == card(address))
    }

    /// Every GPU of the listing, and whether its checks are unproven.
    pub fn unproven(&self) -> impl Iterator<Item = (&PciAddress, bool)> {
        self.gpus.iter().map(|(address, gpu)| (address, gpu.is_unproven))
    }

    /// The driver that an address is bound to. Empty: none.
    pub fn driver_at(&self, address: &PciAddress) -> Option<&str> {
        self.gpus.get(address).map(|gpu| gpu.driver.as_str())
    }

    /// Whether a driver has the GPU that neither serves nor assigns it (nouveau, nova_core).
    pub(crate) fn has_other_driver(&self, address: &PciAddress) -> bool {
        let gpu = self.gpus.get(address);
        gpu.is_some_and(|gpu| !gpu.driver.is_empty() && gpu.served_by().is_empty())
    }

    /// Physical GPUs bound to this driver (empty: to none that serves or assigns them) that do not fail to respond.
    pub fn gpus_of<'a>(&'a self, driver: &'a str) -> impl Iterator<Item = &'a PciAddress> {
        let is_there =
            move |gpu: &Gpu| gpu.served_by() == driver && !gpu.is_virtual && gpu.responding != Some(false);
        let gpus = self.gpus.iter().filter(move |(_, gpu)| is_there(gpu));
        gpus.map(|(address, _)| address)
    }

    /// The number of GPUs on the bus that are not silent, with any driver. `None`: unknown.
    pub fn gpus_there(&self) -> Option<usize> {
        self.is_complete().then(|| self.gpus_listed())
    }

    /// The same, of a listing that may be incomplete.
    pub fn gpus_listed(&self) -> usize {
        let is_there = |g: &&Gpu| !g.is_virtual && (g.is_reassigned() || g.responding != Some(false));
        self.gpus.values().filter(is_there).count()
    }
}
