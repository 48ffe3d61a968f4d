//! Counters summed over mounts and targets. A counter that restarts (remount, a write to its file) adds what it has counted
//! since; without that, the sum of a thousand targets would look restarted because one of them was.

use std::collections::BTreeMap;

use super::stats::{RowUnit, Stats};

/// One counter as it was read last.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Last(u64);

impl Last {
    /// The growth since the last reading; at the first reading, all of it.
    pub(super) const fn growth(&mut self, now: u64) -> u64 {
        let before = self.0;
        self.0 = now;
        match now.checked_sub(before) {
            Some(growth) => growth,
            None => now,
        }
    }
}

/// The sum of one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Total {
    pub(super) count: u64,
    /// `None`: no file had this column.
    pub(super) sum: Option<u64>,
    pub(super) unit: RowUnit,
}

/// Rows summed over files, by name. `None`: no file has been read.
#[derive(Debug, Default)]
pub(super) struct Totals(Option<BTreeMap<String, Total>>);

/// The rows of one file as they were read last.
#[derive(Debug, Default)]
pub(super) struct Rows {
    start: Option<f64>,
    last: BTreeMap<String, (Last, Last)>,
}

impl Totals {
    /// Adds the growth of a file.
    pub(super) fn add(&mut self, file: &mut Rows, stats: &Stats) {
        let totals = self.0.get_or_insert_default();
        // A file without its header (`enable_stats_header=0`) counts on: only another start is a restart.
        if let (Some(before), Some(now)) = (file.start, stats.start)
            && before.total_cmp(&now).is_ne()
        {
            file.last.clear();
        }
        file.start = stats.start.or(file.start);
        // A row that is left out has no samples: it was cleared.
        file.last.retain(|name, _| stats.rows.contains_key(name));
        for (name, row) in &stats.rows {
            let last = match file.last.get_mut(name) {
                Some(last) => last,
                None => file.last.entry(name.clone()).or_default(),
            };
            let count = last.0.growth(row.count);
            let sum = row.sum.map(|sum| last.1.growth(sum));
            let total = match totals.get_mut(name) {
                Some(total) => total,
                None => totals.entry(name.clone()).or_insert(Total {
                    count: 0,
                    sum: None,
                    unit: row.unit,
                }),
            };
            total.count = total.count.wrapping_add(count);
            if let Some(sum) = sum {
                total.sum = Some(total.sum.unwrap_or_default().wrapping_add(sum));
            }
        }
    }

    /// All rows, by name.
    pub(super) fn rows(&self) -> impl Iterator<Item = (&str, &Total)> {
        self.0
            .iter()
            .flatten()
            .map(|(name, total)| (name.as_str(), total))
    }

    /// Whether a file has been read.
    pub(super) const fn is_read(&self) -> bool {
        self.0.is_some()
    }

    /// The number of samples of a row: 0 where it is left out, as files leave out rows without samples.
    pub(super) fn count(&self, name: &str) -> Option<u64> {
        let rows = self.0.as_ref()?;
        Some(rows.get(name).map_or(0, |total| total.count))
    }

    /// The sum of a row: 0 where it is left out. `None`: not read, or a version without this column.
    pub(super) fn sum(&self, name: &str) -> Option<u64> {
        let rows = self.0.as_ref()?;
        rows.get(name).map_or(Some(0), |total| total.sum)
    }
}

/// Counters summed over files that have no units, by any key. `None`: no file has been read.
#[derive(Debug)]
pub(super) struct Counts<K>(Option<BTreeMap<K, u64>>);

impl<K> Default for Counts<K> {
    fn default() -> Self {
        Self(None)
    }
}

/// The counters of one file as they were read last.
#[derive(Debug)]
pub(super) struct LastCounts<K>(BTreeMap<K, Last>);

impl<K> Default for LastCounts<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord + Clone> Counts<K> {
    /// Adds the growth of a file.
    pub(super) fn add(&mut self, file: &mut LastCounts<K>, now: impl IntoIterator<Item = (K, u64)>) {
        let totals = self.0.get_or_insert_default();
        for (key, value) in now {
            let growth = file.0.entry(key.clone()).or_default().growth(value);
            let total = totals.entry(key).or_default();
            *total = total.wrapping_add(growth);
        }
    }

    /// All counts, by key.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&K, u64)> {
        self.0.iter().flatten().map(|(key, count)| (key, *count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lustre::stats::parse;

    fn file(rows: &str) -> Stats {
        parse(&format!("snapshot_time 1.0 secs.nsecs\n{rows}")).unwrap()
    }

    #[test]
    fn the_sum_over_files_does_not_restart_when_one_of_them_does() {
        let mut totals = Totals::default();
        assert_eq!(totals.count("open"), None);
        let (mut one, mut other) = (Rows::default(), Rows::default());
        totals.add(&mut one, &file("read_bytes 5 samples [bytes] 1 9 50\n"));
        totals.add(&mut other, &file("read_bytes 7 samples [bytes] 1 9 70 9\n"));
        assert_eq!(
            (totals.count("read_bytes"), totals.sum("read_bytes")),
            (Some(12), Some(120))
        );
        // A write to the file: it counts from 0.
        totals.add(&mut one, &file("read_bytes 2 samples [bytes] 1 9 20\n"));
        assert_eq!(
            (totals.count("read_bytes"), totals.sum("read_bytes")),
            (Some(14), Some(140))
        );
        assert_eq!(
            (totals.count("open"), totals.sum("open")),
            (Some(0), Some(0)),
            "left out at 0"
        );
    }

    #[test]
    fn a_cleared_row_counts_from_0_even_if_it_is_soon_higher_than_before() {
        let mut totals = Totals::default();
        let mut rows = Rows::default();
        totals.add(&mut rows, &file("open 5 samples [regs]\n"));
        totals.add(&mut rows, &file(""));
        totals.add(&mut rows, &file("open 6 samples [regs]\n"));
        assert_eq!(totals.count("open"), Some(11));
        let begun = |start: u32, opens: u32| {
            file(&format!(
                "start_time {start}.000000000 secs.nsecs\nopen {opens} samples [reqs]\n"
            ))
        };
        let (mut totals, mut rows) = (Totals::default(), Rows::default());
        totals.add(&mut rows, &begun(100, 5));
        totals.add(&mut rows, &begun(200, 6));
        totals.add(&mut rows, &begun(200, 8));
        assert_eq!(
            totals.count("open"),
            Some(13),
            "the start of counting shows the restart"
        );
    }

    #[test]
    fn a_header_that_is_switched_off_and_on_adds_nothing() {
        let row = "open 5 samples [reqs]\n";
        let begun = || file(&format!("start_time 100.000000000 secs.nsecs\n{row}"));
        let (mut totals, mut rows) = (Totals::default(), Rows::default());
        for stats in [begun(), file(row), begun()] {
            totals.add(&mut rows, &stats);
        }
        assert_eq!(totals.count("open"), Some(5));
        let (mut totals, mut rows) = (Totals::default(), Rows::default());
        for stats in [file(row), begun()] {
            totals.add(&mut rows, &stats);
        }
        assert_eq!(totals.count("open"), Some(5), "off since the mount");
    }
}
