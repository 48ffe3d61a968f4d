//! irdma/verbs.c. Hardware counters are 24 to 56 bits wide; the driver accumulates the differences once a minute and on each
//! read. The second generation has no counter of RoCE retransmissions; names of the third generation contain spaces.

use super::{RdmaDriver, Width, hw, words};

pub(super) static DRIVER: RdmaDriver = RdmaDriver {
    // The Ethernet drivers: `ice` (E810) and `i40e` (X722).
    names: &["ice", "i40e", "idpf", "irdma"],
    port: words! { Width::Wide;
        "cnpSent" => hw::NP_CNP_SENT,
        "cnpHandled" => hw::RP_CNP_HANDLED,
        "cnpIgnored" => hw::RP_CNP_IGNORED,
        "RxECNMrkd" => hw::NP_ECN_MARKED_ROCE_PACKETS,
        "RNR received" => hw::RNR_NAK_RETRY_ERR,
        "Nak Sequence Error" => hw::PACKET_SEQ_ERR,
        "Nak Sequence Error Implied" => hw::IMPLIED_NAK_SEQ_ERR,
        "RTO" => hw::LOCAL_ACK_TIMEOUT_ERR,
        "Rcvd Out of order packets" => hw::OUT_OF_SEQUENCE,
        "CRC errors" => hw::RX_ICRC_ENCAPSULATED,
        "Rx atomics" => hw::RX_ATOMIC_REQUESTS,
    },
    ..RdmaDriver::PLAIN
};
