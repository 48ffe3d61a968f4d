//! What each driver calls its counters: one table for each. What means the same has one metric, whoever counts it; the
//! words are those of mlx5 and of InfiniBand's PMA where they have one.

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
use super::{DEVICE_HW_COUNTER, HW_COUNTER, HW_GAUGE, PORT_COUNTER, hw, optional, pma};
use crate::Metric;

/// A driver and its words.
struct RdmaDriver {
    /// What `device/driver` in sysfs may be: a module of its own, or that of the network card below it. None: the device
    /// has no such link.
    names: &'static [&'static str],
    /// Of a port's `hw_counters`.
    port: &'static [Row],
    /// Of the device's own `hw_counters`.
    device: &'static [Row],
    /// Of `counters/`, where they are not what every other driver means.
    pma: &'static [Row],
    /// Of a port that rise and fall. A `*` at the end stands for anything.
    gauges: &'static [&'static str],
    /// Of any folder that do not say what they are called.
    wrong: &'static [&'static str],
    /// Before the words of mlx5.
    prefix: Option<&'static str>,
}

static DRIVERS: [&RdmaDriver; 12] = [
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
    /// With no words but those of mlx5.
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

/// Rows of a driver: its word, or several that it has had for the same, and the metric. They count bytes and packets.
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

/// What a word becomes.
#[derive(Clone, Copy, Debug)]
pub(in crate::rdma) struct Means {
    /// Where there is a metric for it.
    pub(in crate::rdma) row: Option<&'static Row>,
    /// How large it can become.
    pub(in crate::rdma) width: Width,
    /// The metric where there is none, with the word as a label.
    pub(in crate::rdma) own: &'static Metric,
}

/// The words of the driver of one port.
#[derive(Clone, Copy)]
pub(in crate::rdma) struct Words {
    driver: Option<&'static RdmaDriver>,
    /// The port has a PMA, which counts what belongs there.
    pub(in crate::rdma) has_pma: bool,
}

impl Words {
    /// By the name in `device/driver`, empty where there is none. Of a driver that has no table any word of any table is
    /// taken for what it is there.
    pub(in crate::rdma) fn of(driver: &str) -> Self {
        let known = DRIVERS.into_iter().find(|d| d.names.contains(&driver));
        Self {
            driver: known,
            has_pma: false,
        }
    }

    fn drivers(self) -> impl Iterator<Item = &'static RdmaDriver> {
        let all = if self.driver.is_none() { &DRIVERS[..] } else { &[] };
        self.driver.into_iter().chain(all.iter().copied())
    }

    /// A file of `hw_counters/` of a port, or what netlink calls so. `None`: it is not what it is called.
    pub(in crate::rdma) fn port(self, word: &str) -> Option<Means> {
        let own = self.drivers().flat_map(|d| d.port).find(|r| r.file == word);
        let prefix = self.driver.and_then(|d| d.prefix);
        let plain = || {
            let word = prefix.and_then(|p| word.strip_prefix(p)).unwrap_or(word);
            hw::ROWS.iter().chain(optional::ROWS).find(|r| r.file == word)
        };
        let row = own.or_else(plain);
        // Whoever else has a word of mlx5's has not its hardware.
        let is_as_wide = own.is_some() || prefix.is_some();
        let row = row.filter(|r| !self.has_pma || !pma::METRICS.iter().any(|m| std::ptr::eq(*m, r.metric)));
        let means = self.means(word, row, (&HW_COUNTER, &HW_GAUGE))?;
        let width = if is_as_wide { means.width } else { Width::Wide };
        Some(Means { width, ..means })
    }

    /// A file of `hw_counters/` of a device, which is a port's where the device has one port.
    pub(in crate::rdma) fn device(self, word: &str, is_only_port: bool) -> Option<Means> {
        let all = self.driver.filter(|_| is_only_port);
        let row = all.and_then(|d| d.device.iter().find(|r| r.file == word));
        self.means(word, row, (&DEVICE_HW_COUNTER, &DEVICE_HW_COUNTER))
    }

    /// A file of `counters/`.
    pub(in crate::rdma) fn pma(self, word: &str) -> Option<Means> {
        let own = self.driver.and_then(|d| d.pma.iter().find(|r| r.file == word));
        let row = own.or_else(|| pma::ROWS.iter().find(|r| r.file == word));
        self.means(word, row, (&PORT_COUNTER, &PORT_COUNTER))
    }

    fn means(
        self,
        word: &str,
        row: Option<&'static Row>,
        (counter, gauge): (&'static Metric, &'static Metric),
    ) -> Option<Means> {
        let is_one = |words: &[&str]| words.iter().any(|w| is_match(w, word));
        let is_gauge = self.drivers().any(|d| is_one(d.gauges));
        let own = if is_gauge { gauge } else { counter };
        // Without its driver nobody knows which one lies.
        let is_wrong = self.driver.is_some_and(|d| is_one(d.wrong));
        let width = row.map_or(Width::Wide, |r| r.width);
        (!is_wrong).then_some(Means { row, width, own })
    }
}

fn is_match(pattern: &str, word: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(begin) => word.starts_with(begin),
        None => pattern == word,
    }
}

#[cfg(test)]
mod tests;
