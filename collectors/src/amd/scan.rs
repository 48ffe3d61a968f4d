//! Finds the GPUs: the PCI functions that amdgpu has.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use super::files::GpuFiles;
use super::gpu::{AmdGpu, GpuState};
use super::identity::{self, label};
use super::page::PageLabels;
use super::processes::Processes;
use super::topology::Topology;
use crate::gpu::identity::hostname;
use crate::sys::root::{self, Entry};
use crate::{Device, Devices, Env, Error, PciAddress};

/// The driver's folder: a link for each of its functions.
const DRIVER: &str = "/sys/bus/pci/drivers/amdgpu";
/// The folder of graphics devices, for trees of files without the bus. Here a GPU that is divided has up to 8 cards.
const CARDS: &str = "/sys/class/drm";

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
        folder: env.path("/sys/bus/pci/devices").join(&entry.name),
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

/// The state of a function, from zero on if the driver took it again or another GPU has its address.
fn state_of(
    states: &mut BTreeMap<String, (u64, Arc<Mutex<GpuState>>)>,
    function: &Function,
) -> Arc<Mutex<GpuState>> {
    let of_inode = states
        .remove(&function.pci)
        .filter(|(inode, _)| *inode == function.inode);
    let (_, state) = of_inode.unwrap_or_else(|| (function.inode, Arc::default()));
    let kept = (function.inode, Arc::clone(&state));
    states.insert(function.pci.clone(), kept);
    state
}

/// The list.
pub(super) struct AmdDevices {
    env: Env,
    hostname: String,
    processes: Processes,
    signs: Signs,
    /// By address, with the function's inode: what another device left is not this one's.
    states: BTreeMap<String, (u64, Arc<Mutex<GpuState>>)>,
}

impl AmdDevices {
    pub(super) fn new(env: &Env, is_served: bool) -> Self {
        Self {
            env: env.clone(),
            hostname: hostname(env),
            processes: Processes::new(env, is_served),
            signs: Signs::default(),
            states: BTreeMap::new(),
        }
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
        let mut names = BTreeSet::new();
        let mut devices: Vec<Box<dyn Device>> = Vec::new();
        let mut first = 0;
        for (index, function) in self.signs.functions.iter().enumerate() {
            let pci = function.pci.as_str();
            let files = GpuFiles::new(function.folder.clone());
            let partitions = topology.of(pci).to_vec();
            let mut identity = identity::read(&files, (pci, index), &driver, &partitions);
            if !names.insert(identity.gpu.clone()) {
                // Two GPUs with one id.
                identity.gpu = label("", pci);
                names.insert(identity.gpu.clone());
            }
            let state = state_of(&mut self.states, function);
            let processes = self.processes.clone();
            // The first partition has the GPU's own device, each other one a platform device.
            let folder = |minor| self.env.path(CARDS).join(format!("renderD{minor}/device"));
            let folders = partitions.iter().map(|p| GpuFiles::new(folder(p.minor)));
            let folders = folders.collect();
            let page = PageLabels::read(&files, &self.hostname, first);
            first += partitions.len().max(1);
            devices.push(Box::new(AmdGpu::new(
                (identity, page),
                (partitions, folders),
                files,
                processes,
                state,
            )));
        }
        let is_here = |pci: &String| self.signs.functions.iter().any(|f| f.pci == *pci);
        self.states.retain(|pci, _| is_here(pci));
        Ok(devices)
    }

    fn changed(&mut self) -> bool {
        Signs::read(&self.env).is_ok_and(|now| now != self.signs)
    }
}
