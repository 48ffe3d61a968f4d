//! One GPU: its readings and their order.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::call::Caller;
use super::fields::Fields;
use super::gpm::Profile;
use super::identity::long_address;
use super::instances::{Instances, gpu_instance_profile};
use super::inventory::Inventory;
use super::limits::Limits;
use super::simple;
use crate::gpu::identity::Identity;
use crate::gpu::metrics as m;
use crate::gpu::process::ProcessFiles;
use crate::sys::nvml::Code;
use crate::{Block, Device, Error, Subject};

/// Administrators' settings and hardware limits are read again after this.
const SLOWLY: Duration = Duration::from_secs(60);
/// Unsupported queries are repeated after this: the links of a fabric come up after the driver.
const QUERY_AGAIN: Duration = Duration::from_secs(600);

/// One GPU.
pub(super) struct NvidiaGpu {
    subject: Subject,
    hostname: String,
    inventory: Arc<Inventory>,
    state: Arc<Mutex<GpuState>>,
}

/// The state kept for a GPU.
#[derive(Default)]
pub(super) struct GpuState {
    identity: Arc<Identity>,
    /// The last scan that was applied.
    generation: Option<u64>,
    /// The session of the handle.
    opened: u64,
    /// Outlasts what the driver opened: its counts of calls continue.
    caller: Option<Caller>,
    open: Option<Open>,
    processes: ProcessFiles,
}

/// A GPU that the driver opened.
struct Open {
    fields: Fields,
    fields_made: Instant,
    limits: Limits,
    limits_read: Instant,
    instances: Instances,
    profile: Option<Profile>,
    /// Permissions are missing that may come back, so the next reading asks for everything again.
    is_denied: bool,
}

impl Open {
    /// Reads constant values. If the GPU is lost meanwhile, they are incomplete.
    fn new(caller: &mut Caller, inventory: &Inventory, identity: &Identity) -> Result<Self, Code> {
        caller.begin();
        let limits = Limits::read(caller, &Limits::default());
        let fields = Fields::new(caller, &identity.driver, &identity.architecture);
        let profile = Profile::new(caller, inventory.table.gpm, &identity.architecture);
        match caller.gone() {
            Some(code) => Err(code),
            None => Ok(Self {
                fields,
                fields_made: Instant::now(),
                limits,
                limits_read: Instant::now(),
                instances: Instances::default(),
                profile,
                is_denied: caller.is_denied() || caller.is_newly_denied(),
            }),
        }
    }

    /// Asks for everything again, with the same handle. The GPM samples and the last readings of rates are kept.
    fn ask_again(
        &mut self,
        caller: &mut Caller,
        inventory: &Inventory,
        identity: &Identity,
    ) -> Result<(), Code> {
        caller.renew(caller.handle);
        caller.begin();
        let limits = Limits::read(caller, &self.limits);
        let fields = Fields::new(caller, &identity.driver, &identity.architecture);
        if self.profile.is_none() {
            self.profile = Profile::new(caller, inventory.table.gpm, &identity.architecture);
        }
        if let Some(code) = caller.gone() {
            return Err(code);
        }
        (self.limits, self.limits_read) = (limits, Instant::now());
        self.fields.replace(fields);
        self.fields_made = Instant::now();
        self.is_denied = caller.is_denied() || caller.is_newly_denied();
        Ok(())
    }
}

impl NvidiaGpu {
    pub(super) fn new(gpu: &str, hostname: &str, inventory: Arc<Inventory>) -> Self {
        Self {
            subject: Subject::gpu(gpu),
            hostname: hostname.to_owned(),
            state: inventory.state(gpu),
            inventory,
        }
    }
}

impl GpuState {
    /// Applies the result of the last scan. Returns why the GPU cannot be queried, if so.
    fn refresh(&mut self, gpu: &str, inventory: &Inventory) -> Result<(), Code> {
        let generation = Some(inventory.generation());
        let mut entry = inventory.get(gpu).ok_or(Code::NOT_FOUND)?;
        self.identity = Arc::clone(&entry.identity);
        if let Some(index) = entry.awaited {
            entry = inventory.ask(gpu, index)?;
            self.identity = entry.identity;
        }
        let handle = entry.handle?;
        let scanned = self.generation != generation;
        self.generation = generation;
        let library = inventory.library;
        let caller = self.caller.get_or_insert_with(|| Caller::new(library, handle));
        let is_same = caller.handle == handle && self.opened == entry.opened;
        if let Some(open) = self.open.as_mut().filter(|_| is_same) {
            if scanned || open.is_denied {
                // Something changed, perhaps its instances.
                open.instances.suspect();
            }
            if open.is_denied {
                open.ask_again(caller, inventory, &self.identity)?;
            }
        } else {
            // The counts of calls continue; everything else starts from zero.
            self.open = None;
            caller.renew(handle);
            self.open = Some(Open::new(caller, inventory, &self.identity)?);
            self.opened = entry.opened;
        }
        if caller.is_denied() {
            return Err(Code::NO_PERMISSION);
        }
        Ok(())
    }

