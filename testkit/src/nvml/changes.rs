//! What happens to a node while a program watches it: events, MIG, another driver, an older one, a crash.

#![expect(
    clippy::undocumented_unsafe_blocks,
    reason = "one reason for all: what a call is given a place for outlives the call"
)]

use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::ptr::null_mut;

use nvml_wrapper_sys::bindings::{
    NvmlLib, nvmlDevice_t, nvmlEventData_t, nvmlEventSet_t, nvmlGpmMetricsGet_t, nvmlGpmSample_t,
    nvmlUtilization_t,
};

use super::tests::{Device, Setting, get};
use super::*;
use crate::wait;

const TIMEOUT: u32 = 10;
/// Longer than any test.
const FOREVER: u32 = 120_000;

impl Setting {
    fn event_set(&self) -> Set {
        let mut set = null_mut();
        assert_eq!(unsafe { self.nvml.nvmlEventSetCreate(&raw mut set) }, 0);
        Set(set)
    }

    fn register(&self, index: u32, set: Set) -> u32 {
        unsafe {
            self.nvml
                .nvmlDeviceRegisterEvents(self.handle(index).unwrap().0, 8, set.0)
        }
    }

    fn wait(&self, set: Set, limit_ms: u32) -> Result<nvmlEventData_t, u32> {
        let mut data: nvmlEventData_t = unsafe { std::mem::zeroed() };
        match unsafe { self.nvml.nvmlEventSetWait_v2(set.0, &raw mut data, limit_ms) } {
            0 => Ok(data),
            code => Err(code),
        }
    }

    fn mig(&self, gpu: Device, index: u32) -> Result<Device, u32> {
        let mut device: nvmlDevice_t = null_mut();
        let code = unsafe {
            self.nvml
                .nvmlDeviceGetMigDeviceHandleByIndex(gpu.0, index, &raw mut device)
        };
        if code == 0 { Ok(Device(device)) } else { Err(code) }
    }

    fn gpm(&self, gpu: Device, instance: Option<u32>, ids: &[u32]) -> Result<Vec<Result<f64, u32>>, u32> {
        let mut get: nvmlGpmMetricsGet_t = unsafe { std::mem::zeroed() };
        get.version = 1;
        get.numMetrics = u32::try_from(ids.len()).unwrap();
        let samples: [nvmlGpmSample_t; 2] = std::array::from_fn(|_| {
            let mut sample = null_mut();
            assert_eq!(unsafe { self.nvml.nvmlGpmSampleAlloc(&raw mut sample) }, 0);
            sample
        });
        for sample in samples {
            let code = match instance {
                None => unsafe { self.nvml.nvmlGpmSampleGet(gpu.0, sample) },
                Some(gi) => unsafe { self.nvml.nvmlGpmMigSampleGet(gpu.0, gi, sample) },
            };
            if code != 0 {
                return Err(code);
            }
            self.fake.step(1).unwrap();
        }
        [get.sample1, get.sample2] = samples;
        for (metric, id) in get.metrics.iter_mut().zip(ids) {
            metric.metricId = *id;
        }
        assert_eq!(unsafe { self.nvml.nvmlGpmMetricsGet(&raw mut get) }, 0);
        for sample in samples {
            assert_eq!(unsafe { self.nvml.nvmlGpmSampleFree(sample) }, 0);
        }
        let metrics = get.metrics.iter().take(ids.len());
        Ok(metrics
            .map(|m| {
                if m.nvmlReturn == 0 {
                    Ok(m.value)
                } else {
                    Err(m.nvmlReturn)
                }
            })
            .collect())
    }
}

#[derive(Clone, Copy)]
struct Set(nvmlEventSet_t);
// SAFETY: only the library dereferences a handle.
unsafe impl Send for Set {}

