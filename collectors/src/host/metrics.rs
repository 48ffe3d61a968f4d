//! The host collector's metrics.

use crate::metric::{Kind, Metric, Tier, Unit};

/// Which boot this is.
pub static BOOT_INFO: Metric = Metric {
    name: "host_boot_info",
    kind: Kind::Info,
    unit: Unit::None,
    labels: &["boot_id"],
    help: "The kernel's identifier of the current boot.",
    tier: Tier::Detail,
    source: "/proc/sys/kernel/random/boot_id",
    aliases: &[],
};

/// When the kernel was started, in seconds since the epoch.
pub static BOOT_TIME: Metric = Metric {
    name: "host_boot_time_seconds",
    kind: Kind::Gauge,
    unit: Unit::Seconds,
    labels: &[],
    help: "When the kernel was started, in Unix time, read at most once a minute.",
    tier: Tier::Core,
    source: "/proc/stat, btime",
    aliases: &[],
};

/// Errors that ECC could not correct, of one memory controller, wherever they were.
pub static EDAC_UNCORRECTED: Metric = Metric {
    name: "host_edac_uncorrected_errors_total",
    kind: Kind::Counter,
    unit: Unit::None,
    labels: &["controller"],
    help: "Memory errors of a memory controller that ECC could not correct, attributed to a DIMM or not.",
    tier: Tier::Core,
    source: "/sys/devices/system/edac/mc/mc*/ue_count",
    aliases: &[],
};

/// Errors that ECC corrected, of one memory controller, wherever they were.
pub static EDAC_CORRECTED: Metric = Metric {
    name: "host_edac_corrected_errors_total",
    kind: Kind::Counter,
    unit: Unit::None,
    labels: &["controller"],
    help: "Memory errors of a memory controller that ECC corrected, attributed to a DIMM or not.",
    tier: Tier::Core,
    source: "/sys/devices/system/edac/mc/mc*/ce_count",
    aliases: &[],
};

/// Errors that ECC could not correct and that the controller could not place.
pub static EDAC_UNATTRIBUTED_UNCORRECTED: Metric = Metric {
    name: "host_edac_unattributed_uncorrected_errors_total",
    kind: Kind::Counter,
    unit: Unit::None,
    labels: &["controller"],
    help: "Uncorrected memory errors whose DIMM the memory controller could not name.",
    tier: Tier::Detail,
    source: "/sys/devices/system/edac/mc/mc*/ue_noinfo_count",
    aliases: &[],
};

/// Errors that ECC corrected and that the controller could not place.
pub static EDAC_UNATTRIBUTED_CORRECTED: Metric = Metric {
    name: "host_edac_unattributed_corrected_errors_total",
    kind: Kind::Counter,
    unit: Unit::None,
    labels: &["controller"],
    help: "Corrected memory errors whose DIMM the memory controller could not name.",
    tier: Tier::Detail,
    source: "/sys/devices/system/edac/mc/mc*/ce_noinfo_count",
    aliases: &[],
};

/// How long the counters of one memory controller have counted, in seconds.
pub static EDAC_SINCE_RESET: Metric = Metric {
    name: "host_edac_since_reset_seconds",
    kind: Kind::Gauge,
    unit: Unit::Seconds,
    labels: &["controller"],
    help: "Time since the error counters of a memory controller began to count from zero.",
    tier: Tier::Detail,
    source: "/sys/devices/system/edac/mc/mc*/seconds_since_reset",
    aliases: &[],
};

/// Which memory controller an EDAC name stands for.
pub static EDAC_CONTROLLER_INFO: Metric = Metric {
    name: "host_edac_controller_info",
    kind: Kind::Info,
    unit: Unit::None,
    labels: &["controller", "name"],
    help: "The memory controller behind an EDAC name, as its driver calls it.",
    tier: Tier::Detail,
    source: "/sys/devices/system/edac/mc/mc*/mc_name",
    aliases: &[],
};

/// Errors that ECC could not correct, of one DIMM or rank.
pub static EDAC_DIMM_UNCORRECTED: Metric = Metric {
    name: "host_edac_dimm_uncorrected_errors_total",
    kind: Kind::Counter,
    unit: Unit::None,
    labels: &["controller", "dimm"],
    help: "Memory errors of a DIMM, or of a rank where the controller tells ranks apart, that ECC could not correct.",
    tier: Tier::Core,
    source: "/sys/devices/system/edac/mc/mc*/{dimm,rank}*/dimm_ue_count",
    aliases: &[],
};

/// Errors that ECC corrected, of one DIMM or rank.
pub static EDAC_DIMM_CORRECTED: Metric = Metric {
    name: "host_edac_dimm_corrected_errors_total",
    kind: Kind::Counter,
    unit: Unit::None,
    labels: &["controller", "dimm"],
    help: "Memory errors of a DIMM, or of a rank where the controller tells ranks apart, that ECC corrected.",
    tier: Tier::Core,
    source: "/sys/devices/system/edac/mc/mc*/{dimm,rank}*/dimm_ce_count",
    aliases: &[],
};

