//! The network of Lustre (LNet): its files `stats`, `nis` and `peers`.
//!
//! The tables have a header, and columns are found by its names. The file is generated line by line, one for each read(2).

/// Limit of a nid, in bytes.
pub(super) const LONGEST_NID: usize = 64;

/// Messages and bytes of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Traffic {
    /// The kernel counts them in 32 bits.
    pub(super) messages: u32,
    pub(super) bytes: u64,
}

/// The line of `stats` (`proc_lnet_stats`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LnetStats {
    /// Messages in flight.
    pub(super) messages: u32,
    /// The most messages in flight so far.
    pub(super) most_messages: u32,
    pub(super) errors: u32,
    pub(super) sent: Traffic,
    pub(super) received: Traffic,
    pub(super) routed: Traffic,
    pub(super) dropped: Traffic,
}

/// Reads 11 numbers: 7 counts, then 4 lengths. Later columns are ignored. `None`: something else.
pub(super) fn stats(text: &str) -> Option<LnetStats> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let count = |at: usize| words.get(at)?.parse::<u32>().ok();
    let traffic = |at: usize| {
        Some(Traffic {
            messages: count(at)?,
            bytes: words.get(at + 4)?.parse().ok()?,
        })
    };
    Some(LnetStats {
        messages: count(0)?,
        most_messages: count(1)?,
        errors: count(2)?,
        sent: traffic(3)?,
        received: traffic(4)?,
        routed: traffic(5)?,
        dropped: traffic(6)?,
    })
}

/// A local network interface, over all its processors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Interface {
    pub(super) nid: String,
    pub(super) is_up: bool,
    /// Credits to send that are free now, negative: messages wait.
    pub(super) credits: Option<i64>,
    pub(super) most_credits: Option<i64>,
    /// The least so far. Negative: messages have waited.
    pub(super) least_credits: Option<i64>,
}

/// Reads `nis`, which has a line for each interface and processor partition. The interface of the node to itself (`@lo`)
/// is left out. The number of rows that are none comes with it. `None`: no table.
pub(super) fn interfaces(text: &str) -> Option<(Vec<Interface>, usize)> {
    let table = Table::read(text, &["nid", "status"])?;
    let mut found: Vec<Interface> = Vec::new();
    for row in &table.rows {
        let (Some(nid), Some(status)) = (table.nid(row), table.cell(row, "status")) else {
            continue;
        };
        if nid.ends_with("@lo") {
            continue;
        }
        let one = Interface {
            nid,
            is_up: status == "up",
            credits: table.number(row, "tx"),
            most_credits: table.number(row, "max"),
            least_credits: table.number(row, "min"),
        };
        match found.iter_mut().find(|other| other.nid == one.nid) {
            Some(other) => other.add(&one),
            None => found.push(one),
        }
    }
    Some((found, table.odd))
}

impl Interface {
    fn add(&mut self, other: &Self) {
        let sum = |a: Option<i64>, b: Option<i64>| a?.checked_add(b?);
        self.is_up &= other.is_up;
        self.credits = sum(self.credits, other.credits);
        self.most_credits = sum(self.most_credits, other.most_credits);
        self.least_credits = self.least_credits.zip(other.least_credits).map(|(a, b)| a.min(b));
    }
}

/// The peers together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Peers {
    pub(super) up: u64,
    pub(super) down: u64,
    /// LNet does not watch them.
    pub(super) unknown: u64,
    /// Bytes that wait for a credit.
    pub(super) queued_bytes: u64,
    /// Peers that have had fewer than 0 credits.
    pub(super) exhausted: u64,
}

/// Reads `peers`, with the number of rows that are none. `None`: no table.
pub(super) fn peers(text: &str) -> Option<(Peers, usize)> {
    let table = Table::read(text, &["nid", "state", "queue"])?;
    let mut peers = Peers::default();
    for row in &table.rows {
        match table.cell(row, "state") {
            Some("up") => peers.up += 1,
            Some("down") => peers.down += 1,
            _ => peers.unknown += 1,
        }
        let queued = table
            .number(row, "queue")
            .and_then(|bytes| u64::try_from(bytes).ok());
        peers.queued_bytes = peers.queued_bytes.saturating_add(queued.unwrap_or_default());
        peers.exhausted += u64::from(table.number(row, "min").is_some_and(|least| least < 0));
    }
    Some((peers, table.odd))
}

