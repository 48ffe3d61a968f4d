//! Counter names of each driver, one table per driver. Counters with the same meaning share one metric across drivers, named
//! after mlx5 and InfiniBand's PMA where these have the counter.

mod bnxt_re;
mod cxgb4;
mod efa;
mod erdma;
mod hfi1;
mod hns;
mod ionic;
mod irdma;
mod mana;
mod mlx4;
mod mlx5;
mod rxe;

use super::row::{Row, Width};
use super::{DEVICE_HW_COUNTER, HW_COUNTER, HW_GAUGE, PORT_COUNTER, ext, hw, optional, pma};
use crate::Metric;

/// A driver and its counter names.
struct RdmaDriver {
    /// Possible values of `device/driver` in sysfs: the RDMA driver, or the Ethernet driver that owns the PCI device. Empty: the
    /// device has no such link.
    names: &'static [&'static str],
    /// Names in a port's `hw_counters`.
    port: &'static [Row],
    /// Names in the device's own `hw_counters`.
    device: &'static [Row],
    /// Names in `counters/` whose meaning differs from other drivers.
    pma: &'static [Row],
    /// Gauges of a port. A trailing `*` matches any suffix.
    gauges: &'static [&'static str],
    /// Names, in any directory, whose value is not what the name says.
    wrong: &'static [&'static str],
    /// Prefix before the names of mlx5.
    prefix: Option<&'static str>,
}

static DRIVERS: &[&RdmaDriver] = &[
    &mlx5::DRIVER,
    &mlx4::DRIVER,
    &bnxt_re::DRIVER,
    &irdma::DRIVER,
    &hns::DRIVER,
    &ionic::DRIVER,
    &mana::DRIVER,
    &efa::DRIVER,
    &erdma::DRIVER,
    &hfi1::DRIVER,
    &cxgb4::DRIVER,
    &rxe::DRIVER,
];

impl RdmaDriver {
    /// Only the names of mlx5.
    const PLAIN: Self = Self {
        names: &[],
        port: &[],
        device: &[],
        pma: &[],
        gauges: &[],
        wrong: &[],
        prefix: None,
    };
}

/// Rows of a driver: its name for a counter, or several over time, and the metric. The units are bytes and packets.
macro_rules! words {
    ($width:expr; $($($word:literal)|+ => $metric:path,)*) => {
        &[$($($crate::rdma::metrics::row::Row {
            file: $word,
            metric: &$metric,
            scale: 1,
            width: $width,
        },)+)*]
    };
}
use words;

/// Meaning of a counter name.
#[derive(Clone, Copy, Debug)]
pub(in crate::rdma) struct Means {
    /// The row of its metric, if it has one.
    pub(in crate::rdma) row: Option<&'static Row>,
    /// Width of the counter.
    pub(in crate::rdma) width: Width,
    /// The generic metric otherwise, with the name as a label.
    pub(in crate::rdma) own: &'static Metric,
}

/// Counter names of the driver of one port.
#[derive(Clone)]
pub(in crate::rdma) struct Words {
    driver: Option<&'static RdmaDriver>,
    /// Metrics that the port's PMA has, which are not taken from `hw_counters/` too.
    pub(in crate::rdma) of_pma: Vec<&'static Metric>,
}

impl Words {
    /// By the name in `device/driver`, empty if there is no link. For a driver without a table, a name in any table has the
    /// meaning of that table.
    pub(in crate::rdma) fn of(driver: &str) -> Self {
        let known = DRIVERS.iter().copied().find(|d| d.names.contains(&driver));
        Self {
            driver: known,
            of_pma: Vec::new(),
        }
    }