/// Where a DIMM sits. A label of its own series: the site may set it at run time, which must not restart the counters.
pub static EDAC_DIMM_INFO: Metric = Metric {
    name: "host_edac_dimm_info",
    kind: Kind::Info,
    unit: Unit::None,
    labels: &["controller", "dimm", "dimm_label"],
    help: "Where a DIMM sits, as firmware or the site named the slot, read at most once a minute.",
    tier: Tier::Detail,
    source: "/sys/devices/system/edac/mc/mc*/{dimm,rank}*/dimm_label",
    aliases: &[],
};

/// The capacity of a DIMM or rank, in bytes.
pub static EDAC_DIMM_SIZE: Metric = Metric {
    name: "host_edac_dimm_size_bytes",
    kind: Kind::Gauge,
    unit: Unit::Bytes,
    labels: &["controller", "dimm"],
    help: "Capacity of a DIMM or rank.",
    tier: Tier::Detail,
    source: "/sys/devices/system/edac/mc/mc*/{dimm,rank}*/size (MiB)",
    aliases: &[],
};

/// How many GPUs the PCI bus shows, virtual functions left out, by vendor.
pub static PCI_GPUS: Metric = Metric {
    name: "host_pci_gpus",
    kind: Kind::Gauge,
    unit: Unit::None,
    labels: &["vendor"],
    help: "GPUs that the PCI bus shows, whether a driver is bound or not, without virtual functions.",
    tier: Tier::Core,
    source: "/sys/bus/pci/devices",
    aliases: &[],
};

/// A GPU as the PCI bus shows it.
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
    help: "A GPU on the PCI bus with its bound driver (empty: none) and whether the function is physical or virtual.",
    tier: Tier::Core,
    source: "/sys/bus/pci/devices/*/{vendor,device,class,physfn,driver,numa_node}",
    aliases: &[],
};

/// Where a GPU sits in the tree of PCI, for what compares it with an RDMA port's.
pub static PCI_GPU_PATH_INFO: Metric = Metric {
    name: "host_pci_gpu_path_info",
    kind: Kind::Info,
    unit: Unit::None,
    labels: &["pci", "path", "numa_node"],
    help: "The functions of PCI from the root to a GPU, as sysfs nests them.",
    tier: Tier::Private,
    source: "realpath of /sys/bus/pci/devices/*",
    aliases: &[],
};

/// Whether a GPU answers a configuration read: 1, or 0 for all ones, which is what a bus without an answer gives.
pub static PCI_FUNCTION_RESPONDING: Metric = Metric {
    name: "host_pci_function_responding",
    kind: Kind::Gauge,
    unit: Unit::None,
    labels: &["pci"],
    help: "Whether a GPU answers a read of its PCI configuration space, 0 being off the bus.",
    tier: Tier::Private,
    source: "/sys/bus/pci/devices/*/config, first four bytes",
    aliases: &[],
};

/// A PCI function that is watched for its link, with what it is.
pub static PCI_DEVICE_INFO: Metric = Metric {
    name: "host_pci_device_info",
    kind: Kind::Info,
    unit: Unit::None,
    labels: &["pci", "function", "driver", "parent"],
    help: "A PCI function whose link is watched: what it serves (gpu, rdma), its driver and the port above it.",
    tier: Tier::Detail,
    source: "/sys/bus/pci/devices/*/{class,driver}",
    aliases: &[],
};

/// A physical network function, whether it serves RDMA or not.
pub static PCI_NETWORK_INFO: Metric = Metric {
    name: "host_pci_network_info",
    kind: Kind::Info,
    unit: Unit::None,
    labels: &["pci", "driver"],
    help: "A physical network function on the PCI bus with its bound driver (empty: none).",
    tier: Tier::Private,
    source: "/sys/bus/pci/devices/*/{class,driver}",
    aliases: &[],
};

/// Whether an RDMA device is registered on a network function: 1 or 0. The folder is there whatever network namespace
/// the device was moved to, where only the device itself is out of sight.
pub static PCI_RDMA_REGISTERED: Metric = Metric {
    name: "host_pci_rdma_registered",
    kind: Kind::Gauge,
    unit: Unit::None,
    labels: &["pci"],
    help: "Whether an RDMA device is registered on a network function, in any network namespace.",
    tier: Tier::Private,
    source: "/sys/bus/pci/devices/*/infiniband",
    aliases: &[],
};

