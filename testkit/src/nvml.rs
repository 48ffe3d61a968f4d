//! NVIDIA's management library without an NVIDIA GPU: installs the stand-in of `testkit/fake-nvml` in a folder, and
//! controls it while programs use it.

use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, bail};
pub use fake_nvml::control::{Control, Event, Fault, Rule};
use fake_nvml::control::{ControlFile, now_ns};
pub use fake_nvml::counts::Call;
use fake_nvml::counts::Counts;
use fake_nvml::place;
pub use fake_nvml::scenario;
pub use real::RealNvml;

/// Return codes for faults in tests.
pub mod code {
    /// NVML_ERROR_UNINITIALIZED.
    pub const UNINITIALIZED: u32 = 1;
    /// NVML_ERROR_INVALID_ARGUMENT.
    pub const INVALID_ARGUMENT: u32 = 2;
    /// NVML_ERROR_NOT_SUPPORTED.
    pub const NOT_SUPPORTED: u32 = 3;
    /// NVML_ERROR_NO_PERMISSION.
    pub const NO_PERMISSION: u32 = 4;
    /// NVML_ERROR_INSUFFICIENT_POWER.
    pub const INSUFFICIENT_POWER: u32 = 8;
    /// NVML_ERROR_DRIVER_NOT_LOADED.
    pub const DRIVER_NOT_LOADED: u32 = 9;
    /// NVML_ERROR_TIMEOUT.
    pub const TIMEOUT: u32 = 10;
    /// NVML_ERROR_IRQ_ISSUE.
    pub const IRQ_ISSUE: u32 = 11;
    /// NVML_ERROR_GPU_IS_LOST.
    pub const GPU_IS_LOST: u32 = 15;
    /// NVML_ERROR_RESET_REQUIRED.
    pub const RESET_REQUIRED: u32 = 16;
    /// NVML_ERROR_LIB_RM_VERSION_MISMATCH.
    pub const LIB_RM_VERSION_MISMATCH: u32 = 18;
    /// A code that no header defines.
    pub const UNHEARD_OF: u32 = 57;
    /// NVML_ERROR_UNKNOWN.
    pub const UNKNOWN: u32 = 999;
}

/// nvmlEventTypeXidCriticalError.
const XID: u64 = 8;

/// Older events are discarded: every waiting program has received them long before.
const MOST_EVENTS: usize = 256;

/// A copy of the stand-in in its own folder. Each copy is a library with its own state, so that one process can load
/// several. Dropping it removes its faults, and blocked calls return.
pub struct FakeNvml {
    library: PathBuf,
    file: ControlFile,
    counts: Counts,
    control: Mutex<Control>,
}

impl fmt::Debug for FakeNvml {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeNvml")
            .field("library", &self.library)
            .finish_non_exhaustive()
    }
}

impl FakeNvml {
    /// Puts a copy into `dir` as `libnvidia-ml.so.1`, and beside it the scenario and the files for control and counts.
    /// The scenario is a file in TOML.
    ///
    /// # Errors
    /// When the library is not built, the scenario is invalid, or the folder cannot be written.
    pub fn install(dir: &Path, scenario: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(scenario).with_context(|| scenario.display().to_string())?;
        Self::install_text(dir, &text).with_context(|| scenario.display().to_string())
    }

    /// As [`FakeNvml::install`], with the scenario's text.
    ///
    /// # Errors
    /// As there.
    pub fn install_text(dir: &Path, scenario: &str) -> Result<Self> {
        Self::install_built(dir, scenario, &built()?)
    }

    /// As [`FakeNvml::install_text`], with a library that was built elsewhere, such as an optimised one.
    ///
    /// # Errors
    /// As there.
    pub fn install_built(dir: &Path, scenario: &str, built: &Path) -> Result<Self> {
        // An error here is clearer than a library that cannot be initialised.
        let parsed = scenario::Scenario::parse(scenario)?;
        let library = dir.join("libnvidia-ml.so.1");
        // A copy, not a link: the linker treats two names of one file as one library.
        let mut bytes = std::fs::read(built).with_context(|| built.display().to_string())?;
        rename_missing(&mut bytes, &parsed.missing);
        std::fs::write(&library, bytes).with_context(|| library.display().to_string())?;
        std::fs::write(place::beside(&library, ".toml"), scenario)?;
        let file = ControlFile::create(&place::beside(&library, place::CONTROL))?;
        let counts = Counts::create(&place::beside(&library, place::COUNTS))?;
        let fake = Self {
            library,
            file,
            counts,
            control: Mutex::default(),
        };
        fake.change(|control| control.loaded_ns = now_ns())?;
        Ok(fake)
    }