    fn drivers(&self) -> impl Iterator<Item = &'static RdmaDriver> {
        let all = if self.driver.is_none() { DRIVERS } else { &[] };
        self.driver.into_iter().chain(all.iter().copied())
    }

    /// A file in a port's `hw_counters/`, or a netlink counter of that name. `None`: its value is not what its name says.
    pub(in crate::rdma) fn port(&self, word: &str) -> Option<Means> {
        let own = self.drivers().flat_map(|d| d.port).find(|r| r.file == word);
        let prefix = self.driver.and_then(|d| d.prefix);
        let plain = || {
            let word = prefix.and_then(|p| word.strip_prefix(p)).unwrap_or(word);
            hw::ROWS.iter().chain(optional::ROWS).find(|r| r.file == word)
        };
        let row = own.or_else(plain);
        // Other drivers with an mlx5 name do not have its hardware width.
        let is_as_wide = own.is_some() || prefix.is_some();
        let row = row.filter(|r| !self.of_pma.iter().any(|m| std::ptr::eq(*m, r.metric)));
        let means = self.means(word, row, (&HW_COUNTER, &HW_GAUGE))?;
        let width = if is_as_wide { means.width } else { Width::Wide };
        Some(Means { width, ..means })
    }

    /// A file in a device's `hw_counters/`, which belongs to the port if the device has only one.
    pub(in crate::rdma) fn device(&self, word: &str, is_only_port: bool) -> Option<Means> {
        let all = self.driver.filter(|_| is_only_port);
        let row = all.and_then(|d| d.device.iter().find(|r| r.file == word));
        self.means(word, row, (&DEVICE_HW_COUNTER, &DEVICE_HW_COUNTER))
    }

    /// A file in `counters/`.
    pub(in crate::rdma) fn pma(&self, word: &str) -> Option<Means> {
        let own = self.driver.and_then(|d| d.pma.iter().find(|r| r.file == word));
        let row = own.or_else(|| pma::ROWS.iter().find(|r| r.file == word));
        self.means(word, row, (&PORT_COUNTER, &PORT_COUNTER))
    }

    /// A file in `counters_ext/`. `None` for a driver with a meaning of its own for the PMA's words: its units differ.
    pub(in crate::rdma) fn ext(&self, word: &str) -> Option<Means> {
        let is_plain = self.driver.is_none_or(|d| d.pma.is_empty());
        let row = ext::ROWS.iter().find(|r| r.file == word && is_plain)?;
        self.means(word, Some(row), (&PORT_COUNTER, &PORT_COUNTER))
    }

    fn means(
        &self,
        word: &str,
        row: Option<&'static Row>,
        (counter, gauge): (&'static Metric, &'static Metric),
    ) -> Option<Means> {
        let is_one = |words: &[&str]| words.iter().any(|w| is_match(w, word));
        let is_gauge = self.drivers().any(|d| is_one(d.gauges));
        let own = if is_gauge { gauge } else { counter };
        // Without a known driver, wrong names are unknown too.
        let is_wrong = self.driver.is_some_and(|d| is_one(d.wrong));
        let width = row.map_or(Width::Wide, |r| r.width);
        (!is_wrong).then_some(Means { row, width, own })
    }
}

/// Whether a driver, by its name in `device/driver`, has a table.
pub(in crate::rdma) fn has_table(driver: &str) -> bool {
    DRIVERS.iter().any(|d| d.names.contains(&driver))
}

/// Whether a counter of this name is in any table.
pub(in crate::rdma) fn is_counter(word: &str) -> bool {
    let prefixes = DRIVERS.iter().filter_map(|d| d.prefix);
    let mut plain = prefixes
        .filter_map(|prefix| word.strip_prefix(prefix))
        .chain([word]);
    let own = DRIVERS.iter().flat_map(|d| [d.port, d.device, d.pma]).flatten();
    own.chain(pma::ROWS).chain(ext::ROWS).any(|row| row.file == word)
        || plain.any(|word| hw::ROWS.iter().chain(optional::ROWS).any(|row| row.file == word))
}

fn is_match(pattern: &str, word: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(begin) => word.starts_with(begin),
        None => pattern == word,
    }
}

#[cfg(test)]
mod tests;
