//! The host collector's metrics.

use crate::metric::{Kind, Metric, Tier, Unit};

/// The current boot.
pub static BOOT_INFO: Metric = Metric {
    name: "host_boot_info",
    kind: Kind::Info,
    unit: Unit::None,
    labels: &["boot_id"],
    help: "Boot ID of the running kernel.",
    tier: Tier::Detail,
    source: "/proc/sys/kernel/random/boot_id",
    aliases: &[],
};

/// Boot time as a Unix timestamp.
pub static BOOT_TIME: Metric = Metric {
    name: "host_boot_time_seconds",
    kind: Kind::Gauge,
    unit: Unit::Seconds,
    labels: &[],
    help: "Boot time as a Unix timestamp in seconds, read at most once a minute.",
    tier: Tier::Core,
    source: "/proc/stat, btime",
    aliases: &[],
};

/// Synchronization of the system clock.
pub static CLOCK_SYNCHRONIZED: Metric = Metric {
    name: "host_clock_synchronized",
    kind: Kind::Gauge,
    unit: Unit::None,
    labels: &[],
    help: "Synchronization of the system clock as reported to the kernel: 1 synchronized, 0 not (TIME_ERROR), read at most every 10 seconds.",
    tier: Tier::Core,
    source: "clock_adjtime(2), result",
    aliases: &[],
};

/// Maximum error of the system clock.
pub static CLOCK_MAX_ERROR: Metric = Metric {
    name: "host_clock_max_error_seconds",
    kind: Kind::Gauge,
    unit: Unit::Seconds,
    labels: &[],
    help: "Maximum error of the system clock in seconds: grows by 500 ppm until the next correction, to at most 16.",
    tier: Tier::Core,
    source: "clock_adjtime(2), maxerror",
    aliases: &[],
};

/// Uncorrected errors (UE) of one memory controller, at any location.
pub static EDAC_UNCORRECTED: Metric = Metric {
    name: "host_edac_uncorrected_errors_total",
    kind: Kind::Counter,
    unit: Unit::None,
    labels: &["controller"],
    help: "Uncorrected memory errors (UE) of a memory controller since its EDAC counters were reset, with or without a known DIMM.",
    tier: Tier::Core,
    source: "/sys/devices/system/edac/mc/mc*/ue_count",
    aliases: &[],
};

/// Corrected errors (CE) of one memory controller, at any location.
pub static EDAC_CORRECTED: Metric = Metric {
    name: "host_edac_corrected_errors_total",
    kind: Kind::Counter,
    unit: Unit::None,
    labels: &["controller"],
    help: "Corrected memory errors (CE) of a memory controller since its EDAC counters were reset, with or without a known DIMM.",
    tier: Tier::Core,
    source: "/sys/devices/system/edac/mc/mc*/ce_count",
    aliases: &[],
};

/// Uncorrected errors (UE) that the controller could not attribute to a DIMM.
pub static EDAC_UNATTRIBUTED_UNCORRECTED: Metric = Metric {
    name: "host_edac_unattributed_uncorrected_errors_total",
    kind: Kind::Counter,
    unit: Unit::None,
    labels: &["controller"],
    help: "Uncorrected memory errors (UE) not attributed to a DIMM since the EDAC counters of the memory controller were reset.",
    tier: Tier::Detail,
    source: "/sys/devices/system/edac/mc/mc*/ue_noinfo_count",
    aliases: &[],
};

/// Corrected errors (CE) that the controller could not attribute to a DIMM.
pub static EDAC_UNATTRIBUTED_CORRECTED: Metric = Metric {
    name: "host_edac_unattributed_corrected_errors_total",
    kind: Kind::Counter,
    unit: Unit::None,
    labels: &["controller"],
    help: "Corrected memory errors (CE) not attributed to a DIMM since the EDAC counters of the memory controller were reset.",
    tier: Tier::Detail,
    source: "/sys/devices/system/edac/mc/mc*/ce_noinfo_count",
    aliases: &[],
};

/// Age of the counters of one memory controller.
pub static EDAC_SINCE_RESET: Metric = Metric {
    name: "host_edac_since_reset_seconds",
    kind: Kind::Gauge,
    unit: Unit::Seconds,
    labels: &["controller"],
    help: "Time since the EDAC counters of a memory controller were reset, in seconds.",
    tier: Tier::Detail,
    source: "/sys/devices/system/edac/mc/mc*/seconds_since_reset",
    aliases: &[],
};

/// Memory controller type behind an EDAC name.
pub static EDAC_CONTROLLER_INFO: Metric = Metric {
    name: "host_edac_controller_info",
    kind: Kind::Info,
    unit: Unit::None,
    labels: &["controller", "name"],
    help: "Memory controller type of an EDAC controller, as reported by its driver.",
    tier: Tier::Core,
    source: "/sys/devices/system/edac/mc/mc*/mc_name",
    aliases: &[],
};

