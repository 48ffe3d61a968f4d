//! Fields of nvmlDeviceGetFieldValues that functions of their own give too.

use super::keys::Key;

/// Fields that say the same as a function of their own.
pub const SAME: &[(&str, Key)] = &[
    ("ECC_CURRENT", Key::EccMode),
    ("ECC_PENDING", Key::EccPending),
    ("RETIRED_PENDING", Key::RetiredPending),
    ("PERF_POLICY_POWER", Key::ViolationPower),
    ("PERF_POLICY_THERMAL", Key::ViolationThermal),
    ("PERF_POLICY_SYNC_BOOST", Key::ViolationSyncBoost),
    ("PERF_POLICY_BOARD_LIMIT", Key::ViolationBoardLimit),
    ("PERF_POLICY_LOW_UTILIZATION", Key::ViolationLowUtilization),
    ("PERF_POLICY_RELIABILITY", Key::ViolationReliability),
    ("PERF_POLICY_TOTAL_APP_CLOCKS", Key::ViolationAppClocks),
    ("PERF_POLICY_TOTAL_BASE_CLOCKS", Key::ViolationBaseClocks),
    ("MEMORY_TEMP", Key::TemperatureMemory),
    ("TOTAL_ENERGY_CONSUMPTION", Key::Energy),
    ("PCIE_REPLAY_COUNTER", Key::PcieReplay),
    ("PCIE_REPLAY_ROLLOVER_COUNTER", Key::PcieReplayRollover),
    ("REMAPPED_COR", Key::RemapCorrected),
    ("REMAPPED_UNC", Key::RemapUncorrected),
    ("REMAPPED_PENDING", Key::RemapPending),
    ("REMAPPED_FAILURE", Key::RemapFailure),
    ("POWER_AVERAGE", Key::PowerAverage),
    ("POWER_INSTANT", Key::PowerInstant),
    ("POWER_MIN_LIMIT", Key::PowerMin),
    ("POWER_MAX_LIMIT", Key::PowerMax),
    ("POWER_DEFAULT_LIMIT", Key::PowerDefault),
    ("POWER_CURRENT_LIMIT", Key::PowerEnforced),
    ("POWER_REQUESTED_LIMIT", Key::PowerLimit),
    ("TEMPERATURE_SHUTDOWN_TLIMIT", Key::TlimitShutdown),
    ("TEMPERATURE_SLOWDOWN_TLIMIT", Key::TlimitSlowdown),
    ("TEMPERATURE_MEM_MAX_TLIMIT", Key::TlimitMemMax),
    ("TEMPERATURE_GPU_MAX_TLIMIT", Key::TlimitGpuMax),
    ("GET_GPU_RECOVERY_ACTION", Key::RecoveryAction),
    ("CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN", Key::ReasonTimeSwThermal),
    ("CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN", Key::ReasonTimeHwThermal),
    (
        "CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN",
        Key::ReasonTimeHwPowerBrake,
    ),
];
