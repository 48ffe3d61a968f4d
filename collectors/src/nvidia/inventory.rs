//! Which GPUs there are, as of the last scan. Scans write it; the GPUs' own threads read it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::gpu::GpuState;
use super::identity::Identity;
use super::settings::NvidiaSettings;
use crate::sys::nvml::{Code, Handle, Library};

/// One GPU.
#[derive(Clone, Debug)]
pub(super) struct InventoryEntry {
    pub(super) identity: Arc<Identity>,
    /// How to ask about it, or why nobody can.
    pub(super) handle: Result<Handle, Code>,
    /// How often the driver was opened when the handle was given: an earlier one is of no use.
    pub(super) opened: u64,
}

/// What the list and the GPUs share.
pub(super) struct Inventory {
    pub(super) library: &'static Library,
    pub(super) table: NvidiaSettings,
    /// Where processes are: `/proc`.
    pub(super) proc: PathBuf,
    /// By label.
    entries: Mutex<BTreeMap<String, InventoryEntry>>,
    /// What is remembered of each GPU that was ever there: a scan makes new devices, and those go on with it.
    states: Mutex<BTreeMap<String, Arc<Mutex<GpuState>>>>,
    /// Counts scans.
    generation: AtomicU64,
    /// A GPU found the driver in another state than the last scan did.
    doubt: AtomicBool,
    /// A GPU that the last scan found has not answered since.
    lost: AtomicBool,
    /// How many threads are inside of the driver now.
    inside: AtomicU32,
    /// The driver is being closed and opened anew: nobody may enter.
    closed: AtomicBool,
    /// How often it was opened: what the library gave before belongs to a session that is over.
    session: AtomicU64,
}

/// Somebody is inside of the driver until this is dropped.
pub(super) struct Inside<'a>(&'a AtomicU32);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Inventory {
    pub(super) fn new(library: &'static Library, table: NvidiaSettings, proc: PathBuf) -> Self {
        Self {
            library,
            table,
            proc,
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

    /// What is remembered of that GPU.
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

    /// One of them.
    pub(super) fn get(&self, gpu: &str) -> Option<InventoryEntry> {
        self.lock().get(gpu).cloned()
    }

    /// Asks for a scan before the next reading.
    pub(super) fn suspect(&self) {
        self.doubt.store(true, Ordering::Release);
    }

    /// Whether somebody asked for a scan; asked once.
    pub(super) fn take_doubt(&self) -> bool {
        self.doubt.swap(false, Ordering::AcqRel)
    }

    /// Says that a GPU has not answered.
    pub(super) fn lose(&self) {
        self.lost.store(true, Ordering::Release);
    }

    /// Whether one is to be looked for.
    pub(super) fn is_one_missing(&self) -> bool {
        self.lost.load(Ordering::Acquire) || self.lock().values().any(|e| e.handle.is_err())
    }

    /// Enters the driver. `None`: it is being opened anew.
    pub(super) fn enter(&self) -> Option<Inside<'_>> {
        // Whoever closes it sets the flag first and counts then: one of the two sees the other.
        self.inside.fetch_add(1, Ordering::SeqCst);
        let inside = Inside(&self.inside);
        (!self.is_closed()).then_some(inside)
    }

    /// Whether it is being opened anew.
    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// Lets nobody enter any more. Whether nobody is inside.
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
