//! The rdma collector's metrics: identity and state of each port and device. The counters are in [`pma`] and [`hw`].

mod alias;
pub(super) mod drivers;
pub mod ext;
pub mod hw;
pub mod optional;
pub mod pma;
mod row;
pub mod setup;

use crate::metric::{Alias, Kind, Metric, Tier, Unit};

pub use ext::*;
pub use hw::*;
pub use optional::*;
pub use pma::*;
pub(super) use row::{Row, Width};
pub use setup::*;

/// Labels of port metrics.
const PORT: &[&str] = &["device", "port"];
/// Labels of counters without a metric of their own: `counter` is the file name.
const NAMED: &[&str] = &["device", "port", "counter"];

/// Logical port state, numbered as in InfiniBand.
pub static PORT_STATE: Metric = Metric {
    name: "rdma_port_state",
    kind: Kind::Gauge,
    unit: Unit::None,
    labels: PORT,
    help: "Logical port state: 1 down, 2 init, 3 armed, 4 active, 5 active deferred.",
    tier: Tier::Core,
    source: "/sys/class/infiniband/*/ports/*/state",
    aliases: &[alias::port("node_infiniband_state_id", Kind::Gauge)],
};

/// Physical port state, numbered as in InfiniBand.
pub static PORT_PHYSICAL_STATE: Metric = Metric {
    name: "rdma_port_physical_state",
    kind: Kind::Gauge,
    unit: Unit::None,
    labels: PORT,
    help: "Physical port state: 1 sleep, 2 polling, 3 disabled, 4 training, 5 link up, 6 link error recovery, 7 PHY test.",
    tier: Tier::Core,
    source: "/sys/class/infiniband/*/ports/*/phys_state",
    aliases: &[alias::port("node_infiniband_physical_state_id", Kind::Gauge)],
};

/// Identity and location of a port.
pub static PORT_INFO: Metric = Metric {
    name: "rdma_port_info",
    kind: Kind::Info,
    unit: Unit::None,
    labels: &[
        "device",
        "port",
        "link_layer",
        "netdev",
        "pci",
        "numa_node",
        "driver",
        "function",
    ],
    help: "Port with its link layer (InfiniBand, Ethernet), network interface, PCI address, NUMA node, driver and function (physical or virtual).",
    tier: Tier::Core,
    source: "/sys/class/infiniband/*/ports/*/link_layer, gid_attrs/ndevs/0, device",
    aliases: &[],
};

/// Negotiated link rate of a port in one direction.
pub static PORT_RATE: Metric = Metric {
    name: "rdma_port_rate_bytes_per_second",
    kind: Kind::Gauge,
    unit: Unit::BytesPerSecond,
    labels: PORT,
    help: "Negotiated link rate of a port in one direction, in bytes per second.",
    tier: Tier::Core,
    source: "/sys/class/infiniband/*/ports/*/rate (Gb/s); for an Ethernet port that is down, Mellanox only",
    aliases: &[alias::port("node_infiniband_rate_bytes_per_second", Kind::Gauge)],
};

/// Carrier losses of a port's network interface. RoCE has no `link_downed`.
pub static CARRIER_DOWN: Metric = Metric {
    name: "rdma_port_carrier_down_total",
    kind: Kind::Counter,
    unit: Unit::None,
    labels: PORT,
    help: "Carrier losses of the port's network interface since the interface was created.",
    tier: Tier::Core,
    source: "/sys/class/net/*/carrier_down_count",
    aliases: &[],
};

/// Operational state of a port's network interface. Ethernet only: the IPoIB interface does not show the state of the port.
pub static NETDEV_UP: Metric = Metric {
    name: "rdma_port_netdev_up",
    kind: Kind::Gauge,
    unit: Unit::None,
    labels: PORT,
    help: "Operational state of the port's network interface: 1 up, 0 not up; absent if its driver does not report it.",
    tier: Tier::Core,
    source: "/sys/class/net/*/operstate",
    aliases: &[],
};

