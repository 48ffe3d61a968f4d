//! The state of one copy of the library: its scenario, its control data, and whether it is initialised.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use crate::call::code;
use crate::control::{self, Control, ControlFile, Fault, Rule};
use crate::counts::Counts;
use crate::functions::Function;
use crate::place;
use crate::scenario::keys::Key;
use crate::scenario::value::Time;
use crate::scenario::{Clock, Gpu, MigDevice, Scenario};

/// The current control data, read once for each generation of the control file.
pub(crate) struct Live {
    pub(crate) generation: u32,
    pub(crate) control: Control,
    /// Indices of the GPUs that the driver lists.
    pub(crate) visible: Vec<usize>,
}

/// Bytes of the process's heap that are in use, of all its threads.
fn heap() -> u64 {
    // SAFETY: it takes nothing and gives plain numbers. `mallinfo2` would need glibc 2.33.
    let info = unsafe { libc::mallinfo() };
    u64::from(info.uordblks.cast_unsigned()) + u64::from(info.hblkhd.cast_unsigned())
}

/// A copy of the library.
pub(crate) struct Library {
    pub(crate) scenario: Scenario,
    /// Whether the scenario is invalid.
    pub(crate) broken: bool,
    pub(crate) control: Option<ControlFile>,
    counts: Option<Counts>,
    live: RwLock<Arc<Live>>,
    /// Calls of nvmlInit minus calls of nvmlShutdown.
    pub(crate) users: AtomicUsize,
    /// `reloads` when it was initialised.
    pub(crate) reloads: AtomicU64,
}

/// The state of this copy. The linker treats each copy as a separate library with its own statics.
pub(crate) fn library() -> &'static Library {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    LIBRARY.get_or_init(|| Library::open(place::library().as_deref().unwrap_or(Path::new("fake-nvml"))))
}

impl Library {
    fn open(path: &Path) -> Self {
        let before = heap();
        let file: PathBuf = place::scenario(path);
        let scenario = Scenario::load(&file);
        let broken = scenario.is_err();
        let scenario = scenario.unwrap_or_else(|error| {
            eprintln!("fake-nvml: {error:#}");
            Scenario::empty()
        });
        let library = Self {
            scenario,
            broken,
            control: ControlFile::open(&place::beside(path, place::CONTROL)).ok(),
            counts: Counts::open(&place::beside(path, place::COUNTS)).ok(),
            live: RwLock::new(Arc::new(Live {
                // Odd, so that the first call reads the file.
                generation: 1,
                control: Control {
                    loaded_ns: control::now_ns(),
                    ..Control::default()
                },
                visible: Vec::new(),
            })),
            users: AtomicUsize::new(0),
            reloads: AtomicU64::new(0),
        };
        library.refresh();
        if let Some(counts) = &library.counts {
            counts.hold(heap().saturating_sub(before));
        }
        library
    }

    /// The current control data.
    pub(crate) fn live(&self) -> Arc<Live> {
        let live = Arc::clone(&self.live.read().unwrap_or_else(PoisonError::into_inner));
        match &self.control {
            Some(file) if file.generation() != live.generation => self.refresh(),
            _ => live,
        }
    }

    fn refresh(&self) -> Arc<Live> {
        let mut live = self.live.write().unwrap_or_else(PoisonError::into_inner);
        let (generation, control) = match self.control.as_ref().map(ControlFile::read) {
            Some(Ok(read)) => read,
            Some(Err(error)) => {
                eprintln!("fake-nvml: control: {error:#}");
                (live.generation, live.control.clone())
            }
            None => (0, live.control.clone()),
        };
        let gone = |i: &usize| !control.gone.iter().any(|g| *g as usize == *i);
        let visible = (0..self.scenario.gpus.len()).filter(gone).collect();
        *live = Arc::new(Live {
            generation,
            control,
            visible,
        });
        Arc::clone(&live)
    }

    pub(crate) fn count(&self, function: Function, gpu: Option<u8>, mig: Option<u8>, selector: u32) {
        if let Some(counts) = &self.counts {
            counts.add(function, gpu, mig, selector);
        }
    }

