//! bnxt_re/hw_counters.c, and the names of Broadcom's out-of-tree driver, which are mostly those of mlx5. After one failed
//! firmware command the driver stops querying: its error counters freeze without any indication.

use super::{RdmaDriver, Width, hw, pma, words};

pub(super) static DRIVER: RdmaDriver = RdmaDriver {
    // `bnxt_en` is the Ethernet driver, which owns the PCI device. `bng_en` and `bng_re` drive Thor Ultra (BCM57708).
    names: &["bnxt_en", "bnxt_re", "bng_en", "bng_re"],
    port: words! { Width::Wide;
        "tx_cnp_pkts" | "np_cnp_pkts" => hw::NP_CNP_SENT,
        "rx_cnp_pkts" => hw::RP_CNP_HANDLED,
        "rx_ecn_marked_pkts" => hw::NP_ECN_MARKED_ROCE_PACKETS,
        "rx_out_of_buffer" => hw::OUT_OF_BUFFER,
        "oos_drop_count" => hw::OUT_OF_SEQUENCE,
        "seq_err_naks_rcvd" => hw::PACKET_SEQ_ERR,
        "rnr_naks_rcvd" => hw::RNR_NAK_RETRY_ERR,
        "to_retransmits" => hw::LOCAL_ACK_TIMEOUT_ERR,
        "max_retry_exceeded" => hw::REQ_TRANSPORT_RETRIES_EXCEEDED,
        "dup_req" => hw::DUPLICATE_REQUEST,
        "rx_write_req" => hw::RX_WRITE_REQUESTS,
        "rx_read_req" => hw::RX_READ_REQUESTS,
        "rx_atomic_req" => hw::RX_ATOMIC_REQUESTS,
        "remote_invalid_req_err" => hw::REQ_REMOTE_INVALID_REQUEST,
        "remote_access_err" => hw::REQ_REMOTE_ACCESS_ERRORS,
        "tx_bytes" => pma::PORT_XMIT_DATA,
        "rx_bytes" => pma::PORT_RCV_DATA,
        "tx_pkts" => pma::PORT_XMIT_PACKETS,
        "rx_pkts" => pma::PORT_RCV_PACKETS,
        "tx_roce_discards" => pma::PORT_XMIT_DISCARDS,
        "rx_roce_discards" => pma::PORT_RCV_DISCARDS,
        "rx_roce_errors" => pma::PORT_RCV_ERRORS,
    },
    gauges: &["active_*", "watermark_*", "db_fifo_register"],
    wrong: &[
        // The driver fills it with the number of broadcasts sent.
        "recoverable_errors",
        // Of its PMA these are the low 8 or 16 bits of wider counts, or never filled in.
        "symbol_error",
        "link_error_recovery",
        "link_downed",
        "port_rcv_errors",
        "port_rcv_remote_physical_errors",
        "port_rcv_switch_relay_errors",
        "port_xmit_discards",
        "port_xmit_constraint_errors",
        "port_rcv_constraint_errors",
        "local_link_integrity_errors",
        "excessive_buffer_overrun_errors",
        "VL15_dropped",
        "port_xmit_wait",
        "multicast_xmit_packets",
        "multicast_rcv_packets",
        // Broadcom's driver lists these names of mlx5 and never fills them in.
        "rp_cnp_ignored",
        "rx_icrc_encapsulated",
        "roce_adp_retrans",
        "roce_adp_retrans_to",
        "roce_slow_restart",
        "roce_slow_restart_cnps",
        "roce_slow_restart_trans",
        "req_cqe_flush_error",
        "resp_cqe_flush_error",
    ],
    ..RdmaDriver::PLAIN
};
