//! NVMe controllers, in the words of the NVM Express base specification.

use crate::metric::{Kind, Metric, Tier, Unit};

const IDENTITY: &str = "/sys/class/nvme/nvmeN/{model,firmware_rev,serial,transport}";
const STATE_FILE: &str = "/sys/class/nvme/nvmeN/state";
const TEMPERATURES: &str = "SMART log, else hwmon: temp1_input";
const SENSORS: &str = "SMART log, else hwmon: temp2_input to temp9_input";
const LOG: &str = "SMART log (log page 02h)";

/// Declares one static per metric, and `METRICS` with all of them. A row: static, metric name, kind, unit, tier, labels
/// after those of the controller, source, help.
macro_rules! metrics {
    ($($name:ident $metric:literal $kind:ident $unit:ident $tier:ident [$($label:literal)*] $source:ident $help:literal;)*) => {
        $(
            #[doc = $help]
            pub static $name: Metric = Metric {
                name: $metric,
                kind: Kind::$kind,
                unit: Unit::$unit,
                labels: &["device", "pci", $($label,)*],
                help: $help,
                tier: Tier::$tier,
                source: $source,
                aliases: &[],
            };
        )*
        /// Every metric of this collector.
        pub static METRICS: &[&Metric] = &[$(&$name,)* &OMITTED];
    };
}

/// Drives above the limit.
pub static OMITTED: Metric = Metric {
    name: "nvme_drives_omitted",
    kind: Kind::Gauge,
    unit: Unit::None,
    labels: &[],
    help: "Local NVMe drives whose SMART logs are not read, because the node has more than 128.",
    tier: Tier::Core,
    source: "/sys/class/nvme",
    aliases: &[],
};

metrics! {
    INFO "nvme_info" Info None Core ["model" "firmware" "serial" "transport"] IDENTITY
        "NVMe controller with its model, firmware revision, serial number and transport: pcie, or a network's, without a PCI address then.";
    STATE "nvme_state" Gauge None Core ["state"] STATE_FILE
        "State of an NVMe controller, 1 for the current one: new, live, resetting, connecting, deleting, deleting (no IO), dead, unknown.";
    TEMPERATURE "nvme_temperature_celsius" Gauge Celsius Core [] TEMPERATURES
        "Composite temperature of an NVMe drive in degrees Celsius.";
    SENSOR_TEMPERATURE "nvme_sensor_temperature_celsius" Gauge Celsius Detail ["sensor"] SENSORS
        "Temperature of sensors 1 to 8 of an NVMe drive in degrees Celsius; sensors that the drive lacks are omitted.";
    CRITICAL_WARNING "nvme_critical_warning" Gauge None Core [] LOG
        "Critical warnings of an NVMe drive as the sum of bits, 0 if none: 1 spare, 2 temperature, 4 reliability, 8 read-only, 16 volatile memory backup, 32 persistent memory region.";
    WARNING_ACTIVE "nvme_critical_warning_active" Gauge None Detail ["warning"] LOG
        "State of a critical warning of an NVMe drive, 1 while active, else 0: spare, temperature, reliability, read_only, volatile_memory_backup, persistent_memory_region.";
    SPARE "nvme_available_spare_ratio" Gauge Ratio Core [] LOG
        "Remaining spare capacity of an NVMe drive (0-1).";
    SPARE_THRESHOLD "nvme_available_spare_threshold_ratio" Gauge Ratio Detail [] LOG
        "Remaining spare capacity of an NVMe drive below which it warns (0-1).";
    USED "nvme_percentage_used_ratio" Gauge Ratio Core [] LOG
        "Vendor's estimate of the used part of an NVMe drive's life, above 1 after its rated endurance, at most 2.55.";
    READ_BYTES "nvme_read_bytes_total" Counter Bytes Core [] LOG
        "Bytes that the host has read from an NVMe drive over its life, in units of 512,000 bytes; absent if the drive does not report it.";
    WRITTEN_BYTES "nvme_written_bytes_total" Counter Bytes Core [] LOG
        "Bytes that the host has written to an NVMe drive over its life, in units of 512,000 bytes; absent if the drive does not report it.";
    READ_COMMANDS "nvme_host_read_commands_total" Counter None Detail [] LOG
        "Read commands that an NVMe drive has completed over its life.";
    WRITE_COMMANDS "nvme_host_write_commands_total" Counter None Detail [] LOG
        "Write commands that an NVMe drive has completed over its life.";
    BUSY "nvme_controller_busy_seconds_total" Counter Seconds Detail [] LOG
        "Time during which an NVMe drive had commands outstanding over its life, in whole minutes, as seconds.";
    POWER_CYCLES "nvme_power_cycles_total" Counter None Detail [] LOG
        "Power cycles of an NVMe drive.";
    POWER_ON "nvme_power_on_seconds_total" Counter Seconds Detail [] LOG
        "Time during which an NVMe drive was powered on, in whole hours, as seconds.";
    UNSAFE_SHUTDOWNS "nvme_unsafe_shutdowns_total" Counter None Detail [] LOG
        "Losses of power of an NVMe drive without a shutdown notification before.";
    MEDIA_ERRORS "nvme_media_errors_total" Counter None Core [] LOG
        "Media and data integrity errors of an NVMe drive that it could not recover, over its life.";
    ERROR_LOG_ENTRIES "nvme_error_log_entries_total" Counter None Detail [] LOG
        "Entries that an NVMe drive has written to its error information log over its life, also for commands that it does not support.";
    WARNING_TEMPERATURE_TIME "nvme_warning_temperature_seconds_total" Counter Seconds Detail [] LOG
        "Time at or above the warning and below the critical composite temperature of an NVMe drive, in whole minutes, as seconds.";
    CRITICAL_TEMPERATURE_TIME "nvme_critical_temperature_seconds_total" Counter Seconds Detail [] LOG
        "Time at or above the critical composite temperature of an NVMe drive, in whole minutes, as seconds.";
    THERMAL_TRANSITIONS "nvme_thermal_management_transitions_total" Counter None Detail ["level"] LOG
        "Transitions of an NVMe drive to lower power because of its temperature: level 1 with little, level 2 with much effect on performance.";
    THERMAL_TIME "nvme_thermal_management_seconds_total" Counter Seconds Detail ["level"] LOG
        "Time during which an NVMe drive used lower power because of its temperature, by level 1 and 2, in seconds.";
}
