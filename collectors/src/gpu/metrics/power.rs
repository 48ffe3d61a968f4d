//! Temperature, power and energy.

use super::row::metrics;
use super::{GPU, amd, counter, gauge};

metrics! {
    ALL_POWER;
    TEMPERATURE "gpu_temperature_celsius" Gauge Celsius Core GPU, "nvmlDeviceGetTemperatureV, nvmlDeviceGetTemperature; gpu_metrics temperature_hotspot, hwmon temp2_input",
        [gauge("DCGM_FI_DEV_GPU_TEMP").same()]
        "GPU temperature in degrees Celsius.";
    MEMORY_TEMPERATURE "gpu_memory_temperature_celsius" Gauge Celsius Core GPU, "NVML_FI_DEV_MEMORY_TEMP; gpu_metrics temperature_mem or temperature_hbm, hwmon temp3_input",
        [gauge("DCGM_FI_DEV_MEMORY_TEMP").same(), amd("gpu_memory_temperature").same()]
        "GPU memory temperature in degrees Celsius.";
    TEMPERATURE_SLOWDOWN "gpu_temperature_slowdown_celsius" Gauge Celsius Core GPU, "nvmlDeviceGetTemperatureThreshold; hwmon temp2_crit",
        [gauge("DCGM_FI_DEV_SLOWDOWN_TEMP").same()]
        "Temperature at which a GPU lowers its clocks (slowdown threshold), in degrees Celsius.";
    TEMPERATURE_SHUTDOWN "gpu_temperature_shutdown_celsius" Gauge Celsius Detail GPU, "nvmlDeviceGetTemperatureThreshold; hwmon temp2_emergency",
        [gauge("DCGM_FI_DEV_SHUTDOWN_TEMP").same()]
        "Temperature at which a GPU shuts down (shutdown threshold), in degrees Celsius.";
    TEMPERATURE_MAX "gpu_temperature_max_celsius" Gauge Celsius Detail GPU, "nvmlDeviceGetTemperatureThreshold",
        [gauge("DCGM_FI_DEV_GPU_MAX_OP_TEMP").same()]
        "Maximum operating temperature of a GPU in degrees Celsius.";
    MEMORY_TEMPERATURE_MAX "gpu_memory_temperature_max_celsius" Gauge Celsius Detail GPU, "nvmlDeviceGetTemperatureThreshold; hwmon temp3_crit",
        [gauge("DCGM_FI_DEV_MEM_MAX_OP_TEMP").same()]
        "Maximum operating temperature of GPU memory in degrees Celsius.";
    TEMPERATURE_MARGIN "gpu_temperature_margin_celsius" Gauge Celsius Detail GPU, "nvmlDeviceGetMarginTemperature",
        [gauge("DCGM_FI_DEV_GPU_TEMP_LIMIT").same()]
        "Temperature margin of a GPU below its maximum operating temperature, in degrees Celsius; slowdown begins at about -2.";
    TEMPERATURE_SLOWDOWN_MARGIN "gpu_temperature_slowdown_margin_celsius" Gauge Celsius Detail GPU, "NVML_FI_DEV_TEMPERATURE_SLOWDOWN_TLIMIT", []
        "Temperature margin at which a GPU lowers its clocks, in degrees Celsius; negative above its maximum operating temperature.";
    FAN_SPEED "gpu_fan_speed_ratio" Gauge Ratio Detail GPU, "nvmlDeviceGetFanSpeed",
        [gauge("DCGM_FI_DEV_FAN_SPEED").percent()]
        "Requested speed of a GPU's fan relative to its maximum.";
    POWER "gpu_power_watts" Gauge Watts Core GPU, "NVML_FI_DEV_POWER_AVERAGE, nvmlDeviceGetPowerUsage; gpu_metrics curr_socket_power or average_socket_power",
        [gauge("DCGM_FI_DEV_POWER_USAGE").same(), amd("gpu_power_usage").same()]
        "Board power draw of a GPU in watts, averaged over one second where supported.";
    POWER_INSTANT "gpu_power_instant_watts" Gauge Watts Detail GPU, "NVML_FI_DEV_POWER_INSTANT",
        [gauge("DCGM_FI_DEV_POWER_USAGE_INSTANT").same()]
        "Instantaneous board power draw of a GPU in watts.";
    MODULE_POWER "gpu_module_power_watts" Gauge Watts Core GPU, "NVML_FI_DEV_POWER_AVERAGE with NVML_POWER_SCOPE_MODULE", []
        "Power draw of the module that a GPU shares with a Grace processor, in watts, averaged over one second; each GPU of a module reports it.";
    POWER_LIMIT "gpu_power_limit_watts" Gauge Watts Core GPU, "NVML_FI_DEV_POWER_CURRENT_LIMIT, nvmlDeviceGetEnforcedPowerLimit; hwmon power1_cap",
        [gauge("DCGM_FI_DEV_ENFORCED_POWER_LIMIT").same()]
        "Enforced power limit of a GPU in watts, the lowest of all limits that were set.";
    POWER_LIMIT_REQUESTED "gpu_power_limit_requested_watts" Gauge Watts Detail GPU, "NVML_FI_DEV_POWER_REQUESTED_LIMIT, nvmlDeviceGetPowerManagementLimit",
        [gauge("DCGM_FI_DEV_POWER_MGMT_LIMIT").same()]
        "Power limit of a GPU requested by the administrator, in watts.";
    POWER_LIMIT_DEFAULT "gpu_power_limit_default_watts" Gauge Watts Detail GPU, "nvmlDeviceGetPowerManagementDefaultLimit; hwmon power1_cap_default",
        [gauge("DCGM_FI_DEV_POWER_MGMT_LIMIT_DEF").same()]
        "Default power limit of a GPU in watts.";
    POWER_LIMIT_MIN "gpu_power_limit_min_watts" Gauge Watts Detail GPU, "nvmlDeviceGetPowerManagementLimitConstraints; hwmon power1_cap_min",
        [gauge("DCGM_FI_DEV_POWER_MGMT_LIMIT_MIN").same()]
        "Minimum settable power limit of a GPU in watts.";
    POWER_LIMIT_MAX "gpu_power_limit_max_watts" Gauge Watts Detail GPU, "nvmlDeviceGetPowerManagementLimitConstraints; hwmon power1_cap_max",
        [gauge("DCGM_FI_DEV_POWER_MGMT_LIMIT_MAX").same()]
        "Maximum settable power limit of a GPU in watts.";
    ENERGY "gpu_energy_joules_total" Counter Joules Core GPU, "NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION (mJ); gpu_metrics energy_accumulator (2^-16 J)",
        [counter("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION").millijoules(), amd("gpu_energy_consumed").microjoules()]
        "Energy consumption of a GPU since the driver was loaded.";
}
