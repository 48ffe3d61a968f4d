//! The GPUs on the PCI bus, with or without a driver, and whether each still answers.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::attribute::{self, OpenFile, OpenFiles};
use super::function::{PciFunction, PciGpu, Vendor};
use super::link::{self, PciLink};
use super::metrics::{
    PCI_FUNCTION_RESPONDING, PCI_GPU_INFO, PCI_GPU_PATH_INFO, PCI_GPUS, PCI_NETWORK_INFO, PCI_RDMA_REGISTERED,
};
use super::slow::Slow;
use crate::rdma::setup::pci_path;
use crate::sys::root;
use crate::{Block, Device, Env, Error, PciAddress, Subject, SubjectKind, Value};

/// The PCI bus. Its folder is listed at every reading, so that a removed GPU also leaves the output.
pub(super) struct PciBus {
    subject: Subject,
    folder: PathBuf,
    files: OpenFiles,
    known: BTreeMap<PciAddress, KnownFunction>,
    /// The upstream ports of switches above the functions whose links are watched.
    uplinks: BTreeMap<PciAddress, Uplink>,
}

/// The upstream port of a switch. Its link carries the traffic of all functions below.
struct Uplink {
    driver: String,
    runtime_status: OpenFile,
    link: PciLink,
}

/// The kind of a function, and the inode under which it was found: another inode is another function.
struct KnownFunction {
    inode: u64,
    function: PciFunction,
    watched: Option<Box<WatchedFunction>>,
}

/// The part of a GPU or a network function that is read.
struct WatchedFunction {
    folder: PathBuf,
    /// The path of a GPU; empty for any other function.
    path: String,
    /// The NUMA node as text, empty if the kernel reports none (-1).
    numa_node: Slow<String>,
    runtime_status: OpenFile,
    config: OpenFile,
    link: PciLink,
    /// The upstream ports above it.
    above: Vec<PciAddress>,
    /// Whether a network function serves RDMA. Not constant: its driver may be loaded later.
    rdma: Slow<bool>,
    /// The bound driver as this reading found it, empty if none is bound. `None`: unknown.
    driver: Option<String>,
}

impl WatchedFunction {
    /// `None`: nothing is read of such a function.
    fn new(function: &PciFunction, folder: PathBuf, files: &OpenFiles) -> Option<Box<Self>> {
        let path = match function {
            PciFunction::Gpu(_) => root::resolve(&folder).map(|path| pci_path(&path)),
            PciFunction::Network => Ok(String::new()),
            PciFunction::Other | PciFunction::Unknown => return None,
        };
        Some(Box::new(Self {
            path: path.unwrap_or_default(),
            numa_node: Slow::new(),
            runtime_status: files.file(folder.join("power/runtime_status")),
            config: files.file(folder.join("config")),
            link: PciLink::new(),
            above: link::uplinks(&folder),
            rdma: Slow::keeping(link::KEEP),
            driver: None,
            folder,
        }))
    }

