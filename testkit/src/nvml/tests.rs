//! The stand-in through its C interface, as a program meets it.

#![expect(
    clippy::undocumented_unsafe_blocks,
    reason = "one reason for all: what a call is given a place for outlives the call"
)]

use std::ffi::CStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nvml_wrapper_sys::bindings::{
    NvmlLib, nvmlDevice_t, nvmlFieldValue_t, nvmlMemory_v2_t, nvmlUtilization_t, nvmlValue_t,
};

use super::*;
use crate::wait;

fn fixture(case: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../fixtures/nvidia/{case}/nvml.toml"))
}

pub(super) struct Setting {
    pub(super) fake: FakeNvml,
    pub(super) nvml: NvmlLib,
    _dir: tempfile::TempDir,
}

impl Setting {
    pub(super) fn new(case: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let fake = FakeNvml::install(dir.path(), &fixture(case)).unwrap();
        let nvml = unsafe { NvmlLib::new(fake.library()) }.unwrap();
        Self {
            fake,
            nvml,
            _dir: dir,
        }
    }

    pub(super) fn ready(case: &str) -> Self {
        let setting = Self::new(case);
        assert_eq!(setting.init(), 0);
        setting
    }

    pub(super) fn init(&self) -> u32 {
        unsafe { self.nvml.nvmlInit_v2() }
    }

    pub(super) fn shutdown(&self) -> u32 {
        unsafe { self.nvml.nvmlShutdown() }
    }

    pub(super) fn count(&self) -> Result<u32, u32> {
        get(|out| unsafe { self.nvml.nvmlDeviceGetCount_v2(out) })
    }

    pub(super) fn handle(&self, index: u32) -> Result<Device, u32> {
        let mut device: nvmlDevice_t = std::ptr::null_mut();
        let code = unsafe { self.nvml.nvmlDeviceGetHandleByIndex_v2(index, &raw mut device) };
        if code == 0 { Ok(Device(device)) } else { Err(code) }
    }

    pub(super) fn power(&self, device: Device) -> Result<u32, u32> {
        get(|out| unsafe { self.nvml.nvmlDeviceGetPowerUsage(device.0, out) })
    }

    pub(super) fn temperature(&self, device: Device) -> Result<u32, u32> {
        get(|out| unsafe { self.nvml.nvmlDeviceGetTemperature(device.0, 0, out) })
    }

    pub(super) fn energy(&self, device: Device) -> Result<u64, u32> {
        get(|out| unsafe { self.nvml.nvmlDeviceGetTotalEnergyConsumption(device.0, out) })
    }

    pub(super) fn uuid(&self, device: Device) -> Result<String, u32> {
        let mut text = [0; 96];
        let code = unsafe { self.nvml.nvmlDeviceGetUUID(device.0, text.as_mut_ptr(), 96) };
        let text = unsafe { CStr::from_ptr(text.as_ptr()) };
        if code == 0 {
            Ok(text.to_string_lossy().into_owned())
        } else {
            Err(code)
        }
    }

