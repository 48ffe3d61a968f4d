//! `sinfo -h -a -n NAME -O FORMAT`: one node, without the node table that `scontrol show node` loads (1 ms of slurmctld's
//! processor against 26 ms with 10,000 nodes). It shows neither boot time nor host name.
//!
//! Each value ends with a control character that no text of ours has; free texts come last and may hold line breaks.

use jiff::tz::TimeZone;

use model::scheduler::NodeReason;

use super::parse::{self, not_null, seconds};
use super::state::Node;
use super::words;

/// The end of a value.
pub(crate) const END: char = '\u{1f}';

/// The fields, in the order of the format. 22.05 and later have all; 20.11 lacks StateComplete and Extra.
const FIELDS: [&str; 8] = [
    "NodeList",
    "StateComplete",
    "Timestamp",
    "User",
    "Gres",
    "Extra",
    "Comment",
    "Reason",
];

/// The arguments for one node.
pub fn args(name: &str) -> Vec<String> {
    ["-h", "-a", "-n", name, "-O", &format(&FIELDS)]
        .map(str::to_owned)
        .to_vec()
}

/// The argument of `-O` for these fields. Width 0 is no limit.
pub(crate) fn format(fields: &[&str]) -> String {
    let format: Vec<String> = fields.iter().map(|field| format!("{field}:0{END}")).collect();
    format.join(",")
}

/// Reads the answer about the node `proven`, whose host name and boot time `scontrol` showed. `None`: the answer has
/// another form, or is about no node: a field that this version lacks, or a node in no partition.
pub fn node(text: &str, proven: &Node, zone: &TimeZone) -> Option<Node> {
    let mut values = text.strip_suffix('\n').unwrap_or(text).split(END);
    let mut next = || values.next();
    let (name, state, time, user) = (next()?, next()?, next()?, next()?);
    let (gres, extra, comment, reason) = (next()?, next()?, next()?, next()?);
    let is_one = next()?.is_empty() && next().is_none();
    if !is_one || name != proven.name || state.is_empty() {
        return None;
    }
    let words = words::read(&state.to_ascii_uppercase());
    Some(Node {
        base: words.base,
        flags: words.flags,
        unknown_words: words.unknown,
        reason: parse::reason(reason).map(|text| NodeReason {
            text,
            user: user.to_owned(),
            at: seconds(time, zone),
        }),
        comment: not_null(comment.trim()),
        extra: not_null(extra.trim()),
        has_extra: true,
        gres: not_null(gres).unwrap_or_default(),
        ..proven.clone()
    })
}

/// BOOT_TIME of `scontrol show config`: the start of slurmctld. A backup that took over shows the start of its process, which waited
/// until then. The time at which it took over is unknown: it counts as later than any other.
pub fn controller_started(text: &str, zone: &TimeZone) -> Option<i64> {
    let line = text.lines().find_map(|line| line.strip_prefix("BOOT_TIME"))?;
    let started = seconds(line.trim_start().strip_prefix('=')?.trim(), zone)?;
    Some(if backup_controls(text) { i64::MAX } else { started })
}

/// Whether a backup answered: `Slurmctld(primary) at HOST is DOWN`, and another line of this form that ends with UP. With one slurmctld
/// there is only the first line.
fn backup_controls(text: &str) -> bool {
    let mut all = text.lines().filter_map(|line| line.strip_prefix("Slurmctld("));
    let primary = all.next().filter(|line| line.starts_with("primary)"));
    primary.is_some_and(|line| line.ends_with(" is DOWN")) && all.any(|line| line.ends_with(" is UP"))
}

