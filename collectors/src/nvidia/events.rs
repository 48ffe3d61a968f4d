//! Waits for events of the driver: Xids, and other events that need no reading. The driver keeps no history: events
//! while no watcher waits are in the kernel log only.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::inventory::{Inventory, InventoryEntry};
use crate::event::{DriverEvent, Xid, XidSource};
use crate::sys::numbered::Numbered;
use crate::sys::nvml::{Code, EventSet, Handle, NvmlEvent};
use crate::{BootId, Cursor, Error, EventBody, Events, PciAddress, Watcher};

/// Duration of one wait, which is also how often an idle node wakes for it. A thread inside the driver cannot be
/// interrupted, so the end of the worker waits for it too.
const WAIT_MS: u32 = 5000;
/// A library that returns sooner without an event has not waited.
const BRIEF: Duration = Duration::from_millis(100);
const PAUSE: Duration = Duration::from_secs(1);
/// The first wait after a failure, doubled each time.
const BACKOFF_MIN: Duration = Duration::from_millis(200);
/// The longest wait.
const BACKOFF_MAX: Duration = Duration::from_secs(60);
/// Consecutive failures after which the watcher counts as failed.
const MOST_FAILURES: u32 = 5;
/// nvmlEventTypeXidCriticalError.
const XID: u64 = 0x8;

/// Events besides Xids. Clock changes and single corrected errors are excluded: they are as frequent as load
/// changes, and counters report the same.
const KINDS: [(u64, DriverEvent); 10] = [
    (0x2, DriverEvent::DoubleBitError),
    (0x80, DriverEvent::PowerSource),
    (0x100, DriverEvent::MigConfig),
    (0x200, DriverEvent::SingleBitStorm),
    (0x400, DriverEvent::MemoryRetired),
    (0x800, DriverEvent::MemoryNotRetired),
    (0x1000, DriverEvent::Poison),
    (0x2000, DriverEvent::FatalPoison),
    (0x4000, DriverEvent::Unavailable),
    (0x8000, DriverEvent::RecoveryAction),
];

/// All requested events.
fn wanted() -> u64 {
    KINDS.iter().fold(XID, |bits, (bit, _)| bits | bit)
}

/// The watcher of all GPUs.
pub(super) struct DriverEvents {
    inventory: Arc<Inventory>,
    boot: BootId,
    numbers: Numbered,
    /// Addresses and names already reported.
    named: BTreeSet<(PciAddress, String)>,
}

/// An event set and the GPUs registered in it.
struct Registered {
    set: EventSet,
    gpus: Vec<(Handle, Arc<crate::gpu::identity::Identity>)>,
    /// The scan that found them.
    generation: u64,
    /// The session that the set belongs to.
    session: u64,
    /// All GPUs that this scan found.
    found: Vec<KnownGpu>,
}

/// A GPU's name, its handle, and the session of the handle.
type KnownGpu = (String, Option<Handle>, u64);

/// How a set ended.
enum End {
    /// The GPUs changed.
    Rescanned,
    /// The watcher must return.
    Over,
}

impl DriverEvents {
    pub(super) fn new(inventory: Arc<Inventory>, boot: BootId) -> Self {
        Self {
            inventory,
            boot,
            numbers: Numbered::default(),
            named: BTreeSet::new(),
        }
    }

    /// Registers every GPU that answers. A GPU without events, or a lost one, costs only its own events. `None`:
    /// the driver is being reopened.
    fn register(&self) -> Result<Option<Registered>, Code> {
        let library = self.inventory.library;
        let generation = self.inventory.generation();
        let found = self.found();
        let Some(_inside) = self.inventory.enter() else {
            return Ok(None);
        };
        let session = self.inventory.session();
        let set = library.event_set()?;
        let mut gpus = Vec::new();
        for InventoryEntry { identity, handle, .. } in self.inventory.entries().into_values() {
            let Ok(handle) = handle else { continue };
            let kinds = library.event_kinds(handle).map(|kinds| kinds & wanted());
            let registered = kinds.and_then(|kinds| match kinds {
                0 => Err(Code::NOT_SUPPORTED),
                kinds => library.register(handle, kinds, &set),
            });
            match registered {
                Ok(()) => gpus.push((handle, identity)),
                Err(code) => tracing::debug!(gpu = identity.gpu, %code, "registers no events"),
            }
        }
        Ok(Some(Registered {
            set,
            gpus,
            generation,
            session,
            found,
        }))
    }

    /// The GPUs by name, and their handles.
    fn found(&self) -> Vec<KnownGpu> {
        let entries = self.inventory.entries().into_iter();
        entries
            .map(|(gpu, entry)| (gpu, entry.handle.ok(), entry.opened))
            .collect()
    }

    /// Reports the GPU at each address: messages in the kernel log name only addresses.
    fn identify(&mut self, out: &Events) -> Result<(), crate::event::Closed> {
        for (gpu, entry) in self.inventory.entries() {
            let Some(pci) = PciAddress::parse(&entry.identity.pci).filter(|_| gpu.starts_with("GPU-")) else {
                continue;
            };
            if !self.named.insert((pci.clone(), gpu.clone())) {
                continue;
            }
            let text = format!("NVML: {gpu} is at {pci}");
            let body = EventBody::Identity { pci, uuid: gpu };
            out.emit(self.numbers.event(&self.boot, 1, text, body))?;
        }
        Ok(())
    }

