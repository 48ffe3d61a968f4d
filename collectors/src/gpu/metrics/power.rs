//! Temperature, power and energy.

use super::row::metrics;
use super::{GPU, counter, gauge};

metrics! {
    ALL_POWER;
    TEMPERATURE "gpu_temperature_celsius" Gauge Celsius Core GPU, "nvmlDeviceGetTemperatureV, nvmlDeviceGetTemperature",
        [gauge("DCGM_FI_DEV_GPU_TEMP").same()]
        "Temperature of a GPU's die.";
    MEMORY_TEMPERATURE "gpu_memory_temperature_celsius" Gauge Celsius Core GPU, "NVML_FI_DEV_MEMORY_TEMP",
        [gauge("DCGM_FI_DEV_MEMORY_TEMP").same()]
        "Temperature of a GPU's memory.";
    TEMPERATURE_SLOWDOWN "gpu_temperature_slowdown_celsius" Gauge Celsius Core GPU, "nvmlDeviceGetTemperatureThreshold",
        [gauge("DCGM_FI_DEV_SLOWDOWN_TEMP").same()]
        "Temperature at which a GPU lowers its clocks by itself.";
    TEMPERATURE_SHUTDOWN "gpu_temperature_shutdown_celsius" Gauge Celsius Detail GPU, "nvmlDeviceGetTemperatureThreshold",
        [gauge("DCGM_FI_DEV_SHUTDOWN_TEMP").same()]
        "Temperature at which a GPU switches itself off.";
    TEMPERATURE_MAX "gpu_temperature_max_celsius" Gauge Celsius Detail GPU, "nvmlDeviceGetTemperatureThreshold",
        [gauge("DCGM_FI_DEV_GPU_MAX_OP_TEMP").same()]
        "Highest temperature at which a GPU is meant to work.";
    MEMORY_TEMPERATURE_MAX "gpu_memory_temperature_max_celsius" Gauge Celsius Detail GPU, "nvmlDeviceGetTemperatureThreshold",
        [gauge("DCGM_FI_DEV_MEM_MAX_OP_TEMP").same()]
        "Highest temperature at which a GPU's memory is meant to work.";
    TEMPERATURE_MARGIN "gpu_temperature_margin_celsius" Gauge Celsius Detail GPU, "nvmlDeviceGetMarginTemperature",
        [gauge("DCGM_FI_DEV_GPU_TEMP_LIMIT").same()]
        "How much hotter a GPU may become before it lowers its clocks.";
    FAN_SPEED "gpu_fan_speed_ratio" Gauge Ratio Detail GPU, "nvmlDeviceGetFanSpeed",
        [gauge("DCGM_FI_DEV_FAN_SPEED").percent()]
        "Speed that is asked of a GPU's own fan, of its highest.";
    POWER "gpu_power_watts" Gauge Watts Core GPU, "NVML_FI_DEV_POWER_AVERAGE, nvmlDeviceGetPowerUsage",
        [gauge("DCGM_FI_DEV_POWER_USAGE").same()]
        "Power that a GPU's board draws, averaged over a second where the part can.";
    POWER_INSTANT "gpu_power_instant_watts" Gauge Watts Detail GPU, "NVML_FI_DEV_POWER_INSTANT",
        [gauge("DCGM_FI_DEV_POWER_USAGE_INSTANT").same()]
        "Power that a GPU's board draws in this moment.";
    POWER_LIMIT "gpu_power_limit_watts" Gauge Watts Core GPU, "NVML_FI_DEV_POWER_CURRENT_LIMIT, nvmlDeviceGetEnforcedPowerLimit",
        [gauge("DCGM_FI_DEV_ENFORCED_POWER_LIMIT").same()]
        "Power limit that holds for a GPU, the lowest of all that were set.";
    POWER_LIMIT_REQUESTED "gpu_power_limit_requested_watts" Gauge Watts Detail GPU, "NVML_FI_DEV_POWER_REQUESTED_LIMIT, nvmlDeviceGetPowerManagementLimit",
        [gauge("DCGM_FI_DEV_POWER_MGMT_LIMIT").same()]
        "Power limit that an administrator asked for.";
    POWER_LIMIT_DEFAULT "gpu_power_limit_default_watts" Gauge Watts Detail GPU, "NVML_FI_DEV_POWER_DEFAULT_LIMIT, nvmlDeviceGetPowerManagementDefaultLimit",
        [gauge("DCGM_FI_DEV_POWER_MGMT_LIMIT_DEF").same()]
        "Power limit that a GPU starts with.";
    POWER_LIMIT_MIN "gpu_power_limit_min_watts" Gauge Watts Detail GPU, "NVML_FI_DEV_POWER_MIN_LIMIT, nvmlDeviceGetPowerManagementLimitConstraints",
        [gauge("DCGM_FI_DEV_POWER_MGMT_LIMIT_MIN").same()]
        "Lowest power limit that can be set for a GPU.";
    POWER_LIMIT_MAX "gpu_power_limit_max_watts" Gauge Watts Detail GPU, "NVML_FI_DEV_POWER_MAX_LIMIT, nvmlDeviceGetPowerManagementLimitConstraints",
        [gauge("DCGM_FI_DEV_POWER_MGMT_LIMIT_MAX").same()]
        "Highest power limit that can be set for a GPU.";
    ENERGY "gpu_energy_joules_total" Counter Joules Core GPU, "NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION (mJ)",
        [counter("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION").millijoules()]
        "Energy that a GPU has used since its driver was loaded.";
}
