//! Metrics of AMD GPUs only, and the list of every metric of the collector.

use crate::Metric;
use crate::gpu::metrics::row::{self, metrics};
use crate::gpu::metrics::{self as m, GPU, amd};

const LINK: &[&str] = &["gpu", "link"];

metrics! {
    ALL_AMD;
    TABLE_INFO "gpu_metrics_table_info" Info None Core &["gpu", "revision", "state"], "gpu_metrics (header)", []
        "Revision of the driver's table gpu_metrics of an AMD GPU, and its state: read, or why other files are read instead (unknown_revision, wrong_size, truncated, bad_attribute).";
    PARTITION_TABLE_INFO "gpu_partition_table_info" Info None Detail &["gpu", "gpu_instance", "revision", "state"], "xcp/xcp_metrics (header)", []
        "Revision of the driver's table xcp_metrics of a partition, and its state: read, or why not (absent, unreadable, unknown_revision, wrong_size, truncated, bad_attribute); absent where gpu_metrics has the engines of each partition.";
    SENSOR_TEMPERATURE "gpu_sensor_temperature_celsius" Gauge Celsius Detail &["gpu", "sensor"], "gpu_metrics, hwmon temp1_input, temp2_input",
        [
            amd("gpu_edge_temperature").only(&[("sensor", "edge")]).same(),
            amd("gpu_junction_temperature").only(&[("sensor", "junction")]).same(),
            amd("gpu_hbm_temperature").only(&[("sensor", "hbm0")]).fixed(&[("hbm_index", "0")]).same(),
            amd("gpu_hbm_temperature").only(&[("sensor", "hbm1")]).fixed(&[("hbm_index", "1")]).same(),
            amd("gpu_hbm_temperature").only(&[("sensor", "hbm2")]).fixed(&[("hbm_index", "2")]).same(),
            amd("gpu_hbm_temperature").only(&[("sensor", "hbm3")]).fixed(&[("hbm_index", "3")]).same(),
            amd("gpu_hbm_temperature").only(&[("sensor", "hbm4")]).fixed(&[("hbm_index", "4")]).same(),
            amd("gpu_hbm_temperature").only(&[("sensor", "hbm5")]).fixed(&[("hbm_index", "5")]).same(),
            amd("gpu_hbm_temperature").only(&[("sensor", "hbm6")]).fixed(&[("hbm_index", "6")]).same(),
            amd("gpu_hbm_temperature").only(&[("sensor", "hbm7")]).fixed(&[("hbm_index", "7")]).same(),
            amd("gpu_hbm_temperature").only(&[("sensor", "hbm8")]).fixed(&[("hbm_index", "8")]).same(),
            amd("gpu_hbm_temperature").only(&[("sensor", "hbm9")]).fixed(&[("hbm_index", "9")]).same(),
            amd("gpu_hbm_temperature").only(&[("sensor", "hbm10")]).fixed(&[("hbm_index", "10")]).same(),
            amd("gpu_hbm_temperature").only(&[("sensor", "hbm11")]).fixed(&[("hbm_index", "11")]).same(),
        ]
        "Temperature at a sensor of an AMD GPU in degrees Celsius: edge, junction (hot spot), regulator, hbm0 to hbm11, soc.";
    SOCKET_POWER "gpu_socket_power_watts" Gauge Watts Debug &["gpu", "kind"],
        "gpu_metrics curr_socket_power or average_socket_power, hwmon power1_input or power1_average",
        [
            amd("gpu_package_power").only(&[("kind", "current")]).same(),
            amd("gpu_average_package_power").only(&[("kind", "average")]).same(),
        ]
        "Power of an AMD GPU's socket in watts, current or average as the GPU reports it, for the page of AMD's exporter.";
    XCC_CLOCK "gpu_xcc_clock_hertz" Gauge Hertz Detail &["gpu", "xcc"], "gpu_metrics current_gfxclk (MHz)", []
        "Current clock frequency of a compute die (XCC) of an AMD GPU.";
    XCC_UTILIZATION "gpu_xcc_utilization_ratio" Gauge Ratio Detail &["gpu", "gpu_instance", "xcc"], "gpu_metrics gfx_busy_inst, xcp_metrics gfx_busy_inst",
        [amd("gpu_gfx_busy_instantaneous").labels(&[("xcc_index", "xcc")]).percent()]
        "Utilization of a compute die (XCC) of an AMD GPU, numbered within its partition.";
    VIDEO_UTILIZATION "gpu_video_engine_utilization_ratio" Gauge Ratio Detail &["gpu", "gpu_instance", "engine"], "gpu_metrics vcn_busy, vcn_activity, xcp_metrics vcn_busy",
        [amd("gpu_vcn_busy_instantaneous").labels(&[("xcc_index", "engine")]).percent()]
        "Utilization of a video engine (VCN) of an AMD GPU, numbered within its partition.";
    XGMI_LINKS "gpu_xgmi_links" Gauge None Core GPU, "gpu_metrics xgmi_link_status", []
        "XGMI links of an AMD GPU that are in use by configuration.";
    XGMI_LINKS_UP "gpu_xgmi_links_up" Gauge None Core GPU, "gpu_metrics xgmi_link_status", []
        "XGMI links of an AMD GPU that are active.";
    XGMI_LINK_UP "gpu_xgmi_link_up" Gauge None Detail LINK, "gpu_metrics xgmi_link_status", []
        "State of an XGMI link of an AMD GPU: 1 active, 0 inactive.";
    XGMI_READ "gpu_xgmi_read_bytes_total" Counter Bytes Core GPU, "gpu_metrics xgmi_read_data_acc (KB)", []
        "Bytes read by an AMD GPU over all XGMI links, in steps of 1000.";
    XGMI_WRITTEN "gpu_xgmi_write_bytes_total" Counter Bytes Core GPU, "gpu_metrics xgmi_write_data_acc (KB)", []
        "Bytes written by an AMD GPU over all XGMI links, in steps of 1000.";
    XGMI_LINK_READ "gpu_xgmi_link_read_bytes_total" Counter Bytes Detail LINK, "gpu_metrics xgmi_read_data_acc (KB)",
        [amd("gpu_xgmi_link_rx").labels(&[("link_index", "link")]).kilobytes()]
        "Bytes read by an AMD GPU over one XGMI link, in steps of 1000.";
    XGMI_LINK_WRITTEN "gpu_xgmi_link_write_bytes_total" Counter Bytes Detail LINK, "gpu_metrics xgmi_write_data_acc (KB)",
        [amd("gpu_xgmi_link_tx").labels(&[("link_index", "link")]).kilobytes()]
        "Bytes written by an AMD GPU over one XGMI link, in steps of 1000.";
    PCIE_SPEED "gpu_pcie_link_speed_transfers_per_second" Gauge TransfersPerSecond Detail GPU, "gpu_metrics pcie_link_speed (0.1 GT/s), current_link_speed",
        [amd("pcie_speed").gigatransfers()]
        "Current PCIe link speed of an AMD GPU per lane, in transfers per second.";
    PCIE_SPEED_MAX "gpu_pcie_link_speed_max_transfers_per_second" Gauge TransfersPerSecond Detail GPU, "max_link_speed",
        [amd("pcie_max_speed").gigatransfers()]
        "Maximum PCIe link speed of an AMD GPU per lane, in transfers per second.";
    RESIDENCY_TICKS "gpu_residency_ticks_total" Counter None Debug &["gpu", "counter"], "gpu_metrics accumulation_counter, *_residency_acc",
        [
            amd("gpu_violation_current_accumulated_counter").only(&[("counter", "all")]).same(),
            amd("gpu_violation_processor_hot_residency_accumulated").only(&[("counter", "hw_power_brake")]).same(),
            amd("gpu_violation_ppt_residency_accumulated").only(&[("counter", "sw_power_cap")]).same(),
            amd("gpu_violation_socket_thermal_residency_accumulated").only(&[("counter", "hw_thermal")]).same(),
            amd("gpu_violation_vr_thermal_residency_accumulated").only(&[("counter", "regulator_thermal")]).same(),
            amd("gpu_violation_hbm_thermal_residency_accumulated").only(&[("counter", "memory_thermal")]).same(),
        ]
        "Ticks of an AMD GPU's firmware: all, and those in which a clocks event (throttle) reason reduced the clocks, for the page of AMD's exporter.";
    RESIDENCY_RATIO "gpu_residency_ratio" Gauge Ratio Debug &["gpu", "reason"], "gpu_metrics *_residency_acc, difference of two readings",
        [
            amd("gpu_violation_processor_hot_residency_percentage").only(&[("reason", "hw_power_brake")]).percent(),
            amd("gpu_violation_ppt_residency_percentage").only(&[("reason", "sw_power_cap")]).percent(),
            amd("gpu_violation_socket_thermal_residency_percentage").only(&[("reason", "hw_thermal")]).percent(),
            amd("gpu_violation_vr_thermal_residency_percentage").only(&[("reason", "regulator_thermal")]).percent(),
            amd("gpu_violation_hbm_thermal_residency_percentage").only(&[("reason", "memory_thermal")]).percent(),
        ]
        "Share of the ticks between two readings in which a clocks event (throttle) reason reduced the clocks of an AMD GPU, for the page of AMD's exporter.";
    PARTITION_INFO "gpu_partition_info" Info None Core &["gpu", "compute", "memory"], "current_compute_partition, current_memory_partition", []
        "Partition modes of an AMD GPU: SPX, DPX, TPX, QPX or CPX for compute, NPS1 to NPS8 for memory.";
    GTT_TOTAL "gpu_gtt_total_bytes" Gauge Bytes Detail GPU, "mem_info_gtt_total",
        [amd("gpu_total_gtt").mebibytes()]
        "Host memory that an AMD GPU can map (GTT).";
    GTT_USED "gpu_gtt_used_bytes" Gauge Bytes Detail GPU, "mem_info_gtt_used",
        [amd("gpu_used_gtt").mebibytes()]
        "Host memory that an AMD GPU has mapped (GTT).";
    GTT_FREE "gpu_gtt_free_bytes" Gauge Bytes Detail GPU, "mem_info_gtt_{total,used}",
        [amd("gpu_free_gtt").mebibytes()]
        "Host memory that an AMD GPU can still map (GTT).";
    BAD_PAGES "gpu_bad_pages" Gauge None Core &["gpu", "state"], "ras/gpu_vram_bad_pages", []
        "Bad pages of an AMD GPU's memory, read every 5 min: retired, pending, or failed to be reserved.";
    RAS_EVENTS "gpu_ras_events_total" Counter None Core &["gpu", "event"], "ras/event_state", []
        "RAS events since the driver was loaded, of an AMD GPU or of all GPUs of its XGMI hive: fatal_error, poison_creation, poison_consumption.";
    FIRMWARE_INFO "gpu_firmware_info" Info None Detail &["gpu", "block", "version"], "fw_version/*_fw_version", []
        "Firmware version of a block of an AMD GPU.";
}

