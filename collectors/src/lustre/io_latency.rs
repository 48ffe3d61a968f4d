//! The file `io_latency_stats` of an OST (from 2.17): RPCs by direction, size and time, `rd_4K: { 16us: 3, 32us: 3, }`.

use std::collections::BTreeMap;

use super::rpc_stats::Direction;

/// Limit of counts of one file.
const MOST: usize = 512;

/// Direction, size and time, as the kernel prints the last two.
pub(super) type LatencyRow = (Direction, String, String);

/// Reads it. Lines of another form are left out.
pub(super) fn parse(text: &str) -> BTreeMap<LatencyRow, u64> {
    let mut rows = BTreeMap::new();
    for line in text.lines() {
        let Some((name, times)) = line.split_once(':') else {
            continue;
        };
        let Some((direction, size)) = direction(name.trim()) else {
            continue;
        };
        for pair in times.trim().trim_matches(['{', '}', ' ']).split(',') {
            if let Some((time, count)) = pair.split_once(':')
                && let (Some(time), Ok(count)) = (word(time.trim()), count.trim().parse())
                && rows.len() < MOST
            {
                rows.insert((direction, size.clone(), time), count);
            }
        }
    }
    rows
}

fn direction(name: &str) -> Option<(Direction, String)> {
    let (kind, size) = name.split_once('_')?;
    let direction = match kind {
        "rd" => Direction::Read,
        "wr" => Direction::Write,
        _ => return None,
    };
    Some((direction, word(size)?))
}

/// A number with its unit.
fn word(text: &str) -> Option<String> {
    let is_plain = text
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || b == b'.' || b == b'+');
    ((1..=16).contains(&text.len()) && is_plain).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn counts_have_direction_size_and_time() {
        let rows = parse(
            "snapshot_time: 1700000000.1\nrd_4K: { 16us: 3, 32us: 4, }\nwr_1M: { 2ms: 1 }\nodd_4K: { 1us: 1 }\nwr_4K:\n",
        );
        let row = |d, s: &str, t: &str, n| ((d, s.to_owned(), t.to_owned()), n);
        let expected = [
            row(Direction::Read, "4K", "16us", 3),
            row(Direction::Read, "4K", "32us", 4),
            row(Direction::Write, "1M", "2ms", 1),
        ];
        assert_eq!(rows, expected.into());
    }

    proptest! {
        #[test]
        fn no_text_breaks_the_parser(text in "(rd_|wr_|[0-9a-zA-Z:{}, ]|\n){0,80}") {
            parse(&text);
        }
    }
}
