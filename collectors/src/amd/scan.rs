//! Finds the GPUs: the PCI functions that amdgpu has.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use super::files::GpuFiles;
use super::gpu::{AmdGpu, GpuState};
use super::identity::{self, label};
use super::page::PageLabels;
use super::processes::Processes;
use super::sensors::XgmiLinks;
use super::topology::{Partition, Topology};
use crate::gpu::identity::{Identity, hostname};
use crate::sys::root::{self, Entry};
use crate::{Device, Devices, Env, Error, PciAddress};

/// The driver's folder: a link for each of its functions.
const DRIVER: &str = "/sys/bus/pci/drivers/amdgpu";
/// The folder of every device on the bus.
const BUS: &str = "/sys/bus/pci/devices";
/// The folder of graphics devices, for trees of files without the bus. Here a GPU that is divided has up to 8 cards.
const CARDS: &str = "/sys/class/drm";

/// The file of a GPU's id.
const ID: &str = "unique_id";

/// One PCI function of the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Function {
    pci: String,
    folder: PathBuf,
    /// sysfs assigns a new one when the driver takes the function again.
    inode: u64,
}

fn functions(env: &Env) -> Result<Vec<Function>, Error> {
    let on_bus = root::entries(&env.path(DRIVER))?.unwrap_or_default().into_iter();
    let on_bus = on_bus.filter(|entry| PciAddress::parse(&entry.name).is_some());
    let of_bus = |entry: Entry| Function {
        folder: env.path(BUS).join(&entry.name),
        pci: entry.name,
        inode: entry.inode,
    };
    let mut functions: Vec<Function> = on_bus.map(of_bus).collect();
    if functions.is_empty() {
        let cards = root::entries(&env.path(CARDS))?.unwrap_or_default();
        functions.extend(cards.into_iter().filter_map(|entry| of_card(env, &entry)));
        functions.sort_by(|a, b| a.pci.cmp(&b.pci));
        functions.dedup_by(|a, b| a.pci == b.pci);
    }
    Ok(functions)
}

/// The function of a card, by its `uevent`: `DRIVER=amdgpu`, `PCI_SLOT_NAME=0000:c1:00.0`.
fn of_card(env: &Env, entry: &Entry) -> Option<Function> {
    let number = entry.name.strip_prefix("card")?;
    let folder = env.path(CARDS).join(&entry.name).join("device");
    number.parse::<u32>().ok()?;
    let uevent = root::read_lossy(&folder.join("uevent")).ok()??;
    let value = |key| uevent.lines().find_map(|line| line.strip_prefix(key));
    let pci = value("PCI_SLOT_NAME=").filter(|_| value("DRIVER=") == Some("amdgpu"))?;
    Some(Function {
        pci: PciAddress::parse(pci)?.0,
        folder,
        inode: entry.inode,
    })
}

/// Signs that the list may have changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Signs {
    functions: Vec<Function>,
    /// KFD's: a GPU was divided, reset or removed.
    generation: Option<String>,
}

impl Signs {
    fn read(env: &Env) -> Result<Self, Error> {
        Ok(Self {
            functions: functions(env)?,
            generation: Topology::generation(env),
        })
    }
}

/// Where a GPU is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// The driver has it.
    Bound,
    /// On the bus, without a driver: the kernel takes the driver away before it removes a device.
    Unbound,
    /// Off the bus.
    Lost,
}

/// A GPU that the driver has had since the start.
struct Known {
    function: Function,
    identity: Identity,
    page: PageLabels,
    partitions: Vec<Partition>,
    state: Arc<Mutex<GpuState>>,
    place: Place,
    /// The driver refused its id, as during a reset, and none was read before: it is named by its address for now.
    is_unnamed: bool,
}

impl Known {
    /// Takes away the numbers that the driver has given to another GPU.
    fn lose_numbers(&mut self, others: &BTreeMap<String, Self>) {
        let bound = || others.values().filter(|gpu| gpu.place == Place::Bound);
        let ids = |gpu: &Self| gpu.page.ids(gpu.partitions.len());
        let lost = ids(self);
        if bound().any(|gpu| ids(gpu).any(|id| lost.contains(&id))) {
            self.page.lose_ids();
        }
        let own = &mut self.identity;
        if bound().any(|gpu| gpu.identity.index == own.index) {
            own.index.clear();
        }
        if bound().any(|gpu| gpu.identity.minor == own.minor) {
            own.minor.clear();
        }
        let has = |minor| bound().any(|gpu| gpu.partitions.iter().any(|part| part.minor == minor));
        if self.partitions.iter().any(|part| has(part.minor)) {
            self.partitions.clear();
        }
    }
}

/// The list.
pub(super) struct AmdDevices {
    env: Env,
    hostname: String,
    processes: Processes,
    signs: Signs,
    /// By address.
    known: BTreeMap<String, Known>,
    /// How a GPU begins: without counts, with what all GPUs share.
    links: XgmiLinks,
}

impl AmdDevices {
    pub(super) fn new(env: &Env, is_served: bool) -> Self {
        Self {
            env: env.clone(),
            hostname: hostname(env),
            processes: Processes::new(env, is_served),
            signs: Signs::default(),
            known: BTreeMap::new(),
            links: XgmiLinks::default(),
        }
    }

