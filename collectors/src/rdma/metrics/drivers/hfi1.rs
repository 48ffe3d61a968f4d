//! hfi1: hundreds of hardware-specific counters, some with commas in the name (`SDMAInt10,32`), and an Omni-Path PMA
//! (hfi1/mad.c).

use super::super::{PORT_RCV_FLITS, PORT_XMIT_FLITS};
use super::{RdmaDriver, Width, words};

pub(super) static DRIVER: RdmaDriver = RdmaDriver {
    names: &["hfi1"],
    // In flits, not in InfiniBand's 4-byte words.
    pma: words! { Width::Wide;
        "port_xmit_data" => PORT_XMIT_FLITS,
        "port_rcv_data" => PORT_RCV_FLITS,
    },
    // Always 0.
    wrong: &["symbol_error", "unicast_xmit_packets", "unicast_rcv_packets"],
    ..RdmaDriver::PLAIN
};