/// Retransmitted and duplicate messages of the connection manager.
pub static CM_MESSAGES: Metric = Metric {
    name: "rdma_cm_messages_total",
    kind: Kind::Counter,
    unit: Unit::None,
    labels: &["device", "port", "kind", "message"],
    help: "Connection manager messages retransmitted (tx_retries) or received as duplicates (rx_duplicates), read once a minute.",
    tier: Tier::Detail,
    source: "/sys/class/infiniband/*/ports/*/cm_tx_retries/*, cm_rx_duplicates/*",
    aliases: &[],
};

/// Negotiated link width of a port.
pub static PORT_LANES: Metric = Metric {
    name: "rdma_port_lanes",
    kind: Kind::Gauge,
    unit: Unit::None,
    labels: PORT,
    help: "Negotiated link width of a port in lanes.",
    tier: Tier::Core,
    source: "/sys/class/infiniband/*/ports/*/rate (the number before X)",
    aliases: &[],
};

/// Number of a port's narrow counters at their maximum, where they stay until they are reset.
pub static PORT_SATURATED_COUNTERS: Metric = Metric {
    name: "rdma_port_saturated_counters",
    kind: Kind::Gauge,
    unit: Unit::None,
    labels: PORT,
    help: "Saturated counters of a port: each stays at its maximum value until it is reset.",
    tier: Tier::Core,
    source: "widths of IBTA PortCounters, 4 to 32 bits",
    aliases: &[],
};

/// 1 for a counter at its maximum.
pub static COUNTER_SATURATED: Metric = Metric {
    name: "rdma_counter_saturated",
    kind: Kind::Gauge,
    unit: Unit::None,
    labels: NAMED,
    help: "Saturated counter: 1 while it is at its maximum value, otherwise absent; a rate of 0 is then meaningless.",
    tier: Tier::Core,
    source: "widths of IBTA PortCounters, 4 to 32 bits",
    aliases: &[],
};

/// Number of a port's files without a value in the last reading, by reason.
pub static PORT_UNREADABLE_FILES: Metric = Metric {
    name: "rdma_port_unreadable_files",
    kind: Kind::Gauge,
    unit: Unit::None,
    labels: &["device", "port", "reason"],
    help: "Unreadable files or counters of a port by reason: denied, gone, rejected (EINVAL), unsupported, io, empty, malformed, all_ones (not decoded by the driver).",
    tier: Tier::Detail,
    source: "nodewarden",
    aliases: &[],
};

/// A counter in `counters/` without a metric of its own, in the driver's unit.
pub static PORT_COUNTER: Metric = Metric {
    name: "rdma_port_counter_total",
    kind: Kind::Counter,
    unit: Unit::None,
    labels: NAMED,
    help: "PMA counter of a port without a metric of its own, in the driver's unit.",
    tier: Tier::Detail,
    source: "/sys/class/infiniband/*/ports/*/counters/*",
    aliases: &[],
};

/// A counter in `hw_counters/` without a metric of its own, in the driver's unit.
pub static HW_COUNTER: Metric = Metric {
    name: "rdma_hw_counter_total",
    kind: Kind::Counter,
    unit: Unit::None,
    labels: NAMED,
    help: "Hardware counter of a port without a metric of its own, in the driver's unit; a name unknown to nodewarden may be a gauge.",
    tier: Tier::Detail,
    source: "/sys/class/infiniband/*/ports/*/hw_counters/*, RDMA_NLDEV_CMD_STAT_GET",
    aliases: &[],
};

/// A gauge in `hw_counters/`, in the driver's unit.
pub static HW_GAUGE: Metric = Metric {
    name: "rdma_hw_gauge",
    kind: Kind::Gauge,
    unit: Unit::None,
    labels: NAMED,
    help: "Gauge among the hardware counters of a port, by the driver's name and in the driver's unit.",
    tier: Tier::Detail,
    source: "/sys/class/infiniband/*/ports/*/hw_counters/*, RDMA_NLDEV_CMD_STAT_GET",
    aliases: &[],
};

/// A counter of a device, not of one of its ports.
pub static DEVICE_HW_COUNTER: Metric = Metric {
    name: "rdma_device_hw_counter_total",
    kind: Kind::Counter,
    unit: Unit::None,
    labels: &["device", "counter"],
    help: "Hardware counter of a device without a metric of its own, in the driver's unit; a name unknown to nodewarden may be a gauge.",
    tier: Tier::Detail,
    source: "/sys/class/infiniband/*/hw_counters/*",
    aliases: &[],
};