/// Those of the metrics of every maker that the driver has.
const SHARED: &[&Metric] = &[
    &m::UP,
    &m::UNAVAILABLE_INFO,
    &m::INFO,
    &m::INSTANCE_INFO,
    &m::AMD_INFO,
    &m::PROCESSES,
    &m::PROCESSES_SEEN,
    &m::PROCESS_MEMORY,
    &m::PROCESS_OWNED,
    &m::PROCESS_PLACE,
    &m::PROCESS_PROGRAM,
    &m::UTILIZATION,
    &m::MEMORY_UTILIZATION,
    &m::JPEG_UTILIZATION,
    &m::MEMORY_TOTAL,
    &m::MEMORY_USED,
    &m::MEMORY_FREE,
    &m::BAR1_TOTAL,
    &m::BAR1_USED,
    &m::BAR1_FREE,
    &m::TEMPERATURE,
    &m::MEMORY_TEMPERATURE,
    &m::TEMPERATURE_SLOWDOWN,
    &m::TEMPERATURE_SHUTDOWN,
    &m::MEMORY_TEMPERATURE_MAX,
    &m::POWER,
    &m::POWER_LIMIT,
    &m::POWER_LIMIT_DEFAULT,
    &m::POWER_LIMIT_MIN,
    &m::POWER_LIMIT_MAX,
    &m::ENERGY,
    &m::CLOCK_SPEED,
    &m::CLOCK_EVENT,
    &m::CLOCK_EVENT_SECONDS,
    &m::ECC_MODE,
    &m::ECC_ERRORS,
    &m::ECC_LOCATION_ERRORS,
    &m::PCIE_GENERATION,
    &m::PCIE_GENERATION_MAX,
    &m::PCIE_WIDTH,
    &m::PCIE_WIDTH_MAX,
    &m::PCIE_REPLAYS,
    &m::PCIE_ERRORS,
];

const ALL: &[&[&Metric]] = &[SHARED, ALL_AMD];

/// Every metric of this collector.
pub static METRICS: [&Metric; row::count(&[ALL])] = row::join(&[ALL]);