/// The speed at which a PCI link runs, in transfers per second and lane.
pub static PCI_LINK_SPEED: Metric = Metric {
    name: "host_pci_link_speed_transfers_per_second",
    kind: Kind::Gauge,
    unit: Unit::TransfersPerSecond,
    labels: &["pci"],
    help: "Speed of a PCI link per lane, which GPUs lower while idle, read at most every ten seconds.",
    tier: Tier::Core,
    source: "/sys/bus/pci/devices/*/current_link_speed",
    aliases: &[],
};

/// The speed at which a PCI link could run: the lower of the function and the port above it.
pub static PCI_LINK_SPEED_MAX: Metric = Metric {
    name: "host_pci_link_speed_max_transfers_per_second",
    kind: Kind::Gauge,
    unit: Unit::TransfersPerSecond,
    labels: &["pci"],
    help: "Highest speed per lane that both ends of a PCI link offer.",
    tier: Tier::Core,
    source: "/sys/bus/pci/devices/*/max_link_speed, and of the port above",
    aliases: &[],
};

/// How many lanes a PCI link uses.
pub static PCI_LINK_WIDTH: Metric = Metric {
    name: "host_pci_link_width",
    kind: Kind::Gauge,
    unit: Unit::None,
    labels: &["pci"],
    help: "Lanes that a PCI link uses, read at most every ten seconds.",
    tier: Tier::Core,
    source: "/sys/bus/pci/devices/*/current_link_width",
    aliases: &[],
};

/// How many lanes a PCI link could use: the lower of the function and the port above it.
pub static PCI_LINK_WIDTH_MAX: Metric = Metric {
    name: "host_pci_link_width_max",
    kind: Kind::Gauge,
    unit: Unit::None,
    labels: &["pci"],
    help: "Lanes that both ends of a PCI link offer.",
    tier: Tier::Core,
    source: "/sys/bus/pci/devices/*/max_link_width, and of the port above",
    aliases: &[],
};

/// The running kernel.
pub static KERNEL_INFO: Metric = Metric {
    name: "host_kernel_info",
    kind: Kind::Info,
    unit: Unit::None,
    labels: &["release"],
    help: "The running kernel's release.",
    tier: Tier::Core,
    source: "/proc/sys/kernel/osrelease",
    aliases: &[],
};

/// Processors in use.
pub static CPUS_ONLINE: Metric = Metric {
    name: "host_cpus_online",
    kind: Kind::Gauge,
    unit: Unit::None,
    labels: &[],
    help: "Logical processors that the kernel runs on.",
    tier: Tier::Core,
    source: "/sys/devices/system/cpu/online",
    aliases: &[],
};

/// Processors in the machine.
pub static CPUS_PRESENT: Metric = Metric {
    name: "host_cpus_present",
    kind: Kind::Gauge,
    unit: Unit::None,
    labels: &[],
    help: "Logical processors that are in the machine, online or not.",
    tier: Tier::Core,
    source: "/sys/devices/system/cpu/present",
    aliases: &[],
};

/// Memory that the kernel has.
pub static MEMORY_TOTAL: Metric = Metric {
    name: "host_memory_total_bytes",
    kind: Kind::Gauge,
    unit: Unit::Bytes,
    labels: &[],
    help: "Memory that the kernel manages, which is less where a DIMM is missing.",
    tier: Tier::Core,
    source: "/proc/meminfo, MemTotal",
    aliases: &[],
};

/// Memory that can be had.
pub static MEMORY_AVAILABLE: Metric = Metric {
    name: "host_memory_available_bytes",
    kind: Kind::Gauge,
    unit: Unit::Bytes,
    labels: &[],
    help: "Memory that programs can get without swapping, as the kernel estimates it.",
    tier: Tier::Core,
    source: "/proc/meminfo, MemAvailable",
    aliases: &[],
};

/// Memory that is out of use.
pub static MEMORY_CORRUPTED: Metric = Metric {
    name: "host_memory_hardware_corrupted_bytes",
    kind: Kind::Gauge,
    unit: Unit::Bytes,
    labels: &[],
    help: "Memory that the kernel has taken out of use because of uncorrectable errors.",
    tier: Tier::Core,
    source: "/proc/meminfo, HardwareCorrupted",
    aliases: &[],
};

/// Processes killed for want of memory.
pub static OOM_KILLS: Metric = Metric {
    name: "host_oom_kills_total",
    kind: Kind::Counter,
    unit: Unit::None,
    labels: &[],
    help: "Processes that the kernel killed for want of memory, read at most every ten seconds.",
    tier: Tier::Core,
    source: "/proc/vmstat, oom_kill",
    aliases: &[],
};

/// Every metric of this collector, in the order of the exposition.
pub static METRICS: &[&Metric] = &[
    &BOOT_INFO,
    &BOOT_TIME,
    &KERNEL_INFO,
    &CPUS_ONLINE,
    &CPUS_PRESENT,
    &MEMORY_TOTAL,
    &MEMORY_AVAILABLE,
    &MEMORY_CORRUPTED,
    &OOM_KILLS,
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