/// The type of controllers (`mc_name`) whose memory is a GPU's: amd64_edac registers the HBM of MI200 GPUs. That of MI300A,
/// `F19h_M90h`, is the host's memory too.
pub const EDAC_OF_GPU: &str = "MI200";

/// Uncorrected errors (UE) of one DIMM or rank.
pub static EDAC_DIMM_UNCORRECTED: Metric = Metric {
    name: "host_edac_dimm_uncorrected_errors_total",
    kind: Kind::Counter,
    unit: Unit::None,
    labels: &["controller", "dimm"],
    help: "Uncorrected memory errors (UE) of a DIMM, or of a rank if the controller reports ranks, since the counter reset.",
    tier: Tier::Core,
    source: "/sys/devices/system/edac/mc/mc*/{dimm,rank}*/dimm_ue_count",
    aliases: &[],
};

/// Corrected errors (CE) of one DIMM or rank.
pub static EDAC_DIMM_CORRECTED: Metric = Metric {
    name: "host_edac_dimm_corrected_errors_total",
    kind: Kind::Counter,
    unit: Unit::None,
    labels: &["controller", "dimm"],
    help: "Corrected memory errors (CE) of a DIMM, or of a rank if the controller reports ranks, since the counter reset.",
    tier: Tier::Core,
    source: "/sys/devices/system/edac/mc/mc*/{dimm,rank}*/dimm_ce_count",
    aliases: &[],
};

/// Slot of a DIMM. A separate series, because the site may set the label at run time, which must not reset the counters.
pub static EDAC_DIMM_INFO: Metric = Metric {
    name: "host_edac_dimm_info",
    kind: Kind::Info,
    unit: Unit::None,
    labels: &["controller", "dimm", "dimm_label"],
    help: "Slot label of a DIMM as set by firmware or the site, read at most once a minute.",
    tier: Tier::Detail,
    source: "/sys/devices/system/edac/mc/mc*/{dimm,rank}*/dimm_label",
    aliases: &[],
};

/// Capacity of a DIMM or rank.
pub static EDAC_DIMM_SIZE: Metric = Metric {
    name: "host_edac_dimm_size_bytes",
    kind: Kind::Gauge,
    unit: Unit::Bytes,
    labels: &["controller", "dimm"],
    help: "Capacity of a DIMM or rank in bytes.",
    tier: Tier::Detail,
    source: "/sys/devices/system/edac/mc/mc*/{dimm,rank}*/size (MiB)",
    aliases: &[],
};

/// Number of GPUs on the PCI bus by vendor, excluding virtual functions.
pub static PCI_GPUS: Metric = Metric {
    name: "host_pci_gpus",
    kind: Kind::Gauge,
    unit: Unit::None,
    labels: &["vendor"],
    help: "GPUs on the PCI bus, with or without a bound driver, excluding virtual functions.",
    tier: Tier::Core,
    source: "/sys/bus/pci/devices",
    aliases: &[],
};

/// A GPU on the PCI bus.
pub static PCI_GPU_INFO: Metric = Metric {
    name: "host_pci_gpu_info",
    kind: Kind::Info,
    unit: Unit::None,
    labels: &[
        "pci",
        "vendor",
        "vendor_id",
        "device_id",
        "class",
        "function",
        "driver",
        "numa_node",
    ],
    help: "GPU on the PCI bus with its bound driver (empty: none) and function (physical or virtual).",
    tier: Tier::Core,
    source: "/sys/bus/pci/devices/*/{vendor,device,class,physfn,driver,numa_node}",
    aliases: &[],
};

/// PCI path of a GPU, to be compared with the path of an RDMA port.
pub static PCI_GPU_PATH_INFO: Metric = Metric {
    name: "host_pci_gpu_path_info",
    kind: Kind::Info,
    unit: Unit::None,
    labels: &["pci", "path", "numa_node"],
    help: "PCI path from the root complex to a GPU, as nested in sysfs.",
    tier: Tier::Private,
    source: "realpath of /sys/bus/pci/devices/*",
    aliases: &[],
};

/// Whether a GPU answers a configuration read. The bus returns all ones for a device that does not answer.
pub static PCI_FUNCTION_RESPONDING: Metric = Metric {
    name: "host_pci_function_responding",
    kind: Kind::Gauge,
    unit: Unit::None,
    labels: &["pci"],
    help: "Response of a GPU to a PCI configuration read: 1 valid, 0 all ones (off the bus).",
    tier: Tier::Private,
    source: "/sys/bus/pci/devices/*/config, first four bytes",
    aliases: &[],
};

