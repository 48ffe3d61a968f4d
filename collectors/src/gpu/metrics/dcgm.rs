//! Aliases on the dcgm-exporter page: names as before DCGM 4.6, the labels that it puts on every series, and its units.

use super::DCGM_INFO;
use super::alias::AliasBuilder;
use crate::metric::{Join, Joined, Kind};

/// The dcgm-exporter compatibility page.
const PAGE: &str = "dcgm";

/// Labels that dcgm-exporter puts on every series.
pub static DCGM_LABELS: Join = Join {
    info: &DCGM_INFO,
    by: &["gpu", "gpu_instance"],
    labels: &[
        ("gpu", "index"),
        ("UUID", "gpu"),
        ("pci_bus_id", "pci_bus_id"),
        ("device", "device"),
        ("modelName", "name"),
        ("GPU_I_PROFILE", "profile"),
        ("GPU_I_ID", "instance_id"),
        // dcgm-exporter up to 4.8.2, and since 4.8.3.
        ("Hostname", "hostname"),
        ("hostname", "hostname"),
        ("DCGM_FI_DRIVER_VERSION", "driver"),
    ],
};

/// A metric that dcgm-exporter declares as a gauge.
pub(crate) const fn gauge(name: &'static str) -> AliasBuilder {
    AliasBuilder::new(PAGE, name, Kind::Gauge, Joined::Dcgm)
}

/// A metric that dcgm-exporter declares as a counter.
pub(crate) const fn counter(name: &'static str) -> AliasBuilder {
    AliasBuilder::new(PAGE, name, Kind::Counter, Joined::Dcgm)
}