/// Flits sent by an Omni-Path port. A flit is not InfiniBand's 4-byte word.
pub static PORT_XMIT_FLITS: Metric = Metric {
    name: "rdma_port_xmit_flits_total",
    kind: Kind::Counter,
    unit: Unit::None,
    labels: PORT,
    help: "Flits sent by an Omni-Path port.",
    tier: Tier::Core,
    source: "/sys/class/infiniband/*/ports/*/counters/port_xmit_data (hfi1)",
    aliases: &[],
};

/// Flits received by an Omni-Path port.
pub static PORT_RCV_FLITS: Metric = Metric {
    name: "rdma_port_rcv_flits_total",
    kind: Kind::Counter,
    unit: Unit::None,
    labels: PORT,
    help: "Flits received by an Omni-Path port.",
    tier: Tier::Core,
    source: "/sys/class/infiniband/*/ports/*/counters/port_rcv_data (hfi1)",
    aliases: &[],
};

/// Age at which the kernel refreshes a port's `hw_counters` from the driver.
pub static HW_COUNTERS_LIFESPAN: Metric = Metric {
    name: "rdma_hw_counters_lifespan_seconds",
    kind: Kind::Gauge,
    unit: Unit::Seconds,
    labels: PORT,
    help: "Age at which the kernel refreshes its cached hardware counters of a port from the driver, in seconds.",
    tier: Tier::Detail,
    source: "/sys/class/infiniband/*/ports/*/hw_counters/lifespan (ms)",
    aliases: &[alias::port("node_infiniband_lifespan_seconds", Kind::Gauge)],
};

/// Read path of a port's `hw_counters`.
pub static HW_COUNTERS_INFO: Metric = Metric {
    name: "rdma_hw_counters_info",
    kind: Kind::Info,
    unit: Unit::None,
    labels: &["device", "port", "source"],
    help: "Read path of a port's hardware counters: netlink (one message for all) or sysfs (one file each).",
    tier: Tier::Detail,
    source: "nodewarden",
    aliases: &[],
};

/// Identity of a device. The GUID identifies it; names change.
pub static DEVICE_INFO: Metric = Metric {
    name: "rdma_device_info",
    kind: Kind::Info,
    unit: Unit::None,
    labels: &["device", "board_id", "firmware_version", "hca_type", "node_guid"],
    help: "RDMA device with its board ID, firmware version, HCA type and node GUID; labels that the driver does not report are empty.",
    tier: Tier::Core,
    source: "/sys/class/infiniband/*/{board_id,fw_ver,hca_type,node_guid}",
    aliases: &[Alias::new(
        alias::PAGE,
        "node_infiniband_info",
        Kind::Gauge,
        &[
            ("board_id", "board_id"),
            ("device", "device"),
            ("firmware_version", "firmware_version"),
            ("hca_type", "hca_type"),
        ],
    )],
};

/// Metrics without a table of their own.
static SINGLE: &[&Metric] = &[
    &PORT_STATE,
    &PORT_PHYSICAL_STATE,
    &PORT_INFO,
    &PORT_RATE,
    &PORT_LANES,
    &CARRIER_DOWN,
    &NETDEV_UP,
    &PORT_SATURATED_COUNTERS,
    &COUNTER_SATURATED,
    &PORT_UNREADABLE_FILES,
    &DEVICE_INFO,
    &HW_COUNTERS_LIFESPAN,
    &HW_COUNTERS_INFO,
    &CM_MESSAGES,
    &PORT_COUNTER,
    &HW_COUNTER,
    &HW_GAUGE,
    &DEVICE_HW_COUNTER,
    &PORT_XMIT_FLITS,
    &PORT_RCV_FLITS,
];

/// Every metric of this collector.
pub static METRICS: [&Metric;
    SINGLE.len()
        + setup::METRICS.len()
        + pma::METRICS.len()
        + ext::METRICS.len()
        + hw::METRICS.len()
        + optional::METRICS.len()] = row::join([
    SINGLE,
    setup::METRICS,
    pma::METRICS,
    ext::METRICS,
    hw::METRICS,
    optional::METRICS,
]);