/// A PCI function whose link is monitored.
pub static PCI_DEVICE_INFO: Metric = Metric {
    name: "host_pci_device_info",
    kind: Kind::Info,
    unit: Unit::None,
    labels: &["pci", "function", "driver", "parent"],
    help: "PCI function whose link is monitored, with its function (gpu, rdma, or switch: the upstream port of one), driver and upstream port (parent).",
    tier: Tier::Detail,
    source: "/sys/bus/pci/devices/*/{class,driver}",
    aliases: &[],
};

/// A physical network function, with or without RDMA.
pub static PCI_NETWORK_INFO: Metric = Metric {
    name: "host_pci_network_info",
    kind: Kind::Info,
    unit: Unit::None,
    labels: &["pci", "driver"],
    help: "Physical network function on the PCI bus with its bound driver (empty: none).",
    tier: Tier::Private,
    source: "/sys/bus/pci/devices/*/{class,driver}",
    aliases: &[],
};

/// Whether an RDMA device is registered on a network function. The directory exists in every network namespace, even if
/// the device itself was moved to another one and is not visible.
pub static PCI_RDMA_REGISTERED: Metric = Metric {
    name: "host_pci_rdma_registered",
    kind: Kind::Gauge,
    unit: Unit::None,
    labels: &["pci"],
    help: "RDMA device registration on a network function, in any network namespace: 1 registered, 0 not registered.",
    tier: Tier::Private,
    source: "/sys/bus/pci/devices/*/infiniband",
    aliases: &[],
};

/// Current speed of a PCIe link per lane.
pub static PCI_LINK_SPEED: Metric = Metric {
    name: "host_pci_link_speed_transfers_per_second",
    kind: Kind::Gauge,
    unit: Unit::TransfersPerSecond,
    labels: &["pci"],
    help: "Current PCIe link speed per lane in transfers per second, read at most every 10 seconds; idle GPUs lower it, and switches are omitted.",
    tier: Tier::Core,
    source: "/sys/bus/pci/devices/*/current_link_speed",
    aliases: &[],
};

/// Maximum speed of a PCIe link: the lower value of the function and its upstream port.
pub static PCI_LINK_SPEED_MAX: Metric = Metric {
    name: "host_pci_link_speed_max_transfers_per_second",
    kind: Kind::Gauge,
    unit: Unit::TransfersPerSecond,
    labels: &["pci"],
    help: "Maximum PCIe link speed per lane supported by both link partners, in transfers per second.",
    tier: Tier::Core,
    source: "/sys/bus/pci/devices/*/max_link_speed, and of the upstream port",
    aliases: &[],
};

/// Current width of a PCIe link.
pub static PCI_LINK_WIDTH: Metric = Metric {
    name: "host_pci_link_width",
    kind: Kind::Gauge,
    unit: Unit::None,
    labels: &["pci"],
    help: "Current PCIe link width in lanes, read at most every 10 seconds.",
    tier: Tier::Core,
    source: "/sys/bus/pci/devices/*/current_link_width",
    aliases: &[],
};

/// Maximum width of a PCIe link: the lower value of the function and its upstream port.
pub static PCI_LINK_WIDTH_MAX: Metric = Metric {
    name: "host_pci_link_width_max",
    kind: Kind::Gauge,
    unit: Unit::None,
    labels: &["pci"],
    help: "Maximum PCIe link width supported by both link partners, in lanes.",
    tier: Tier::Core,
    source: "/sys/bus/pci/devices/*/max_link_width, and of the upstream port",
    aliases: &[],
};

/// The running kernel.
pub static KERNEL_INFO: Metric = Metric {
    name: "host_kernel_info",
    kind: Kind::Info,
    unit: Unit::None,
    labels: &["release"],
    help: "Release of the running kernel.",
    tier: Tier::Core,
    source: "/proc/sys/kernel/osrelease",
    aliases: &[],
};

/// Online CPUs.
pub static CPUS_ONLINE: Metric = Metric {
    name: "host_cpus_online",
    kind: Kind::Gauge,
    unit: Unit::None,
    labels: &[],
    help: "Logical CPUs online.",
    tier: Tier::Core,
    source: "/sys/devices/system/cpu/online",
    aliases: &[],
};

/// Present CPUs.
pub static CPUS_PRESENT: Metric = Metric {
    name: "host_cpus_present",
    kind: Kind::Gauge,
    unit: Unit::None,
    labels: &[],
    help: "Logical CPUs present, online or offline.",
    tier: Tier::Core,
    source: "/sys/devices/system/cpu/present",
    aliases: &[],
};

