//! cxgb4/provider.c: segments of TCP, for IPv4 and IPv6 (`ip4RetransSegs`), counted by the device. RoCE has none.

use super::RdmaDriver;

pub(super) static DRIVER: RdmaDriver = RdmaDriver {
    names: &["cxgb4", "iw_cxgb4"],
    ..RdmaDriver::PLAIN
};