    /// Registers, follows, and frees the set.
    fn attempt(&mut self, out: &Events) -> Result<End, Code> {
        let Some(mut registered) = self.register()? else {
            return Ok(End::Rescanned);
        };
        // Also if no GPU offers events: that is no failure.
        out.listens();
        let followed = self.follow(&mut registered, out);
        // The set of a closed session was freed with it.
        if let Some(_inside) = self.inventory.enter()
            && self.inventory.session() == registered.session
            && !followed.as_ref().is_err_and(|code| code.is_uninitialized())
        {
            self.inventory.library.free(registered.set).ok();
        }
        followed
    }

    /// Receives events until the GPUs change.
    fn follow(&mut self, registered: &mut Registered, out: &Events) -> Result<End, Code> {
        let library = self.inventory.library;
        loop {
            if out.is_over() {
                return Ok(End::Over);
            }
            let generation = self.inventory.generation();
            if generation != registered.generation {
                // While one is missing there is a scan every few seconds, and events between two sets are lost.
                if self.found() != registered.found {
                    return Ok(End::Rescanned);
                }
                registered.generation = generation;
            }
            if registered.gpus.is_empty() {
                thread::sleep(Duration::from_millis(WAIT_MS.into()));
                continue;
            }
            let began = Instant::now();
            let event = match self.inventory.enter() {
                Some(_inside) if self.inventory.session() == registered.session => {
                    library.wait(&registered.set, WAIT_MS)?
                }
                _ => return Ok(End::Rescanned),
            };
            let identity = event
                .as_ref()
                .and_then(|event| registered.gpus.iter().find(|(handle, _)| *handle == event.device));
            let said = event
                .as_ref()
                .zip(identity)
                .and_then(|(event, (_, identity))| body(event, &identity.gpu, &identity.pci));
            let Some((text, body)) = said else {
                if event.is_some() {
                    tracing::debug!(?event, "an event that was not requested, or of another GPU");
                }
                // Some libraries do not wait.
                if began.elapsed() < BRIEF {
                    thread::sleep(PAUSE);
                }
                continue;
            };
            if let EventBody::Driver {
                what: DriverEvent::MigConfig | DriverEvent::Unavailable,
                ..
            } = body
            {
                self.inventory.suspect();
            }
            if out.emit(self.numbers.event(&self.boot, 1, text, body)).is_err() {
                return Ok(End::Over);
            }
        }
    }
}

/// The content of an event. `None`: it was not requested.
fn body(event: &NvmlEvent, gpu: &str, pci: &str) -> Option<(String, EventBody)> {
    let pci = PciAddress::parse(pci)?;
    if event.kind != XID {
        let (_, what) = KINDS.iter().find(|(kind, _)| *kind == event.kind)?;
        let text = format!("NVML: {} on {gpu} at {pci}", what.word());
        return Some((text, EventBody::Driver { pci, what: *what }));
    }
    let code = u32::try_from(event.data).ok()?;
    // The library has reported Xid 0, which is no Xid, and by nvml.h 999 stands for an Xid that it does not know: the kernel log
    // has its code.
    if matches!(code, 0 | 999) {
        return None;
    }
    let (gpu_instance, compute_instance) = event.instance;
    let part = match (gpu_instance, compute_instance) {
        (None, _) => String::new(),
        (Some(gi), None) => format!(", GPU instance {gi}"),
        (Some(gi), Some(ci)) => format!(", GPU instance {gi}, compute instance {ci}"),
    };
    let text = format!("NVML: Xid {code} on {gpu} at {pci}{part}");
    let xid = Xid {
        source: XidSource::Nvml,
        pci,
        code,
        gpu_instance,
        compute_instance,
        ..Xid::default()
    };
    Some((text, EventBody::Xid(xid)))
}

impl Watcher for DriverEvents {
    fn run(&mut self, _: Option<Cursor>, out: &Events) -> Result<(), Error> {
        let (mut failures, mut wait) = (0, BACKOFF_MIN);
        while !out.is_over() {
            if self.identify(out).is_err() {
                return Ok(());
            }
            let started = Instant::now();
            let followed = self.attempt(out);
            match followed {
                Ok(End::Over) => return Ok(()),
                Ok(End::Rescanned) => {
                    (failures, wait) = (0, BACKOFF_MIN);
                    if self.inventory.is_closed() {
                        thread::sleep(BACKOFF_MIN);
                    }
                }
                Err(code) => {
                    // The next scan finds any change of the driver.
                    self.inventory.suspect();
                    if started.elapsed() > BACKOFF_MAX {
                        (failures, wait) = (0, BACKOFF_MIN);
                    }
                    failures += 1;
                    if failures >= MOST_FAILURES {
                        return Err(super::driver_error(code));
                    }
                    thread::sleep(wait);
                    wait = (wait * 2).min(BACKOFF_MAX);
                }
            }
        }
        Ok(())
    }
}
