//! The file `rpc_stats` of a target: RPCs in flight now, and how many RPCs had how many pages and companions.
//!
//! Tables end where both cumulative shares are complete, so their rows vary. From 2.14 the rows of RPCs in flight begin at 1,
//! before at 0. The table of latencies (2.17) is approximate and not read.

use std::collections::BTreeMap;

/// Limit of rows of one file.
const MOST_ROWS: usize = 256;

/// A table of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Table {
    /// Pages of an RPC, up to the row's number.
    Pages,
    /// RPCs in flight when an RPC was sent.
    InFlight,
}

/// What an RPC does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Direction {
    Read,
    Write,
    Modify,
}

impl Direction {
    pub(super) const ALL: [Self; 3] = [Self::Read, Self::Write, Self::Modify];

    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Modify => "modify",
        }
    }

    fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|direction| direction.word() == word)
    }
}

/// The file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RpcStats {
    /// RPCs in flight.
    pub(super) in_flight: BTreeMap<Direction, u64>,
    /// Pages that wait for an RPC.
    pub(super) pending: BTreeMap<Direction, u64>,
    /// RPCs by table, direction and row.
    pub(super) rows: BTreeMap<(Table, Direction, u32), u64>,
}

/// Reads it. `None`: no line of it is known.
pub(super) fn parse(text: &str) -> Option<RpcStats> {
    let mut stats = RpcStats::default();
    let mut table = None;
    let mut columns = Vec::new();
    let mut is_ours = false;
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let named: Option<Vec<Direction>> = words.iter().map(|word| Direction::of(word)).collect();
        if words.is_empty() {
            table = None;
        } else if let Some(named) = named {
            columns = named;
        } else if line.starts_with("pages per rpc") {
            (table, is_ours) = (Some(Table::Pages), true);
        } else if line.starts_with("rpcs in flight") {
            (table, is_ours) = (Some(Table::InFlight), true);
        } else if let Some((name, value)) = line.split_once(':') {
            is_ours |= name.trim() == "snapshot_time";
            match table {
                Some(table) => rows(table, &columns, name, value, &mut stats),
                None => current(name, value, &mut stats),
            }
        } else {
            // A table that is not read.
            table = None;
        }
    }
    is_ours.then_some(stats)
}

/// `read RPCs in flight:  3`, `modify_RPCs_in_flight:  1`, `pending write pages:  0`
fn current(name: &str, value: &str, stats: &mut RpcStats) {
    let name = name.replace('_', " ");
    let words: Vec<&str> = name.split_whitespace().collect();
    let (Some(value), [first, second, rest @ ..]) = (value.trim().parse().ok(), words.as_slice()) else {
        return;
    };
    match (Direction::of(first), Direction::of(second)) {
        (Some(direction), None) if *second == "RPCs" => _ = stats.in_flight.insert(direction, value),
        (None, Some(direction)) if *first == "pending" && rest == ["pages"] => {
            stats.pending.insert(direction, value);
        }
        _ => {}
    }
}

/// `256:   458648   2   3   |   17   1   2`
fn rows(table: Table, columns: &[Direction], name: &str, value: &str, stats: &mut RpcStats) {
    let Ok(number) = name.trim().parse() else { return };
    for (direction, part) in columns.iter().zip(value.split('|')) {
        let count = part
            .split_whitespace()
            .next()
            .and_then(|count| count.parse().ok());
        if let Some(count) = count
            && stats.rows.len() < MOST_ROWS
        {
            stats.rows.insert((table, *direction, number), count);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const OSC: &str = "snapshot_time:         1510851657.123456789 (secs.nsecs)\nread RPCs in flight:  3\nwrite RPCs in flight: 1\npending write pages:  512\npending read pages:   0\n\n\t\t\tread\t\t\twrite\npages per rpc         rpcs   % cum % |       rpcs   % cum %\n1:\t\t         7   1   1   |          0   0   0\n256:\t\t    458648  99 100   |         12 100 100\n\n\t\t\tread\t\t\twrite\nrpcs in flight        rpcs   % cum % |       rpcs   % cum %\n0:\t\t         1   0   0   |          2   0   0\n1:\t\t         5   0   0   |         10   0   0\n\n\t\t\tread\t\t\twrite\noffset                rpcs   % cum % |       rpcs   % cum %\n0:\t\t         9   0   0   |          8   0   0\n";

    #[test]
    fn both_tables_are_read_and_offsets_are_not() {
        let stats = parse(OSC).unwrap();
        assert_eq!(
            stats.in_flight,
            [(Direction::Read, 3), (Direction::Write, 1)].into()
        );
        assert_eq!(
            stats.pending,
            [(Direction::Read, 0), (Direction::Write, 512)].into()
        );
        assert_eq!(stats.rows[&(Table::Pages, Direction::Read, 256)], 458_648);
        assert_eq!(stats.rows[&(Table::InFlight, Direction::Write, 0)], 2);
        assert_eq!(stats.rows.len(), 8);
    }

    #[test]
    fn an_mdc_has_one_column_and_from_2_15_tables_of_data_on_mdt() {
        let text = "snapshot_time:            1700000100.000000001 secs.nsecs\nstart_time:               1700000000.000000000 secs.nsecs\nelapsed_time:             100.000000001 secs.nsecs\nmodify_RPCs_in_flight:  2\n\n\t\t\tmodify\nrpcs in flight        rpcs   % cum %\n1:\t\t        25  100 100\n\nread RPCs in flight:  0\nwrite RPCs in flight: 4\n\n\t\t\tread\t\t\twrite\npages per rpc         rpcs   % cum % |       rpcs   % cum %\n1:\t\t         0   0   0   |          6 100 100\n";
        let stats = parse(text).unwrap();
        assert_eq!(stats.in_flight[&Direction::Modify], 2);
        assert_eq!(stats.in_flight[&Direction::Write], 4);
        assert_eq!(stats.rows[&(Table::InFlight, Direction::Modify, 1)], 25);
        assert_eq!(stats.rows[&(Table::Pages, Direction::Write, 1)], 6);
    }

    #[test]
    fn the_latencies_of_2_17_are_approximate_and_not_read() {
        let text = format!(
            "{OSC}\n\t\t\tread\t\t\twrite\nRPC latency (us)      rpcs   % cum % |       rpcs   % cum %\n1024:\t\t         9   0   0   |          8   0   0\n"
        );
        assert_eq!(parse(&text), parse(OSC));
        assert_eq!(parse("nothing\n"), None);
    }

    proptest! {
        #[test]
        fn no_text_breaks_the_parser(text in "(pages per rpc\n|rpcs in flight\n|\t\tread\twrite\n|[0-9]{1,25}:|[0-9 |%a-z:]|\n){0,60}") {
            parse(&text);
        }

        #[test]
        fn every_cut_of_a_file_is_read_or_refused(at in 0_usize..700) {
            parse(OSC.get(..at).unwrap_or(OSC));
        }
    }
}