    /// The next reading asks for the values that seldom change.
    #[cfg(test)]
    pub(super) fn limits_are_due(&mut self) {
        let open = self.open.as_mut().expect("a GPU that was read");
        open.limits_read = Instant::now()
            .checked_sub(SLOWLY)
            .expect("a machine that runs longer");
        open.limits.inforom_valid = None;
    }

    fn read(
        &mut self,
        gpu: &str,
        hostname: &str,
        inventory: &Inventory,
        out: &mut Block,
    ) -> Result<(), Code> {
        self.refresh(gpu, inventory)?;
        let (Some(open), Some(caller)) = (&mut self.open, &mut self.caller) else {
            return Err(Code::NOT_FOUND);
        };
        caller.begin();
        let slowly = open.limits_read.elapsed() >= SLOWLY;
        open.fields.read(caller);
        if slowly && caller.gone().is_none() {
            let limits = Limits::read(caller, &open.limits);
            // A partial answer is discarded.
            if caller.gone().is_none() {
                open.limits = limits;
                open.limits_read = Instant::now();
            }
        }
        out.u64(&m::UP, &[gpu], 1);
        self.identity.push_info("nvidia", out);
        let mig = open.instances.read(caller);
        push_dcgm(&self.identity, hostname, &open.instances, out);
        open.instances.push_info(gpu, out);
        simple::read(gpu, caller, &open.instances, out);
        open.limits.push(gpu, out);
        open.fields.push(gpu, caller, open.limits.ecc(), out);
        simple::read_processes(
            gpu,
            caller,
            &open.instances,
            (inventory, &mut self.processes),
            out,
        );
        if let Some(profile) = &mut open.profile {
            profile.read(gpu, caller, &open.instances, out);
        }
        caller.push_unread(gpu, out);
        out.histogram(&m::DRIVER_CALL, &[gpu], Some(caller.took()));
        let is_denied = caller.is_denied();
        // A whole GPU may offer what it did not offer in MIG mode.
        let again = mig.is_changed() || open.fields_made.elapsed() >= QUERY_AGAIN;
        if again && caller.gone().is_none() {
            caller.forget();
            let fields = Fields::new(caller, &self.identity.driver, &self.identity.architecture);
            // If the GPU was lost meanwhile, the answers are incomplete.
            if caller.gone().is_none() {
                open.fields.replace(fields);
                open.fields_made = Instant::now();
            }
            if open.profile.is_none() {
                open.profile = Profile::new(caller, inventory.table.gpm, &self.identity.architecture);
            }
        }
        open.is_denied |= is_denied || caller.is_newly_denied();
        match caller.gone() {
            Some(code) => Err(code),
            None if is_denied => Err(Code::NO_PERMISSION),
            None => Ok(()),
        }
    }
}

impl Device for NvidiaGpu {
    fn subject(&self) -> &Subject {
        &self.subject
    }

    fn read(&mut self, out: &mut Block) -> Result<(), Error> {
        let gpu = self.subject.name.as_str();
        let inside = self.inventory.enter();
        // Never contended: while a device is stuck no thread reads it, not even its successor.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let read = match inside {
            Some(_) => state.read(gpu, &self.hostname, &self.inventory, out),
            None => Err(Code::UNINITIALIZED),
        };
        if let Err(code) = read {
            if code.is_uninitialized() {
                self.inventory.suspect();
            }
            self.inventory.lose();
            // Values read before the GPU was lost are invalid.
            out.clear();
            // Its processes may end while it cannot name them.
            state.processes = ProcessFiles::default();
            if code.is_no_answer() {
                out.incomplete(&Error::State {
                    what: format!("{gpu}: {code}"),
                    reason: code.reason(),
                });
            }
            out.u64(&m::UP, &[gpu], 0);
            out.info(&m::UNAVAILABLE_INFO, &[gpu, code.reason()]);
            state.identity.push_info("nvidia", out);
            push_dcgm(&state.identity, &self.hostname, &Instances::default(), out);
            if let Some(caller) = &state.caller {
                out.histogram(&m::DRIVER_CALL, &[gpu], Some(caller.took()));
            }
        }
        Ok(())
    }
}

/// The labels as dcgm-exporter writes them, of the GPU and of each instance.
fn push_dcgm(identity: &Identity, hostname: &str, instances: &Instances, out: &mut Block) {
    let i = identity;
    // DCGM's number of the GPU, not the minor number of its device file.
    let device = if i.index.is_empty() {
        String::new()
    } else {
        format!("nvidia{}", i.index)
    };
    let pci = long_address(&i.pci);
    let mut push = |part: &str, profile: &str, instance: &str| {
        let labels = [
            &i.gpu, part, &i.index, &pci, &device, &i.name, profile, instance, hostname, &i.driver,
        ];
        out.info(&m::DCGM_INFO, &labels);
    };
    push("", "", "");
    for part in instances.iter() {
        let profile = gpu_instance_profile(&part.profile);
        push(&part.label, profile, &part.gpu_instance.to_string());
    }
}