#[test]
fn an_event_wakes_who_waits_for_that_gpu_and_comes_once() {
    let setting = Setting::ready("h100");
    let set = setting.event_set();
    setting.fake.xid(3, 31).unwrap();
    assert_eq!(setting.register(3, set), 0);
    // Earlier events and events of other GPUs do not arrive.
    setting.fake.xid(4, 48).unwrap();
    assert_eq!(setting.wait(set, 1).unwrap_err(), TIMEOUT);
    std::thread::scope(|scope| {
        let setting = &setting;
        let waits = scope.spawn(move || {
            let set = set;
            setting
                .wait(set, FOREVER)
                .map(|d| (d.eventData, d.gpuInstanceId, d.computeInstanceId))
        });
        setting.fake.xid_in(3, 95, 5, 1).unwrap();
        assert_eq!(waits.join().unwrap(), Ok((95, 5, 1)));
    });
    assert_eq!(setting.wait(set, 1).unwrap_err(), TIMEOUT);
    setting.fake.xid(3, 95).unwrap();
    let data = setting.wait(set, FOREVER).unwrap();
    assert_eq!(
        (data.eventType, data.eventData, data.gpuInstanceId),
        (8, 95, u32::MAX)
    );
    assert_eq!(
        setting.uuid(Device(data.device)),
        setting.uuid(setting.handle(3).unwrap())
    );
    assert_eq!(unsafe { setting.nvml.nvmlEventSetFree(set.0) }, 0);
    assert_eq!(setting.wait(set, 1).unwrap_err(), 2);
}

#[test]
fn a_reload_ends_a_wait() {
    let setting = Setting::ready("h100");
    let set = setting.event_set();
    assert_eq!(setting.register(0, set), 0);
    std::thread::scope(|scope| {
        let setting = &setting;
        let waits = scope.spawn(move || {
            let set = set;
            setting.wait(set, FOREVER).map(drop)
        });
        setting.fake.reload().unwrap();
        assert_eq!(waits.join().unwrap(), Err(code::UNINITIALIZED));
    });
}

#[test]
fn mig_devices_come_and_go_and_handles_of_those_before_are_invalid() {
    let setting = Setting::ready("h100");
    let gpu = setting.handle(0).unwrap();
    let utilisation = || {
        let mut out = nvmlUtilization_t { gpu: 0, memory: 0 };
        unsafe { setting.nvml.nvmlDeviceGetUtilizationRates(gpu.0, &raw mut out) }
    };
    let rows = || {
        let mut out = [0; 4];
        let [a, b, c, d] = &mut out;
        unsafe { setting.nvml.nvmlDeviceGetRemappedRows(gpu.0, a, b, c, d) }
    };
    assert_eq!(
        (utilisation(), rows(), setting.mig(gpu, 0)),
        (0, 0, Err(code::NOT_SUPPORTED))
    );
    setting.fake.mig(0, "uneven").unwrap();
    assert_eq!(
        (utilisation(), rows()),
        (code::NOT_SUPPORTED, code::NOT_SUPPORTED)
    );
    let devices: Vec<_> = (0..7).map_while(|i| setting.mig(gpu, i).ok()).collect();
    assert_eq!((devices.len(), setting.mig(gpu, 3)), (3, Err(6)));
    assert!(setting.uuid(devices[2]).unwrap().starts_with("MIG-"));
    setting.fake.mig(0, "halves").unwrap();
    assert_eq!(setting.uuid(devices[2]), Err(2));
    let instance = get(|out| unsafe { setting.nvml.nvmlDeviceGetGpuInstanceId(devices[1].0, out) });
    assert_eq!(instance, Ok(2));
    // Another GPU stays whole.
    assert_eq!(
        setting.mig(setting.handle(1).unwrap(), 0),
        Err(code::NOT_SUPPORTED)
    );
    setting.fake.mig(0, "").unwrap();
    assert_eq!((utilisation(), rows(), setting.uuid(devices[0])), (0, 0, Err(2)));
}

#[test]
fn gpm_measures_gpus_and_mig_devices_where_the_part_can() {
    let setting = Setting::ready("h100");
    let gpu = setting.handle(0).unwrap();
    let metrics = setting.gpm(gpu, None, &[2, 10, 248, 100]).unwrap();
    // At the time of the second sample; C2C is not there.
    assert_eq!(
        metrics,
        [
            Ok(90.2),
            Ok(51.4),
            Ok(24_316_600_000_000.0),
            Err(code::NOT_SUPPORTED)
        ]
    );
    assert_eq!(setting.gpm(gpu, Some(1), &[2]), Err(2));
    setting.fake.mig(0, "halves").unwrap();
    let busy = setting.gpm(gpu, Some(1), &[2]).unwrap();
    let idle = setting.gpm(gpu, Some(2), &[2]).unwrap();
    assert_eq!((busy, idle), (vec![Ok(81.25)], vec![Ok(0.0)]));
    let older = Setting::ready("v100");
    assert_eq!(
        older.gpm(older.handle(0).unwrap(), None, &[2]),
        Err(code::NOT_SUPPORTED)
    );
    let newer = Setting::ready("gb200");
    let rates = newer.gpm(newer.handle(0).unwrap(), None, &[100, 162]).unwrap();
    assert_eq!(rates[0], Ok(41_200.5));
    assert!(rates[1].unwrap().is_nan());
}

