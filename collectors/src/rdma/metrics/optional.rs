//! Optional counters of mlx5: off until an administrator enables them (`rdma statistic set link ... optional-counters`).
//! The kernel reports them by netlink only.

use super::row::{Row, Width, counters};
use crate::metric::{Kind, Metric, Tier, Unit};

counters! {
    "RDMA_NLDEV_CMD_STAT_GET, ";
    CC_RX_CE_PKTS "cc_rx_ce_pkts" "rdma_cc_rx_ce_pkts_total" None Detail Width::Wide, 1
        [] "RoCE packets received with the ECN mark CE (congestion experienced), from the optional counter.";
    CC_RX_CNP_PKTS "cc_rx_cnp_pkts" "rdma_cc_rx_cnp_pkts_total" None Detail Width::Wide, 1
        [] "CNPs received, from the optional counter.";
    CC_TX_CNP_PKTS "cc_tx_cnp_pkts" "rdma_cc_tx_cnp_pkts_total" None Detail Width::Wide, 1
        [] "CNPs sent, from the optional counter.";
    OPTIONAL_TX_BYTES "rdma_tx_bytes" "rdma_optional_tx_bytes_total" Bytes Detail Width::Wide, 1
        [] "RDMA bytes sent, from the optional counter.";
    OPTIONAL_RX_BYTES "rdma_rx_bytes" "rdma_optional_rx_bytes_total" Bytes Detail Width::Wide, 1
        [] "RDMA bytes received, from the optional counter.";
    OPTIONAL_TX_PACKETS "rdma_tx_packets" "rdma_optional_tx_packets_total" None Detail Width::Wide, 1
        [] "RDMA packets sent, from the optional counter.";
    OPTIONAL_RX_PACKETS "rdma_rx_packets" "rdma_optional_rx_packets_total" None Detail Width::Wide, 1
        [] "RDMA packets received, from the optional counter.";
}
