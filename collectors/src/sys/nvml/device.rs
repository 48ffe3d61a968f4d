//! Queries about one GPU, or one of its instances: a method for each function of the library.

#![allow(unsafe_code, reason = "the library's own functions")]

use nvml_wrapper_sys::bindings as raw;

use super::{Code, Handle, Library, function, one, text, version};

/// Makes a method for each function that returns one number.
macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident $symbol:ident;)*) => {
        impl Library {
            $(
                $(#[$doc])*
                ///
                /// # Errors
                /// The library's return code.
                pub fn $name(&self, device: Handle) -> Result<u32, Code> {
                    let call = function(self.raw.$symbol.as_ref())?;
                    // SAFETY: as declared in nvml.h; the pointer is valid for the call.
                    one(0, |value| unsafe { call(device.0, value) })
                }
            )*
        }
    };
}

numbers! {
    /// The number of its device node: /dev/nvidiaN.
    minor nvmlDeviceGetMinorNumber;
    /// Its architecture, by the library's numbers: 5 Volta, 7 Ampere, 8 Ada, 9 Hopper, 10 Blackwell.
    architecture nvmlDeviceGetArchitecture;
    /// Performance state; 0 is the fastest, 32 unknown.
    performance_state nvmlDeviceGetPerformanceState;
    /// 1: the driver keeps the GPU initialised.
    persistence_mode nvmlDeviceGetPersistenceMode;
    /// The compute mode: which processes may use it.
    compute_mode nvmlDeviceGetComputeMode;
    /// Power drawn, in milliwatts.
    power_usage nvmlDeviceGetPowerUsage;
    /// The limit in force, in milliwatts.
    enforced_power_limit nvmlDeviceGetEnforcedPowerLimit;
    /// The configured limit, in milliwatts.
    power_limit nvmlDeviceGetPowerManagementLimit;
    /// The default limit, in milliwatts.
    default_power_limit nvmlDeviceGetPowerManagementDefaultLimit;
    /// Fan speed, in percent.
    fan_speed nvmlDeviceGetFanSpeed;
    /// Generation of its PCI link.
    pcie_generation nvmlDeviceGetCurrPcieLinkGeneration;
    /// Highest generation of GPU and slot.
    pcie_generation_max nvmlDeviceGetMaxPcieLinkGeneration;
    /// Lanes in use.
    pcie_width nvmlDeviceGetCurrPcieLinkWidth;
    /// Maximum lanes of GPU and slot.
    pcie_width_max nvmlDeviceGetMaxPcieLinkWidth;
    /// Packet replays.
    pcie_replays nvmlDeviceGetPcieReplayCounter;
    /// The id of the GPU instance behind a handle of a MIG device.
    gpu_instance_id nvmlDeviceGetGpuInstanceId;
    /// The id of the compute instance behind a handle of a MIG device.
    compute_instance_id nvmlDeviceGetComputeInstanceId;
    /// Maximum number of MIG devices.
    max_mig_devices nvmlDeviceGetMaxMigDeviceCount;
}

