//! `sinfo` over one partition: how many drains of nodewarden stand, and the own node among the others. Nodes with equal
//! values share a line.

use std::collections::BTreeSet;

use collectors::slurm::hostlist;
use jiff::tz::TimeZone;
use model::scheduler::{NodeReason, PREFIX};

use super::reservation::Reservation;
use super::slot;
use crate::parse::{self, seconds};
use crate::sinfo::{END, format};
use crate::state::{Flag, Node};
use crate::{texts, words};

/// 20.11 lacks StateComplete: its value is empty. Not User: sinfo looks up the user of every line, and a directory server that is slow or
/// away would delay each drain.
const FIELDS: [&str; 5] = ["Nodes", "NodeList", "StateComplete", "Timestamp", "Reason"];

/// The arguments.
pub fn args(partition: &str) -> Vec<String> {
    ["-h", "-p", partition, "-O", &format(&FIELDS)]
        .map(str::to_owned)
        .to_vec()
}

/// A partition's nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Nodes that nodewarden drained.
    pub standing: BTreeSet<String>,
    /// Such nodes whose names are not known.
    pub unnamed: u64,
    /// Its nodes, without those of a cloud that have no machine now.
    pub nodes: u64,
    /// The own node, without the user who set its reason. `None`: it must be read alone.
    pub own: Option<Node>,
}

impl Table {
    /// The number of drains that stand.
    pub fn count(&self) -> u64 {
        (self.standing.len() as u64).saturating_add(self.unnamed)
    }

    /// The nodes that have a slot, and no drain yet: they may be about to write one. `own`: this node.
    pub fn coming<'a>(&self, slots: impl Iterator<Item = &'a Reservation>, own: &str) -> BTreeSet<&'a str> {
        let holders = slots.map(slot::holder);
        holders
            .filter(|node| *node != own && !self.standing.contains(*node))
            .collect()
    }
}

/// Reads the answer. `proven`: the own node, as it was proven. `None`: the answer has another form.
pub fn read(text: &str, proven: &Node, zone: &TimeZone) -> Option<Table> {
    let mut table = Table {
        standing: BTreeSet::new(),
        unnamed: 0,
        nodes: 0,
        own: None,
    };
    // A reason may hold line breaks: a value ends at its own character.
    let mut rest = text;
    let (mut lines, mut own_lines) = (0, 0);
    while !rest.trim().is_empty() {
        let (line, after) = take_line(rest)?;
        rest = after;
        lines += 1;
        let is_ours = line.reason.starts_with(PREFIX) && !texts::is_lifted(line.reason);
        let words = line.state.map(|state| words::read(&state.to_ascii_uppercase()));
        let is_drained = words
            .as_ref()
            .is_none_or(|words| words.flags.contains(&Flag::Drain));
        if words.as_ref().is_none_or(|words| has_machine(&words.flags)) {
            table.nodes = table.nodes.saturating_add(line.nodes);
        }
        let names = hostlist::expand(line.names).filter(|names| names.len() as u64 == line.nodes);
        if is_ours && is_drained {
            match &names {
                Some(names) => table.standing.extend(names.iter().cloned()),
                None => table.unnamed = table.unnamed.saturating_add(line.nodes),
            }
        }
        let is_own = names.is_some_and(|names| names.contains(&proven.name));
        own_lines += u32::from(is_own);
        if let Some(words) = words
            && is_own
        {
            table.own = Some(Node {
                base: words.base,
                flags: words.flags,
                unknown_words: words.unknown,
                reason: parse::reason(line.reason).map(|text| NodeReason {
                    text,
                    user: String::new(),
                    at: seconds(line.time, zone),
                }),
                ..proven.clone()
            });
        }
    }
    // A node of another cluster has this name.
    if own_lines > 1 {
        table.own = None;
    }
    (lines > 0).then_some(table)
}

/// Whether it is one of the site, which Slurm may have powered down, or one of a cloud that runs.
fn has_machine(flags: &BTreeSet<Flag>) -> bool {
    let off = [Flag::PoweredDown, Flag::PoweringDown];
    !flags.contains(&Flag::Cloud) || off.iter().all(|flag| !flags.contains(flag))
}

struct Line<'a> {
    nodes: u64,
    names: &'a str,
    state: Option<&'a str>,
    time: &'a str,
    reason: &'a str,
}

/// The next line and what follows it.
fn take_line(text: &str) -> Option<(Line<'_>, &str)> {
    let mut rest = text;
    let mut next = || {
        let (value, after) = rest.split_once(END)?;
        rest = after;
        Some(value.trim())
    };
    let (nodes, names, third, fourth) = (next()?, next()?, next()?, next()?);
    // A release that leaves an unknown field out, with its end, has the time in the third place.
    let is_time = |text: &str| text == "Unknown" || text.starts_with(|c: char| c.is_ascii_digit());
    let (state, time, reason) = if is_time(third) {
        (None, third, fourth)
    } else {
        let state = Some(third).filter(|state| !state.is_empty());
        (state, fourth, next()?)
    };
    let line = Line {
        nodes: nodes.parse().ok()?,
        names,
        state,
        time,
        reason,
    };
    let rest = rest
        .strip_prefix('\n')
        .or_else(|| rest.is_empty().then_some(""))?;
    Some((line, rest))
}