    /// The path of the library.
    #[must_use]
    pub fn library(&self) -> &Path {
        &self.library
    }

    /// Changes its control data, immediately for every process that has loaded it.
    ///
    /// # Errors
    /// When the faults and events do not fit into the control file.
    pub fn change(&self, change: impl FnOnce(&mut Control)) -> Result<()> {
        let mut control = self.control();
        let mut wanted = control.clone();
        change(&mut wanted);
        self.file.write(&wanted)?;
        *control = wanted;
        Ok(())
    }

    fn control(&self) -> MutexGuard<'_, Control> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Advances its time by `steps`.
    ///
    /// # Errors
    /// As [`FakeNvml::change`].
    pub fn step(&self, steps: u64) -> Result<()> {
        self.change(|control| control.step += steps)
    }

    /// Adds a fault.
    ///
    /// # Errors
    /// As above.
    pub fn inject(&self, rule: Rule) -> Result<()> {
        self.change(|control| control.rules.push(rule))
    }

    /// Adds a fault in one function on one GPU.
    ///
    /// # Errors
    /// As above.
    pub fn break_call(&self, gpu: u32, call: &str, fault: Fault) -> Result<()> {
        self.inject(Rule {
            gpu: Some(gpu),
            call: Some(call.to_owned()),
            field: None,
            fault,
        })
    }

    /// Adds a fault in one field on one GPU.
    ///
    /// # Errors
    /// As above.
    pub fn break_field(&self, gpu: u32, field: &str, fault: Fault) -> Result<()> {
        self.inject(Rule {
            gpu: Some(gpu),
            call: None,
            field: Some(field.to_owned()),
            fault,
        })
    }

    /// Adds a fault in one function without a GPU, or on all GPUs.
    ///
    /// # Errors
    /// As above.
    pub fn break_everywhere(&self, call: &str, fault: Fault) -> Result<()> {
        self.inject(Rule {
            gpu: None,
            call: Some(call.to_owned()),
            field: None,
            fault,
        })
    }

    /// All calls on that GPU return GPU_IS_LOST.
    ///
    /// # Errors
    /// As above.
    pub fn lose(&self, gpu: u32) -> Result<()> {
        self.inject(Rule {
            gpu: Some(gpu),
            call: None,
            field: None,
            fault: Fault::Code(code::GPU_IS_LOST),
        })
    }

    /// The driver returns no handle for that GPU.
    ///
    /// # Errors
    /// As above.
    pub fn refuse(&self, gpu: u32, code: u32) -> Result<()> {
        self.change(|control| {
            for call in [
                "nvmlDeviceGetHandleByIndex",
                "nvmlDeviceGetHandleByUUID",
                "nvmlDeviceGetHandleByPciBusId",
                "nvmlDeviceGetHandleBySerial",
            ] {
                control.rules.push(Rule {
                    gpu: Some(gpu),
                    call: Some(call.to_owned()),
                    field: None,
                    fault: Fault::Code(code),
                });
            }
        })
    }

    /// Initialisation fails with that code.
    ///
    /// # Errors
    /// As above.
    pub fn refuse_init(&self, code: u32) -> Result<()> {
        self.change(|control| {
            for call in ["nvmlInit", "nvmlInitWithFlags"] {
                control.rules.push(Rule {
                    gpu: None,
                    call: Some(call.to_owned()),
                    field: None,
                    fault: Fault::Code(code),
                });
            }
        })
    }

    /// The driver no longer lists that GPU: the indices of later GPUs decrease.
    ///
    /// # Errors
    /// As above.
    pub fn remove(&self, gpu: u32) -> Result<()> {
        self.change(|control| control.gone.push(gpu))
    }

    /// The work of that GPU has ended: it has the values of the scenario's `[idle]`, without which its calls fail.
    ///
    /// # Errors
    /// As above.
    pub fn idle(&self, gpu: u32) -> Result<()> {
        self.change(|control| control.idle.push(gpu))
    }

    /// Removes all faults, and restores removed GPUs. Blocked calls return.
    ///
    /// # Errors
    /// As above.
    pub fn lift(&self) -> Result<()> {
        self.change(|control| {
            control.rules.clear();
            control.gone.clear();
        })
    }

    /// The driver reports an Xid.
    ///
    /// # Errors
    /// As above.
    pub fn xid(&self, gpu: u32, code: u64) -> Result<()> {
        self.event(gpu, XID, code, None)
    }

    /// The driver reports an Xid in a GPU instance and a compute instance.
    ///
    /// # Errors
    /// As above.
    pub fn xid_in(&self, gpu: u32, code: u64, gi: u32, ci: u32) -> Result<()> {
        self.event(gpu, XID, code, Some((gi, ci)))
    }

