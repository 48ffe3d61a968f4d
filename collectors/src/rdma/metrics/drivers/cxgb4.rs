//! cxgb4/provider.c: device-level counters of TCP segments for IPv4 and IPv6 (`ip4RetransSegs`). No RoCE equivalent.

use super::Driver;

pub(super) static DRIVER: Driver = Driver {
    names: &["cxgb4", "iw_cxgb4"],
    ..Driver::PLAIN
};
