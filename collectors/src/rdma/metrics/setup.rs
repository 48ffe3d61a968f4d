//! How a port is set up, where it sits, and what is open on its device.

use super::PORT;
use crate::metric::{Kind, Metric, Tier, Unit};

/// How many objects of a kind the kernel's users have open on a device.
pub static RESOURCES: Metric = Metric {
    name: "rdma_resources",
    kind: Kind::Gauge,
    unit: Unit::None,
    labels: &["device", "resource"],
    help: "Objects that are open on a device in all processes and the kernel: qp, cq, mr, pd, cm_id, ctx, srq, and what else the kernel counts.",
    tier: Tier::Detail,
    source: "RDMA_NLDEV_CMD_RES_GET",
    aliases: &[],
};

/// One entry of the GID table of an Ethernet port.
pub static ROCE_GID_INFO: Metric = Metric {
    name: "rdma_roce_gid_info",
    kind: Kind::Info,
    unit: Unit::None,
    labels: &["device", "port", "index", "version", "family"],
    help: "An entry of the GID table of an Ethernet port: RoCE v1 or RoCE v2, and the family of its address, ipv4, ipv6 or link_local.",
    tier: Tier::Detail,
    source: "/sys/class/infiniband/*/ports/*/{gids,gid_attrs/types}/*",
    aliases: &[],
};

/// How many entries of an Ethernet port's GID table are RoCE v2 with an address that is routed.
pub static ROCE_V2_GIDS: Metric = Metric {
    name: "rdma_roce_v2_gids",
    kind: Kind::Gauge,
    unit: Unit::None,
    labels: PORT,
    help: "Entries of the GID table of an Ethernet port that are RoCE v2 with an IPv4 or a global IPv6 address; with none, NCCL has nothing to route by.",
    tier: Tier::Core,
    source: "/sys/class/infiniband/*/ports/*/{gids,gid_attrs/types}/*",
    aliases: &[],
};

/// The entry of the GID table that `rdma.nccl_gid_index` names.
///
/// NCCL before 2.21, and any with `NCCL_IB_GID_INDEX` set to 0 or more, takes the entry of that number without looking at
/// it. With it unset (-1), NCCL looks by itself: over the whole table it takes the entry of the family
/// `NCCL_IB_ADDR_FAMILY` (AF_INET) and of the range `NCCL_IB_ADDR_RANGE`, and of two equal ones that of RoCE version
/// `NCCL_IB_ROCE_VERSION_NUM` (2). So a number in the environment of the jobs is right only where every port of every
/// node has a v2 entry there.
pub static ROCE_NCCL_GID_INFO: Metric = Metric {
    name: "rdma_roce_nccl_gid_info",
    kind: Kind::Info,
    unit: Unit::None,
    labels: &["device", "port", "index", "version"],
    help: "The entry of an Ethernet port's GID table that rdma.nccl_gid_index names, with its version: RoCE v1, RoCE v2, or none where there is no such entry.",
    tier: Tier::Detail,
    source: "/sys/class/infiniband/*/ports/*/{gids,gid_attrs/types}/*",
    aliases: &[],
};

/// What rdma_cm takes for connections of a port.
pub static CM_DEFAULT_ROCE_MODE_INFO: Metric = Metric {
    name: "rdma_cm_default_roce_mode_info",
    kind: Kind::Info,
    unit: Unit::None,
    labels: &["device", "port", "mode"],
    help: "What rdma_cm takes for connections of a port where the program says nothing: IB/RoCE v1 or RoCE v2; only where somebody has made the folder of configfs.",
    tier: Tier::Core,
    source: "/sys/kernel/config/rdma_cm/*/ports/*/default_roce_mode",
    aliases: &[],
};

/// How GPU memory can be given to RDMA devices.
pub static GPUDIRECT_INFO: Metric = Metric {
    name: "rdma_gpudirect_info",
    kind: Kind::Info,
    unit: Unit::None,
    labels: &["method"],
    help: "A way to give GPU memory to RDMA devices: nvidia_peermem (its module is loaded) or dma_buf (Linux 5.12 or newer with RDMA for programs; whether both drivers can, only a registration of memory tells, and older kernels with it built in are not seen).",
    tier: Tier::Core,
    source: "/sys/module/{nvidia_peermem,nv_peer_mem,ib_uverbs}, /proc/sys/kernel/osrelease",
    aliases: &[],
};

/// Where a port's function sits in the tree of PCI, for what compares it with a GPU's.
pub static PORT_PATH_INFO: Metric = Metric {
    name: "rdma_port_path_info",
    kind: Kind::Info,
    unit: Unit::None,
    labels: &["device", "port", "path", "numa_node"],
    help: "The functions of PCI from the root to a port's, as sysfs nests them.",
    tier: Tier::Private,
    source: "realpath of /sys/class/infiniband/*/device",
    aliases: &[],
};

/// All of them.
pub(super) static METRICS: &[&Metric] = &[
    &RESOURCES,
    &ROCE_GID_INFO,
    &ROCE_V2_GIDS,
    &ROCE_NCCL_GID_INFO,
    &CM_DEFAULT_ROCE_MODE_INFO,
    &GPUDIRECT_INFO,
    &PORT_PATH_INFO,
];
