//! Properties of a GPU in one value or a few.

use std::ffi::{c_char, c_ulong};

use fake_nvml::scenario::same::SAME;
use nvml_wrapper_sys::bindings as h;
use nvml_wrapper_sys::bindings::nvmlDevice_t;

use super::ask::{Nvml, int, set};

/// Functions that give a number of 32 bits.
const NUMBERS: &[(&str, &str)] = &[
    ("nvmlDeviceGetBrand", "brand"),
    ("nvmlDeviceGetArchitecture", "architecture"),
    ("nvmlDeviceGetMinorNumber", "minor"),
    ("nvmlDeviceGetModuleId", "module_id"),
    ("nvmlDeviceGetBoardId", "board_id"),
    ("nvmlDeviceGetMultiGpuBoard", "multi_gpu_board"),
    ("nvmlDeviceGetNumGpuCores", "cores"),
    ("nvmlDeviceGetIrqNum", "irq"),
    ("nvmlDeviceGetMemoryBusWidth", "memory.bus_width"),
    ("nvmlDeviceGetNumaNodeId", "numa.node"),
    ("nvmlDeviceGetPersistenceMode", "persistence"),
    ("nvmlDeviceGetComputeMode", "compute_mode"),
    ("nvmlDeviceGetDisplayMode", "display_mode"),
    ("nvmlDeviceGetDisplayActive", "display_active"),
    ("nvmlDeviceGetAccountingMode", "accounting"),
    ("nvmlDeviceGetVirtualizationMode", "virtualization_mode"),
    ("nvmlDeviceGetInforomConfigurationChecksum", "inforom.checksum"),
    ("nvmlDeviceGetPowerUsage", "power.usage"),
    ("nvmlDeviceGetPerformanceState", "pstate"),
    ("nvmlDeviceGetPowerState", "pstate"),
    ("nvmlDeviceGetFanSpeed", "fan_speed"),
    ("nvmlDeviceGetNumFans", "fans"),
    ("nvmlDeviceGetPowerManagementMode", "power.managed"),
    ("nvmlDeviceGetPowerManagementLimit", "power.limit"),
    ("nvmlDeviceGetPowerManagementDefaultLimit", "power.default"),
    ("nvmlDeviceGetEnforcedPowerLimit", "power.enforced"),
    ("nvmlDeviceGetPowerSource", "power.source"),
    ("nvmlDeviceGetCurrPcieLinkGeneration", "pcie.gen"),
    ("nvmlDeviceGetCurrPcieLinkWidth", "pcie.width"),
    ("nvmlDeviceGetMaxPcieLinkGeneration", "pcie.max_gen"),
    ("nvmlDeviceGetMaxPcieLinkWidth", "pcie.max_width"),
    ("nvmlDeviceGetGpuMaxPcieLinkGeneration", "pcie.gpu_max_gen"),
    ("nvmlDeviceGetPcieSpeed", "pcie.speed"),
    ("nvmlDeviceGetPcieLinkMaxSpeed", "pcie.max_speed"),
    ("nvmlDeviceGetPcieReplayCounter", "pcie.replay"),
    ("nvmlDeviceGetRetiredPagesPendingStatus", "retired.pending"),
    ("nvmlDeviceGetDefaultEccMode", "ecc.default"),
    ("nvmlDeviceGetC2cModeInfoV", "c2c.enabled"),
    ("nvmlGpmQueryIfStreamingEnabled", "gpm.streaming"),
    // Both are known otherwise.
    ("nvmlDeviceGetBusType", ""),
    ("nvmlDeviceGetIndex", ""),
];

/// Functions that give a number of 64 bits.
const LONG: &[(&str, &str)] = &[
    ("nvmlDeviceGetTotalEnergyConsumption", "energy"),
    ("nvmlDeviceGetCurrentClocksThrottleReasons", "reasons"),
    ("nvmlDeviceGetCurrentClocksEventReasons", "reasons"),
    ("nvmlDeviceGetSupportedClocksThrottleReasons", "reasons_supported"),
    ("nvmlDeviceGetSupportedClocksEventReasons", "reasons_supported"),
    ("nvmlDeviceGetSupportedEventTypes", "events"),
];

