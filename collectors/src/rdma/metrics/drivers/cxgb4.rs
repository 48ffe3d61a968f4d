//! cxgb4/provider.c: device-level counters of TCP segments for IPv4 and IPv6 (`ip4RetransSegs`). No RoCE equivalent.

use super::RdmaDriver;

pub(super) static DRIVER: RdmaDriver = RdmaDriver {
    names: &["cxgb4", "iw_cxgb4"],
    ..RdmaDriver::PLAIN
};
