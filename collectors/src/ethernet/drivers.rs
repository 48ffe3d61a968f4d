//! Names of drivers' statistics: one table for each driver, from its name for a count to the metric.

mod bnxt;
mod hns3;
mod ice;
mod ionic;
mod mlx4;
mod mlx5;
mod row;

pub(super) use row::{Row, Scale};

/// What nodewarden knows about one driver.
#[derive(Debug)]
pub(super) struct EthernetDriver {
    /// The name of the PCI driver.
    name: &'static str,
    pub(super) rows: &'static [Row],
    /// The driver has no DCB, and its statistics are in the host's memory. They cost no firmware command and are
    /// read whether priorities have flow control or not.
    pub(super) without_dcb: bool,
    /// Without a priority that was set by DCB, the driver reports none and does not ask the firmware, which other tools
    /// configure.
    pub(super) hides_pfc: bool,
}

static DRIVERS: &[EthernetDriver] = &[
    EthernetDriver::new("mlx5_core", mlx5::ROWS),
    EthernetDriver {
        hides_pfc: true,
        ..EthernetDriver::new("bnxt_en", bnxt::ROWS)
    },
    // Thor Ultra (BCM57708), with the names of bnxt_en.
    EthernetDriver {
        hides_pfc: true,
        ..EthernetDriver::new("bng_en", bnxt::ROWS)
    },
    EthernetDriver::new("ice", ice::ROWS),
    EthernetDriver {
        without_dcb: true,
        ..EthernetDriver::new("ionic", ionic::ROWS)
    },
    EthernetDriver::new("hns3", hns3::ROWS),
    EthernetDriver::new("mlx4_core", mlx4::ROWS),
];

/// Drivers without a table here that fill in the counts of DCB. Most drivers leave them at zero.
const COUNTING_BY_DCB: [&str; 1] = ["i40e"];

/// Whether the driver fills in the counts of DCB.
pub(super) fn counts_by_dcb(driver: &str) -> bool {
    COUNTING_BY_DCB.contains(&driver)
}

impl EthernetDriver {
    const fn new(name: &'static str, rows: &'static [Row]) -> Self {
        Self {
            name,
            rows,
            without_dcb: false,
            hides_pfc: false,
        }
    }

    /// The driver with this name.
    pub(super) fn named(name: &str) -> Option<&'static Self> {
        // `mlx5_core.sf` drives the subfunctions of mlx5_core.
        let name = name.split('.').next().unwrap_or_default();
        DRIVERS.iter().find(|d| d.name == name)
    }
}

#[cfg(test)]
mod tests;
