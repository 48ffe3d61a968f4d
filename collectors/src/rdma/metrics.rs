//! The rdma collector's metrics: what each port and device is and does. The counters stand in [`pma`] and [`hw`].

mod alias;
pub(super) mod drivers;
pub mod hw;
pub mod optional;
pub mod pma;
mod row;
pub mod setup;

use crate::metric::{Alias, Kind, Metric, Tier, Unit};

pub use hw::*;
pub use optional::*;
pub use pma::*;
pub(super) use row::Row;
pub use setup::*;

/// The labels of everything about a port.
const PORT: &[&str] = &["device", "port"];
/// The labels of a counter that is told by its file's name.
const NAMED: &[&str] = &["device", "port", "counter"];

/// The logical state of a port, by InfiniBand's numbers.
pub static PORT_STATE: Metric = Metric {
    name: "rdma_port_state",
    kind: Kind::Gauge,
    unit: Unit::None,
    labels: PORT,
    help: "Logical state of a port, 4 being active (1 down, 2 initialising, 3 armed, 5 active and deferring).",
    tier: Tier::Core,
    source: "/sys/class/infiniband/*/ports/*/state",
    aliases: &[alias::port("node_infiniband_state_id", Kind::Gauge)],
};

/// The physical state of a port, by InfiniBand's numbers.
pub static PORT_PHYSICAL_STATE: Metric = Metric {
    name: "rdma_port_physical_state",
    kind: Kind::Gauge,
    unit: Unit::None,
    labels: PORT,
    help: "Physical state of a port, 5 being up (1 sleep, 2 polling, 3 disabled, 4 training, 6 recovering, 7 test).",
    tier: Tier::Core,
    source: "/sys/class/infiniband/*/ports/*/phys_state",
    aliases: &[alias::port("node_infiniband_physical_state_id", Kind::Gauge)],
};

/// What a port is and where it sits.
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
    help: "A port with its link layer (InfiniBand, Ethernet), network interface, PCI address and driver, and whether its function is physical or virtual.",
    tier: Tier::Core,
    source: "/sys/class/infiniband/*/ports/*/link_layer, gid_attrs/ndevs/0, device",
    aliases: &[],
};

/// What a port's link can carry, in bytes per second in one direction.
pub static PORT_RATE: Metric = Metric {
    name: "rdma_port_rate_bytes_per_second",
    kind: Kind::Gauge,
    unit: Unit::BytesPerSecond,
    labels: PORT,
    help: "What a port's link can carry in one direction, as negotiated.",
    tier: Tier::Core,
    source: "/sys/class/infiniband/*/ports/*/rate (Gb/s); of an Ethernet port that is down Mellanox's alone",
    aliases: &[alias::port("node_infiniband_rate_bytes_per_second", Kind::Gauge)],
};

/// How often the network interface of a port lost its carrier. RoCE has no `link_downed`.
pub static CARRIER_DOWN: Metric = Metric {
    name: "rdma_port_carrier_down_total",
    kind: Kind::Counter,
    unit: Unit::None,
    labels: PORT,
    help: "Times that the network interface of a port lost its carrier.",
    tier: Tier::Core,
    source: "/sys/class/net/*/carrier_down_count",
    aliases: &[],
};

/// Whether the network interface of a port is up. Not of InfiniBand, where that says nothing about the port.
pub static NETDEV_UP: Metric = Metric {
    name: "rdma_port_netdev_up",
    kind: Kind::Gauge,
    unit: Unit::None,
    labels: PORT,
    help: "Whether the network interface of a port is up; 1 or 0, left out where its driver does not tell.",
    tier: Tier::Core,
    source: "/sys/class/net/*/operstate",
    aliases: &[],
};

/// Messages of the connection manager that were sent again or came again.
pub static CM_MESSAGES: Metric = Metric {
    name: "rdma_cm_messages_total",
    kind: Kind::Counter,
    unit: Unit::None,
    labels: &["device", "port", "kind", "message"],
    help: "Messages of the connection manager that were sent again for want of an answer (tx_retries) or came again (rx_duplicates), read once a minute.",
    tier: Tier::Detail,
    source: "/sys/class/infiniband/*/ports/*/cm_tx_retries/*, cm_rx_duplicates/*",
    aliases: &[],
};

/// How many lanes a port's link uses.
pub static PORT_LANES: Metric = Metric {
    name: "rdma_port_lanes",
    kind: Kind::Gauge,
    unit: Unit::None,
    labels: PORT,
    help: "Lanes that a port's link uses, as negotiated.",
    tier: Tier::Core,
    source: "/sys/class/infiniband/*/ports/*/rate (the number before X)",
    aliases: &[],
};

/// How many of a port's narrow counters stand at their maximum, where they stay until somebody resets them.
pub static PORT_SATURATED_COUNTERS: Metric = Metric {
    name: "rdma_port_saturated_counters",
    kind: Kind::Gauge,
    unit: Unit::None,
    labels: PORT,
    help: "Counters of a port that have reached the largest number they can hold and count no more.",
    tier: Tier::Core,
    source: "widths of IBTA PortCounters, 4 to 32 bits",
    aliases: &[],
};