    /// The driver reports an event of that type, with data and instances.
    ///
    /// # Errors
    /// As above.
    pub fn event(&self, gpu: u32, kind: u64, data: u64, instance: Option<(u32, u32)>) -> Result<()> {
        self.change(|control| {
            control.events.push(Event {
                seq: control.events.last().map_or(0, |e| e.seq) + 1,
                gpu,
                kind,
                data,
                gi: instance.map(|(gi, _)| gi),
                ci: instance.map(|(_, ci)| ci),
            });
            let past = control.events.len().saturating_sub(MOST_EVENTS);
            control.events.drain(..past);
        })
    }

    /// Sets another of the scenario's MIG layouts on a GPU, with MIG on; an empty name removes all and disables MIG.
    /// Handles of removed MIG devices become invalid.
    ///
    /// # Errors
    /// As above.
    pub fn mig(&self, gpu: u32, layout: &str) -> Result<()> {
        self.change(|control| {
            control.layouts.insert(gpu.to_string(), layout.to_owned());
        })
    }

    /// Loads the driver again: counters restart, and every call fails until the library is shut down and initialised.
    ///
    /// # Errors
    /// As above.
    pub fn reload(&self) -> Result<()> {
        self.change(|control| {
            control.reloads += 1;
            control.loaded_at = control.step;
            control.loaded_ns = now_ns();
        })
    }

    /// About how many bytes of the heap the library took in the process that loaded it last, with what other threads took meanwhile.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.counts.held()
    }

    /// Number of calls of each function so far, by all processes.
    #[must_use]
    pub fn calls(&self) -> Calls {
        Calls(self.counts.read())
    }
}

impl Drop for FakeNvml {
    fn drop(&mut self) {
        // Blocked calls would never return otherwise.
        self.lift().ok();
    }
}

/// Number of calls by function and arguments, sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Calls(Vec<(Call, u64)>);

impl Calls {
    /// The calls since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let before = |call: &Call| earlier.0.iter().find(|(c, _)| c == call).map_or(0, |(_, n)| *n);
        let later = self.0.iter().map(|(call, n)| (call.clone(), n - before(call)));
        Self(later.filter(|(_, n)| *n > 0).collect())
    }

    /// All rows, one for each GPU, MIG device and selector.
    #[must_use]
    pub fn rows(&self) -> &[(Call, u64)] {
        &self.0
    }

    /// Calls of a function, in any version: `nvmlInit` counts `nvmlInit_v2` too.
    #[must_use]
    pub fn of(&self, function: &str) -> u64 {
        let same = |name: &str| {
            name == function
                || name
                    .strip_prefix(function)
                    .is_some_and(|rest| rest.starts_with("_v"))
        };
        let rows = self.0.iter().filter(|(call, _)| same(call.function));
        rows.map(|(_, n)| n).sum()
    }

    /// Calls on that GPU or its MIG devices.
    #[must_use]
    pub fn of_gpu(&self, gpu: u8) -> u64 {
        let rows = self.0.iter().filter(|(call, _)| call.gpu == Some(gpu));
        rows.map(|(_, n)| n).sum()
    }

    /// All calls.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().map(|(_, n)| n).sum()
    }

    /// Calls that were made more than `limit` times with the same GPU, MIG device and selector.
    #[must_use]
    pub fn above(&self, limit: u64) -> Vec<(Call, u64)> {
        let rows = self.0.iter().filter(|(_, n)| *n > limit);
        rows.cloned().collect()
    }
}

/// Changes the names of these functions in a library, so that a program finds them no more than in a driver without them.
fn rename_missing(library: &mut [u8], missing: &[String]) {
    // Names of symbols end in a zero byte.
    for text in library.split_mut(|byte| *byte == 0) {
        if text.starts_with(b"nvml") && missing.iter().any(|name| name.as_bytes() == text) {
            text[0] = b'_';
        }
    }
}

/// The built library: cargo writes it to this program's folder, or to the folder `deps` beside it.
fn built() -> Result<PathBuf> {
    let program = std::env::current_exe()?;
    let dir = program.parent().context("a program in no folder")?;
    for dir in [dir, &dir.join("deps")] {
        let library = dir.join("libfake_nvml.so");
        if library.is_file() {
            return Ok(library);
        }
    }
    // The program was moved away from its library.
    let name = program.file_name().unwrap_or(OsStr::new("?"));
    bail!(
        "no libfake_nvml.so beside {}: build with `cargo test` or `cargo build -p fake-nvml`",
        name.display()
    )
}

mod real;
pub mod record;

#[cfg(test)]
mod changes;
#[cfg(test)]
mod consumer;
#[cfg(test)]
mod tests;
