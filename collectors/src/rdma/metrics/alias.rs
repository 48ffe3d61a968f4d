//! Aliases on the node_exporter page.

use crate::metric::{Alias, Kind};

/// The node_exporter compatibility page.
pub(super) const PAGE: &str = "node_exporter";

/// A port metric with the same labels and unit.
pub(super) const fn port(name: &'static str, kind: Kind) -> Alias {
    Alias::new(PAGE, name, kind, &[("device", "device"), ("port", "port")])
}
