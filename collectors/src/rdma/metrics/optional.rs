//! Counters of mlx5 that are off until an administrator switches them on (`rdma statistic set link ... optional-counters`).
//! The kernel tells them by netlink alone.

use super::row::{Row, Width, counters};
use crate::metric::{Kind, Metric, Tier, Unit};

counters! {
    "RDMA_NLDEV_CMD_STAT_GET, ";
    CC_RX_CE_PKTS "cc_rx_ce_pkts" "rdma_cc_rx_ce_pkts_total" None Detail Width::Wide, 1
        [] "RoCE packets received that a switch had marked for congestion, by an optional counter.";
    CC_RX_CNP_PKTS "cc_rx_cnp_pkts" "rdma_cc_rx_cnp_pkts_total" None Detail Width::Wide, 1
        [] "Congestion notifications received, by an optional counter.";
    CC_TX_CNP_PKTS "cc_tx_cnp_pkts" "rdma_cc_tx_cnp_pkts_total" None Detail Width::Wide, 1
        [] "Congestion notifications sent, by an optional counter.";
    OPTIONAL_TX_BYTES "rdma_tx_bytes" "rdma_optional_tx_bytes_total" Bytes Detail Width::Wide, 1
        [] "Bytes of RDMA sent, by an optional counter.";
    OPTIONAL_RX_BYTES "rdma_rx_bytes" "rdma_optional_rx_bytes_total" Bytes Detail Width::Wide, 1
        [] "Bytes of RDMA received, by an optional counter.";
    OPTIONAL_TX_PACKETS "rdma_tx_packets" "rdma_optional_tx_packets_total" None Detail Width::Wide, 1
        [] "Packets of RDMA sent, by an optional counter.";
    OPTIONAL_RX_PACKETS "rdma_rx_packets" "rdma_optional_rx_packets_total" None Detail Width::Wide, 1
        [] "Packets of RDMA received, by an optional counter.";
}
