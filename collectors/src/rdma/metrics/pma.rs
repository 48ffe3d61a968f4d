//! Counters of a port's performance management agent (PMA) in `counters/`, defined by InfiniBand, for every driver with a
//! PMA. Narrow counters clamp at their maximum.

use super::row::{Row, Width, counters};
use crate::metric::{Kind, Metric, Tier, Unit};

counters! {
    "/sys/class/infiniband/*/ports/*/counters/";
    SYMBOL_ERROR "symbol_error" "rdma_symbol_error_total" None Core Width::Bits(16), 1
        ["node_infiniband_symbol_error_total"] "Symbol errors: minor link errors on one or more physical lanes.";
    LINK_ERROR_RECOVERY "link_error_recovery" "rdma_link_error_recovery_total" None Core Width::Bits(8), 1
        ["node_infiniband_link_error_recovery_total"] "Successful link error recoveries (retraining).";
    LINK_DOWNED "link_downed" "rdma_link_downed_total" None Core Width::Bits(8), 1
        ["node_infiniband_link_downed_total"] "Failed link error recoveries (retraining) after which the link went down.";
    PORT_RCV_ERRORS "port_rcv_errors" "rdma_port_rcv_errors_total" None Core Width::Bits(16), 1
        ["node_infiniband_port_errors_received_total"] "Packets received with errors.";
    PORT_RCV_REMOTE_PHYSICAL_ERRORS "port_rcv_remote_physical_errors" "rdma_port_rcv_remote_physical_errors_total" None Detail Width::Bits(16), 1
        ["node_infiniband_port_receive_remote_physical_errors_total"] "Packets received with the EBP (end of bad packet) delimiter, set at another hop.";
    PORT_RCV_SWITCH_RELAY_ERRORS "port_rcv_switch_relay_errors" "rdma_port_rcv_switch_relay_errors_total" None Detail Width::Bits(16), 1
        ["node_infiniband_port_receive_switch_relay_errors_total"] "Packets received that the switch could not forward (switch relay errors).";
    PORT_XMIT_DISCARDS "port_xmit_discards" "rdma_port_xmit_discards_total" None Core Width::Bits(16), 1
        ["node_infiniband_port_discards_transmitted_total"] "Outbound packets discarded because the port was down or congested.";
    PORT_XMIT_CONSTRAINT_ERRORS "port_xmit_constraint_errors" "rdma_port_xmit_constraint_errors_total" None Detail Width::Bits(8), 1
        ["node_infiniband_port_constraint_errors_transmitted_total"] "Outbound packets discarded by a constraint check (partition key or IP version).";
    PORT_RCV_CONSTRAINT_ERRORS "port_rcv_constraint_errors" "rdma_port_rcv_constraint_errors_total" None Detail Width::Bits(8), 1
        ["node_infiniband_port_constraint_errors_received_total"] "Inbound packets discarded by a constraint check (partition key or IP version).";
    LOCAL_LINK_INTEGRITY_ERRORS "local_link_integrity_errors" "rdma_local_link_integrity_errors_total" None Core Width::Bits(4), 1
        ["node_infiniband_local_link_integrity_errors_total"] "Times the local physical errors exceeded their threshold (LocalPhyErrors).";
    EXCESSIVE_BUFFER_OVERRUN_ERRORS "excessive_buffer_overrun_errors" "rdma_excessive_buffer_overrun_errors_total" None Core Width::Bits(4), 1
        ["node_infiniband_excessive_buffer_overrun_errors_total"] "Times buffer overruns occurred in consecutive flow control update periods up to the threshold (OverrunErrors).";
    VL15_DROPPED "VL15_dropped" "rdma_vl15_dropped_total" None Detail Width::Bits(16), 1
        ["node_infiniband_vl15_dropped_total"] "VL15 (subnet management) packets dropped for lack of buffers.";
    PORT_XMIT_WAIT "port_xmit_wait" "rdma_port_xmit_wait_total" None Core Width::Bits(32), 1
        ["node_infiniband_port_transmit_wait_total"] "Ticks in which the port had data to transmit but no flow control credits.";
    PORT_XMIT_DATA "port_xmit_data" "rdma_port_xmit_data_bytes_total" Bytes Core Width::Extended, 4
        ["node_infiniband_port_data_transmitted_bytes_total"] "Bytes sent; the PMA unit of 4 bytes is converted.";
    PORT_RCV_DATA "port_rcv_data" "rdma_port_rcv_data_bytes_total" Bytes Core Width::Extended, 4
        ["node_infiniband_port_data_received_bytes_total"] "Bytes received; the PMA unit of 4 bytes is converted.";
    PORT_XMIT_PACKETS "port_xmit_packets" "rdma_port_xmit_packets_total" None Core Width::Extended, 1
        ["node_infiniband_port_packets_transmitted_total"] "Packets sent.";
    PORT_RCV_PACKETS "port_rcv_packets" "rdma_port_rcv_packets_total" None Core Width::Extended, 1
        ["node_infiniband_port_packets_received_total"] "Packets received.";
    UNICAST_XMIT_PACKETS "unicast_xmit_packets" "rdma_unicast_xmit_packets_total" None Detail Width::Wide, 1
        ["node_infiniband_unicast_packets_transmitted_total"] "Unicast packets sent.";
    UNICAST_RCV_PACKETS "unicast_rcv_packets" "rdma_unicast_rcv_packets_total" None Detail Width::Wide, 1
        ["node_infiniband_unicast_packets_received_total"] "Unicast packets received.";
    MULTICAST_XMIT_PACKETS "multicast_xmit_packets" "rdma_multicast_xmit_packets_total" None Detail Width::Wide, 1
        ["node_infiniband_multicast_packets_transmitted_total"] "Multicast packets sent.";
    MULTICAST_RCV_PACKETS "multicast_rcv_packets" "rdma_multicast_rcv_packets_total" None Detail Width::Wide, 1
        ["node_infiniband_multicast_packets_received_total"] "Multicast packets received.";
    PORT_RCV_DISCARDS "port_rcv_discards" "rdma_port_rcv_discards_total" None Core Width::Wide, 1
        ["node_infiniband_port_discards_received_total"] "Inbound packets discarded by the port, if the vendor reports them.";
}
