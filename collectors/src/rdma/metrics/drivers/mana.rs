//! mana/counters.c. CNPs sent and ECN marks received are device-level counters.

use super::{RdmaDriver, Width, hw, pma, words};

pub(super) static DRIVER: RdmaDriver = RdmaDriver {
    names: &["mana", "mana_ib"],
    port: words! { Width::Wide;
        "received_cnps" => hw::RP_CNP_HANDLED,
        "requester_timeout" => hw::LOCAL_ACK_TIMEOUT_ERR,
        "requester_oos_nak" => hw::PACKET_SEQ_ERR,
        "requester_rnr_nak" => hw::RNR_NAK_RETRY_ERR,
        "requester_implicit_nak" => hw::IMPLIED_NAK_SEQ_ERR,
        "requester_retries_exceeded" => hw::REQ_TRANSPORT_RETRIES_EXCEEDED,
        "requester_rnr_nak_retries_exceeded" => hw::REQ_RNR_RETRIES_EXCEEDED,
        "nak_inv_req" => hw::REQ_REMOTE_INVALID_REQUEST,
        "nak_access_error" => hw::REQ_REMOTE_ACCESS_ERRORS,
        "responder_oos" => hw::OUT_OF_SEQUENCE,
        "responder_dup_request" => hw::DUPLICATE_REQUEST,
        "responder_local_len_error" => hw::RESP_LOCAL_LENGTH_ERROR,
        "responder_rem_access_error" => hw::RESP_REMOTE_ACCESS_ERRORS,
        "tx_bytes" => pma::PORT_XMIT_DATA,
        "rx_bytes" => pma::PORT_RCV_DATA,
        "tx_packets" => pma::PORT_XMIT_PACKETS,
        "rx_packets" => pma::PORT_RCV_PACKETS,
    },
    device: words! { Width::Wide;
        "sent_cnps" => hw::NP_CNP_SENT,
        "received_ecns" => hw::NP_ECN_MARKED_ROCE_PACKETS,
    },
    gauges: &["current_rate", "num_qps_congested"],
    ..RdmaDriver::PLAIN
};
