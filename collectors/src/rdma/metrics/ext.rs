//! 64-bit counters in `counters_ext/`, where kernels before 4.5 have them beside the 32-bit ones of `counters/`.

use super::row::{Row, Width, counters};
use crate::metric::{Kind, Metric, Tier, Unit};

counters! {
    "/sys/class/infiniband/*/ports/*/counters_ext/";
    EXT_XMIT_DATA "port_xmit_data_64" "rdma_ext_port_xmit_data_bytes_total" Bytes Detail Width::Wide, 4
        ["node_infiniband_legacy_data_transmitted_bytes_total"] "Bytes sent, from the extended counters of old kernels; the PMA unit of 4 bytes is converted.";
    EXT_RCV_DATA "port_rcv_data_64" "rdma_ext_port_rcv_data_bytes_total" Bytes Detail Width::Wide, 4
        ["node_infiniband_legacy_data_received_bytes_total"] "Bytes received, from the extended counters of old kernels; the PMA unit of 4 bytes is converted.";
    EXT_XMIT_PACKETS "port_xmit_packets_64" "rdma_ext_port_xmit_packets_total" None Detail Width::Wide, 1
        ["node_infiniband_legacy_packets_transmitted_total"] "Packets sent, from the extended counters of old kernels.";
    EXT_RCV_PACKETS "port_rcv_packets_64" "rdma_ext_port_rcv_packets_total" None Detail Width::Wide, 1
        ["node_infiniband_legacy_packets_received_total"] "Packets received, from the extended counters of old kernels.";
    EXT_UNICAST_XMIT_PACKETS "port_unicast_xmit_packets" "rdma_ext_unicast_xmit_packets_total" None Detail Width::Wide, 1
        ["node_infiniband_legacy_unicast_packets_transmitted_total"] "Unicast packets sent, from the extended counters of old kernels.";
    EXT_UNICAST_RCV_PACKETS "port_unicast_rcv_packets" "rdma_ext_unicast_rcv_packets_total" None Detail Width::Wide, 1
        ["node_infiniband_legacy_unicast_packets_received_total"] "Unicast packets received, from the extended counters of old kernels.";
    EXT_MULTICAST_XMIT_PACKETS "port_multicast_xmit_packets" "rdma_ext_multicast_xmit_packets_total" None Detail Width::Wide, 1
        ["node_infiniband_legacy_multicast_packets_transmitted_total"] "Multicast packets sent, from the extended counters of old kernels.";
    EXT_MULTICAST_RCV_PACKETS "port_multicast_rcv_packets" "rdma_ext_multicast_rcv_packets_total" None Detail Width::Wide, 1
        ["node_infiniband_legacy_multicast_packets_received_total"] "Multicast packets received, from the extended counters of old kernels.";
}
