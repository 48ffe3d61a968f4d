//! ionic/ionic_hw_stats.c. The firmware reports the names at run time, so there may be others. The driver returns all ones
//! for a counter that it cannot decode.

use super::{RdmaDriver, Width, hw, pma, words};

pub(super) static DRIVER: RdmaDriver = RdmaDriver {
    names: &["ionic", "ionic_rdma"],
    port: words! { Width::Wide;
        "tx_rdma_cnp_pkts" => hw::NP_CNP_SENT,
        "rx_rdma_cnp_pkts" => hw::RP_CNP_HANDLED,
        "rx_rdma_ecn_pkts" => hw::NP_ECN_MARKED_ROCE_PACKETS,
        "req_rx_pkt_seq_err" => hw::PACKET_SEQ_ERR,
        "req_rx_rnr_retry_err" => hw::RNR_NAK_RETRY_ERR,
        "req_rx_impl_nak_seq_err" => hw::IMPLIED_NAK_SEQ_ERR,
        "req_rx_rmt_acc_err" => hw::REQ_REMOTE_ACCESS_ERRORS,
        "req_rx_rmt_req_err" => hw::REQ_REMOTE_INVALID_REQUEST,
        "req_rx_cqe_err" => hw::REQ_CQE_ERROR,
        "req_rx_cqe_flush" => hw::REQ_CQE_FLUSH_ERROR,
        "req_tx_retry_excd_err" => hw::REQ_TRANSPORT_RETRIES_EXCEEDED,
        "tx_rdma_retx_pkts" => hw::RETRANSMITTED_PACKETS,
        "tx_rdma_ack_timeout" => hw::LOCAL_ACK_TIMEOUT_ERR,
        "resp_rx_dup_request" => hw::DUPLICATE_REQUEST,
        "resp_rx_outof_buf" => hw::OUT_OF_BUFFER,
        // `outouf` is the spelling of the firmware.
        "resp_rx_outouf_seq" | "resp_rx_outof_seq" => hw::OUT_OF_SEQUENCE,
        "resp_rx_cqe_err" => hw::RESP_CQE_ERROR,
        "resp_rx_cqe_flush" => hw::RESP_CQE_FLUSH_ERROR,
        "resp_rx_loc_len_err" => hw::RESP_LOCAL_LENGTH_ERROR,
        "resp_tx_rmt_acc_err" => hw::RESP_REMOTE_ACCESS_ERRORS,
        // RoCE data is unicast.
        "tx_rdma_ucast_bytes" => pma::PORT_XMIT_DATA,
        "rx_rdma_ucast_bytes" => pma::PORT_RCV_DATA,
        "tx_rdma_ucast_pkts" => pma::UNICAST_XMIT_PACKETS,
        "rx_rdma_ucast_pkts" => pma::UNICAST_RCV_PACKETS,
        "tx_rdma_mcast_pkts" => pma::MULTICAST_XMIT_PACKETS,
        "rx_rdma_mcast_pkts" => pma::MULTICAST_RCV_PACKETS,
    },
    ..RdmaDriver::PLAIN
};