/// Usable memory.
pub static MEMORY_TOTAL: Metric = Metric {
    name: "host_memory_total_bytes",
    kind: Kind::Gauge,
    unit: Unit::Bytes,
    labels: &[],
    help: "Usable memory in bytes (MemTotal), lower if a DIMM is missing.",
    tier: Tier::Core,
    source: "/proc/meminfo, MemTotal",
    aliases: &[],
};

/// Available memory.
pub static MEMORY_AVAILABLE: Metric = Metric {
    name: "host_memory_available_bytes",
    kind: Kind::Gauge,
    unit: Unit::Bytes,
    labels: &[],
    help: "Memory available to programs without swapping in bytes, as estimated by the kernel (MemAvailable).",
    tier: Tier::Core,
    source: "/proc/meminfo, MemAvailable",
    aliases: &[],
};

/// Memory taken offline.
pub static MEMORY_CORRUPTED: Metric = Metric {
    name: "host_memory_hardware_corrupted_bytes",
    kind: Kind::Gauge,
    unit: Unit::Bytes,
    labels: &[],
    help: "Memory taken offline by the kernel because of uncorrected errors, in bytes (HardwareCorrupted).",
    tier: Tier::Core,
    source: "/proc/meminfo, HardwareCorrupted",
    aliases: &[],
};

/// Processes killed by the OOM killer.
pub static OOM_KILLS: Metric = Metric {
    name: "host_oom_kills_total",
    kind: Kind::Counter,
    unit: Unit::None,
    labels: &[],
    help: "Processes killed by the OOM killer since boot, read at most every 10 seconds.",
    tier: Tier::Core,
    source: "/proc/vmstat, oom_kill",
    aliases: &[],
};

/// The loaded modules in one label: a missing one is a difference of it.
pub static MODULES_INFO: Metric = Metric {
    name: "host_modules_info",
    kind: Kind::Info,
    unit: Unit::None,
    labels: &["modules"],
    help: "Loaded kernel modules (state Live), sorted, with commas between them, read at most once a minute.",
    tier: Tier::Private,
    source: "/proc/modules",
    aliases: &[],
};

/// Number of listed mounts. Absent: the table was not read to its end, so a mount without a series is unknown.
pub static MOUNTS: Metric = Metric {
    name: "host_mounts",
    kind: Kind::Gauge,
    unit: Unit::None,
    labels: &[],
    help: "Mount points with a filesystem, without those of the kernel, of sessions and of containers.",
    tier: Tier::Private,
    source: "/proc/self/mountinfo, /proc/1/mountinfo",
    aliases: &[],
};

/// A mounted filesystem.
pub static MOUNT_INFO: Metric = Metric {
    name: "host_mount_info",
    kind: Kind::Info,
    unit: Unit::None,
    labels: &["mount_point", "fs_type", "root"],
    help: "Mounted filesystem with its mount point, type and mounted folder (root; / without a bind mount), read at most once a minute.",
    tier: Tier::Private,
    source: "/proc/self/mountinfo, /proc/1/mountinfo",
    aliases: &[],
};

/// Every metric of this collector, in the order of the exposition.
pub static METRICS: &[&Metric] = &[
    &BOOT_INFO,
    &BOOT_TIME,
    &CLOCK_SYNCHRONIZED,
    &CLOCK_MAX_ERROR,
    &KERNEL_INFO,
    &CPUS_ONLINE,
    &CPUS_PRESENT,
    &MEMORY_TOTAL,
    &MEMORY_AVAILABLE,
    &MEMORY_CORRUPTED,
    &OOM_KILLS,
    &MODULES_INFO,
    &MOUNTS,
    &MOUNT_INFO,
    &EDAC_UNCORRECTED,
    &EDAC_CORRECTED,
    &EDAC_UNATTRIBUTED_UNCORRECTED,
    &EDAC_UNATTRIBUTED_CORRECTED,
    &EDAC_SINCE_RESET,
    &EDAC_CONTROLLER_INFO,
    &EDAC_DIMM_UNCORRECTED,
    &EDAC_DIMM_CORRECTED,
    &EDAC_DIMM_INFO,
    &EDAC_DIMM_SIZE,
    &PCI_GPUS,
    &PCI_GPU_INFO,
    &PCI_GPU_PATH_INFO,
    &PCI_FUNCTION_RESPONDING,
    &PCI_DEVICE_INFO,
    &PCI_NETWORK_INFO,
    &PCI_RDMA_REGISTERED,
    &PCI_LINK_SPEED,
    &PCI_LINK_SPEED_MAX,
    &PCI_LINK_WIDTH,
    &PCI_LINK_WIDTH_MAX,
];
