//! The grammar of every `stats` file of Lustre (`lprocfs_stats_seq_show`): a header, then one row for each event.
//!
//! `name<pad>N samples [unit][ min max sum[ sumsq]]`. A row whose count is 0 is left out. The pad is 25 or 35 columns wide, a
//! longer name is followed by one space, and up to Lustre 2.14 names contain spaces: a row is read from its right. The sum of
//! squares wraps and is not read. A row that is none costs only itself.

use std::collections::BTreeMap;

/// Limit of rows of one file: Lustre 2.17 has 90 opcodes.
const MOST_ROWS: usize = 256;
/// Limit of a name, in bytes.
const LONGEST_NAME: usize = 64;

/// What a row counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowUnit {
    /// Events: `regs`, `reqs`.
    Events,
    /// Bytes.
    Bytes,
    /// Pages of memory.
    Pages,
    /// Time, with the divisor that makes seconds of it.
    Time(u32),
}

impl RowUnit {
    fn of(word: &str) -> Self {
        match word {
            "bytes" => Self::Bytes,
            "pages" => Self::Pages,
            // Lustre 2.14 of DDN and all from 2.15 on have the plural.
            "usec" | "usecs" => Self::Time(1_000_000),
            "nsec" | "nsecs" => Self::Time(1_000_000_000),
            "msec" | "msecs" => Self::Time(1000),
            "sec" | "secs" => Self::Time(1),
            _ => Self::Events,
        }
    }
}

/// One row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    /// Number of samples.
    pub(super) count: u64,
    /// The unit of the sum.
    pub(super) unit: RowUnit,
    /// The sum of all samples. `None`: this version has no such column, or it has overflowed.
    pub(super) sum: Option<u64>,
}

/// A file.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Stats {
    /// Time at which counting began, in seconds since the epoch (from 2.15).
    pub(super) start: Option<f64>,
    /// Rows by name. Spaces and hyphens in a name are underscores.
    pub(super) rows: BTreeMap<String, Row>,
    /// Lines that are neither header nor row.
    pub(super) odd: usize,
}

/// Reads a file. `None`: none of its lines is of this format. An empty file has no samples: its header can be switched
/// off (`enable_stats_header`).
pub(super) fn parse(text: &str) -> Option<Stats> {
    let mut stats = Stats::default();
    let mut is_ours = text.trim().is_empty();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        if let Some((name, value)) = header(line) {
            is_ours = true;
            if name == "start_time" {
                stats.start = value;
            }
        } else if let Some((name, row)) = row(line) {
            is_ours = true;
            if stats.rows.len() < MOST_ROWS {
                stats.rows.entry(name).or_insert(row);
            }
        } else {
            stats.odd += 1;
        }
    }
    is_ours.then_some(stats)
}

/// `snapshot_time   1420750934.57342 secs.usecs`: a name, and its time in seconds.
fn header(line: &str) -> Option<(&str, Option<f64>)> {
    let mut words = line.split_whitespace();
    let name = words.next()?.trim_end_matches(':');
    if !matches!(name, "snapshot_time" | "start_time" | "elapsed_time") {
        return None;
    }
    let (value, unit) = (words.next()?, words.next().unwrap_or_default());
    Some((name, time(value, unit)))
}

/// Lustre 2.5 does not pad the part behind the point: `.57342` are 57,342 microseconds.
fn time(value: &str, unit: &str) -> Option<f64> {
    let (whole, part) = value.split_once('.').unwrap_or((value, "0"));
    let is_micro = unit.trim_matches(['(', ')']) == "secs.usecs";
    let scale = if is_micro { 1e6 } else { 1e9 };
    let (whole, part) = (whole.parse::<u64>().ok()?, part.parse::<u32>().ok()?);
    Some(whole as f64 + f64::from(part) / scale)
}

fn row(line: &str) -> Option<(String, Row)> {
    let (left, right) = line.split_once(" samples [")?;
    let (name, count) = left.trim_end().rsplit_once(char::is_whitespace)?;
    let (unit, numbers) = right.split_once(']')?;
    let name = normal(name)?;
    let row = Row {
        // The kernel prints a signed number, which a race makes negative.
        count: count.parse().ok()?,
        unit: RowUnit::of(unit),
        sum: numbers.split_whitespace().nth(2).and_then(|sum| sum.parse().ok()),
    };
    Some((name, row))
}