#[test]
fn an_older_driver_lacks_functions_and_has_other_field_ids() {
    let setting = Setting::ready("a100-mig");
    assert!(setting.nvml.nvmlDeviceGetTemperature.is_ok());
    assert!(setting.nvml.nvmlDeviceGetMarginTemperature.is_err());
    let newer = Setting::ready("gb200");
    let gpu = newer.handle(0).unwrap();
    // PWR_SMOOTHING_APPLIED_TMP_CEIL, and the power brake's time.
    let fields = [newer.field(gpu, 254, 0), newer.field(gpu, 271, 0)];
    let values = fields.map(|f| (f.nvmlReturn, unsafe { f.value.ullVal }));
    assert_eq!(
        (values[0].0, values[0].1 & 0xffff_ffff, values[1]),
        (0, 1200, (0, 1_200_000_000))
    );
}

#[test]
fn a_crash_in_the_library_ends_the_process_with_sigsegv() {
    let dir = tempfile::tempdir().unwrap();
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/nvidia/h100/nvml.toml");
    let fake = FakeNvml::install(dir.path(), &fixture).unwrap();
    fake.break_everywhere("nvmlInit", Fault::Segv).unwrap();
    let mut python = Command::new(crate::exec::which("python3").unwrap());
    python.args(["-c", "import ctypes, sys; ctypes.CDLL(sys.argv[1]).nvmlInit_v2()"]);
    let mut child = python.arg(fake.library()).spawn().unwrap();
    let status = wait::until("ended", wait::PATIENCE, || Ok(child.try_wait()?)).unwrap();
    assert_eq!(status.signal(), Some(nix::libc::SIGSEGV));
}

/// A library with this scenario, initialised, and its first GPU.
fn loaded(dir: &Path, scenario: &str) -> (FakeNvml, NvmlLib, nvmlDevice_t) {
    let fake = FakeNvml::install_text(dir, scenario).unwrap();
    let nvml = unsafe { NvmlLib::new(fake.library()) }.unwrap();
    let mut gpu: nvmlDevice_t = null_mut();
    unsafe {
        assert_eq!(nvml.nvmlInit_v2(), 0);
        assert_eq!(nvml.nvmlDeviceGetHandleByIndex_v2(0, &raw mut gpu), 0);
    }
    (fake, nvml, gpu)
}

#[test]
fn a_gpu_is_idle_from_when_its_work_ends() {
    let scenario = "[system]\ndriver = '580.95.05'\nnvml = '13'\ncuda = 13000\n[gpu]\npower.usage = 7\n\
                    [idle]\npower.usage = 1\n[[gpus]]\nuuid = 'GPU-1'\n";
    let dir = tempfile::tempdir().unwrap();
    let (fake, nvml, gpu) = loaded(dir.path(), scenario);
    let usage = || get(|out| unsafe { nvml.nvmlDeviceGetPowerUsage(gpu, out) });
    assert_eq!(usage(), Ok(7));
    fake.idle(0).unwrap();
    assert_eq!(usage(), Ok(1));
}

#[test]
fn the_real_clock_moves_counters_by_itself() {
    let dir = tempfile::tempdir().unwrap();
    let scenario = "clock = 'real'\nstep_seconds = 0.01\n[system]\ndriver = '580.95.05'\nnvml = '13'\ncuda = 13000\n\
                    [gpu]\nenergy = { start = 7, per_second = 1000 }\n[[gpus]]\nuuid = 'GPU-1'\n";
    let (_fake, nvml, gpu) = loaded(dir.path(), scenario);
    let energy = || get(|out| unsafe { nvml.nvmlDeviceGetTotalEnergyConsumption(gpu, out) });
    let first = energy().unwrap();
    wait::until("more", wait::PATIENCE, || {
        Ok((energy().unwrap() > first).then_some(()))
    })
    .unwrap();
}

#[test]
fn a_scenario_that_is_not_in_form_is_refused_when_it_is_installed() {
    let dir = tempfile::tempdir().unwrap();
    let error = FakeNvml::install_text(dir.path(), "colour = 1").unwrap_err();
    assert!(format!("{error:#}").contains("colour"));
}
