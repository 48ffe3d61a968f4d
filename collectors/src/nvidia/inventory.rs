//! The GPUs as of the last scan. Scans write it; the GPUs' own threads read it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::gpu::GpuState;
use super::settings::NvidiaSettings;
use crate::Env;
use crate::gpu::identity::Identity;
use crate::gpu::process::ProcessTable;
use crate::sys::nvml::{Code, Handle, Library};

/// One GPU.
#[derive(Clone, Debug)]
pub(super) struct InventoryEntry {
    pub(super) identity: Arc<Identity>,
    /// The GPU's handle, or why it cannot be queried.
    pub(super) handle: Result<Handle, Code>,
    /// Its index, if the driver has not answered the scan about it: its own reading asks for the handle.
    pub(super) awaited: Option<u32>,
    /// The session of the handle: a handle of an earlier session is invalid.
    pub(super) opened: u64,
}

/// State shared by the list and the GPUs.
pub(super) struct Inventory {
    pub(super) library: &'static Library,
    pub(super) table: NvidiaSettings,
    pub(super) processes: ProcessTable,
    /// By label.
    entries: Mutex<BTreeMap<String, InventoryEntry>>,
    /// The state of each GPU that was ever found: a scan makes new devices, which continue with it.
    states: Mutex<BTreeMap<String, Arc<Mutex<GpuState>>>>,
    /// Counts scans.
    generation: AtomicU64,
    /// A GPU found the driver in another state than the last scan did.
    doubt: AtomicBool,
    /// A GPU of the last scan stopped answering.
    lost: AtomicBool,
    /// Threads inside the driver now.
    inside: AtomicU32,
    /// The driver is being reopened: no thread may enter.
    closed: AtomicBool,
    /// Counts sessions: handles of an earlier session are invalid.
    session: AtomicU64,
}

/// A thread is inside the driver until this is dropped.
pub(super) struct Inside<'a>(&'a AtomicU32);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Inventory {
    pub(super) fn new(library: &'static Library, table: NvidiaSettings, env: &Env) -> Self {
        Self {
            library,
            processes: ProcessTable::new(env, table.processes),
            table,
            entries: Mutex::default(),
            states: Mutex::default(),
            generation: AtomicU64::new(0),
            doubt: AtomicBool::new(false),
            lost: AtomicBool::new(false),
            inside: AtomicU32::new(0),
            closed: AtomicBool::new(false),
            session: AtomicU64::new(1),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, InventoryEntry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The GPUs, by label.
    pub(super) fn entries(&self) -> BTreeMap<String, InventoryEntry> {
        self.lock().clone()
    }

    /// The state of that GPU.
    pub(super) fn state(&self, gpu: &str) -> Arc<Mutex<GpuState>> {
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(states.entry(gpu.to_owned()).or_default())
    }

    /// Replaces all of them.
    pub(super) fn replace(&self, entries: BTreeMap<String, InventoryEntry>) {
        self.lost.store(false, Ordering::Release);
        *self.lock() = entries;
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// The number of the last scan.
    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// The entry with this label.
    pub(super) fn get(&self, gpu: &str) -> Option<InventoryEntry> {
        self.lock().get(gpu).cloned()
    }

    /// The GPU that the last scan got no answer about, asked on the calling thread. It may wait for ever.
    pub(super) fn ask(&self, gpu: &str, index: u32) -> Result<InventoryEntry, Code> {
        let driver = self.library.driver_version().unwrap_or_default();
        let handle = self.library.handle(index)?;
        let identity = Identity::ask(self.library, handle, index, &driver)?;
        if identity.gpu != gpu {
            // The next scan names it.
            return Err(Code::TIMEOUT);
        }
        let entry = InventoryEntry {
            identity: Arc::new(identity),
            handle: Ok(handle),
            awaited: None,
            opened: self.session(),
        };
        let mut entries = self.lock();
        if let Some(known) = entries.get_mut(gpu).filter(|e| e.awaited == Some(index)) {
            known.clone_from(&entry);
            // The watcher registers events of GPUs that a scan found.
            self.suspect();
        }
        Ok(entry)
    }

    /// Requests a scan before the next reading.
    pub(super) fn suspect(&self) {
        self.doubt.store(true, Ordering::Release);
    }

    /// Whether a scan was requested; clears the request.
    pub(super) fn take_doubt(&self) -> bool {
        self.doubt.swap(false, Ordering::AcqRel)
    }

    /// Reports that a GPU did not answer.
    pub(super) fn lose(&self) {
        self.lost.store(true, Ordering::Release);
    }

    /// Whether a GPU is missing.
    pub(super) fn is_one_missing(&self) -> bool {
        self.lost.load(Ordering::Acquire) || self.lock().values().any(|e| e.handle.is_err())
    }

    /// Enters the driver. `None`: it is being reopened.
    pub(super) fn enter(&self) -> Option<Inside<'_>> {
        // [`Self::close`] sets the flag and then reads the count: at least one of the two sees the other.
        self.inside.fetch_add(1, Ordering::SeqCst);
        let inside = Inside(&self.inside);
        (!self.is_closed()).then_some(inside)
    }

    /// Whether it is being reopened.
    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// Prevents further threads from entering. Returns whether no thread is inside.
    pub(super) fn close(&self) -> bool {
        self.closed.store(true, Ordering::SeqCst);
        self.inside.load(Ordering::SeqCst) == 0
    }

    /// A new session has begun.
    pub(super) fn opened(&self) {
        self.session.fetch_add(1, Ordering::SeqCst);
        self.closed.store(false, Ordering::SeqCst);
    }

    /// The number of the session.
    pub(super) fn session(&self) -> u64 {
        self.session.load(Ordering::SeqCst)
    }
}
