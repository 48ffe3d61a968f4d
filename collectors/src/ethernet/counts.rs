//! A driver's statistics as metric values.

use std::collections::BTreeMap;

use super::drivers::{EthernetDriver, Row, Scale};
use super::metrics::Owner;
use crate::netlink::dcb::Pfc;
use crate::{Block, Metric, Value};

/// Values by index of the first table row with the same meaning, and number of the priority or lane.
pub(super) struct EthernetCounts {
    rows: &'static [Row],
    /// `None`: a part of the value could not be read.
    found: BTreeMap<(usize, Option<u8>), Option<u64>>,
    /// Statistics with all bits set, which drivers return for values that the firmware could not read.
    pub(super) all_ones: u64,
}

impl EthernetCounts {
    /// Takes the statistics in the driver's table. Flow control statistics of a priority without flow control are
    /// omitted while they are 0: a switch can pause such a priority, and firmware can have others than DCB. `pfc` is
    /// `None` if the driver has no DCB.
    pub(super) fn of<'a>(
        driver: &EthernetDriver,
        pfc: Option<&Pfc>,
        statistics: impl Iterator<Item = (&'a str, u64)>,
    ) -> Self {
        let mut counts = Self {
            rows: driver.rows,
            found: BTreeMap::new(),
            all_ones: 0,
        };
        for (name, value) in statistics {
            counts.take(pfc, name, value);
        }
        counts
    }

    fn take(&mut self, pfc: Option<&Pfc>, name: &str, value: u64) {
        let rows = self.rows;
        let Some((row, number)) = rows.iter().find_map(|row| Some((row, row.matches(name)?))) else {
            return;
        };
        let without = |number| pfc.is_some_and(|pfc| !pfc.is_on(number));
        if row.of_pfc && value == 0 && number.is_some_and(without) {
            return;
        }
        let value = Some(value).filter(|n| *n != u64::MAX);
        self.all_ones += u64::from(value.is_none());
        let first = rows.iter().position(|r| r.is_same(row)).unwrap_or_default();
        self.found
            .entry((first, number))
            .and_modify(|sum| {
                *sum = if row.is_other_name {
                    // Firmware that does not fill in one of the names leaves it at 0.
                    (*sum).max(value)
                } else {
                    // If one addend is missing, the sum is missing.
                    sum.zip(value).and_then(|(a, b)| a.checked_add(b))
                }
            })
            .or_insert(value);
    }

    /// Whether the statistics hold a value for a metric.
    pub(super) fn has(&self, metric: &Metric) -> bool {
        let of = |(at, _): &(usize, Option<u8>)| self.rows.get(*at).is_some_and(|r| r.metric == metric);
        self.found.keys().any(of)
    }

    /// Adds them to a reading.
    pub(super) fn push(&self, owner: Owner<'_>, out: &mut Block) {
        for ((at, number), count) in &self.found {
            let Some(row) = self.rows.get(*at) else { continue };
            let number = number.map(|n| n.to_string());
            let own: Vec<&str> = [number.as_deref(), row.label].into_iter().flatten().collect();
            let value = count.map_or(Value::Absent, |n| scaled(n, row.scale));
            out.push(row.metric, &owner.labels(&own), value);
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "microseconds of centuries")]
fn scaled(count: u64, scale: Scale) -> Value {
    match scale {
        Scale::One => Value::U64(count),
        Scale::Microseconds => Value::F64(count as f64 / 1e6),
        Scale::Percent if count <= 100 => Value::F64(count as f64 / 100.0),
        Scale::Percent => Value::Absent,
    }
}
