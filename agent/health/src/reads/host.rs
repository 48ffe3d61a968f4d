//! What the host collector's series say about GPUs on the PCI bus and about memory controllers.

use std::collections::BTreeMap;
use std::time::Duration;

use collectors::host::metrics::{
    EDAC_UNCORRECTED, PCI_FUNCTION_RESPONDING, PCI_GPU_INFO, PCI_GPUS, PCI_NETWORK_INFO, PCI_RDMA_REGISTERED,
};
use collectors::{PciAddress, SubjectKind, Value};

use model::snapshot::{Sample, Snapshot};

/// One GPU of the PCI listing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Gpu {
    driver: String,
    is_virtual: bool,
    responding: Option<bool>,
}

impl Gpu {
    /// Whether a driver that is none of a GPU's vendor has it.
    fn is_reassigned(&self) -> bool {
        !matches!(self.driver.as_str(), "" | "nvidia" | "amdgpu")
    }
}

/// A PCI address, as far as it can be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A GPU is there. `true`: it was asked and answered.
    Present(bool),
    /// It is in the listing and does not answer.
    Silent,
    /// The listing is complete and it is not in it.
    Gone,
    /// It is bound to another driver (vfio-pci): somebody uses it otherwise.
    Reassigned,
    /// The listing could not be read in full.
    Unknown,
}

impl Place {
    /// Whether the GPU is off the bus, beyond doubt.
    pub const fn is_absent(self) -> bool {
        matches!(self, Self::Silent | Self::Gone)
    }
}

/// Where an RDMA adapter would be, as far as it can be seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Slot {
    /// A driver has registered an RDMA device there, in whatever network namespace.
    Registered,
    /// A driver is bound and has registered none.
    Unregistered(String),
    /// No driver is bound.
    Unbound,
    /// A driver is bound that hands the function to a virtual machine or to user space.
    Released,
    /// The listing is complete and the function is not in it.
    Gone,
    /// It could not be seen.
    Unknown,
}

/// Drivers that hand a function on and make no device of it.
const HANDS_ON: [&str; 4] = ["vfio-pci", "mlx5_vfio_pci", "pci-stub", "uio_pci_generic"];

/// The host as one snapshot shows it.
#[derive(Clone, Debug, Default)]
pub struct Host {
    /// When the PCI bus was read, as time since boot. `None`: the last reading is missing, failed, late or too old.
    pub read_at: Option<Duration>,
    complete: bool,
    gpus: BTreeMap<PciAddress, Gpu>,
    /// Network functions: the bound driver, and whether an RDMA device is registered there.
    networks: BTreeMap<PciAddress, (String, Option<bool>)>,
    /// Uncorrected errors by memory controller, in this boot.
    pub uncorrected: BTreeMap<String, u64>,
}

impl Host {
    /// Reads a snapshot.
    pub fn of(snapshot: &Snapshot) -> Self {
        let mut host = Self::default();
        host.read_bus(snapshot);
        for sample in snapshot.samples(&EDAC_UNCORRECTED) {
            if let (Some(controller), Value::U64(count)) = (sample.label("controller"), sample.value) {
                host.uncorrected.insert(controller.to_owned(), count);
            }
        }
        host
    }

    fn read_bus(&mut self, snapshot: &Snapshot) {
        let Some(collector) = snapshot.collector("host") else {
            return;
        };
        let Some(bus) = collector
            .devices
            .iter()
            .find(|d| d.subject.kind == SubjectKind::Pci && d.shown(snapshot.at, collector.max_age()))
        else {
            return;
        };
        // A count that is absent means that some function could not be told: the listing is not complete.
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

    /// Whether the PCI listing is there and complete.
    pub fn is_complete(&self) -> bool {
        self.read_at.is_some() && self.complete
    }

    /// What is at an address.
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

    /// What is at an address where an RDMA adapter was.
    pub fn slot(&self, address: &PciAddress) -> Slot {
        match self.networks.get(address) {
            None if self.is_complete() => Slot::Gone,
            None => Slot::Unknown,
            Some((_, Some(true))) => Slot::Registered,
            Some((driver, _)) if driver.is_empty() => Slot::Unbound,
            Some((driver, _)) if HANDS_ON.contains(&driver.as_str()) => Slot::Released,
            Some((driver, Some(false))) => Slot::Unregistered(driver.clone()),
            Some((_, None)) => Slot::Unknown,
        }
    }

    /// Whether an RDMA device is registered on another function of the same card.
    pub fn has_registered_sibling(&self, address: &PciAddress) -> bool {
        let card = |a: &PciAddress| a.0.rsplit_once('.').map(|(card, _)| card.to_owned());
        let mut others = self.networks.iter().filter(|(a, _)| *a != address);
        others.any(|(a, (_, registered))| *registered == Some(true) && card(a) == card(address))
    }

    /// How many GPUs are on the bus and not silent, whatever uses them. `None`: not known.
    pub fn gpus_there(&self) -> Option<usize> {
        let there = self
            .gpus
            .values()
            .filter(|g| !g.is_virtual && (g.is_reassigned() || g.responding != Some(false)));
        self.is_complete().then(|| there.count())
    }
}
