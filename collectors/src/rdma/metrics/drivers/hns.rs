//! hns/hns_roce_main.c.

use super::{RdmaDriver, Width, hw, pma, words};

pub(super) static DRIVER: RdmaDriver = RdmaDriver {
    // `hns3` is the Ethernet driver.
    names: &["hns3", "hns_roce_hw_v2"],
    port: words! { Width::Wide;
        "tx_cnp_pkt" => hw::NP_CNP_SENT,
        "rx_cnp_pkt" => hw::RP_CNP_HANDLED,
        "tx_pkt" => pma::PORT_XMIT_PACKETS,
        "rx_pkt" => pma::PORT_RCV_PACKETS,
        "rx_err_pkt" => pma::PORT_RCV_ERRORS,
    },
    ..RdmaDriver::PLAIN
};
