//! efa/efa_verbs.c. Older kernels list the counters of the device and of its port together.

use super::{RdmaDriver, Width, hw, pma, words};

pub(super) static DRIVER: RdmaDriver = RdmaDriver {
    names: &["efa"],
    port: words! { Width::Wide;
        "tx_bytes" => pma::PORT_XMIT_DATA,
        "rx_bytes" => pma::PORT_RCV_DATA,
        "tx_pkts" => pma::PORT_XMIT_PACKETS,
        "rx_pkts" => pma::PORT_RCV_PACKETS,
        "rx_drops" => pma::PORT_RCV_DISCARDS,
        "retrans_timeout_events" => hw::LOCAL_ACK_TIMEOUT_ERR,
    },
    ..RdmaDriver::PLAIN
};