/// A table with a header.
struct Table<'a> {
    header: Vec<&'a str>,
    rows: Vec<Vec<&'a str>>,
    /// Rows with fewer values than names.
    odd: usize,
}

impl<'a> Table<'a> {
    fn read(text: &'a str, needed: &[&str]) -> Option<Self> {
        let mut lines = text
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>());
        let header = lines.next()?;
        let all = needed.iter().all(|name| header.contains(name));
        let mut table = Self {
            header,
            rows: Vec::new(),
            odd: 0,
        };
        for row in lines.filter(|row| !row.is_empty()) {
            if row.len() < table.header.len() {
                table.odd += 1;
            } else {
                table.rows.push(row);
            }
        }
        all.then_some(table)
    }

    /// The value below a name; the last such column, as the first `min` of `peers` is that of routers.
    fn cell(&self, row: &[&'a str], name: &str) -> Option<&'a str> {
        let at = self.header.iter().rposition(|column| *column == name)?;
        row.get(at).copied()
    }

    fn number(&self, row: &[&'a str], name: &str) -> Option<i64> {
        self.cell(row, name)?.parse().ok()
    }

    fn nid(&self, row: &[&'a str]) -> Option<String> {
        let nid = self.cell(row, "nid")?;
        let is_plain = |b: u8| b.is_ascii_alphanumeric() || b".:@_-".contains(&b);
        (nid.len() <= LONGEST_NID && nid.bytes().all(is_plain)).then(|| nid.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_line_of_statistics_has_7_counts_and_4_lengths() {
        let found = stats("3 28 1 101719323 101719291 0 2 21201322992 53029565353720 0 416\n").unwrap();
        assert_eq!((found.messages, found.most_messages, found.errors), (3, 28, 1));
        assert_eq!(
            found.sent,
            Traffic {
                messages: 101_719_323,
                bytes: 21_201_322_992
            }
        );
        assert_eq!(
            found.dropped,
            Traffic {
                messages: 2,
                bytes: 416
            }
        );
        assert_eq!(stats("0 28 0 1 1 0 0 1 1 0\n"), None, "10 numbers");
    }

    const NIS: &str = "nid                      status alive refs peer  rtr   max    tx   min\n0@lo                         up     0    2    0    0     0     0     0\n10.2.0.9@o2ib                up     0   12    8    0   256   250   245\n10.2.0.9@o2ib              down    -1   12    8    0   256   256    -3\n";

    #[test]
    fn an_interface_is_one_over_its_processor_partitions() {
        let (found, odd) = interfaces(&format!("{NIS}10.2.0.10@o2ib up\n")).unwrap();
        let expected = Interface {
            nid: "10.2.0.9@o2ib".to_owned(),
            is_up: false,
            credits: Some(506),
            most_credits: Some(512),
            least_credits: Some(-3),
        };
        assert_eq!((found, odd), (vec![expected], 1));
        assert_eq!(interfaces(""), None);
    }

    #[test]
    fn peers_have_two_columns_named_min_and_may_have_more_values_than_headers() {
        let text = "nid                      refs state  last   max   rtr   min    tx   min queue\n10.2.0.40@o2ib              1    up    -1     8     8     8     8    -7 0\n10.2.0.41@o2ib              4  down    -1     8     8     8    -2    -5 4096 new\n10.2.0.42@o2ib              1    NA    -1     8     8    -8     8     6 0\n";
        let (found, odd) = peers(text).unwrap();
        let expected = Peers {
            up: 1,
            down: 1,
            unknown: 1,
            queued_bytes: 4096,
            exhausted: 2,
        };
        assert_eq!((found, odd), (expected, 0));
    }

    proptest! {
        #[test]
        fn no_text_breaks_the_parsers(text in "(nid |status |state |queue |min |[0-9a-z@. -]|\n){0,80}") {
            stats(&text);
            interfaces(&text);
            peers(&text);
        }
    }
}