    /// Whether a device is at this address.
    fn is_there(&self, pci: &str) -> bool {
        let folder = self.env.path(BUS).join(pci);
        !matches!(root::inode(&folder), Ok(None))
    }

    /// Whether a device at this address has a driver, as vfio-pci.
    fn is_driven(&self, pci: &str) -> bool {
        let driver = self.env.path(BUS).join(pci).join("driver");
        matches!(root::inode(&driver), Ok(Some(_)))
    }

    /// Keeps those that the driver no longer has.
    fn keep(&mut self, before: BTreeMap<String, Known>) {
        let named: BTreeSet<String> = self.known.values().map(|gpu| gpu.identity.gpu.clone()).collect();
        for (pci, mut gpu) in before {
            if self.known.contains_key(&pci) || named.contains(&gpu.identity.gpu) {
                continue;
            }
            gpu.place = match (self.is_there(&pci), gpu.place) {
                // It has another use.
                (true, Place::Lost) => continue,
                (true, _) if self.is_driven(&pci) => continue,
                (true, _) => Place::Unbound,
                (false, _) => Place::Lost,
            };
            gpu.lose_numbers(&self.known);
            self.known.insert(pci, gpu);
        }
    }

    /// The GPUs to be read.
    fn devices(&self) -> Vec<Box<dyn Device>> {
        let served = self.known.values().filter(|gpu| gpu.place != Place::Unbound);
        served.map(|gpu| self.device(gpu)).collect()
    }

    fn device(&self, gpu: &Known) -> Box<dyn Device> {
        // The first partition has the GPU's own device, each other one a platform device.
        let folder = |minor| self.env.path(CARDS).join(format!("renderD{minor}/device"));
        let folders = gpu.partitions.iter().map(|p| GpuFiles::new(folder(p.minor)));
        Box::new(AmdGpu::new(
            (gpu.identity.clone(), gpu.page.clone()),
            (gpu.partitions.clone(), folders.collect()),
            GpuFiles::new(gpu.function.folder.clone()),
            self.processes.clone(),
            Arc::clone(&gpu.state),
        ))
    }
}

impl Devices for AmdDevices {
    fn scan(&mut self) -> Result<Vec<Box<dyn Device>>, Error> {
        self.signs = Signs::read(&self.env)?;
        let topology = Topology::read(&self.env);
        let version = root::read_lossy(&self.env.path("/sys/module/amdgpu/version"));
        let driver = match version.ok().flatten() {
            Some(version) => version,
            // The driver of the kernel itself has no version of its own.
            None => root::read_lossy(&self.env.path("/proc/sys/kernel/osrelease"))?.unwrap_or_default(),
        };
        let is_loaded = root::inode(&self.env.path(DRIVER))?.is_some();
        let before = std::mem::take(&mut self.known);
        let mut names = BTreeSet::new();
        let mut first = 0;
        for (index, function) in self.signs.functions.iter().enumerate() {
            let pci = function.pci.as_str();
            if is_loaded && before.contains_key(pci) && !self.is_there(pci) {
                // It leaves at this moment: its files no longer name it.
                continue;
            }
            let files = GpuFiles::new(function.folder.clone());
            let partitions = topology.of(pci).to_vec();
            let is_refused = files.refuses(ID);
            let mut identity = identity::read(&files, (pci, index), &driver, &partitions);
            let mut page = PageLabels::read(&files, &self.hostname, first);
            // From zero on if the driver took it again: what another device left is not this one's.
            let same = before.get(pci).filter(|gpu| gpu.function.inode == function.inode);
            // The reset may have begun or ended between the reads.
            let is_refused = is_refused || files.refuses(ID);
            if is_refused && let Some(known) = same {
                identity.gpu.clone_from(&known.identity.gpu);
                page.keep_uuid(&known.page);
            }
            if !names.insert(identity.gpu.clone()) {
                // Two GPUs with one id.
                identity.gpu = label("", pci);
                names.insert(identity.gpu.clone());
            }
            let new = || Arc::new(Mutex::new(GpuState::new(self.links.clone())));
            let state = same.map_or_else(new, |gpu| Arc::clone(&gpu.state));
            let is_unnamed = is_refused && same.is_none_or(|gpu| gpu.is_unnamed);
            first += partitions.len().max(1);
            let gpu = Known {
                function: function.clone(),
                identity,
                page,
                partitions,
                state,
                place: Place::Bound,
                is_unnamed,
            };
            self.known.insert(function.pci.clone(), gpu);
        }
        // A driver that is not loaded misses no GPU.
        if is_loaded {
            self.keep(before);
        }
        Ok(self.devices())
    }

    fn changed(&mut self) -> bool {
        let has_moved = |(pci, gpu): (&String, &Known)| match gpu.place {
            Place::Bound => {
                let files = || GpuFiles::new(gpu.function.folder.clone());
                // It was listed while its driver still started it.
                let is_started = gpu.identity.minor.is_empty() && identity::minor(&files()).is_some();
                is_started || (gpu.is_unnamed && !files().refuses(ID))
            }
            Place::Unbound => !self.is_there(pci) || self.is_driven(pci),
            Place::Lost => self.is_there(pci),
        };
        self.known.iter().any(has_moved) || Signs::read(&self.env).is_ok_and(|now| now != self.signs)
    }
}