/// Fuzz target: no panic; an accepted answer is about the node.
pub fn fuzz(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let proven = Node::named("n0");
    if let Some(node) = node(&text, &proven, &TimeZone::UTC) {
        debug_assert_eq!(node.name, "n0");
        debug_assert!(node.reason.is_none_or(|r| !r.text.is_empty()));
    }
    controller_started(&text, &TimeZone::UTC);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{Base, Flag};

    fn read(text: &str) -> Option<Node> {
        node(&text.replace('|', "\u{1f}"), &Node::named("n0"), &TimeZone::UTC)
    }

    #[test]
    fn an_idle_node() {
        let node = read("n0|idle|Unknown|Unknown|gpu:h100:8|(null)|(null)|none|\n").unwrap();
        assert_eq!((node.base, node.flags.len()), (Base::Idle, 0));
        assert_eq!((node.reason, node.comment, node.extra), (None, None, None));
        assert_eq!(node.gres, "gpu:h100:8");
    }

    #[test]
    fn a_drained_node_with_texts_of_several_lines() {
        let node = read(
            "n0|allocated+drain+maintenance|2026-11-23T17:05:20|root|gpu:h100:8|{\"a\":1}|a,b\nd|nodewarden:x act=reboot id=abcdefgh\nsecond line|\n",
        )
        .unwrap();
        assert!(node.has(Flag::Drain) && node.has(Flag::Maint));
        let reason = node.reason.unwrap();
        assert_eq!(reason.text, "nodewarden:x act=reboot id=abcdefgh\nsecond line");
        assert_eq!((reason.user.as_str(), reason.at), ("root", Some(1_795_453_520)));
        assert_eq!(node.comment.as_deref(), Some("a,b\nd"));
        assert_eq!(node.extra.as_deref(), Some("{\"a\":1}"));
    }

    #[test]
    fn another_form_is_no_answer() {
        for text in [
            "",
            "\n",
            "n0|idle|Unknown|Unknown|gpu|(null)|(null)|\n",
            "n1|idle|Unknown|Unknown|gpu|(null)|(null)|none|\n",
            "n0||Unknown|Unknown|gpu|(null)|(null)|none|\n",
            "n0|idle|Unknown|Unknown|gpu|(null)|(null)|none|more|\n",
            "n0|idle|Unknown|Unknown|gpu|(null)|(null)|none|\nn0|idle|Unknown|Unknown|gpu|(null)|(null)|none|\n",
        ] {
            assert!(read(text).is_none(), "{text:?}");
        }
    }

    #[test]
    fn a_state_word_that_is_not_known_withholds_every_write() {
        let node = read("n0|idle+quarantined|Unknown|Unknown|(null)|(null)|(null)|none|\n").unwrap();
        assert_eq!(node.unknown_words, ["QUARANTINED"]);
    }

    #[test]
    fn the_start_of_slurmctld() {
        let text = "Configuration data as of 2026\nBOOT_TIME               = 2026-11-23T17:05:02\nCliFilterPlugins = (null)\n";
        assert_eq!(controller_started(text, &TimeZone::UTC), Some(1_795_453_502));
        for (pings, expected) in [
            ("Slurmctld(primary) at c1 is UP\n", 1_795_453_502),
            ("Slurmctld(primary) at c1 is DOWN\n", 1_795_453_502),
            (
                "Slurmctld(primary) at c1 is UP\nSlurmctld(backup) at c2 is DOWN\n",
                1_795_453_502,
            ),
            (
                "Slurmctld(primary) at c1 is DOWN\nSlurmctld(backup) at c2 is DOWN\n",
                1_795_453_502,
            ),
            (
                "Slurmctld(primary) at c1 is DOWN\nSlurmctld(backup) at c2 is UP\n",
                i64::MAX,
            ),
            (
                "Slurmctld(primary) at c1 is DOWN\nSlurmctld(backup1) at c2 is DOWN\nSlurmctld(backup2) at c3 is UP\n\
                 ** RESTORE SLURMCTLD DAEMON TO SERVICE **\n",
                i64::MAX,
            ),
        ] {
            let text = format!("{text}\n{pings}");
            assert_eq!(
                controller_started(&text, &TimeZone::UTC),
                Some(expected),
                "{pings}"
            );
        }
        assert_eq!(controller_started("BOOT_TIME = Unknown\n", &TimeZone::UTC), None);
        assert_eq!(controller_started("", &TimeZone::UTC), None);
    }
}