    /// The `serves` label if the link is watched.
    fn serves(&mut self, function: &PciFunction, now: Instant) -> Option<&'static str> {
        match function {
            // Intel's accelerators report the link inside of the card, not that of the slot.
            PciFunction::Gpu(gpu) => (!gpu.is_virtual && gpu.vendor != Vendor::Intel).then_some("gpu"),
            PciFunction::Network => self.has_rdma(now)?.then_some("rdma"),
            PciFunction::Other | PciFunction::Unknown => None,
        }
    }

    /// Whether an RDMA device is registered on a network function. `None`: not known.
    fn has_rdma(&mut self, now: Instant) -> Option<bool> {
        let folder = &self.folder;
        let has = || {
            let found = root::inode(&folder.join("infiniband"));
            found.map(|inode| inode.is_some()).ok()
        };
        self.rdma.get(now, has).copied()
    }

    /// Adds the series of a GPU.
    fn read_gpu(&mut self, address: &PciAddress, gpu: &PciGpu, now: Instant, out: &mut Block) {
        let folder = &self.folder;
        let numa_node = self.numa_node.get(now, || {
            let number = attribute::number(&folder.join("numa_node"));
            Some(number.map_or_else(String::new, |node| node.to_string()))
        });
        let numa_node = numa_node.map_or("", String::as_str);
        out.info(
            &PCI_GPU_INFO,
            &[
                &address.0,
                gpu.vendor.word(),
                &gpu.vendor_id,
                &gpu.device_id,
                &gpu.class,
                if gpu.is_virtual { "virtual" } else { "physical" },
                self.driver.as_deref().unwrap_or_default(),
                numa_node,
            ],
        );
        let is_placed = !self.path.is_empty() || !numa_node.is_empty();
        if is_placed && !gpu.is_virtual {
            out.info(&PCI_GPU_PATH_INFO, &[&address.0, &self.path, numa_node]);
        }
        let answers = self
            .driver
            .as_deref()
            .is_some_and(|driver| may_be_asked(gpu, driver, &mut self.runtime_status));
        let value = if answers {
            responding(&mut self.config)
        } else {
            Value::Absent
        };
        out.push(&PCI_FUNCTION_RESPONDING, &[&address.0], value);
    }
}

impl PciBus {
    pub(super) fn new(env: &Env, files: &OpenFiles) -> Self {
        Self {
            subject: Subject::new(SubjectKind::Pci, "bus"),
            folder: env.path("/sys/bus/pci/devices"),
            files: files.clone(),
            known: BTreeMap::new(),
            uplinks: BTreeMap::new(),
        }
    }

    /// Lists the bus. A large node has hundreds of functions, so only new ones are examined. `Ok(false)`: no PCI
    /// bus on this node.
    fn refresh(&mut self) -> Result<bool, Error> {
        let Some(entries) = root::entries(&self.folder)? else {
            self.known.clear();
            return Ok(false);
        };
        let is_known = |(entry, (address, known)): (&root::Entry, (&PciAddress, &KnownFunction))| {
            entry.name == address.0 && known.is_still(entry.inode)
        };
        if entries.len() == self.known.len() && entries.iter().zip(&self.known).all(is_known) {
            return Ok(true);
        }
        let mut before = std::mem::take(&mut self.known);
        for root::Entry { name, inode } in entries {
            // The kernel writes each address in one form only; any other name is not an address.
            let Some(address) = PciAddress::parse(&name).filter(|a| a.0 == name) else {
                continue;
            };
            let known = before.remove(&address).filter(|k| k.is_still(inode)).or_else(|| {
                let folder = self.folder.join(&name);
                let function = PciFunction::read(&folder, &address)?;
                Some(KnownFunction {
                    inode,
                    watched: WatchedFunction::new(&function, folder, &self.files),
                    function,
                })
            });
            if let Some(known) = known {
                self.known.insert(address, known);
            }
        }
        Ok(true)
    }

    /// The number of GPUs of a vendor. `None` while a function of unknown kind could be one more.
    fn count(&self, vendor: Vendor) -> Option<u64> {
        if self.known.values().any(|k| k.function == PciFunction::Unknown) {
            return None;
        }
        let is_one = |k: &&KnownFunction| matches!(&k.function, PciFunction::Gpu(gpu) if gpu.vendor == vendor && !gpu.is_virtual);
        u64::try_from(self.known.values().filter(is_one).count()).ok()
    }
}

impl KnownFunction {
    /// Whether what has this inode is the same function, of a kind that is known.
    fn is_still(&self, inode: u64) -> bool {
        self.inode == inode && self.function != PciFunction::Unknown
    }
}

impl Device for PciBus {
    fn subject(&self) -> &Subject {
        &self.subject
    }

