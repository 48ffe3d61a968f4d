//! What node_exporter calls the same numbers.

use crate::metric::{Alias, Kind};

/// The page that speaks like node_exporter.
pub(super) const PAGE: &str = "node_exporter";

/// A number of a port: the labels are the same, and so is the unit.
pub(super) const fn port(name: &'static str, kind: Kind) -> Alias {
    Alias::new(PAGE, name, kind, &[("device", "device"), ("port", "port")])
}