/// Functions that give a text.
const TEXTS: &[(&str, &str)] = &[
    ("nvmlDeviceGetName", "name"),
    ("nvmlDeviceGetUUID", "uuid"),
    ("nvmlDeviceGetSerial", "serial"),
    ("nvmlDeviceGetBoardPartNumber", "board_part"),
    ("nvmlDeviceGetVbiosVersion", "vbios"),
    ("nvmlDeviceGetInforomImageVersion", "inforom.image"),
    ("nvmlDeviceGetGspFirmwareVersion", "gsp.version"),
];

/// Functions that give a number for each of some arguments.
const CHOICES: &[(&str, &[&str])] = &[
    (
        "nvmlDeviceGetClockInfo",
        &["clocks.graphics", "clocks.sm", "clocks.memory", "clocks.video"],
    ),
    (
        "nvmlDeviceGetMaxClockInfo",
        &[
            "clocks.max.graphics",
            "clocks.max.sm",
            "clocks.max.memory",
            "clocks.max.video",
        ],
    ),
    (
        "nvmlDeviceGetApplicationsClock",
        &[
            "clocks.application.graphics",
            "clocks.application.sm",
            "clocks.application.memory",
            "clocks.application.video",
        ],
    ),
    (
        "nvmlDeviceGetDefaultApplicationsClock",
        &[
            "clocks.default.graphics",
            "clocks.default.sm",
            "clocks.default.memory",
            "clocks.default.video",
        ],
    ),
    (
        "nvmlDeviceGetMaxCustomerBoostClock",
        &[
            "clocks.boost.graphics",
            "clocks.boost.sm",
            "clocks.boost.memory",
            "clocks.boost.video",
        ],
    ),
    ("nvmlDeviceGetTemperature", &["temperature.gpu"]),
    (
        "nvmlDeviceGetTemperatureThreshold",
        &[
            "threshold.shutdown",
            "threshold.slowdown",
            "threshold.mem_max",
            "threshold.gpu_max",
            "threshold.acoustic_min",
            "threshold.acoustic_current",
            "threshold.acoustic_max",
            "threshold.gps_current",
        ],
    ),
    ("nvmlDeviceGetPcieThroughput", &["pcie.tx", "pcie.rx"]),
    ("nvmlDeviceGetFanSpeed_v2", &["fan_speed"]),
];

/// Functions that give two numbers; a path that is empty is not kept.
const PAIRS: &[(&str, &str, &str)] = &[
    (
        "nvmlDeviceGetUtilizationRates",
        "utilization.gpu",
        "utilization.memory",
    ),
    ("nvmlDeviceGetEncoderUtilization", "utilization.encoder", ""),
    ("nvmlDeviceGetDecoderUtilization", "utilization.decoder", ""),
    ("nvmlDeviceGetJpgUtilization", "utilization.jpeg", ""),
    ("nvmlDeviceGetOfaUtilization", "utilization.ofa", ""),
    (
        "nvmlDeviceGetPowerManagementLimitConstraints",
        "power.min",
        "power.max",
    ),
    ("nvmlDeviceGetEccMode", "ecc.mode", "ecc.pending"),
    ("nvmlDeviceGetGspFirmwareMode", "gsp.mode", "gsp.default"),
    ("nvmlDeviceGetMigMode", "mig.current", "mig.pending"),
];

