//! Every plain value that a GPU of a scenario can have. README.md lists the same keys.

macro_rules! keys {
    ($($name:ident $path:literal $doc:literal;)*) => {
        /// A plain value of a GPU.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub enum Key {$(
            #[doc = $doc]
            $name,
        )*}

        /// All of them, in the order of the enumeration.
        pub const KEYS: &[Key] = &[$(Key::$name),*];

        impl Key {
            /// How a scenario writes it, below `[gpu]`.
            #[must_use]
            pub const fn path(self) -> &'static str {
                match self {$(Self::$name => $path,)*}
            }

            /// Meaning and unit.
            #[must_use]
            pub const fn doc(self) -> &'static str {
                match self {$(Self::$name => $doc,)*}
            }
        }
    };
}

keys! {
    Name "name" "product name (text)";
    Brand "brand" "nvmlBrandType_t";
    Architecture "architecture" "nvmlDeviceArchitecture_t";
    Uuid "uuid" "GPU-... (text)";
    Serial "serial" "board serial number (text)";
    Minor "minor" "N of /dev/nvidiaN";
    ModuleId "module_id" "place on the baseboard";
    BoardId "board_id" "board id";
    BoardPart "board_part" "board part number (text)";
    Vbios "vbios" "VBIOS version (text)";
    Cores "cores" "CUDA cores";
    ComputeCapability "compute_capability" "such as `9.0` (text)";
    Irq "irq" "interrupt number";
    MultiGpuBoard "multi_gpu_board" "0 or 1";
    PciBusId "pci.bus_id" "such as `00000000:1B:00.0` (text)";
    PciDeviceId "pci.device_id" "device in the upper half, vendor in the lower";
    PciSubsystemId "pci.subsystem_id" "device in the upper half, vendor in the lower";
    PcieGen "pcie.gen" "current generation";
    PcieWidth "pcie.width" "current lanes";
    PcieMaxGen "pcie.max_gen" "with this host";
    PcieMaxWidth "pcie.max_width" "with this host";
    PcieGpuMaxGen "pcie.gpu_max_gen" "of the GPU alone";
    PcieSpeed "pcie.speed" "MB/s of the link";
    PcieMaxSpeed "pcie.max_speed" "nvmlPcieLinkMaxSpeed";
    PcieReplay "pcie.replay" "replays since the driver was loaded";
    PcieReplayRollover "pcie.replay_rollover" "replay number rollovers";
    PcieTx "pcie.tx" "KB/s, sampled over 20 ms";
    PcieRx "pcie.rx" "KB/s, sampled over 20 ms";
    NumaNode "numa.node" "NUMA node of the GPU memory";
    NumaCpus "numa.cpus" "mask of 64 CPUs";
    NumaMemory "numa.memory" "mask of 64 memory nodes";
    UtilizationGpu "utilization.gpu" "percent";
    UtilizationMemory "utilization.memory" "percent";
    UtilizationEncoder "utilization.encoder" "percent";
    UtilizationDecoder "utilization.decoder" "percent";
    UtilizationJpeg "utilization.jpeg" "percent";
    UtilizationOfa "utilization.ofa" "percent";
    MemoryTotal "memory.total" "bytes; free is what is left";
    MemoryReserved "memory.reserved" "bytes";
    MemoryUsed "memory.used" "bytes";
    MemoryBusWidth "memory.bus_width" "bits";
    Bar1Total "bar1.total" "bytes";
    Bar1Used "bar1.used" "bytes";
    TemperatureGpu "temperature.gpu" "degrees Celsius";
    TemperatureMemory "temperature.memory" "degrees Celsius";
    TemperatureMargin "temperature.margin" "degrees to the slowdown";
    ThresholdShutdown "threshold.shutdown" "degrees Celsius";
    ThresholdSlowdown "threshold.slowdown" "degrees Celsius";
    ThresholdMemMax "threshold.mem_max" "degrees Celsius";
    ThresholdGpuMax "threshold.gpu_max" "degrees Celsius";
    ThresholdAcousticMin "threshold.acoustic_min" "degrees Celsius";
    ThresholdAcousticCurrent "threshold.acoustic_current" "degrees Celsius";
    ThresholdAcousticMax "threshold.acoustic_max" "degrees Celsius";
    ThresholdGpsCurrent "threshold.gps_current" "degrees Celsius";
    TlimitShutdown "tlimit.shutdown" "margin in degrees Celsius";
    TlimitSlowdown "tlimit.slowdown" "margin in degrees Celsius";
    TlimitMemMax "tlimit.mem_max" "margin in degrees Celsius";
    TlimitGpuMax "tlimit.gpu_max" "margin in degrees Celsius";
    Fans "fans" "number of fans";
    FanSpeed "fan_speed" "percent";
    PowerUsage "power.usage" "mW drawn, 1 s average where the part averages";
    PowerAverage "power.average" "mW";
    PowerInstant "power.instant" "mW";
    PowerModule "power.module" "mW of the module with the processor, 1 s average";
    PowerLimit "power.limit" "mW as requested";
    PowerDefault "power.default" "mW";
    PowerEnforced "power.enforced" "mW";
    PowerMin "power.min" "mW";
    PowerMax "power.max" "mW";
    PowerManaged "power.managed" "0 or 1";
    PowerSource "power.source" "0 mains, 1 battery";
    Energy "energy" "mJ since the driver was loaded";
    ClocksGraphics "clocks.graphics" "MHz";
    ClocksSm "clocks.sm" "MHz";
    ClocksMemory "clocks.memory" "MHz";
    ClocksVideo "clocks.video" "MHz";
    ClocksMaxGraphics "clocks.max.graphics" "MHz";
    ClocksMaxSm "clocks.max.sm" "MHz";
    ClocksMaxMemory "clocks.max.memory" "MHz";
    ClocksMaxVideo "clocks.max.video" "MHz";
    ClocksApplicationGraphics "clocks.application.graphics" "MHz";
    ClocksApplicationSm "clocks.application.sm" "MHz";
    ClocksApplicationMemory "clocks.application.memory" "MHz";
    ClocksApplicationVideo "clocks.application.video" "MHz";
    ClocksDefaultGraphics "clocks.default.graphics" "MHz";
    ClocksDefaultSm "clocks.default.sm" "MHz";
    ClocksDefaultMemory "clocks.default.memory" "MHz";
    ClocksDefaultVideo "clocks.default.video" "MHz";
    ClocksBoostGraphics "clocks.boost.graphics" "MHz";
    ClocksBoostSm "clocks.boost.sm" "MHz";
    ClocksBoostMemory "clocks.boost.memory" "MHz";
    ClocksBoostVideo "clocks.boost.video" "MHz";
    Pstate "pstate" "0 is the fastest";
    Reasons "reasons" "clocks event reasons, bits";
    ReasonsSupported "reasons_supported" "bits";
    ViolationPower "violation.power" "ns";
    ViolationThermal "violation.thermal" "ns";
    ViolationSyncBoost "violation.sync_boost" "ns";
    ViolationBoardLimit "violation.board_limit" "ns";
    ViolationLowUtilization "violation.low_utilization" "ns";
    ViolationReliability "violation.reliability" "ns";
    ViolationAppClocks "violation.app_clocks" "ns";
    ViolationBaseClocks "violation.base_clocks" "ns";
    ReasonTimeSwThermal "reason_time.sw_thermal" "ns";
    ReasonTimeHwThermal "reason_time.hw_thermal" "ns";
    ReasonTimeHwPowerBrake "reason_time.hw_power_brake" "ns";
    EccMode "ecc.mode" "0 or 1 now";
    EccPending "ecc.pending" "0 or 1 after the next reset";
    EccDefault "ecc.default" "0 or 1";
    EccVolatileCorrectedTotal "ecc.volatile.corrected.total" "errors";
    EccVolatileCorrectedL1 "ecc.volatile.corrected.l1" "errors";
    EccVolatileCorrectedL2 "ecc.volatile.corrected.l2" "errors";
    EccVolatileCorrectedDevice "ecc.volatile.corrected.device" "errors";
    EccVolatileCorrectedRegister "ecc.volatile.corrected.register" "errors";
    EccVolatileCorrectedTexture "ecc.volatile.corrected.texture" "errors";
    EccVolatileCorrectedShared "ecc.volatile.corrected.shared" "errors";
    EccVolatileCorrectedCbu "ecc.volatile.corrected.cbu" "errors";
    EccVolatileCorrectedSram "ecc.volatile.corrected.sram" "errors";
    EccVolatileUncorrectedTotal "ecc.volatile.uncorrected.total" "errors";
    EccVolatileUncorrectedL1 "ecc.volatile.uncorrected.l1" "errors";
    EccVolatileUncorrectedL2 "ecc.volatile.uncorrected.l2" "errors";
    EccVolatileUncorrectedDevice "ecc.volatile.uncorrected.device" "errors";
    EccVolatileUncorrectedRegister "ecc.volatile.uncorrected.register" "errors";
    EccVolatileUncorrectedTexture "ecc.volatile.uncorrected.texture" "errors";
    EccVolatileUncorrectedShared "ecc.volatile.uncorrected.shared" "errors";
    EccVolatileUncorrectedCbu "ecc.volatile.uncorrected.cbu" "errors";
    EccVolatileUncorrectedSram "ecc.volatile.uncorrected.sram" "errors";
    EccAggregateCorrectedTotal "ecc.aggregate.corrected.total" "errors";
    EccAggregateCorrectedL1 "ecc.aggregate.corrected.l1" "errors";
    EccAggregateCorrectedL2 "ecc.aggregate.corrected.l2" "errors";
    EccAggregateCorrectedDevice "ecc.aggregate.corrected.device" "errors";
    EccAggregateCorrectedRegister "ecc.aggregate.corrected.register" "errors";
    EccAggregateCorrectedTexture "ecc.aggregate.corrected.texture" "errors";
    EccAggregateCorrectedShared "ecc.aggregate.corrected.shared" "errors";
    EccAggregateCorrectedCbu "ecc.aggregate.corrected.cbu" "errors";
    EccAggregateCorrectedSram "ecc.aggregate.corrected.sram" "errors";
    EccAggregateUncorrectedTotal "ecc.aggregate.uncorrected.total" "errors";
    EccAggregateUncorrectedL1 "ecc.aggregate.uncorrected.l1" "errors";
    EccAggregateUncorrectedL2 "ecc.aggregate.uncorrected.l2" "errors";
    EccAggregateUncorrectedDevice "ecc.aggregate.uncorrected.device" "errors";
    EccAggregateUncorrectedRegister "ecc.aggregate.uncorrected.register" "errors";
    EccAggregateUncorrectedTexture "ecc.aggregate.uncorrected.texture" "errors";
    EccAggregateUncorrectedShared "ecc.aggregate.uncorrected.shared" "errors";
    EccAggregateUncorrectedCbu "ecc.aggregate.uncorrected.cbu" "errors";
    EccAggregateUncorrectedSram "ecc.aggregate.uncorrected.sram" "errors";
    SramAggregateParity "sram.aggregate_parity" "errors";
    SramAggregateSecded "sram.aggregate_secded" "errors";
    SramAggregateCorrected "sram.aggregate_corrected" "errors";
    SramVolatileParity "sram.volatile_parity" "errors";
    SramVolatileSecded "sram.volatile_secded" "errors";
    SramVolatileCorrected "sram.volatile_corrected" "errors";
    SramL2 "sram.l2" "errors";
    SramSm "sram.sm" "errors";
    SramPcie "sram.pcie" "errors";
    SramMcu "sram.mcu" "errors";
    SramOther "sram.other" "errors";
    SramThresholdExceeded "sram.threshold_exceeded" "0 or 1";
    RemapCorrected "remap.corrected" "rows";
    RemapUncorrected "remap.uncorrected" "rows";
    RemapPending "remap.pending" "0 or 1";
    RemapFailure "remap.failure" "0 or 1";
    RemapHistogramMax "remap.histogram.max" "banks";
    RemapHistogramHigh "remap.histogram.high" "banks";
    RemapHistogramPartial "remap.histogram.partial" "banks";
    RemapHistogramLow "remap.histogram.low" "banks";
    RemapHistogramNone "remap.histogram.none" "banks";
    Unrepairable "unrepairable" "0 or 1: memory that cannot be repaired";
    RepairChannel "repair.channel" "0 or 1: pending";
    RepairTpc "repair.tpc" "0 or 1: pending";
    RetiredPending "retired.pending" "0 or 1";
    Persistence "persistence" "0 or 1";
    ComputeMode "compute_mode" "nvmlComputeMode_t";
    MigCurrent "mig.current" "0 or 1";
    MigPending "mig.pending" "0 or 1";
    MigMax "mig.max" "most MIG devices";
    DisplayMode "display_mode" "0 or 1";
    DisplayActive "display_active" "0 or 1";
    Accounting "accounting" "0 or 1";
    AddressingMode "addressing_mode" "nvmlDeviceAddressingModeType_t";
    VirtualizationMode "virtualization_mode" "nvmlGpuVirtualizationMode_t";
    FabricUuid "fabric.uuid" "cluster, 32 hexadecimal digits (text)";
    FabricStatus "fabric.status" "nvmlReturn_t of the registration";
    FabricClique "fabric.clique" "clique id";
    FabricState "fabric.state" "nvmlGpuFabricState_t";
    FabricHealthMask "fabric.health_mask" "bits";
    FabricHealthSummary "fabric.health_summary" "1 healthy, 2 unhealthy, 3 limited; absent: no version 3";
    PlatformIbGuid "platform.ib_guid" "32 hexadecimal digits (text)";
    PlatformChassisSerial "platform.chassis_serial" "chassis serial number (text)";
    PlatformSlot "platform.slot" "number";
    PlatformTray "platform.tray" "number";
    PlatformHost "platform.host" "number";
    PlatformPeer "platform.peer" "number";
    PlatformModule "platform.module" "number";
    C2cEnabled "c2c.enabled" "0 or 1";
    GspVersion "gsp.version" "GSP firmware (text)";
    GspMode "gsp.mode" "0 or 1";
    GspDefault "gsp.default" "0 or 1";
    InforomImage "inforom.image" "version (text)";
    InforomOem "inforom.oem" "version (text)";
    InforomEcc "inforom.ecc" "version (text)";
    InforomPower "inforom.power" "version (text)";
    InforomChecksum "inforom.checksum" "of the configuration";
    InforomValid "inforom.valid" "0 or 1";
    RecoveryAction "recovery_action" "0 none, 1 reset, 2 reboot, 3 drain P2P, 4 drain and reset, 5 by release";
    NvlinkLinks "nvlink.links" "number of links";
    GpmSupported "gpm.supported" "0 or 1";
    GpmStreaming "gpm.streaming" "0 or 1";
    Events "events" "types of events it supports, bits";
}

impl Key {
    /// The key that is written so.
    #[must_use]
    pub fn find(path: &str) -> Option<Self> {
        KEYS.iter().copied().find(|k| k.path() == path)
    }

    /// Whether its value is a text.
    #[must_use]
    pub fn is_text(self) -> bool {
        self.doc().ends_with("(text)")
    }
}
