//! erdma/erdma_verbs.c, and Alibaba's out-of-tree driver, which adds the prefix `hw_`.

use super::{RdmaDriver, Width, pma, words};

pub(super) static DRIVER: RdmaDriver = RdmaDriver {
    names: &["erdma"],
    port: words! { Width::Wide;
        "tx_bytes_cnt" | "hw_tx_bytes_cnt" => pma::PORT_XMIT_DATA,
        "rx_bytes_cnt" | "hw_rx_bytes_cnt" => pma::PORT_RCV_DATA,
        "tx_packets_cnt" | "hw_tx_packets_cnt" => pma::PORT_XMIT_PACKETS,
        "rx_packets_cnt" | "hw_rx_packets_cnt" => pma::PORT_RCV_PACKETS,
        "tx_disable_drop_cnt" | "hw_tx_disable_drop_cnt" => pma::PORT_XMIT_DISCARDS,
        "rx_disable_drop_cnt" | "hw_rx_disable_drop_cnt" => pma::PORT_RCV_DISCARDS,
    },
    ..RdmaDriver::PLAIN
};