/// Makes a method for each function that returns a percentage and its sampling period, which is not used.
macro_rules! sampled {
    ($($(#[$doc:meta])* $name:ident $symbol:ident;)*) => {
        impl Library {
            $(
                $(#[$doc])*
                ///
                /// # Errors
                /// The library's return code.
                pub fn $name(&self, device: Handle) -> Result<u32, Code> {
                    let call = function(self.raw.$symbol.as_ref())?;
                    let mut period = 0;
                    // SAFETY: as declared in nvml.h; both pointers are valid for the call.
                    one(0, |value| unsafe { call(device.0, value, &raw mut period) })
                }
            )*
        }
    };
}

sampled! {
    /// Utilization of its encoders, in percent.
    encoder_utilization nvmlDeviceGetEncoderUtilization;
    /// Utilization of its decoders, in percent.
    decoder_utilization nvmlDeviceGetDecoderUtilization;
    /// Utilization of its JPEG decoders, in percent.
    jpeg_utilization nvmlDeviceGetJpgUtilization;
    /// Utilization of its optical flow accelerator, in percent.
    ofa_utilization nvmlDeviceGetOfaUtilization;
}

/// Makes a method for each function that returns a text.
macro_rules! texts {
    ($($(#[$doc:meta])* $name:ident $symbol:ident;)*) => {
        impl Library {
            $(
                $(#[$doc])*
                ///
                /// # Errors
                /// The library's return code.
                pub fn $name(&self, device: Handle) -> Result<String, Code> {
                    let call = function(self.raw.$symbol.as_ref())?;
                    // SAFETY: as declared in nvml.h; the library writes at most the length that it is given.
                    text(|buffer, length| unsafe { call(device.0, buffer, length) })
                }
            )*
        }
    };
}

texts! {
    /// The UUID: `GPU-...`, or `MIG-...` for an instance.
    uuid nvmlDeviceGetUUID;
    /// The product name.
    name nvmlDeviceGetName;
    /// The board's serial number.
    serial nvmlDeviceGetSerial;
    /// The board's part number.
    part nvmlDeviceGetBoardPartNumber;
    /// The version of its VBIOS.
    vbios nvmlDeviceGetVbiosVersion;
    /// The version of its InfoROM's image.
    inforom_image nvmlDeviceGetInforomImageVersion;
}

/// The PCI address of a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PciInfo {
    /// Domain, bus and device.
    pub address: (u32, u32, u32),
}

/// Utilization in the driver's last sample, in percent.
#[derive(Clone, Copy, Debug)]
pub struct Utilization {
    /// Kernels.
    pub gpu: u32,
    /// Its memory.
    pub memory: u32,
}

/// Its memory, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// Total.
    pub total: u64,
    /// Reserved by driver and firmware; `None` before driver R510, whose total leaves it out.
    pub reserved: Option<u64>,
    /// Free.
    pub free: u64,
    /// Used by programs.
    pub used: u64,
}

/// The BAR1 window to its memory, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Bar1 {
    /// Total.
    pub total: u64,
    /// Free.
    pub free: u64,
    /// Mapped.
    pub used: u64,
}

/// The number of banks by their remaining spare rows.
#[derive(Clone, Copy, Debug)]
pub struct Remapped {
    /// In the order max, high, partial, low, none.
    pub banks: [u32; 5],
}

/// Pending repairs.
pub type Repairs = raw::nvmlRepairStatus_v1_t;

/// Errors of the SRAM.
pub type Sram = raw::nvmlEccSramErrorStatus_v1_t;

/// The state of the fabric.
#[derive(Clone, Copy, Debug)]
pub struct Fabric {
    /// The cluster.
    pub cluster: [u8; 16],
    /// The result of the registration, as a return code.
    pub status: u32,
    /// The clique within the cluster.
    pub clique: u32,
    /// The progress of the registration.
    pub state: u32,
    /// Health, several bits for each aspect; `None` on drivers that do not report it.
    pub health: Option<u32>,
    /// Health in one number, 0 if the driver reports none.
    pub summary: u8,
}

impl Library {
    /// The PCI address.
    ///
    /// # Errors
    /// The library's return code.
    pub fn pci(&self, device: Handle) -> Result<PciInfo, Code> {
        let call = function(self.raw.nvmlDeviceGetPciInfo_v3.as_ref())?;
        let start = raw::nvmlPciInfo_t {
            busIdLegacy: [0; 16],
            domain: 0,
            bus: 0,
            device: 0,
            pciDeviceId: 0,
            pciSubSystemId: 0,
            busId: [0; 32],
        };
        // SAFETY: as declared in nvml.h; the pointer is valid for the call.
        let info = one(start, |info| unsafe { call(device.0, info) })?;
        Ok(PciInfo {
            address: (info.domain, info.bus, info.device),
        })
    }

    /// Utilization.
    ///
    /// # Errors
    /// The library's return code.
    pub fn utilization(&self, device: Handle) -> Result<Utilization, Code> {
        let call = function(self.raw.nvmlDeviceGetUtilizationRates.as_ref())?;
        let start = raw::nvmlUtilization_t { gpu: 0, memory: 0 };
        // SAFETY: as declared in nvml.h; the pointer is valid for the call.
        let raw::nvmlUtilization_t { gpu, memory } = one(start, |rates| unsafe { call(device.0, rates) })?;
        Ok(Utilization { gpu, memory })
    }

    /// Its memory, or that of an instance.
    ///
    /// # Errors
    /// The library's return code.
    pub fn memory(&self, device: Handle) -> Result<Memory, Code> {
        let Ok(call) = function(self.raw.nvmlDeviceGetMemoryInfo_v2.as_ref()) else {
            return self.memory_before_r510(device);
        };
        let start = raw::nvmlMemory_v2_t {
            version: version::<raw::nvmlMemory_v2_t>(2),
            total: 0,
            reserved: 0,
            free: 0,
            used: 0,
        };
        // SAFETY: as declared in nvml.h; the structure names its version and size.
        let m = match one(start, |memory| unsafe { call(device.0, memory) }) {
            Err(code) if code.is_too_new() => return self.memory_before_r510(device),
            answer => answer?,
        };
        Ok(Memory {
            total: m.total,
            reserved: Some(m.reserved),
            free: m.free,
            used: m.used,
        })
    }

    fn memory_before_r510(&self, device: Handle) -> Result<Memory, Code> {
        let call = function(self.raw.nvmlDeviceGetMemoryInfo.as_ref())?;
        let start = raw::nvmlMemory_t {
            total: 0,
            free: 0,
            used: 0,
        };
        // SAFETY: as declared in nvml.h; the pointer is valid for the call.
        let m = one(start, |memory| unsafe { call(device.0, memory) })?;
        Ok(Memory {
            total: m.total,
            reserved: None,
            free: m.free,
            used: m.used,
        })
    }

    /// The BAR1 window to its memory.
    ///
    /// # Errors
    /// The library's return code.
    pub fn bar1(&self, device: Handle) -> Result<Bar1, Code> {
        let call = function(self.raw.nvmlDeviceGetBAR1MemoryInfo.as_ref())?;
        let start = raw::nvmlBAR1Memory_t {
            bar1Total: 0,
            bar1Free: 0,
            bar1Used: 0,
        };
        // SAFETY: as declared in nvml.h; the pointer is valid for the call.
        let m = one(start, |memory| unsafe { call(device.0, memory) })?;
        Ok(Bar1 {
            total: m.bar1Total,
            free: m.bar1Free,
            used: m.bar1Used,
        })
    }

    /// Temperature of the die, in degrees Celsius, by the function of newer drivers.
    ///
    /// # Errors
    /// The library's return code.
    pub fn temperature_v(&self, device: Handle) -> Result<i32, Code> {
        let call = function(self.raw.nvmlDeviceGetTemperatureV.as_ref())?;
        let start = raw::nvmlTemperature_t {
            version: version::<raw::nvmlTemperature_t>(1),
            sensorType: 0,
            temperature: 0,
        };
        // SAFETY: as declared in nvml.h; the structure names its version and size.
        one(start, |t| unsafe { call(device.0, t) }).map(|t| t.temperature)
    }

    /// As above, by the function of older drivers.
    ///
    /// # Errors
    /// The library's return code.
    pub fn temperature(&self, device: Handle) -> Result<u32, Code> {
        let call = function(self.raw.nvmlDeviceGetTemperature.as_ref())?;
        // SAFETY: as declared in nvml.h; the pointer is valid for the call.
        one(0, |value| unsafe { call(device.0, 0, value) })
    }

    /// A limit in degrees Celsius: 0 shutdown, 1 slowdown, 2 highest of the memory, 3 highest of the GPU.
    ///
    /// # Errors
    /// The library's return code.
    pub fn temperature_threshold(&self, device: Handle, which: u32) -> Result<u32, Code> {
        let call = function(self.raw.nvmlDeviceGetTemperatureThreshold.as_ref())?;
        // SAFETY: as declared in nvml.h; the pointer is valid for the call.
        one(0, |value| unsafe { call(device.0, which, value) })
    }

    /// The margin to the slowdown temperature, in degrees Celsius.
    ///
    /// # Errors
    /// The library's return code.
    pub fn temperature_margin(&self, device: Handle) -> Result<i32, Code> {
        let call = function(self.raw.nvmlDeviceGetMarginTemperature.as_ref())?;
        let start = raw::nvmlMarginTemperature_t {
            version: version::<raw::nvmlMarginTemperature_t>(1),
            marginTemperature: 0,
        };
        // SAFETY: as declared in nvml.h; the structure names its version and size.
        one(start, |t| unsafe { call(device.0, t) }).map(|t| t.marginTemperature)
    }

    /// The current frequency of a clock, in MHz: 1 multiprocessors, 2 memory, 3 video.
    ///
    /// # Errors
    /// The library's return code.
    pub fn clock(&self, device: Handle, which: u32) -> Result<u32, Code> {
        let call = function(self.raw.nvmlDeviceGetClockInfo.as_ref())?;
        // SAFETY: as declared in nvml.h; the pointer is valid for the call.
        one(0, |value| unsafe { call(device.0, which, value) })
    }

    /// The maximum frequency of a clock, in MHz.
    ///
    /// # Errors
    /// The library's return code.
    pub fn clock_max(&self, device: Handle, which: u32) -> Result<u32, Code> {
        let call = function(self.raw.nvmlDeviceGetMaxClockInfo.as_ref())?;
        // SAFETY: as declared in nvml.h; the pointer is valid for the call.
        one(0, |value| unsafe { call(device.0, which, value) })
    }

    /// The reasons that limit its clocks, as bits.
    ///
    /// # Errors
    /// The library's return code.
    pub fn clock_event_reasons(&self, device: Handle) -> Result<u64, Code> {
        let newer = function(self.raw.nvmlDeviceGetCurrentClocksEventReasons.as_ref())
            // SAFETY: as declared in nvml.h; the pointer is valid for the call.
            .and_then(|call| one(0, |value| unsafe { call(device.0, value) }));
        match newer {
            Err(code) if code.is_too_new() => {
                let call = function(self.raw.nvmlDeviceGetCurrentClocksThrottleReasons.as_ref())?;
                // SAFETY: as declared in nvml.h; the pointer is valid for the call.
                one(0, |value| unsafe { call(device.0, value) })
            }
            answer => answer,
        }
    }

    /// Lowest and highest power limit, in milliwatts.
    ///
    /// # Errors
    /// The library's return code.
    pub fn power_limit_range(&self, device: Handle) -> Result<(u32, u32), Code> {
        let call = function(self.raw.nvmlDeviceGetPowerManagementLimitConstraints.as_ref())?;
        let mut highest = 0;
        // SAFETY: as declared in nvml.h; both pointers are valid for the call.
        let lowest = one(0, |value| unsafe { call(device.0, value, &raw mut highest) })?;
        Ok((lowest, highest))
    }

    /// Whether ECC is enabled, now and after the next reset.
    ///
    /// # Errors
    /// The library's return code.
    pub fn ecc_mode(&self, device: Handle) -> Result<(u32, u32), Code> {
        let call = function(self.raw.nvmlDeviceGetEccMode.as_ref())?;
        let mut pending = 0;
        // SAFETY: as declared in nvml.h; both pointers are valid for the call.
        let now = one(0, |value| unsafe { call(device.0, value, &raw mut pending) })?;
        Ok((now, pending))
    }

    /// Whether MIG is enabled, now and after the next reset.
    ///
    /// # Errors
    /// The library's return code.
    pub fn mig_mode(&self, device: Handle) -> Result<(u32, u32), Code> {
        let call = function(self.raw.nvmlDeviceGetMigMode.as_ref())?;
        let mut pending = 0;
        // SAFETY: as declared in nvml.h; both pointers are valid for the call.
        let now = one(0, |value| unsafe { call(device.0, value, &raw mut pending) })?;
        Ok((now, pending))
    }

    /// Whether this version of the library has no function for SRAM errors, as R470 and R525.
    pub fn lacks_sram(&self) -> bool {
        self.raw.nvmlDeviceGetSramEccErrorStatus.is_err()
    }

    /// Pending repairs of a memory channel and of a TPC.
    ///
    /// # Errors
    /// The library's return code.
    pub fn repairs(&self, device: Handle) -> Result<Repairs, Code> {
        let call = function(self.raw.nvmlDeviceGetRepairStatus.as_ref())?;
        let start = Repairs {
            version: version::<Repairs>(1),
            bChannelRepairPending: u32::MAX,
            bTpcRepairPending: u32::MAX,
        };
        // SAFETY: as declared in nvml.h; the structure names its version and size.
        one(start, |status| unsafe { call(device.0, status) })
    }

    /// SRAM errors.
    ///
    /// # Errors
    /// The library's return code.
    pub fn sram(&self, device: Handle) -> Result<Sram, Code> {
        let call = function(self.raw.nvmlDeviceGetSramEccErrorStatus.as_ref())?;
        let start = Sram {
            version: version::<Sram>(1),
            aggregateUncParity: 0,
            aggregateUncSecDed: 0,
            aggregateCor: 0,
            volatileUncParity: 0,
            volatileUncSecDed: 0,
            volatileCor: 0,
            aggregateUncBucketL2: 0,
            aggregateUncBucketSm: 0,
            aggregateUncBucketPcie: 0,
            aggregateUncBucketMcu: 0,
            aggregateUncBucketOther: 0,
            bThresholdExceeded: 0,
        };
        // SAFETY: as declared in nvml.h; the structure names its version and size.
        one(start, |status| unsafe { call(device.0, status) })
    }

    /// Banks by spare rows.
    ///
    /// # Errors
    /// The library's return code.
    pub fn remapped_banks(&self, device: Handle) -> Result<Remapped, Code> {
        let call = function(self.raw.nvmlDeviceGetRowRemapperHistogram.as_ref())?;
        let start = raw::nvmlRowRemapperHistogramValues_t {
            max: 0,
            high: 0,
            partial: 0,
            low: 0,
            none: 0,
        };
        // SAFETY: as declared in nvml.h; the pointer is valid for the call.
        let v = one(start, |values| unsafe { call(device.0, values) })?;
        Ok(Remapped {
            banks: [v.max, v.high, v.partial, v.low, v.none],
        })
    }

    /// The state of the fabric with a summary of its health, from driver R580 on.
    ///
    /// # Errors
    /// The library's return code.
    pub fn fabric_v3(&self, device: Handle) -> Result<Fabric, Code> {
        self.fabric(device, version::<raw::nvmlGpuFabricInfo_v3_t>(3))
    }

    /// The state of the fabric with its health; driver 535.261 does not have the function, 550.163 does.
    ///
    /// # Errors
    /// The library's return code.
    pub fn fabric_v2(&self, device: Handle) -> Result<Fabric, Code> {
        self.fabric(device, version::<raw::nvmlGpuFabricInfo_v2_t>(2))
    }

    fn fabric(&self, device: Handle, version: u32) -> Result<Fabric, Code> {
        let call = function(self.raw.nvmlDeviceGetGpuFabricInfoV.as_ref())?;
        let start = raw::nvmlGpuFabricInfo_v3_t {
            version,
            clusterUuid: [0; 16],
            status: 0,
            cliqueId: 0,
            state: 0,
            healthMask: 0,
            healthSummary: 0,
        };
        // SAFETY: as declared in nvml.h; the structure names its version and size, and is not smaller than that.
        let f = one(start, |info| unsafe { call(device.0, info) })?;
        Ok(Fabric {
            cluster: f.clusterUuid,
            status: f.status,
            clique: f.cliqueId,
            state: u32::from(f.state),
            health: Some(f.healthMask),
            summary: f.healthSummary,
        })
    }

    /// The state of the fabric, as drivers up to R535 report it: without its health.
    ///
    /// # Errors
    /// The library's return code.
    pub fn fabric_v1(&self, device: Handle) -> Result<Fabric, Code> {
        let call = function(self.raw.nvmlDeviceGetGpuFabricInfo.as_ref())?;
        let start = raw::nvmlGpuFabricInfo_t {
            clusterUuid: [0; 16],
            status: 0,
            cliqueId: 0,
            state: 0,
        };
        // SAFETY: as declared in nvml.h; the pointer is valid for the call.
        let f = one(start, |info| unsafe { call(device.0, info) })?;
        Ok(Fabric {
            cluster: f.clusterUuid,
            status: f.status,
            clique: f.cliqueId,
            state: u32::from(f.state),
            health: None,
            summary: 0,
        })
    }

    /// The version of a part of its InfoROM: 0 OEM, 1 ECC, 2 power.
    ///
    /// # Errors
    /// The library's return code.
    pub fn inforom(&self, device: Handle, object: u32) -> Result<String, Code> {
        let call = function(self.raw.nvmlDeviceGetInforomVersion.as_ref())?;
        // SAFETY: as declared in nvml.h; the library writes at most the length that it is given.
        text(|buffer, length| unsafe { call(device.0, object, buffer, length) })
    }

    /// Whether the checksums of its InfoROM are correct.
    ///
    /// # Errors
    /// The library's return code.
    pub fn inforom_valid(&self, device: Handle) -> Result<bool, Code> {
        let call = function(self.raw.nvmlDeviceValidateInforom.as_ref())?;
        // SAFETY: as declared in nvml.h.
        match Code::of(unsafe { call(device.0) }) {
            Ok(()) => Ok(true),
            Err(Code::CORRUPTED_INFOROM) => Ok(false),
            Err(code) => Err(code),
        }
    }

    /// Whether an NVLink is up.
    ///
    /// # Errors
    /// The library's return code.
    pub fn nvlink_state(&self, device: Handle, link: u32) -> Result<u32, Code> {
        let call = function(self.raw.nvmlDeviceGetNvLinkState.as_ref())?;
        // SAFETY: as declared in nvml.h; the pointer is valid for the call.
        one(0, |value| unsafe { call(device.0, link, value) })
    }

    /// The version of an NVLink.
    ///
    /// # Errors
    /// The library's return code.
    pub fn nvlink_version(&self, device: Handle, link: u32) -> Result<u32, Code> {
        let call = function(self.raw.nvmlDeviceGetNvLinkVersion.as_ref())?;
        // SAFETY: as declared in nvml.h; the pointer is valid for the call.
        one(0, |value| unsafe { call(device.0, link, value) })
    }

    /// The device at the other end of an NVLink: 0 GPU, 1 processor, 2 switch.
    ///
    /// # Errors
    /// The library's return code.
    pub fn nvlink_remote_kind(&self, device: Handle, link: u32) -> Result<u32, Code> {
        let call = function(self.raw.nvmlDeviceGetNvLinkRemoteDeviceType.as_ref())?;
        // SAFETY: as declared in nvml.h; the pointer is valid for the call.
        one(0, |value| unsafe { call(device.0, link, value) })
    }

    /// The PCI address at the other end of an NVLink.
    ///
    /// # Errors
    /// The library's return code.
    pub fn nvlink_remote(&self, device: Handle, link: u32) -> Result<PciInfo, Code> {
        let call = function(self.raw.nvmlDeviceGetNvLinkRemotePciInfo_v2.as_ref())?;
        let start = raw::nvmlPciInfo_t {
            busIdLegacy: [0; 16],
            domain: 0,
            bus: 0,
            device: 0,
            pciDeviceId: 0,
            pciSubSystemId: 0,
            busId: [0; 32],
        };
        // SAFETY: as declared in nvml.h; the pointer is valid for the call.
        let info = one(start, |info| unsafe { call(device.0, link, info) })?;
        Ok(PciInfo {
            address: (info.domain, info.bus, info.device),
        })
    }
}
