//! Finds the GPUs: those that the driver counts, and those that only the PCI bus still shows.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::gpu::NvidiaGpu;
use super::inventory::{Inventory, InventoryEntry};
use super::kernel::{DriverFiles, DriverState};
use super::notes;
use crate::gpu::identity::{Identity, nameless};
use crate::sys::nvml::{Code, Handle};
use crate::sys::patience::OneAway;
use crate::{BootId, Device, Devices, Error};

/// A missing GPU is looked for again after this: a scan queries every GPU.
const AGAIN: Duration = Duration::from_secs(10);

/// How long the first scan waits for the answer about one GPU: the driver may have to initialise it first.
const FIRST: Duration = Duration::from_secs(2);

/// The same for later scans. A known GPU keeps its handle, and no page waits for the scan.
const LATER: Duration = Duration::from_millis(200);

/// More GPUs than any node has: a higher count is invalid.
const MOST: u32 = 256;

/// The list.
pub(super) struct Nvidia {
    kernel: DriverFiles,
    hostname: String,
    boot: BootId,
    inventory: Arc<Inventory>,
    signs: DriverState,
    /// The end of the last scan; `None`: it failed.
    scanned: Option<Instant>,
    /// The driver must be reopened.
    reopen: bool,
    /// The questions about GPUs, by index or address: one that does not return costs only its own GPU.
    questions: BTreeMap<String, OneAway>,
    /// How long an answer about one GPU is waited for.
    patience: Duration,
}

/// What the driver answered about the GPUs that it counts.
#[derive(Default)]
struct Counted {
    /// By label.
    found: BTreeMap<String, InventoryEntry>,
    /// The codes of those that it does not open.
    refused: Vec<Code>,
    /// The indexes of those without an answer.
    awaited: Vec<u32>,
    total: usize,
}

impl Nvidia {
    /// The library must have been opened.
    pub(super) fn new(
        kernel: DriverFiles,
        hostname: String,
        boot: BootId,
        inventory: Arc<Inventory>,
    ) -> Self {
        Self {
            signs: kernel.signs(),
            kernel,
            hostname,
            boot,
            inventory,
            scanned: None,
            reopen: false,
            questions: BTreeMap::new(),
            patience: FIRST,
        }
    }