/// 1 for a counter that stands at its maximum.
pub static COUNTER_SATURATED: Metric = Metric {
    name: "rdma_counter_saturated",
    kind: Kind::Gauge,
    unit: Unit::None,
    labels: NAMED,
    help: "Whether a counter has reached the largest number it can hold and counts no more, so that its rate of 0 means nothing; 1 or left out.",
    tier: Tier::Core,
    source: "widths of IBTA PortCounters, 4 to 32 bits",
    aliases: &[],
};

/// How many of a port's files gave no value in the last reading, and why.
pub static PORT_UNREADABLE_FILES: Metric = Metric {
    name: "rdma_port_unreadable_files",
    kind: Kind::Gauge,
    unit: Unit::None,
    labels: &["device", "port", "reason"],
    help: "Files or counters of a port that gave no value: denied, gone, rejected (EINVAL), unsupported, io, empty, malformed, or all_ones (a counter that the driver could not decode).",
    tier: Tier::Detail,
    source: "nodewarden",
    aliases: &[],
};

/// A counter below `counters/` that has no metric of its own, in the driver's own unit.
pub static PORT_COUNTER: Metric = Metric {
    name: "rdma_port_counter_total",
    kind: Kind::Counter,
    unit: Unit::None,
    labels: NAMED,
    help: "A port counter that has no metric of its own, in the driver's unit.",
    tier: Tier::Detail,
    source: "/sys/class/infiniband/*/ports/*/counters/*",
    aliases: &[],
};

/// A counter below `hw_counters/` that has no metric of its own, in the driver's own unit.
pub static HW_COUNTER: Metric = Metric {
    name: "rdma_hw_counter_total",
    kind: Kind::Counter,
    unit: Unit::None,
    labels: NAMED,
    help: "What a port's driver counts and no other metric has, by the driver's word and in its unit; one that nodewarden does not know stands here too, though it may be a gauge.",
    tier: Tier::Detail,
    source: "/sys/class/infiniband/*/ports/*/hw_counters/*, RDMA_NLDEV_CMD_STAT_GET",
    aliases: &[],
};

/// What rises and falls among `hw_counters/`, in the driver's own unit.
pub static HW_GAUGE: Metric = Metric {
    name: "rdma_hw_gauge",
    kind: Kind::Gauge,
    unit: Unit::None,
    labels: NAMED,
    help: "What stands among the counters of a port's driver and rises and falls, by the driver's word and in its unit.",
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
    help: "What a driver counts for a device as a whole and no other metric has, by the driver's word and in its unit; one that nodewarden does not know stands here too, though it may be a gauge.",
    tier: Tier::Detail,
    source: "/sys/class/infiniband/*/hw_counters/*",
    aliases: &[],
};

/// What a port of Omni-Path has sent. It counts flits, whose bytes are not InfiniBand's words of four.
pub static PORT_XMIT_FLITS: Metric = Metric {
    name: "rdma_port_xmit_flits_total",
    kind: Kind::Counter,
    unit: Unit::None,
    labels: PORT,
    help: "Flits that a port of Omni-Path has sent.",
    tier: Tier::Core,
    source: "/sys/class/infiniband/*/ports/*/counters/port_xmit_data of hfi1",
    aliases: &[],
};

/// What a port of Omni-Path has received.
pub static PORT_RCV_FLITS: Metric = Metric {
    name: "rdma_port_rcv_flits_total",
    kind: Kind::Counter,
    unit: Unit::None,
    labels: PORT,
    help: "Flits that a port of Omni-Path has received.",
    tier: Tier::Core,
    source: "/sys/class/infiniband/*/ports/*/counters/port_rcv_data of hfi1",
    aliases: &[],
};

/// How old the kernel lets a port's `hw_counters` become before it asks the driver again.
pub static HW_COUNTERS_LIFESPAN: Metric = Metric {
    name: "rdma_hw_counters_lifespan_seconds",
    kind: Kind::Gauge,
    unit: Unit::Seconds,
    labels: PORT,
    help: "How old the kernel lets a port's hardware counters become before it asks the driver again.",
    tier: Tier::Detail,
    source: "/sys/class/infiniband/*/ports/*/hw_counters/lifespan (ms)",
    aliases: &[alias::port("node_infiniband_lifespan_seconds", Kind::Gauge)],
};

/// Where a port's `hw_counters` come from.
pub static HW_COUNTERS_INFO: Metric = Metric {
    name: "rdma_hw_counters_info",
    kind: Kind::Info,
    unit: Unit::None,
    labels: &["device", "port", "source"],
    help: "Where a port's hardware counters are read from: netlink (all at once) or sysfs (a file each).",
    tier: Tier::Detail,
    source: "nodewarden",
    aliases: &[],
};

/// What a device is. The GUID is its identity; names change.
pub static DEVICE_INFO: Metric = Metric {
    name: "rdma_device_info",
    kind: Kind::Info,
    unit: Unit::None,
    labels: &["device", "board_id", "firmware_version", "hca_type", "node_guid"],
    help: "A device with its board, firmware, type and GUID; what the driver does not tell is empty.",
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

/// What has no table of its own.
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

/// All of them.
pub static METRICS: [&Metric;
    SINGLE.len() + setup::METRICS.len() + pma::METRICS.len() + hw::METRICS.len() + optional::METRICS.len()] =
    row::join([
        SINGLE,
        setup::METRICS,
        pma::METRICS,
        hw::METRICS,
        optional::METRICS,
    ]);
