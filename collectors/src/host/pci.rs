//! The GPUs on the PCI bus, with or without a driver, and whether each still answers.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::attribute;
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
    known: BTreeMap<PciAddress, KnownFunction>,
}

/// The kind of a function, and the inode under which it was found: another inode is another function.
struct KnownFunction {
    inode: u64,
    function: PciFunction,
    /// The path of a GPU; empty for any other function.
    path: String,
    link: PciLink,
    /// Whether a network function serves RDMA. Not constant: its driver may be loaded later.
    rdma: Slow<bool>,
}

impl KnownFunction {
    /// The `serves` label of a function whose link is watched. `None`: not watched.
    fn serves(&mut self, folder: &Path, now: Instant) -> Option<&'static str> {
        match &self.function {
            // Intel's accelerators report the link inside of the card, not that of the slot.
            PciFunction::Gpu(gpu) => (!gpu.is_virtual && gpu.vendor != Vendor::Intel).then_some("gpu"),
            PciFunction::Network => self.has_rdma(folder, now)?.then_some("rdma"),
            PciFunction::Other | PciFunction::Unknown => None,
        }
    }

    /// Whether an RDMA device is registered on a network function. `None`: not known, or no network function.
    fn has_rdma(&mut self, folder: &Path, now: Instant) -> Option<bool> {
        let is_network = self.function == PciFunction::Network;
        let has = || {
            let found = root::inode(&folder.join("infiniband"));
            found.map(|inode| inode.is_some()).ok()
        };
        is_network.then(|| self.rdma.get(now, has).copied())?
    }
}

impl PciBus {
    pub(super) fn new(env: &Env) -> Self {
        Self {
            subject: Subject::new(SubjectKind::Pci, "bus"),
            folder: env.path("/sys/bus/pci/devices"),
            known: BTreeMap::new(),
        }
    }

    /// Lists the bus. A large node has hundreds of functions, so only new ones are examined. `Ok(false)`: no PCI
    /// bus on this node.
    fn refresh(&mut self) -> Result<bool, Error> {
        let Some(entries) = root::entries(&self.folder)? else {
            self.known.clear();
            return Ok(false);
        };
        let mut before = std::mem::take(&mut self.known);
        for root::Entry { name, inode } in entries {
            // The kernel writes each address in one form only; any other name is not an address.
            let Some(address) = PciAddress::parse(&name).filter(|a| a.0 == name) else {
                continue;
            };
            let known = before
                .remove(&address)
                .filter(|k| k.inode == inode && k.function != PciFunction::Unknown)
                .or_else(|| {
                    let folder = self.folder.join(&name);
                    let function = PciFunction::read(&folder, &address)?;
                    let resolved = matches!(function, PciFunction::Gpu(_)).then(|| root::resolve(&folder));
                    let path = resolved.and_then(Result::ok).map(|path| pci_path(&path));
                    Some(KnownFunction {
                        inode,
                        function,
                        path: path.unwrap_or_default(),
                        link: PciLink::new(),
                        rdma: Slow::keeping(link::KEEP),
                    })
                });
            if let Some(known) = known {
                self.known.insert(address, known);
            }
        }
        Ok(true)
    }

    fn gpus(&self) -> impl Iterator<Item = (&PciAddress, &PciGpu, &str)> {
        self.known
            .iter()
            .filter_map(|(address, known)| match &known.function {
                PciFunction::Gpu(gpu) => Some((address, gpu, known.path.as_str())),
                PciFunction::Network | PciFunction::Other | PciFunction::Unknown => None,
            })
    }

    /// The number of GPUs of a vendor. `None` while a function of unknown kind could be one more.
    fn count(&self, vendor: Vendor) -> Option<u64> {
        if self.known.values().any(|k| k.function == PciFunction::Unknown) {
            return None;
        }
        let gpus = self
            .gpus()
            .filter(|(_, gpu, _)| gpu.vendor == vendor && !gpu.is_virtual);
        u64::try_from(gpus.count()).ok()
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
        for (address, gpu, path) in self.gpus() {
            let folder = self.folder.join(&address.0);
            let driver = driver(&folder);
            let numa_node = numa_node(&folder);
            out.info(
                &PCI_GPU_INFO,
                &[
                    &address.0,
                    gpu.vendor.word(),
                    &gpu.vendor_id,
                    &gpu.device_id,
                    &gpu.class,
                    if gpu.is_virtual { "virtual" } else { "physical" },
                    driver.as_deref().unwrap_or_default(),
                    &numa_node,
                ],
            );
            let is_placed = !path.is_empty() || !numa_node.is_empty();
            if is_placed && !gpu.is_virtual {
                out.info(&PCI_GPU_PATH_INFO, &[&address.0, path, &numa_node]);
            }
            let answers = driver.is_some_and(|driver| may_be_asked(gpu, &driver, &folder));
            let value = if answers {
                responding(&folder)
            } else {
                Value::Absent
            };
            out.push(&PCI_FUNCTION_RESPONDING, &[&address.0], value);
        }
        let now = Instant::now();
        for (address, known) in &mut self.known {
            let folder = self.folder.join(&address.0);
            let serves = known.serves(&folder, now);
            let is_network = known.function == PciFunction::Network;
            if serves.is_none() && !is_network {
                continue;
            }
            let driver = driver(&folder).unwrap_or_default();
            if is_network {
                let registered = known.has_rdma(&folder, now).map(u64::from);
                out.info(&PCI_NETWORK_INFO, &[&address.0, &driver]);
                out.maybe_u64(&PCI_RDMA_REGISTERED, &[&address.0], registered);
            }
            if let Some(serves) = serves {
                known.link.read(&self.folder, address, serves, &driver, out);
            }
        }
        Ok(())
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

/// The NUMA node as text, empty if the kernel reports none (-1).
fn numa_node(folder: &Path) -> String {
    attribute::number(&folder.join("numa_node")).map_or_else(String::new, |node| node.to_string())
}

/// Whether a read of this function's configuration space is harmless and meaningful.
fn may_be_asked(gpu: &PciGpu, driver: &str, folder: &Path) -> bool {
    // A function assigned to a virtual machine (vfio-pci) must not be touched, and a virtual function's vendor
    // field is all ones by specification (SR-IOV 3.4.1.1).
    if gpu.is_virtual || !matches!(driver, "" | "nvidia" | "amdgpu") {
        return false;
    }
    // To answer the read, the kernel powers up the port above a suspended function, and out of D3cold the function
    // too: seconds and watts at every scrape. A function that sleeps without being woken reads as all ones, a false
    // alarm.
    !link::is_asleep(folder)
}

/// 1 or 0 by the first 4 bytes of the configuration space, vendor and device. A read without a response returns all
/// ones. No file, a short read or a function that is still starting (vendor 0x0001, "retry") gives no value.
fn responding(folder: &Path) -> Value {
    let bytes = root::read_bytes(&folder.join("config"), 4)
        .inspect_err(|error| tracing::debug!(%error, "unreadable; omitted"))
        .ok()
        .flatten();
    match bytes.as_deref() {
        Some([0xff, 0xff, 0xff, 0xff]) => Value::U64(0),
        Some([0x01, 0x00, _, _]) => Value::Absent,
        Some([_, _, _, _]) => Value::U64(1),
        _ => Value::Absent,
    }
}