    /// Asks one question about one GPU, on a thread of its own. `None`: no answer yet.
    fn ask<T: Send + 'static>(
        &mut self,
        gpu: String,
        question: impl FnOnce(&Inventory) -> Result<T, Code> + Send + 'static,
    ) -> Option<Result<T, Code>> {
        let inventory = Arc::clone(&self.inventory);
        let asked = self.questions.entry(gpu).or_default();
        asked.ask_within(self.patience, move || {
            // The driver is not closed while the question is inside.
            let _inside = inventory.enter().ok_or(Code::NOT_READY)?;
            question(&inventory)
        })
    }

    /// Reopens the driver after it was reloaded. Only while no thread is inside it: a stuck driver would also block
    /// this thread, and other threads would use freed handles. Threads that wait for events leave within seconds.
    fn reopen(&mut self) -> Result<(), Code> {
        let library = self.inventory.library;
        self.reopen = true;
        if !self.inventory.close() {
            return Err(Code::NOT_READY);
        }
        while library.is_open() {
            // A session of an unloaded driver cannot be closed.
            if let Err(code) = library.shutdown() {
                tracing::debug!(%code, "not closed");
                break;
            }
        }
        if !self.inventory.table.named && !self.kernel.is_loaded() {
            // The library would load the module automatically, also in the middle of an upgrade.
            return Err(Code::DRIVER_NOT_LOADED);
        }
        library.init()?;
        self.inventory.opened();
        self.reopen = false;
        Ok(())
    }

    /// The GPUs that the driver counts. Each is asked about separately: the driver may never answer about one of them.
    fn counted(&mut self) -> Result<Counted, Code> {
        let library = self.inventory.library;
        let driver = library.driver_version().unwrap_or_default();
        let count = library.count()?.min(MOST);
        let mut counted = Counted {
            total: usize::try_from(count).unwrap_or(usize::MAX),
            ..Counted::default()
        };
        for index in 0..count {
            let driver = driver.clone();
            let asked = self.ask(format!("index {index}"), move |inventory| {
                let handle = inventory.library.handle(index)?;
                let identity = Identity::ask(inventory.library, handle, index, &driver)?;
                Ok(InventoryEntry {
                    identity: Arc::new(identity),
                    handle: Ok(handle),
                    awaited: None,
                    opened: inventory.session(),
                })
            });
            match asked {
                Some(Ok(mut entry)) => {
                    let same = counted.found.get(&entry.identity.gpu);
                    if same.is_some_and(|other| other.identity.pci != entry.identity.pci) {
                        // Two boards with one UUID: the second has its address as its name.
                        let identity = Arc::make_mut(&mut entry.identity);
                        identity.gpu = nameless(&identity.pci);
                    }
                    counted.found.insert(entry.identity.gpu.clone(), entry);
                }
                Some(Err(code)) => counted.refused.push(code),
                None => counted.awaited.push(index),
            }
        }
        Ok(counted)
    }

    /// The GPU with that index, about which the driver has not answered.
    fn awaited(
        &self,
        index: u32,
        before: &BTreeMap<String, InventoryEntry>,
        counted: &Counted,
        bound: &[String],
    ) -> InventoryEntry {
        let is_free = |pci: &str| counted.found.values().all(|e| e.identity.pci != pci);
        let is_new =
            |e: &&InventoryEntry| !counted.found.contains_key(&e.identity.gpu) && !e.identity.is_unnamed();
        let known = before.values().filter(is_new);
        let mut known = known.filter(|e| e.identity.index == index.to_string() && is_free(&e.identity.pci));
        if let Some(entry) = known.next() {
            let entry = entry.clone();
            let is_open = entry.handle.is_ok() && entry.opened == self.inventory.session();
            return if is_open {
                entry
            } else {
                self.later(index, entry.identity)
            };
        }
        // The library numbers GPUs in the order of their addresses.
        let place = usize::try_from(index)
            .ok()
            .filter(|_| bound.len() == counted.total);
        let pci = place.and_then(|at| bound.get(at)).filter(|pci| is_free(pci));
        match pci {
            Some(pci) => {
                let entry = self.absent(pci, before, Code::TIMEOUT);
                self.later(index, entry.identity)
            }
            None => self.later(index, Arc::new(Identity::of_index(index, ""))),
        }
    }

    /// An entry whose own reading asks for the handle.
    fn later(&self, index: u32, mut identity: Arc<Identity>) -> InventoryEntry {
        Arc::make_mut(&mut identity).index = index.to_string();
        InventoryEntry {
            identity,
            handle: Err(Code::TIMEOUT),
            awaited: Some(index),
            opened: self.inventory.session(),
        }
    }

    /// The identity of a GPU at that address that the driver does not open.
    fn absent(&self, pci: &str, before: &BTreeMap<String, InventoryEntry>, code: Code) -> InventoryEntry {
        // The driver's information file may name another GPU that took its place.
        let kernel_uuid = self.kernel.uuid(pci);
        let is_it = |e: &&InventoryEntry| {
            e.identity.pci == pci && kernel_uuid.as_ref().is_none_or(|uuid| *uuid == e.identity.gpu)
        };
        let known = before.values().find(is_it);
        let identity = known.map_or_else(
            || Arc::new(Identity::at(pci, kernel_uuid.clone(), "")),
            |entry| Arc::clone(&entry.identity),
        );
        InventoryEntry {
            identity,
            handle: Err(code),
            awaited: None,
            opened: self.inventory.session(),
        }
    }

    /// The handle of the GPU at that address, or the error.
    fn ask_by_address(&mut self, pci: &str) -> Result<Handle, Code> {
        let address = pci.to_owned();
        let asked = self.ask(pci.to_owned(), move |inventory| {
            inventory.library.handle_by_pci(&address)
        });
        asked.unwrap_or(Err(Code::TIMEOUT))
    }

    fn find(&mut self) -> Result<BTreeMap<String, InventoryEntry>, Code> {
        let inventory = Arc::clone(&self.inventory);
        if self.reopen {
            self.reopen()?;
        }
        let mut inside = inventory.enter().ok_or(Code::NOT_READY)?;
        let counted = match self.counted() {
            Err(code) if code.is_uninitialized() => {
                drop(inside);
                self.reopen()?;
                inside = inventory.enter().ok_or(Code::NOT_READY)?;
                self.counted()
            }
            counted => counted,
        };
        let mut counted = counted?;
        let before = self.inventory.entries();
        // A list of the whole PCI bus: once a scan.
        let listed = self.kernel.bound();
        let has_bus = listed.is_some();
        let mut bound = listed.unwrap_or_default();
        bound.sort_unstable();
        for index in std::mem::take(&mut counted.awaited) {
            let entry = self.awaited(index, &before, &counted, &bound);
            tracing::debug!(index, gpu = entry.identity.gpu, "no answer of the driver yet");
            counted.found.insert(entry.identity.gpu.clone(), entry);
        }
        let Counted {
            mut found, refused, ..
        } = counted;
        for (gpu, entry) in &mut found {
            if let Some(known) = before.get(gpu) {
                Arc::make_mut(&mut entry.identity).fill(&known.identity);
            }
        }
        let mut refused = refused.into_iter();
        for pci in bound {
            if found.values().any(|e| e.identity.pci == pci) {
                continue;
            }
            let code = match self.ask_by_address(&pci) {
                // A container with a part of the node's GPUs.
                Err(Code::NOT_FOUND) if self.kernel.is_of_others(&pci) => Code::NO_PERMISSION,
                Err(code) if code == Code::NO_PERMISSION || !code.is_unsupported() => code,
                Err(_) => refused.next().unwrap_or(Code::NOT_FOUND),
                // It opens by address and not by index: it still has no name.
                Ok(_) => refused.next().unwrap_or(Code::UNKNOWN),
            };
            let entry = self.absent(&pci, &before, code);
            found.entry(entry.identity.gpu.clone()).or_insert(entry);
        }
        // A GPU that is not found any more is lost, unless its function is there (with another driver or none, which check
        // gpu-driver-unusable judges) or another GPU has its address.
        for (gpu, entry) in before {
            if found.contains_key(&gpu) || entry.identity.is_unnamed() {
                continue;
            }
            let pci = &entry.identity.pci;
            let given_away = !pci.is_empty() && has_bus && self.kernel.is_there(pci);
            let replaced = !pci.is_empty() && found.values().any(|e| e.identity.pci == *pci);
            if !given_away && !replaced {
                let code = entry.handle.err().unwrap_or(Code::GPU_IS_LOST);
                // A GPU that is denied is there.
                let refused = refused.find(|code| *code != Code::NO_PERMISSION);
                let code = refused.unwrap_or(code);
                found.insert(
                    gpu,
                    InventoryEntry {
                        identity: entry.identity,
                        handle: Err(code),
                        awaited: None,
                        opened: self.inventory.session(),
                    },
                );
            }
        }
        drop(inside);
        let driver = self.inventory.library.driver_version().ok();
        renew(&mut found, driver.as_deref());
        Ok(found)
    }
}

