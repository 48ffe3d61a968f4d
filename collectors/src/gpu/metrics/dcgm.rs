//! Aliases on the dcgm-exporter page: names as before DCGM 4.6, the labels that it puts on every series, and its units.

use super::DCGM_INFO;
use crate::metric::{Alias, Join, Kind};

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
        ("Hostname", "hostname"),
        ("DCGM_FI_DRIVER_VERSION", "driver"),
    ],
};

/// An alias under construction.
pub(crate) struct AliasBuilder(Alias);

const fn of(name: &'static str, kind: Kind) -> AliasBuilder {
    AliasBuilder(Alias {
        join: Some(&DCGM_LABELS),
        ..Alias::new(PAGE, name, kind, &[])
    })
}

/// A metric that dcgm-exporter declares as a gauge.
pub(crate) const fn gauge(name: &'static str) -> AliasBuilder {
    of(name, Kind::Gauge)
}

/// A metric that dcgm-exporter declares as a counter.
pub(crate) const fn counter(name: &'static str) -> AliasBuilder {
    of(name, Kind::Counter)
}

impl AliasBuilder {
    /// In DCGM's unit: our value multiplied by `scale`, and rounded if `whole`.
    const fn scaled(self, scale: f64, whole: bool) -> Alias {
        Alias {
            scale,
            whole,
            ..self.0
        }
    }

    /// Unscaled.
    pub(crate) const fn same(self) -> Alias {
        self.0
    }

    /// Bytes per second, rounded, because our value is an average.
    pub(crate) const fn whole(self) -> Alias {
        self.scaled(1.0, true)
    }

    /// Percent, rounded, instead of a ratio.
    pub(crate) const fn percent(self) -> Alias {
        self.scaled(100.0, true)
    }

    /// MiB, which DCGM calls MB.
    pub(crate) const fn mebibytes(self) -> Alias {
        self.scaled(1.0 / 1_048_576.0, true)
    }

    /// 1000 KiB, which DCGM calls MB.
    pub(crate) const fn thousand_kibibytes(self) -> Alias {
        self.scaled(1.0 / 1_024_000.0, true)
    }

    /// Megabytes per second.
    pub(crate) const fn megabytes(self) -> Alias {
        self.scaled(1e-6, true)
    }

    /// Megahertz.
    pub(crate) const fn megahertz(self) -> Alias {
        self.scaled(1e-6, true)
    }

    /// Millijoules.
    pub(crate) const fn millijoules(self) -> Alias {
        self.scaled(1e3, true)
    }

    /// Nanoseconds.
    pub(crate) const fn nanoseconds(self) -> Alias {
        self.scaled(1e9, true)
    }

    /// Only series with these values of our labels.
    pub(crate) const fn only(self, only: &'static [(&'static str, &'static str)]) -> Self {
        Self(Alias { only, ..self.0 })
    }
}
