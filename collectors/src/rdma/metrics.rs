//! The rdma collector's metrics.

use crate::metric::{Kind, Metric, Tier, Unit};

/// The labels of everything about a port.
const PORT: &[&str] = &["device", "port"];

/// The logical state of a port, by InfiniBand's numbers.
pub static PORT_STATE: Metric = Metric {
    name: "rdma_port_state",
    kind: Kind::Gauge,
    unit: Unit::None,
    labels: PORT,
    help: "Logical state of a port, 4 being active (1 down, 2 initialising, 3 armed, 5 active and deferring).",
    tier: Tier::Core,
    source: "/sys/class/infiniband/*/ports/*/state",
    aliases: &[],
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
    aliases: &[],
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
    source: "/sys/class/infiniband/*/ports/*/rate (Gb/s)",
    aliases: &[],
};

/// How often a port's link went down (8 bits in hardware, clamps at 255).
pub static LINK_DOWNED: Metric = Metric {
    name: "rdma_link_downed_total",
    kind: Kind::Counter,
    unit: Unit::None,
    labels: PORT,
    help: "Times that a link could not be retrained and went down.",
    tier: Tier::Core,
    source: "/sys/class/infiniband/*/ports/*/counters/link_downed",
    aliases: &[],
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