    pub(super) fn field(&self, device: Device, id: u32, scope: u32) -> nvmlFieldValue_t {
        let mut value = nvmlFieldValue_t {
            fieldId: id,
            scopeId: scope,
            timestamp: 0,
            latencyUsec: 0,
            valueType: 0,
            nvmlReturn: 0,
            value: nvmlValue_t { ullVal: 0 },
        };
        let code = unsafe { self.nvml.nvmlDeviceGetFieldValues(device.0, 1, &raw mut value) };
        assert_eq!(code, 0);
        value
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Device(pub(super) nvmlDevice_t);
// SAFETY: only the library dereferences a handle.
unsafe impl Send for Device {}

pub(super) fn get<T: Default>(call: impl FnOnce(*mut T) -> u32) -> Result<T, u32> {
    let mut value = T::default();
    match call(&raw mut value) {
        0 => Ok(value),
        code => Err(code),
    }
}

#[test]
fn nothing_answers_before_initialisation_or_after_shutdown() {
    let setting = Setting::new("h100");
    assert_eq!(setting.count(), Err(code::UNINITIALIZED));
    assert_eq!((setting.init(), setting.init()), (0, 0));
    assert_eq!((setting.count(), setting.shutdown()), (Ok(8), 0));
    assert_eq!((setting.count(), setting.shutdown()), (Ok(8), 0));
    assert_eq!(setting.count(), Err(code::UNINITIALIZED));
    assert_eq!(setting.shutdown(), code::UNINITIALIZED);
}

#[test]
fn values_are_the_scenarios_and_counters_move_with_its_steps() {
    let setting = Setting::ready("h100");
    let gpu = setting.handle(3).unwrap();
    assert_eq!(
        setting.uuid(gpu).unwrap(),
        "GPU-00000000-0000-4000-8000-000000000103"
    );
    assert_eq!(setting.temperature(gpu), Ok(61));
    assert_eq!(setting.energy(gpu), Ok(86_400_000_000));
    setting.fake.step(1).unwrap();
    assert_eq!(setting.temperature(gpu), Ok(62));
    assert_eq!(setting.energy(gpu), Ok(86_406_400_000));
    // Only the last one idles.
    let mut use_ = nvmlUtilization_t { gpu: 1, memory: 1 };
    let idle = setting.handle(7).unwrap();
    assert_eq!(
        unsafe { setting.nvml.nvmlDeviceGetUtilizationRates(idle.0, &raw mut use_) },
        0
    );
    assert_eq!((use_.gpu, use_.memory), (0, 0));
}

#[test]
fn a_struct_of_another_version_is_refused() {
    let setting = Setting::ready("h100");
    let gpu = setting.handle(0).unwrap();
    let mut memory: nvmlMemory_v2_t = unsafe { std::mem::zeroed() };
    let mut ask = || unsafe { setting.nvml.nvmlDeviceGetMemoryInfo_v2(gpu.0, &raw mut memory) };
    assert_eq!(ask(), 25);
    memory.version = u32::try_from(size_of::<nvmlMemory_v2_t>()).unwrap() | 2 << 24;
    assert_eq!(
        unsafe { setting.nvml.nvmlDeviceGetMemoryInfo_v2(gpu.0, &raw mut memory) },
        0
    );
    assert_eq!(memory.total, 85_520_809_984);
    assert_eq!(memory.free, memory.total - memory.used - memory.reserved);
}

#[test]
fn each_field_has_a_code_and_a_type_of_its_own() {
    let setting = Setting::ready("h100");
    let gpu = setting.handle(0).unwrap();
    let energy = setting.field(gpu, 83, 0);
    assert_eq!(
        (energy.valueType, unsafe { energy.value.ullVal }),
        (3, 86_400_000_000)
    );
    assert_eq!(setting.field(gpu, 235, 0).nvmlReturn, code::NOT_SUPPORTED);
    assert_eq!(setting.field(gpu, 9999, 0).nvmlReturn, 2);
    let (one, all) = (setting.field(gpu, 138, 4), setting.field(gpu, 138, u32::MAX));
    let (one, all) = unsafe { (one.value.ullVal, all.value.ullVal) };
    assert_eq!((one, all), (700_000_000, 18 * 700_000_000));
    assert_eq!(setting.field(gpu, 138, 18).nvmlReturn, 2);
    // Driver 580.95 has this at its newer number.
    assert_eq!(setting.field(gpu, 269, 0).nvmlReturn, 0);
    assert_eq!(setting.field(gpu, 251, 0).nvmlReturn, code::NOT_SUPPORTED);
}

#[test]
fn a_lost_gpu_takes_no_other_with_it() {
    let setting = Setting::ready("h100");
    let (lost, other) = (setting.handle(2).unwrap(), setting.handle(3).unwrap());
    setting.fake.lose(2).unwrap();
    assert_eq!(setting.power(lost), Err(code::GPU_IS_LOST));
    assert_eq!(setting.handle(2), Err(code::GPU_IS_LOST));
    assert!(setting.power(other).is_ok());
    assert_eq!(setting.count(), Ok(8));
    setting.fake.lift().unwrap();
    assert!(setting.power(lost).is_ok());
}

#[test]
fn a_removed_gpu_is_not_counted_and_later_ones_move_up() {
    let setting = Setting::ready("h100");
    setting.fake.remove(2).unwrap();
    assert_eq!(setting.count(), Ok(7));
    let third = setting.handle(2).unwrap();
    assert!(setting.uuid(third).unwrap().ends_with("03"));
    assert_eq!(setting.handle(7), Err(2));
}

#[test]
fn a_blocked_call_sleeps_in_the_kernel_until_the_fault_is_lifted() {
    let setting = Setting::ready("h100");
    let gpu = setting.handle(1).unwrap();
    let fake = &setting.fake;
    fake.break_call(1, "nvmlDeviceGetTemperature", Fault::Blocks)
        .unwrap();
    std::thread::scope(|scope| {
        let (send, thread) = std::sync::mpsc::channel();
        let setting = &setting;
        let blocked = scope.spawn(move || {
            let gpu = gpu;
            send.send(nix::unistd::gettid()).unwrap();
            setting.temperature(gpu)
        });
        let thread = thread.recv().unwrap();
        let place = format!("/proc/self/task/{thread}/syscall");
        // 202 and 98 are futex on x86_64 and aarch64.
        let futex = if cfg!(target_arch = "aarch64") {
            "98 "
        } else {
            "202 "
        };
        wait::until("blocked", wait::PATIENCE, || {
            Ok(std::fs::read_to_string(&place)?.starts_with(futex).then_some(()))
        })
        .unwrap();
        // Other calls and other GPUs still work, and a change that removes no fault releases no call.
        fake.step(1).unwrap();
        assert!(setting.power(gpu).is_ok());
        assert!(setting.temperature(setting.handle(0).unwrap()).is_ok());
        assert!(!blocked.is_finished());
        fake.lift().unwrap();
        assert_eq!(blocked.join().unwrap(), Ok(62));
    });
}

#[test]
fn faults_of_a_call_are_codes_known_or_not_and_garbage() {
    let setting = Setting::ready("h100");
    let gpu = setting.handle(0).unwrap();
    let broken = |fault| {
        setting.fake.lift().unwrap();
        setting
            .fake
            .break_call(0, "nvmlDeviceGetPowerUsage", fault)
            .unwrap();
        setting.power(gpu)
    };
    assert_eq!(broken(Fault::Code(code::UNHEARD_OF)), Err(57));
    assert_eq!(broken(Fault::Code(code::NOT_SUPPORTED)), Err(3));
    assert_eq!(broken(Fault::Garbage), Ok(u32::MAX));
    let begin = std::time::Instant::now();
    assert!(broken(Fault::Slow(30)).is_ok());
    assert!(begin.elapsed() >= Duration::from_millis(30));
    setting.fake.lift().unwrap();
    setting
        .fake
        .break_field(0, "TOTAL_ENERGY_CONSUMPTION", Fault::Garbage)
        .unwrap();
    let energy = setting.field(gpu, 83, 0);
    assert_eq!((energy.valueType, unsafe { energy.value.ullVal }), (0, u64::MAX));
    setting.fake.refuse(4, code::IRQ_ISSUE).unwrap();
    assert_eq!(setting.handle(4), Err(code::IRQ_ISSUE));
}

#[test]
fn initialisation_fails_as_it_does_without_a_driver() {
    let setting = Setting::new("h100");
    for code in [code::DRIVER_NOT_LOADED, code::LIB_RM_VERSION_MISMATCH] {
        setting.fake.lift().unwrap();
        setting.fake.refuse_init(code).unwrap();
        assert_eq!(setting.init(), code);
    }
    setting.fake.lift().unwrap();
    assert_eq!(setting.init(), 0);
}

#[test]
fn after_a_reload_only_shutdown_and_initialisation_help_and_counters_begin_anew() {
    let setting = Setting::ready("h100");
    let gpu = setting.handle(0).unwrap();
    setting.fake.step(5).unwrap();
    setting.fake.reload().unwrap();
    assert_eq!(setting.power(gpu), Err(code::UNINITIALIZED));
    assert_eq!(setting.handle(0), Err(code::UNINITIALIZED));
    assert_eq!((setting.shutdown(), setting.init()), (0, 0));
    assert_eq!(setting.energy(setting.handle(0).unwrap()), Ok(86_400_000_000));
}

#[test]
fn calls_are_counted_by_function_gpu_and_what_was_asked_for() {
    let setting = Setting::ready("h100");
    let gpus: Vec<_> = (0..8).map(|i| setting.handle(i).unwrap()).collect();
    let before = setting.fake.calls();
    for gpu in &gpus {
        setting.power(*gpu).unwrap();
        for clock in 0..2 {
            let mut mhz = 0;
            assert_eq!(
                unsafe { setting.nvml.nvmlDeviceGetClockInfo(gpu.0, clock, &raw mut mhz) },
                0
            );
        }
    }
    setting.power(gpus[5]).unwrap();
    let calls = setting.fake.calls().since(&before);
    assert_eq!(calls.of("nvmlDeviceGetPowerUsage"), 9);
    assert_eq!((calls.of_gpu(0), calls.of_gpu(5), calls.total()), (3, 4, 25));
    let above = calls.above(1);
    assert_eq!(above.len(), 1);
    assert_eq!(
        (above[0].0.function, above[0].0.gpu),
        ("nvmlDeviceGetPowerUsage", Some(5))
    );
    assert_eq!(setting.fake.calls().of("nvmlInit"), 1);
}

#[test]
fn two_copies_in_one_process_have_nothing_in_common() {
    let (a, b) = (Setting::ready("h100"), Setting::new("h100"));
    a.fake.remove(0).unwrap();
    assert_eq!((a.count(), b.count()), (Ok(7), Err(code::UNINITIALIZED)));
    assert_eq!((b.init(), b.count()), (0, Ok(8)));
}

#[test]
fn the_library_exports_what_it_says_and_no_other_function_of_nvml() {
    let setting = Setting::new("h100");
    let library = unsafe { libloading::Library::new(setting.fake.library()) }.unwrap();
    for name in fake_nvml::functions::NAMES {
        let symbol = unsafe { library.get::<*const ()>(name.as_bytes()) };
        assert!(symbol.is_ok(), "{name}");
    }
    let mut nm = std::process::Command::new("nm");
    let out = nm
        .args(["--dynamic", "--defined-only", "--format=just-symbols"])
        .arg(setting.fake.library());
    let text = String::from_utf8(out.output().unwrap().stdout).unwrap();
    let exported: Vec<&str> = text.lines().filter(|word| word.starts_with("nvml")).collect();
    assert_eq!(exported.len(), fake_nvml::functions::NAMES.len());
    for word in exported {
        assert!(fake_nvml::functions::NAMES.contains(&word), "{word}");
    }
}