    /// The scenario's time.
    pub(crate) fn time(&self, live: &Live) -> Time {
        let length = self.scenario.step_seconds;
        #[expect(clippy::cast_precision_loss, reason = "steps and nanoseconds of a test")]
        match self.scenario.clock {
            Clock::Step => {
                let steps = live.control.step.saturating_sub(live.control.loaded_at);
                Time {
                    steps,
                    seconds: steps as f64 * length,
                }
            }
            Clock::Real => {
                let seconds = control::now_ns().saturating_sub(live.control.loaded_ns) as f64 / 1e9;
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "a positive number of steps"
                )]
                let steps = (seconds / length) as u64;
                Time { steps, seconds }
            }
        }
    }

    /// The MIG devices of a GPU now.
    pub(crate) fn mig(&self, live: &Live, gpu: usize) -> &[MigDevice] {
        let Some(of) = self.scenario.gpus.get(gpu) else {
            return &[];
        };
        let named = live.control.layouts.get(&gpu.to_string());
        let layout = named.or(of.layout.as_ref());
        layout.and_then(|l| of.layouts.get(l)).map_or(&[], Vec::as_slice)
    }

    /// Whether MIG is on: a layout from the control file overrides the scenario.
    pub(crate) fn mig_mode(&self, live: &Live, gpu: usize) -> Option<bool> {
        let of = self.scenario.gpus.get(gpu)?;
        let scenario = of.int(Key::MigCurrent, Time::default()).map(|mode| mode != 0);
        match live.control.layouts.get(&gpu.to_string()) {
            Some(layout) => scenario.map(|_| !layout.is_empty()),
            None => scenario,
        }
    }

    /// Applies the faults of this call. Returns whether the answer is garbage, or an error code.
    pub(crate) fn faults(&self, function: Function, gpu: Option<usize>) -> Result<bool, u32> {
        let name = function.name();
        if self.scenario.failing.iter().any(|failing| failing == name) {
            return Err(code::UNKNOWN);
        }
        let mut slept = false;
        loop {
            let live = self.live();
            let mut garbage = false;
            let (mut blocked, mut spins) = (false, false);
            for rule in live.control.rules.iter().filter(|r| r.field.is_none()) {
                if !rule.is_about(function, gpu) {
                    continue;
                }
                match &rule.fault {
                    Fault::Code(code) => return Err(*code),
                    Fault::Garbage => garbage = true,
                    Fault::Blocks => blocked = true,
                    Fault::Spins => spins = true,
                    Fault::Slow(ms) if !slept => std::thread::sleep(std::time::Duration::from_millis(*ms)),
                    Fault::Slow(_) => {}
                    Fault::Segv => segv(),
                }
            }
            slept = true;
            match &self.control {
                Some(file) if blocked => file.wait(live.generation, None),
                Some(file) if spins => {
                    while file.generation() == live.generation {
                        std::hint::spin_loop();
                    }
                }
                _ => return Ok(garbage),
            }
        }
    }
}

impl Rule {
    fn is_about(&self, function: Function, on: Option<usize>) -> bool {
        let here = |gpu: u32| on == Some(gpu as usize);
        let same = |call: &String| call == function.name() || call == without_version(function.name());
        self.gpu.is_none_or(here) && self.call.as_ref().is_none_or(same)
    }
}

/// `nvmlInit` for `nvmlInit_v2`.
fn without_version(name: &str) -> &str {
    match name.rsplit_once("_v") {
        Some((base, number)) if number.parse::<u32>().is_ok() => base,
        _ => name,
    }
}

/// The first signal may go to a handler that returns; the second then has the default action.
fn segv() -> ! {
    loop {
        // SAFETY: it ends the process, as a fault in the library does.
        unsafe { libc::raise(libc::SIGSEGV) };
    }
}

/// The GPU or MIG device of a handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handle {
    pub(crate) gpu: usize,
    pub(crate) mig: Option<usize>,
    /// `reloads` when the handle was created.
    reloads: u16,
}

/// Above every address of a process.
const MARK: usize = 0x4e56 << 48;

impl Handle {
    pub(crate) fn new(gpu: usize, mig: Option<usize>, reloads: u64) -> Self {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "distinguishes consecutive reloads"
        )]
        let reloads = reloads as u16;
        Self { gpu, mig, reloads }
    }

    pub(crate) fn encode<T>(self) -> *mut T {
        let mig = self.mig.map_or(0, |m| m + 1);
        let bits = MARK | usize::from(self.reloads) << 16 | mig << 8 | self.gpu;
        std::ptr::without_provenance_mut(bits)
    }

    pub(crate) fn decode<T>(handle: *mut T) -> Option<Self> {
        let bits = handle.addr();
        (bits >> 32 == MARK >> 32).then(|| Self {
            gpu: bits & 0xff,
            mig: (bits >> 8 & 0xff).checked_sub(1),
            reloads: u16::try_from(bits >> 16 & 0xffff).unwrap_or(0),
        })
    }
}

/// A GPU during one call.
pub(crate) struct View {
    pub(crate) library: &'static Library,
    pub(crate) live: Arc<Live>,
    pub(crate) gpu: &'static Gpu,
    pub(crate) index: usize,
    pub(crate) mig: Option<(usize, &'static MigDevice)>,
    pub(crate) time: Time,
    /// Fill returned values with ones.
    pub(crate) garbage: bool,
}
