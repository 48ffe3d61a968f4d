//! Configuration and location of a port, and open objects of its device.

use super::PORT;
use crate::metric::{Kind, Metric, Tier, Unit};

/// Number of open objects of each type on a device.
pub static RESOURCES: Metric = Metric {
    name: "rdma_resources",
    kind: Kind::Gauge,
    unit: Unit::None,
    labels: &["device", "resource"],
    help: "Open objects of a device in all processes and the kernel: qp, cq, mr, pd, cm_id, ctx, srq, and any other type that the kernel reports.",
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
    help: "GID table entry of an Ethernet port with its version (RoCE v1 or RoCE v2) and address family (ipv4, ipv6 or link_local).",
    tier: Tier::Detail,
    source: "/sys/class/infiniband/*/ports/*/{gids,gid_attrs/types}/*",
    aliases: &[],
};

/// Number of RoCE v2 entries with a routable address in an Ethernet port's GID table.
pub static ROCE_V2_GIDS: Metric = Metric {
    name: "rdma_roce_v2_gids",
    kind: Kind::Gauge,
    unit: Unit::None,
    labels: PORT,
    help: "RoCE v2 GID table entries of an Ethernet port with an IPv4 or global IPv6 address; with 0, NCCL has no routable GID.",
    tier: Tier::Core,
    source: "/sys/class/infiniband/*/ports/*/{gids,gid_attrs/types}/*",
    aliases: &[],
};

/// The GID table entry at index `rdma.nccl_gid_index`.
///
/// NCCL before 2.21, and any version with `NCCL_IB_GID_INDEX` set to 0 or more, uses the entry at that index unchecked. If
/// it is unset (-1), NCCL searches the whole table: it selects the entry of the family `NCCL_IB_ADDR_FAMILY` (AF_INET) in
/// the range `NCCL_IB_ADDR_RANGE`, and of two equal ones the entry of RoCE version `NCCL_IB_ROCE_VERSION_NUM` (2). So an
/// index in the environment of the jobs is correct only if every port of every node has a v2 entry at that index.
pub static ROCE_NCCL_GID_INFO: Metric = Metric {
    name: "rdma_roce_nccl_gid_info",
    kind: Kind::Info,
    unit: Unit::None,
    labels: &["device", "port", "index", "version"],
    help: "Version of the GID table entry of an Ethernet port at rdma.nccl_gid_index: RoCE v1, RoCE v2, or none without such an entry.",
    tier: Tier::Detail,
    source: "/sys/class/infiniband/*/ports/*/{gids,gid_attrs/types}/*",
    aliases: &[],
};

/// Default RoCE mode of rdma_cm for connections of a port.
pub static CM_DEFAULT_ROCE_MODE_INFO: Metric = Metric {
    name: "rdma_cm_default_roce_mode_info",
    kind: Kind::Info,
    unit: Unit::None,
    labels: &["device", "port", "mode"],
    help: "Default RoCE mode of rdma_cm for a port: IB/RoCE v1 or RoCE v2; present only if its configfs directory was created.",
    tier: Tier::Core,
    source: "/sys/kernel/config/rdma_cm/*/ports/*/default_roce_mode",
    aliases: &[],
};

/// Methods to register GPU memory with RDMA devices (GPUDirect RDMA).
pub static GPUDIRECT_INFO: Metric = Metric {
    name: "rdma_gpudirect_info",
    kind: Kind::Info,
    unit: Unit::None,
    labels: &["method"],
    help: "GPUDirect RDMA method: nvidia_peermem (module loaded) or dma_buf (Linux 5.12 or newer with ib_uverbs; driver support is not verified, and built-in ib_uverbs of older kernels is not detected).",
    tier: Tier::Core,
    source: "/sys/module/{nvidia_peermem,nv_peer_mem,ib_uverbs}, /proc/sys/kernel/osrelease",
    aliases: &[],
};

/// PCI path of a port's function, to be compared with the path of a GPU.
pub static PORT_PATH_INFO: Metric = Metric {
    name: "rdma_port_path_info",
    kind: Kind::Info,
    unit: Unit::None,
    labels: &["device", "port", "path", "numa_node"],
    help: "PCI path from the root complex to the port's function, as nested in sysfs.",
    tier: Tier::Private,
    source: "realpath of /sys/class/infiniband/*/device",
    aliases: &[],
};

/// Every metric of this table.
pub(super) static METRICS: &[&Metric] = &[
    &RESOURCES,
    &ROCE_GID_INFO,
    &ROCE_V2_GIDS,
    &ROCE_NCCL_GID_INFO,
    &CM_DEFAULT_ROCE_MODE_INFO,
    &GPUDIRECT_INFO,
    &PORT_PATH_INFO,
];
