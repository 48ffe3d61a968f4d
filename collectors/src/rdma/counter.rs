//! The counters in one folder, each with the metric that it becomes.

use std::path::Path;
use std::time::Instant;

use super::attribute::{Attribute, Files};
use super::metrics::{self, Row, Width};
use super::text::{Reason, number};
use crate::sys::root;
use crate::{Error, Metric, Value};

/// One file of a folder of counters.
pub(super) struct Counter {
    file: Attribute,
    pub(super) meaning: Meaning,
}

/// What a counter becomes.
pub(super) struct Meaning {
    /// As the driver calls it.
    pub(super) name: String,
    /// What it becomes.
    pub(super) metric: &'static Metric,
    /// Whether the metric has its name as third label.
    pub(super) is_named: bool,
    scale: u64,
    /// The number at which it stops counting.
    pub(super) maximum: Option<u64>,
}

/// What one counter said.
pub(super) struct Reading {
    pub(super) value: Value,
    /// Whether it stands at its maximum; `None` where that is not known.
    pub(super) is_saturated: Option<bool>,
}

impl Counter {
    /// Reads it.
    pub(super) fn read(&mut self, now: Instant) -> Result<Reading, Reason> {
        let count = self.file.read(now, number)?;
        self.meaning.reading(count)
    }
}

impl Meaning {
    /// By its row, or under one metric for all that have none.
    pub(super) fn new(name: String, row: Option<&'static Row>, other: &'static Metric) -> Self {
        Self {
            metric: row.map_or(other, |r| r.metric),
            is_named: row.is_none(),
            scale: row.map_or(1, |r| r.scale),
            maximum: row.map_or(Width::Wide, |r| r.width).maximum(),
            name,
        }
    }

    /// What a count says.
    pub(super) fn reading(&self, count: u64) -> Result<Reading, Reason> {
        let value = count.checked_mul(self.scale).ok_or(Reason::Malformed)?;
        Ok(Reading {
            value: Value::U64(value),
            is_saturated: self.maximum.map(|maximum| count == maximum),
        })
    }
}

/// The counters of `counters/`, by name.
pub(super) fn of_pma(folder: &Path, driver: &str, files: &Files) -> Result<Vec<Counter>, Error> {
    let rows = metrics::pma::ROWS;
    let counters = names(folder)?
        .into_iter()
        .filter_map(|name| {
            let row = rows.iter().find(|r| r.file == name);
            let row = match (driver, name.as_str()) {
                // hfi1 counts flits there, whose size is not InfiniBand's four bytes, and has wired these to 0.
                ("hfi1", "port_xmit_data" | "port_rcv_data") => None,
                ("hfi1", "unicast_xmit_packets" | "unicast_rcv_packets") => return None,
                _ => row,
            };
            Some(counter(folder, name, row, &metrics::PORT_COUNTER, files))
        })
        .collect();
    Ok(counters)
}

/// The counters of `hw_counters/`, by name; the one first that makes mlx5 fill the kernel's cache of all of them. Read
/// in another order, each of the ninety costs up to three commands of the firmware.
pub(super) fn of_hw(
    folder: &Path,
    row: impl Fn(&str) -> Option<&'static Row>,
    other: &'static Metric,
    files: &Files,
) -> Result<Vec<Counter>, Error> {
    let mut counters: Vec<Counter> = names(folder)?
        .into_iter()
        // A setting, not a counter.
        .filter(|name| name != "lifespan")
        .map(|name| {
            let row = row(&name);
            counter(folder, name, row, other, files)
        })
        .collect();
    counters.sort_by_key(|c| c.meaning.name != "rx_write_requests");
    Ok(counters)
}

fn counter(
    folder: &Path,
    name: String,
    row: Option<&'static Row>,
    other: &'static Metric,
    files: &Files,
) -> Counter {
    Counter {
        file: files.attribute(folder.join(&name)),
        meaning: Meaning::new(name, row, other),
    }
}

/// The files of a folder; none where the driver has no such folder.
fn names(folder: &Path) -> Result<Vec<String>, Error> {
    let mut names = root::list(folder)?.unwrap_or_default();
    names.retain(|n| n.len() <= 128 && !n.chars().any(char::is_control));
    Ok(names)
}