/// Fuzz target: no panic; the own node is the proven one.
pub fn fuzz(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let proven = Node::named("n0");
    if let Some(Table { own: Some(own), .. }) = read(&text, &proven, &TimeZone::UTC) {
        debug_assert_eq!(own.name, "n0");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::Base;

    fn table(text: &str) -> Option<Table> {
        read(&text.replace('|', "\u{1f}"), &Node::named("n7"), &TimeZone::UTC)
    }

    #[test]
    fn drains_of_ours_are_counted_over_groups_of_nodes() {
        let table = table(
            "1|n9|idle+drain|2026-11-23T19:57:08|nodewarden:xid.79 gpu3 act=reboot id=abcdefg2|\n\
             2|n[1-2]|idle+drain|2026-11-23T19:57:08|nodewarden:xid.79 act=reboot id=abcdefg3|\n\
             1|n3|mixed+drain|2026-11-23T19:57:08|RMA of\nnodewarden: n3|\n\
             1|n4|idle|2026-11-23T19:57:08|nodewarden:xid.79 a remnant id=abcdefg4|\n\
             1|n5|idle+drain|2026-11-23T19:57:08|nodewarden: lifted abcdefg5|\n\
             9993|n[6-8,10-9999]|mixed|Unknown|none|\n",
        )
        .unwrap();
        assert_eq!((table.count(), table.standing.contains("n2")), (3, true));
        let own = table.own.unwrap();
        assert_eq!((own.base, own.reason), (Base::Mixed, None));
    }

    #[test]
    fn the_own_node_with_its_reason() {
        let own = table("1|n7|idle+drain+maintenance|2026-11-23T19:57:08|RMA|\n")
            .unwrap()
            .own
            .unwrap();
        assert!(own.has(Flag::Drain) && own.has(Flag::Maint));
        let reason = own.reason.unwrap();
        assert_eq!(
            (reason.text.as_str(), reason.user.as_str(), reason.at),
            ("RMA", "", Some(1_795_463_828))
        );
    }

    #[test]
    fn no_user_is_looked_up() {
        assert!(!args("gpu").iter().any(|arg| arg.contains("User")));
    }

    #[test]
    fn nodes_of_a_cloud_without_a_machine_do_not_count() {
        let table = table(
            "980|n[20-999]|idle+cloud+powered_down|Unknown|none|\n\
             2|n[10-11]|idle+cloud+powering_down|Unknown|none|\n\
             3|n[12-14]|idle+powered_down|Unknown|none|\n\
             5|n[15-19]|idle+cloud|Unknown|none|\n\
             10|n[0-9]|mixed+cloud+drain|2026-11-23T19:57:08|nodewarden:x id=abcdefg2|\n",
        )
        .unwrap();
        assert_eq!((table.nodes, table.count()), (18, 10));
    }

    #[test]
    fn without_the_complete_state_reasons_of_ours_count_and_the_own_node_is_read_alone() {
        for (state, of) in [("|", "20.11"), ("", "a release that leaves it out")] {
            let text = format!(
                "2|n[7-8]|{state}2026-11-23T19:57:08|nodewarden:x id=abcdefg2|\n1|n1|{state}Unknown|none|\n"
            );
            let table = table(&text).unwrap();
            assert_eq!((table.count(), table.own), (2, None), "{of}");
        }
    }

    #[test]
    fn a_list_of_nodes_that_no_release_prints_alike_leaves_the_own_node_out() {
        let table = table("4|r[1-2]n[7-8]|idle|Unknown|none|\n").unwrap();
        assert_eq!((table.count(), table.own), (0, None));
    }

    /// A federation: each cluster's node of this name.
    #[test]
    fn two_lines_with_the_own_name_leave_the_own_node_out() {
        let (ours, theirs) = (
            "1|n7|mixed+drain|2026-11-23T19:57:08|RMA 4711|\n",
            "3|n[6-8]|idle|Unknown|none|\n",
        );
        for text in [
            format!("{ours}{theirs}"),
            format!("{theirs}{ours}"),
            format!("{ours}{theirs}{theirs}"),
        ] {
            assert_eq!(table(&text).unwrap().own, None, "{text}");
        }
    }

    #[test]
    fn nodes_with_a_slot_and_no_drain_yet_are_coming() {
        let table = table("2|n[1-2]|idle+drain|2026-11-23T19:57:08|nodewarden:x id=abcdefg2|\n").unwrap();
        let slot = |name: &str, holder: &str| Reservation {
            name: name.to_owned(),
            start: 0,
            end: 1,
            features: format!("{holder} 10/5%/3/5%/600s"),
        };
        let slots = [
            slot("nodewarden--a--x--1", "n1"),
            slot("nodewarden--a--x--2", "n7"),
            slot("nodewarden--a--x--3", "n8"),
            slot("nodewarden--a--y--1", "n8"),
        ];
        assert_eq!(
            table.coming(slots.iter(), "n7").into_iter().collect::<Vec<_>>(),
            ["n8"]
        );
    }

    #[test]
    fn another_form_is_no_table() {
        for text in [
            "",
            "\n",
            "PARTITION AVAIL\n",
            "x|n7|idle|Unknown|none|\n",
            "1|n7|idle|Unknown|\n",
        ] {
            assert_eq!(table(text), None, "{text:?}");
        }
    }
}