/// A name as a label: lower case, with underscores. `None`: no name of Lustre's.
fn normal(name: &str) -> Option<String> {
    let name = name.trim();
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b" _-.".contains(&b);
    let is_name = (1..=LONGEST_NAME).contains(&name.len()) && name.bytes().all(is_plain);
    is_name.then(|| {
        let words: Vec<&str> = name.split([' ', '-']).filter(|w| !w.is_empty()).collect();
        words.join("_").to_ascii_lowercase()
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn row_of(text: &str, name: &str) -> Option<Row> {
        parse(text).and_then(|stats| stats.rows.get(name).cloned())
    }

    const fn one(count: u64, unit: RowUnit, sum: Option<u64>) -> Option<Row> {
        Some(Row { count, unit, sum })
    }

    #[test]
    fn a_row_has_as_many_columns_as_its_version_prints() {
        let text = "snapshot_time             1510851657.123456789 secs.nsecs\n\
            open                      136 samples [regs]\n\
            read_bytes                7 samples [bytes] 4096 1048576 7340032\n\
            read                      7 samples [usec] 31 2104 4188 8642586\n\
            close                     3 samples [usecs] 1 2 5 9\n\
            req_timeout               3 samples [sec] 1 10 12 102\n";
        assert_eq!(row_of(text, "open"), one(136, RowUnit::Events, None));
        assert_eq!(
            row_of(text, "read_bytes"),
            one(7, RowUnit::Bytes, Some(7_340_032))
        );
        assert_eq!(row_of(text, "read"), one(7, RowUnit::Time(1_000_000), Some(4188)));
        assert_eq!(row_of(text, "close"), one(3, RowUnit::Time(1_000_000), Some(5)));
        assert_eq!(row_of(text, "req_timeout"), one(3, RowUnit::Time(1), Some(12)));
    }

    #[test]
    fn rows_with_zero_samples_are_omitted_and_the_file_is_whole() {
        let stats = parse("snapshot_time 1510851657.000000001 secs.nsecs\n").unwrap();
        assert_eq!((stats.rows.len(), stats.odd), (0, 0));
        assert_eq!(
            parse("").unwrap(),
            Stats::default(),
            "a header that is switched off"
        );
    }

    #[test]
    fn names_with_spaces_are_read_from_the_right() {
        let text = "snapshot_time 1.2 secs.nsecs\nreadpage not consecutive  12 samples [pages]\nread-ahead to EOF         3 samples [pages]\n";
        assert_eq!(
            row_of(text, "readpage_not_consecutive"),
            one(12, RowUnit::Pages, None)
        );
        assert_eq!(row_of(text, "read_ahead_to_eof"), one(3, RowUnit::Pages, None));
    }

    #[test]
    fn a_name_longer_than_its_pad_is_followed_by_one_space() {
        let text = "hybrid_writesize_switch_and_more 5 samples [reqs]\nread_bytes                                     2 samples [bytes] 1 1 2 2\n";
        assert_eq!(
            row_of(text, "hybrid_writesize_switch_and_more"),
            one(5, RowUnit::Events, None)
        );
        assert_eq!(row_of(text, "read_bytes"), one(2, RowUnit::Bytes, Some(2)));
    }

    #[test]
    fn a_sum_of_squares_over_i64_and_over_u64_costs_nothing() {
        let text = "write_bytes 9 samples [bytes] 1 2 9 10009909738331963392\nread_bytes 9 samples [bytes] 1 2 8 99999999999999999999999\n";
        assert_eq!(row_of(text, "write_bytes"), one(9, RowUnit::Bytes, Some(9)));
        assert_eq!(row_of(text, "read_bytes"), one(9, RowUnit::Bytes, Some(8)));
    }

    #[test]
    fn one_odd_row_costs_itself_only() {
        let text = "snapshot_time 1.2 secs.nsecs\nopen -3 samples [regs]\nclose 4 samples [regs]\nread_bytes 2 samples [bytes] 1 2 -9 4\nwhat is this\n";
        let stats = parse(text).unwrap();
        assert_eq!(stats.odd, 2);
        assert_eq!(stats.rows.keys().collect::<Vec<_>>(), ["close", "read_bytes"]);
        assert_eq!(stats.rows["read_bytes"].sum, None, "an overflown sum is unknown");
        assert_eq!(parse("disabled\nwrite anything to this file\n"), None);
    }

    #[test]
    fn the_header_of_2_5_has_no_zero_padding() {
        assert_eq!(
            time("1420750934.57342", "secs.usecs"),
            Some(1_420_750_934.057_342)
        );
        assert_eq!(
            time("1700000000.057342000", "secs.nsecs"),
            Some(1_700_000_000.057_342)
        );
        let text = "snapshot_time             1700000100.000000000 secs.nsecs\nstart_time                1700000000.500000000 secs.nsecs\nelapsed_time              -99.5 secs.nsecs\n";
        let stats = parse(text).unwrap();
        assert_eq!(
            (stats.start, stats.odd),
            (Some(1_700_000_000.5), 0),
            "elapsed time may be negative in 2.17"
        );
    }

    proptest! {
        #[test]
        fn every_row_survives_printing(
            name in "[a-z][a-z_]{0,40}", count: u64, max: u64, sum: u64, squares: u64, wide: bool,
        ) {
            let pad = if wide { 35 } else { 25 };
            let text = format!("{name:<pad$} {count} samples [bytes] 0 {max} {sum} {squares}\n");
            prop_assert_eq!(row_of(&text, &name), one(count, RowUnit::Bytes, Some(sum)));
        }

        #[test]
        fn no_text_breaks_the_parser(text in "([a-z .:_0-9\\[\\]-]| samples \\[|\n){0,80}") {
            if let Some(stats) = parse(&text) {
                prop_assert!(stats.rows.keys().all(|n| !n.contains(char::is_whitespace) && n.len() <= LONGEST_NAME));
            }
        }
    }
}