    fn read(&mut self, out: &mut Block) -> Result<(), Error> {
        let there = self.refresh()?;
        for vendor in Vendor::ALL {
            // An absent bus is not the same as a bus without GPUs.
            let count = if there { self.count(vendor) } else { None };
            out.maybe_u64(&PCI_GPUS, &[vendor.word()], count);
        }
        let now = Instant::now();
        let mut above = BTreeSet::new();
        for (address, known) in &mut self.known {
            let Some(watched) = &mut known.watched else {
                continue;
            };
            watched.driver = driver(&watched.folder);
            if let PciFunction::Gpu(gpu) = &known.function {
                watched.read_gpu(address, gpu, now, out);
            }
        }
        for (address, known) in &mut self.known {
            let Some(watched) = &mut known.watched else {
                continue;
            };
            let serves = watched.serves(&known.function, now);
            if known.function == PciFunction::Network {
                let registered = watched.has_rdma(now).map(u64::from);
                let driver = watched.driver.as_deref().unwrap_or_default();
                out.info(&PCI_NETWORK_INFO, &[&address.0, driver]);
                out.maybe_u64(&PCI_RDMA_REGISTERED, &[&address.0], registered);
            }
            if let Some(serves) = serves {
                let driver = watched.driver.as_deref().unwrap_or_default();
                let is_asleep = link::is_asleep(&mut watched.runtime_status);
                let bus = &self.folder;
                watched.link.read(bus, address, serves, driver, is_asleep, out);
                above.extend(&watched.above);
            }
        }
        let Self {
            uplinks,
            folder,
            files,
            ..
        } = self;
        uplinks.retain(|address, _| above.contains(address));
        for address in above {
            if !uplinks.contains_key(address) {
                uplinks.insert(address.clone(), Uplink::new(&folder.join(&address.0), files));
            }
        }
        for (address, uplink) in uplinks {
            let is_asleep = link::is_asleep(&mut uplink.runtime_status);
            uplink
                .link
                .read(folder, address, link::SWITCH, &uplink.driver, is_asleep, out);
        }
        Ok(())
    }
}

impl Uplink {
    fn new(folder: &Path, files: &OpenFiles) -> Self {
        Self {
            driver: driver(folder).unwrap_or_default(),
            runtime_status: files.file(folder.join("power/runtime_status")),
            link: PciLink::new(),
        }
    }
}

/// The bound driver, empty if none is bound. `None`: unknown.
fn driver(folder: &Path) -> Option<String> {
    match root::link_name(&folder.join("driver")) {
        Ok(name) => Some(name.unwrap_or_default()),
        Err(error) => {
            tracing::debug!(%error, "unreadable; omitted");
            None
        }
    }
}

/// Whether a read of this function's configuration space is harmless and meaningful.
fn may_be_asked(gpu: &PciGpu, driver: &str, runtime_status: &mut OpenFile) -> bool {
    // A function assigned to a virtual machine (vfio-pci) must not be touched, and a virtual function's vendor
    // field is all ones by specification (SR-IOV 3.4.1.1).
    if gpu.is_virtual || !matches!(driver, "" | "nvidia" | "amdgpu") {
        return false;
    }
    // To answer the read, the kernel powers up the port above a suspended function, and out of D3cold the function
    // too: seconds and watts at every scrape. A function that sleeps without being woken reads as all ones, a false
    // alarm.
    !link::is_asleep(runtime_status)
}

/// 1 or 0 by the first 4 bytes of the configuration space, vendor and device. A read without a response returns all
/// ones. No file, a short read or a function that is still starting (vendor 0x0001, "retry") gives no value.
fn responding(config: &mut OpenFile) -> Value {
    match config.bytes(&mut [0; 4]) {
        Some([0xff, 0xff, 0xff, 0xff]) => Value::U64(0),
        Some([0x01, 0x00, _, _]) => Value::Absent,
        Some([_, _, _, _]) => Value::U64(1),
        _ => Value::Absent,
    }
}