/// A struct that begins with its version: function, version, size, and path, place and width of its numbers.
type Struct = (&'static str, u32, usize, &'static [(&'static str, usize, usize)]);

const STRUCTS: &[Struct] = &[
    ("nvmlDeviceGetTemperatureV", 1, 12, &[("temperature.gpu", 8, 4)]),
    (
        "nvmlDeviceGetMarginTemperature",
        1,
        8,
        &[("temperature.margin", 4, 4)],
    ),
    ("nvmlDeviceGetAddressingMode", 1, 8, &[("addressing_mode", 4, 4)]),
    (
        "nvmlDeviceGetRepairStatus",
        1,
        12,
        &[("repair.channel", 4, 4), ("repair.tpc", 8, 4)],
    ),
    (
        "nvmlDeviceGetUnrepairableMemoryFlag_v1",
        1,
        8,
        &[("unrepairable", 4, 4)],
    ),
    (
        "nvmlDeviceGetSramEccErrorStatus",
        1,
        104,
        &[
            ("sram.aggregate_parity", 8, 8),
            ("sram.aggregate_secded", 16, 8),
            ("sram.aggregate_corrected", 24, 8),
            ("sram.volatile_parity", 32, 8),
            ("sram.volatile_secded", 40, 8),
            ("sram.volatile_corrected", 48, 8),
            ("sram.l2", 56, 8),
            ("sram.sm", 64, 8),
            ("sram.pcie", 72, 8),
            ("sram.mcu", 80, 8),
            ("sram.other", 88, 8),
            ("sram.threshold_exceeded", 96, 4),
        ],
    ),
    (
        "nvmlDeviceGetGpuFabricInfoV",
        2,
        36,
        &[
            ("fabric.status", 20, 4),
            ("fabric.clique", 24, 4),
            ("fabric.state", 28, 1),
            ("fabric.health_mask", 32, 4),
        ],
    ),
    (
        "nvmlDeviceGetGpuFabricInfoV",
        3,
        40,
        &[("fabric.health_summary", 36, 1)],
    ),
    (
        "nvmlDeviceGetPlatformInfo",
        2,
        44,
        &[
            ("platform.slot", 36, 1),
            ("platform.tray", 37, 1),
            ("platform.host", 38, 1),
            ("platform.peer", 39, 1),
            ("platform.module", 40, 1),
        ],
    ),
    // Its numbers are those of nvmlDeviceGetPciInfo_v3.
    ("nvmlDeviceGetPciInfoExt", 1, 64, &[]),
    (
        "nvmlDeviceGetMemoryInfo_v2",
        2,
        40,
        &[
            ("memory.total", 8, 8),
            ("memory.reserved", 16, 8),
            ("memory.used", 32, 8),
        ],
    ),
];

/// Asks all of it.
pub(super) fn ask(nvml: &mut Nvml, index: u32, gpu: nvmlDevice_t, table: &mut toml::Table) {
    let who = format!("GPU {index}");
    for (function, path) in NUMBERS {
        let said = nvml.one(function, who.clone(), gpu, 0_u32);
        if !path.is_empty() {
            set(table, path, said.map(i64::from));
        }
    }
    for (function, path) in LONG {
        set(table, path, nvml.one(function, who.clone(), gpu, 0_u64).map(int));
    }
    for (function, path) in TEXTS {
        set(table, path, nvml.text(function, who.clone(), gpu));
    }
    for (function, paths) in CHOICES {
        for (argument, path) in (0..).zip(*paths) {
            let said = nvml.with(function, format!("{who}, {argument}"), (gpu, argument), 0_u32);
            set(table, path, said.map(i64::from));
        }
    }
    for (function, first, second) in PAIRS {
        let said = nvml.two(function, who.clone(), gpu);
        for (path, i) in [(first, 0), (second, 1)] {
            if !path.is_empty() {
                set(table, path, said.map(|pair| i64::from(pair[i])));
            }
        }
    }
    for shape in STRUCTS {
        structure(nvml, &who, gpu, shape, table);
    }
    few(nvml, &who, gpu, table);
    errors(nvml, &who, gpu, table);
    pages(nvml, &who, gpu, table);
}

fn structure(nvml: &mut Nvml, who: &str, gpu: nvmlDevice_t, shape: &Struct, table: &mut toml::Table) {
    let (function, version, size, numbers) = *shape;
    let mut words = [0_u64; 16];
    words[0] = size as u64 | u64::from(version) << 24;
    let Ok(words) = nvml.one(function, format!("{who}, version {version}"), gpu, words) else {
        return;
    };
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_ne_bytes()).collect();
    for (path, place, width) in numbers {
        let mut number = [0; 8];
        number[..*width].copy_from_slice(&bytes[*place..place + width]);
        let mut number = u64::from_ne_bytes(number).cast_signed();
        // Temperatures and margins can be negative.
        if *width == 4 && path.starts_with("temperature") {
            number = i64::from(number as i32);
        }
        set(table, path, Ok(number));
    }
    let hex = |range: std::ops::Range<usize>| {
        bytes[range]
            .iter()
            .map(|b| format!("{b:02x}"))
            .collect::<String>()
    };
    match function {
        "nvmlDeviceGetGpuFabricInfoV" => set(table, "fabric.uuid", Ok(hex(4..20))),
        "nvmlDeviceGetPlatformInfo" => {
            set(table, "platform.ib_guid", Ok(hex(4..20)));
            let serial: Vec<c_char> = bytes[20..36].iter().map(|b| b.cast_signed()).collect();
            set(table, "platform.chassis_serial", Ok(super::ask::string(&serial)));
        }
        _ => {}
    }
}

/// Functions with a form of their own.
fn few(nvml: &mut Nvml, who: &str, gpu: nvmlDevice_t, table: &mut toml::Table) {
    let who = || who.to_owned();
    for (object, path) in [(0, "inforom.oem"), (1, "inforom.ecc"), (2, "inforom.power")] {
        let mut text = [0 as c_char; 64];
        let said = nvml.call(
            "nvmlDeviceGetInforomVersion",
            format!("{}, {object}", who()),
            |address| {
                // SAFETY: this is its signature, and the text outlives the call.
                unsafe {
                    let function: extern "C" fn(nvmlDevice_t, u32, *mut c_char, u32) -> u32 =
                        std::mem::transmute(address);
                    function(gpu, object, text.as_mut_ptr(), 64)
                }
            },
        );
        set(table, path, said.map(|()| super::ask::string(&text)));
    }
    let capability = nvml.two("nvmlDeviceGetCudaComputeCapability", who(), gpu);
    set(
        table,
        "compute_capability",
        capability.map(|[a, b]| format!("{a}.{b}")),
    );
    // SAFETY: all zeroes is a valid struct.
    let pci: h::nvmlPciInfo_t = unsafe { std::mem::zeroed() };
    for function in [
        "nvmlDeviceGetPciInfo",
        "nvmlDeviceGetPciInfo_v2",
        "nvmlDeviceGetPciInfo_v3",
    ] {
        let said = nvml.one(function, who(), gpu, pci);
        if function.ends_with("_v3") {
            set(table, "pci.bus_id", said.map(|p| super::ask::string(&p.busId)));
            set(table, "pci.device_id", said.map(|p| i64::from(p.pciDeviceId)));
            set(
                table,
                "pci.subsystem_id",
                said.map(|p| i64::from(p.pciSubSystemId)),
            );
        }
    }
    let memory = h::nvmlMemory_t {
        total: 0,
        free: 0,
        used: 0,
    };
    let memory = nvml.one("nvmlDeviceGetMemoryInfo", who(), gpu, memory);
    if !table.contains_key("memory") {
        set(table, "memory.total", memory.map(|m| int(m.total)));
        set(table, "memory.used", memory.map(|m| int(m.used)));
    }
    let sizes = h::nvmlConfComputeMemSizeInfo_t {
        protectedMemSizeKib: 0,
        unprotectedMemSizeKib: 0,
    };
    // Only whether it answers.
    let _ = nvml.one("nvmlDeviceGetConfComputeMemSizeInfo", who(), gpu, sizes);
    let bar = h::nvmlBAR1Memory_t {
        bar1Total: 0,
        bar1Free: 0,
        bar1Used: 0,
    };
    let bar = nvml.one("nvmlDeviceGetBAR1MemoryInfo", who(), gpu, bar);
    set(table, "bar1.total", bar.map(|b| int(b.bar1Total)));
    set(table, "bar1.used", bar.map(|b| int(b.bar1Used)));
    let masks = [
        ("nvmlDeviceGetCpuAffinityWithinScope", "numa.cpus"),
        ("nvmlDeviceGetMemoryAffinity", "numa.memory"),
    ];
    for (function, path) in masks {
        let mut mask: c_ulong = 0;
        let said = nvml.call(function, who(), |address| {
            // SAFETY: as above.
            unsafe {
                let function: extern "C" fn(nvmlDevice_t, u32, *mut c_ulong, u32) -> u32 =
                    std::mem::transmute(address);
                function(gpu, 1, &raw mut mask, 0)
            }
        });
        set(table, path, said.map(|()| int(mask)));
    }
    let _ = nvml.with::<c_ulong>("nvmlDeviceGetCpuAffinity", who(), (gpu, 1), 0);
    let valid = nvml.call("nvmlDeviceValidateInforom", who(), |address| {
        // SAFETY: as above.
        unsafe {
            let function: extern "C" fn(nvmlDevice_t) -> u32 = std::mem::transmute(address);
            function(gpu)
        }
    });
    match valid {
        Ok(()) => set(table, "inforom.valid", Ok(1)),
        Err(14) => set(table, "inforom.valid", Ok(0)),
        Err(_) => {}
    }
    // SAFETY: as above.
    let oldest: h::nvmlGpuFabricInfo_t = unsafe { std::mem::zeroed() };
    let oldest = nvml.one("nvmlDeviceGetGpuFabricInfo", who(), gpu, oldest);
    if !table.contains_key("fabric") {
        let uuid = |f: h::nvmlGpuFabricInfo_t| {
            f.clusterUuid
                .iter()
                .map(|b| format!("{b:02x}"))
                .collect::<String>()
        };
        set(table, "fabric.uuid", oldest.map(uuid));
        set(table, "fabric.status", oldest.map(|f| i64::from(f.status)));
        set(table, "fabric.clique", oldest.map(|f| i64::from(f.cliqueId)));
        set(table, "fabric.state", oldest.map(|f| i64::from(f.state)));
    }
    for kind in 0..4 {
        for id in 0..4 {
            let what = format!("{}, {kind}, {id}", who());
            let _ = nvml.with_two("nvmlDeviceGetClock", what, (gpu, kind, id), 0_u32);
        }
    }
    let other = |nvml: &mut Nvml, function, argument: Option<u32>| {
        let mut out = 0_u32;
        let _ = nvml.call(function, format!("{}, itself", who()), |address| {
            // SAFETY: as above.
            unsafe {
                match argument {
                    None => {
                        let function: extern "C" fn(nvmlDevice_t, nvmlDevice_t, *mut u32) -> u32 =
                            std::mem::transmute(address);
                        function(gpu, gpu, &raw mut out)
                    }
                    Some(argument) => {
                        let function: extern "C" fn(nvmlDevice_t, nvmlDevice_t, u32, *mut u32) -> u32 =
                            std::mem::transmute(address);
                        function(gpu, gpu, argument, &raw mut out)
                    }
                }
            }
        });
    };
    other(nvml, "nvmlDeviceGetTopologyCommonAncestor", None);
    other(nvml, "nvmlDeviceGetP2PStatus", Some(0));
}

/// Errors, remapped rows, and time spent slowed down.
fn errors(nvml: &mut Nvml, who: &str, gpu: nvmlDevice_t, table: &mut toml::Table) {
    const PLACES: [&str; 8] = [
        "l1", "l2", "device", "register", "texture", "shared", "cbu", "sram",
    ];
    for (counter, counted) in (0..).zip(["volatile", "aggregate"]) {
        for (error, name) in (0..).zip(["corrected", "uncorrected"]) {
            let what = || format!("{who}, {counted} {name}");
            let total = nvml.with_two(
                "nvmlDeviceGetTotalEccErrors",
                what(),
                (gpu, error, counter),
                0_u64,
            );
            set(table, &format!("ecc.{counted}.{name}.total"), total.map(int));
            let _ = nvml.with_two(
                "nvmlDeviceGetDetailedEccErrors",
                what(),
                (gpu, error, counter),
                [0_u64; 4],
            );
            for (place, location) in (0..).zip(PLACES) {
                let mut count = 0_u64;
                let said = nvml.call(
                    "nvmlDeviceGetMemoryErrorCounter",
                    format!("{}, {location}", what()),
                    |address| {
                        // SAFETY: this is its signature, and the number outlives the call.
                        unsafe {
                            let function: extern "C" fn(nvmlDevice_t, u32, u32, u32, *mut u64) -> u32 =
                                std::mem::transmute(address);
                            function(gpu, error, counter, place, &raw mut count)
                        }
                    },
                );
                set(
                    table,
                    &format!("ecc.{counted}.{name}.{location}"),
                    said.map(|()| int(count)),
                );
            }
        }
    }
    let mut rows = [0_u32; 4];
    let said = nvml.call("nvmlDeviceGetRemappedRows", who.to_owned(), |address| {
        let [a, b, c, d] = &mut rows;
        // SAFETY: as above.
        unsafe {
            let function: extern "C" fn(nvmlDevice_t, *mut u32, *mut u32, *mut u32, *mut u32) -> u32 =
                std::mem::transmute(address);
            function(gpu, a, b, c, d)
        }
    });
    for (row, path) in rows
        .iter()
        .zip(["corrected", "uncorrected", "pending", "failure"])
    {
        set(table, &format!("remap.{path}"), said.map(|()| i64::from(*row)));
    }
    let banks = nvml.one(
        "nvmlDeviceGetRowRemapperHistogram",
        who.to_owned(),
        gpu,
        [0_u32; 5],
    );
    for (i, path) in ["max", "high", "partial", "low", "none"].iter().enumerate() {
        set(
            table,
            &format!("remap.histogram.{path}"),
            banks.map(|b| i64::from(b[i])),
        );
    }
    for (policy, key) in [0, 1, 2, 3, 4, 5, 10, 11]
        .into_iter()
        .zip(SAME.iter().filter(|(n, _)| n.starts_with("PERF_POLICY")))
    {
        let said = nvml.with(
            "nvmlDeviceGetViolationStatus",
            format!("{who}, {policy}"),
            (gpu, policy),
            [0_u64; 2],
        );
        set(table, key.1.path(), said.map(|v| int(v[1])));
    }
}

fn pages(nvml: &mut Nvml, who: &str, gpu: nvmlDevice_t, table: &mut toml::Table) {
    for (cause, path) in [(0, "retired.sbe"), (1, "retired.dbe")] {
        // More than a part can retire.
        let mut pages = vec![0_u64; 512];
        let mut times = pages.clone();
        let mut count = 512_u32;
        let said = nvml.call(
            "nvmlDeviceGetRetiredPages",
            format!("{who}, {cause}"),
            |address| {
                // SAFETY: this is its signature, and the buffers outlive the call.
                unsafe {
                    let function: extern "C" fn(nvmlDevice_t, u32, *mut u32, *mut u64) -> u32 =
                        std::mem::transmute(address);
                    function(gpu, cause, &raw mut count, pages.as_mut_ptr())
                }
            },
        );
        let found: Vec<i64> = pages.iter().take(count as usize).map(|p| int(*p)).collect();
        set(table, path, said.map(|()| found));
        count = 512;
        let _ = nvml.call(
            "nvmlDeviceGetRetiredPages_v2",
            format!("{who}, {cause}"),
            |address| {
                // SAFETY: as above.
                unsafe {
                    let function: extern "C" fn(nvmlDevice_t, u32, *mut u32, *mut u64, *mut u64) -> u32 =
                        std::mem::transmute(address);
                    function(gpu, cause, &raw mut count, pages.as_mut_ptr(), times.as_mut_ptr())
                }
            },
        );
    }
}
