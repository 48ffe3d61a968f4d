//! rxe/rxe_hw_counters.c. siw, the other software device, has no counters.

use super::{RdmaDriver, Width, hw, pma, words};

pub(super) static DRIVER: RdmaDriver = RdmaDriver {
    // A software device has no `device/driver` link.
    names: &[],
    port: words! { Width::Wide;
        "sent_pkts" => pma::PORT_XMIT_PACKETS,
        "rcvd_pkts" => pma::PORT_RCV_PACKETS,
        "out_of_seq_request" => hw::OUT_OF_SEQUENCE,
        "rcvd_seq_err" => hw::PACKET_SEQ_ERR,
        "rcvd_rnr_err" => hw::RNR_NAK_RETRY_ERR,
        "retry_exceeded_err" => hw::REQ_TRANSPORT_RETRIES_EXCEEDED,
        "retry_rnr_exceeded_err" => hw::REQ_RNR_RETRIES_EXCEEDED,
        "link_downed" => pma::LINK_DOWNED,
    },
    ..RdmaDriver::PLAIN
};
