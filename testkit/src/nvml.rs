//! NVIDIA's management library without an NVIDIA GPU: the stand-in of `testkit/fake-nvml`, installed in a folder, and what
//! a test can do to it while programs use it.

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

/// Return codes that tests break calls with.
pub mod code {
    /// NVML_ERROR_UNINITIALIZED.
    pub const UNINITIALIZED: u32 = 1;
    /// NVML_ERROR_NOT_SUPPORTED.
    pub const NOT_SUPPORTED: u32 = 3;
    /// NVML_ERROR_NO_PERMISSION.
    pub const NO_PERMISSION: u32 = 4;
    /// NVML_ERROR_INSUFFICIENT_POWER.
    pub const INSUFFICIENT_POWER: u32 = 8;
    /// NVML_ERROR_DRIVER_NOT_LOADED.
    pub const DRIVER_NOT_LOADED: u32 = 9;
    /// NVML_ERROR_IRQ_ISSUE.
    pub const IRQ_ISSUE: u32 = 11;
    /// NVML_ERROR_GPU_IS_LOST.
    pub const GPU_IS_LOST: u32 = 15;
    /// NVML_ERROR_RESET_REQUIRED.
    pub const RESET_REQUIRED: u32 = 16;
    /// NVML_ERROR_LIB_RM_VERSION_MISMATCH.
    pub const LIB_RM_VERSION_MISMATCH: u32 = 18;
    /// A code that no header names.
    pub const UNHEARD_OF: u32 = 57;
    /// NVML_ERROR_UNKNOWN.
    pub const UNKNOWN: u32 = 999;
}

/// nvmlEventTypeXidCriticalError.
const XID: u64 = 8;

/// Older events are forgotten: everything that waits has long had them.
const MOST_EVENTS: usize = 256;

/// A copy of the stand-in, in a folder of its own. Each copy is a library with a state of its own, so that one process
/// can load several. Dropping it lifts its faults, and lets blocked calls return.
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
    /// When the library is not built, the scenario is not in form, or the folder cannot be written.
    pub fn install(dir: &Path, scenario: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(scenario).with_context(|| scenario.display().to_string())?;
        Self::install_text(dir, &text).with_context(|| scenario.display().to_string())
    }

    /// As [`FakeNvml::install`], with the scenario's text.
    ///
    /// # Errors
    /// As there.
    pub fn install_text(dir: &Path, scenario: &str) -> Result<Self> {
        // Loudly here, and not as a library that cannot be initialised.
        scenario::Scenario::parse(scenario)?;
        let library = dir.join("libnvidia-ml.so.1");
        // A copy and not a link: the linker takes two names of one file for one library.
        std::fs::copy(built()?, &library).with_context(|| library.display().to_string())?;
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

    /// What a program loads.
    #[must_use]
    pub fn library(&self) -> &Path {
        &self.library
    }

    /// Changes what is wanted of it, at once for every process that has loaded it.
    ///
    /// # Errors
    /// When there are too many faults to write down.
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

    /// Moves its time on by so many steps.
    ///
    /// # Errors
    /// As [`FakeNvml::change`]; so have the others.
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

    /// Adds a fault in one function that is about no GPU, or on all GPUs.
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

    /// Everything about that GPU says that it is lost.
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

    /// The driver gives no handle for that GPU.
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

    /// The driver no longer lists that GPU: later ones move up.
    ///
    /// # Errors
    /// As above.
    pub fn remove(&self, gpu: u32) -> Result<()> {
        self.change(|control| control.gone.push(gpu))
    }

    /// Lifts every fault, and brings removed GPUs back. Blocked calls return.
    ///
    /// # Errors
    /// As above.
    pub fn lift(&self) -> Result<()> {
        self.change(|control| {
            control.rules.clear();
            control.gone.clear();
        })
    }

    /// The driver tells of an Xid.
    ///
    /// # Errors
    /// As above.
    pub fn xid(&self, gpu: u32, code: u64) -> Result<()> {
        self.event(gpu, XID, code, None)
    }

    /// The driver tells of an Xid in a GPU instance and a compute instance.
    ///
    /// # Errors
    /// As above.
    pub fn xid_in(&self, gpu: u32, code: u64, gi: u32, ci: u32) -> Result<()> {
        self.event(gpu, XID, code, Some((gi, ci)))
    }

    /// The driver tells of an event of that type, with data and instances.
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

    /// Gives a GPU another of the scenario's MIG layouts, with MIG on; an empty name takes all away and switches it off.
    /// Handles of MIG devices that are no longer there are invalid.
    ///
    /// # Errors
    /// As above.
    pub fn mig(&self, gpu: u32, layout: &str) -> Result<()> {
        self.change(|control| {
            control.layouts.insert(gpu.to_string(), layout.to_owned());
        })
    }

    /// Loads the driver again: counters begin anew, and every call fails until the library was shut down and initialised.
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

    /// How often everything was called so far, by all processes.
    #[must_use]
    pub fn calls(&self) -> Calls {
        Calls(self.counts.read())
    }
}

impl Drop for FakeNvml {
    fn drop(&mut self) {
        // Whoever is blocked would never end otherwise.
        self.lift().ok();
    }
}

/// How often what was called, sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Calls(Vec<(Call, u64)>);

impl Calls {
    /// What was called since then.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let before = |call: &Call| earlier.0.iter().find(|(c, _)| c == call).map_or(0, |(_, n)| *n);
        let later = self.0.iter().map(|(call, n)| (call.clone(), n - before(call)));
        Self(later.filter(|(_, n)| *n > 0).collect())
    }

    /// All rows: GPU, MIG device and the selecting argument apart.
    #[must_use]
    pub fn rows(&self) -> &[(Call, u64)] {
        &self.0
    }

    /// How often a function was called, of any version: `nvmlInit` counts `nvmlInit_v2` too.
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

    /// How often anything was called about that GPU or its MIG devices.
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

    /// What was called more than `limit` times with the same GPU, MIG device and selecting argument.
    #[must_use]
    pub fn above(&self, limit: u64) -> Vec<(Call, u64)> {
        let rows = self.0.iter().filter(|(_, n)| *n > limit);
        rows.cloned().collect()
    }
}

/// The built library: cargo puts it where it puts this program, or in the folder `deps` beside it, whenever it builds
/// this crate.
fn built() -> Result<PathBuf> {
    let program = std::env::current_exe()?;
    let dir = program.parent().context("a program in no folder")?;
    for dir in [dir, &dir.join("deps")] {
        let library = dir.join("libfake_nvml.so");
        if library.is_file() {
            return Ok(library);
        }
    }
    // A program that was moved away from what was built with it.
    let name = program.file_name().unwrap_or(OsStr::new("?"));
    bail!(
        "no libfake_nvml.so beside {}: build with `cargo test` or `cargo build -p fake-nvml`",
        name.display()
    )
}

#[cfg(test)]
mod tests;