/// Updates properties that belong to the driver, not the GPU: its version, and indexes that it gave to another GPU.
fn renew(found: &mut BTreeMap<String, InventoryEntry>, driver: Option<&str>) {
    let counted = found.values().filter(|e| e.handle.is_ok());
    let taken: Vec<Arc<Identity>> = counted.map(|e| Arc::clone(&e.identity)).collect();
    for entry in found.values_mut().filter(|e| e.handle.is_err()) {
        let identity = Arc::make_mut(&mut entry.identity);
        if taken.iter().any(|other| other.index == identity.index) {
            identity.index.clear();
        }
        if taken.iter().any(|other| other.minor == identity.minor) {
            identity.minor.clear();
        }
        if let Some(driver) = driver
            && !identity.driver.is_empty()
        {
            driver.clone_into(&mut identity.driver);
        }
    }
}

impl Devices for Nvidia {
    fn scan(&mut self) -> Result<Vec<Box<dyn Device>>, Error> {
        self.scanned = None;
        self.inventory.take_doubt();
        let signs = self.kernel.signs();
        self.reopen |= signs.is_reload(&self.signs);
        self.signs = signs;
        let found = self.find().map_err(super::driver_error)?;
        let devices = found
            .keys()
            .map(|gpu| {
                let gpu = NvidiaGpu::new(gpu, &self.hostname, Arc::clone(&self.inventory));
                Box::new(gpu) as Box<dyn Device>
            })
            .collect();
        self.inventory.replace(found);
        self.scanned = Some(Instant::now());
        self.patience = LATER;
        Ok(devices)
    }

    fn is_asking(&self) -> bool {
        self.questions.values().any(OneAway::is_away)
    }

    fn changed(&mut self) -> bool {
        let Some(scanned) = self.scanned else {
            return true;
        };
        if self.inventory.take_doubt() || self.kernel.signs() != self.signs {
            return true;
        }
        scanned.elapsed() >= AGAIN && self.inventory.is_one_missing()
    }

    fn notes(&self) -> Option<String> {
        let gpus = self.inventory.entries();
        notes::write(&self.boot, gpus.values().map(|entry| &*entry.identity))
    }

    fn recall(&mut self, text: &str) {
        let mut known = notes::read(&self.boot, text);
        if self.kernel.bound().is_some() {
            // A GPU that left the bus was removed by an administrator, who can confirm that only by a restart.
            known.retain(|gpu| self.kernel.is_there(&gpu.pci));
        }
        let known = known.into_iter().map(|identity| {
            // Until the first scan looks for it, it cannot be queried.
            let entry = InventoryEntry {
                identity: Arc::new(identity),
                handle: Err(Code::GPU_IS_LOST),
                awaited: None,
                opened: self.inventory.session(),
            };
            (entry.identity.gpu.clone(), entry)
        });
        self.inventory.replace(known.collect());
    }
}
