//! hfi1: hundreds of words for its own hardware, with commas in them (`SDMAInt10,32`), and a PMA of Omni-Path (hfi1/mad.c).

use super::super::{PORT_RCV_FLITS, PORT_XMIT_FLITS};
use super::{RdmaDriver, Width, words};

pub(super) static DRIVER: RdmaDriver = RdmaDriver {
    names: &["hfi1"],
    // In flits, and not in InfiniBand's words of four bytes.
    pma: words! { Width::Wide;
        "port_xmit_data" => PORT_XMIT_FLITS,
        "port_rcv_data" => PORT_RCV_FLITS,
    },
    // Wired to 0.
    wrong: &["unicast_xmit_packets", "unicast_rcv_packets"],
    ..RdmaDriver::PLAIN
};
