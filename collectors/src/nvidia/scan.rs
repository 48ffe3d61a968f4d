//! Finds the GPUs: those that the driver counts, and those that only the PCI bus still shows.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::gpu::NvidiaGpu;
use super::identity::Identity;
use super::inventory::{Inventory, InventoryEntry};
use super::kernel::{DriverFiles, DriverState};
use super::notes;
use crate::sys::nvml::{Code, Handle};
use crate::{BootId, Device, Devices, Error};

/// A missing GPU is looked for again after this: a scan queries every GPU.
const AGAIN: Duration = Duration::from_secs(10);

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
        }
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

    /// The GPUs that the driver counts, by label, and those that it counts and does not open.
    fn counted(&self) -> Result<(BTreeMap<String, InventoryEntry>, Vec<Code>), Code> {
        let library = self.inventory.library;
        let driver = library.driver_version().unwrap_or_default();
        let (mut found, mut refused) = (BTreeMap::new(), Vec::new());
        for index in 0..library.count()?.min(MOST) {
            let asked = library
                .handle(index)
                .and_then(|handle| Ok((handle, Identity::ask(library, handle, index, &driver)?)));
            match asked {
                Ok((handle, identity)) => {
                    let entry = InventoryEntry {
                        identity: Arc::new(identity),
                        handle: Ok(handle),
                        opened: self.inventory.session(),
                    };
                    found.insert(entry.identity.gpu.clone(), entry);
                }
                Err(code) => refused.push(code),
            }
        }
        Ok((found, refused))
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
            opened: self.inventory.session(),
        }
    }

    /// The handle of the GPU at that address, or the error.
    fn ask_by_address(&self, pci: &str) -> Result<Handle, Code> {
        self.inventory.library.handle_by_pci(pci)
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
        let (mut found, refused) = counted?;
        let before = self.inventory.entries();
        for (gpu, entry) in &mut found {
            if let Some(known) = before.get(gpu) {
                Arc::make_mut(&mut entry.identity).fill(&known.identity);
            }
        }
        let mut refused = refused.into_iter();
        for pci in self.kernel.bound().unwrap_or_default() {
            if found.values().any(|e| e.identity.pci == pci) {
                continue;
            }
            let code = match self.ask_by_address(&pci) {
                Err(code) if !code.is_unsupported() => code,
                // It opens by address and not by index: it still has no name.
                _ => refused.next().unwrap_or(Code::NOT_FOUND),
            };
            let entry = self.absent(&pci, &before, code);
            found.entry(entry.identity.gpu.clone()).or_insert(entry);
        }
        // A GPU that is not found any more is lost, unless its function has another driver or another GPU has its
        // address.
        for (gpu, entry) in before {
            let pci = &entry.identity.pci;
            let given_away = !pci.is_empty() && self.kernel.bound().is_some() && self.kernel.is_there(pci);
            let replaced = !pci.is_empty() && found.values().any(|e| e.identity.pci == *pci);
            if !found.contains_key(&gpu) && !given_away && !replaced {
                let code = entry.handle.err().unwrap_or(Code::GPU_IS_LOST);
                let code = refused.next().unwrap_or(code);
                found.insert(
                    gpu,
                    InventoryEntry {
                        identity: entry.identity,
                        handle: Err(code),
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
        Ok(devices)
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
                opened: self.inventory.session(),
            };
            (entry.identity.gpu.clone(), entry)
        });
        self.inventory.replace(known.collect());
    }
}
