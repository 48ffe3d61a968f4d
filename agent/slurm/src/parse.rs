//! `scontrol show node NAME`, the multi-line form of 20.11 to 26.05.
//!
//! Each key begins a line at a fixed indentation, and each free text (Reason, Comment, Extra) follows the keys that it
//! could forge. So the first occurrence at that indentation wins.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use model::scheduler::NodeReason;

use super::state::Node;
use super::texts::NO_REASON;
use super::words;

/// Why a text does not describe the requested node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("scontrol show node, line {line}: found {found:?}, expected {expected}")]
pub struct ParseError {
    /// The line, from 1; the line after the last one where something is missing.
    pub line: usize,
    /// The found text, cut to 80 characters.
    pub found: String,
    /// The expected text.
    pub expected: String,
}

/// A key begins after three spaces; a reason's second line after ten.
const INDENT: &str = "   ";
const REASON_INDENT: &str = "          ";
/// The keys that can follow a Comment or an Extra, whose own line breaks are printed as they are.
const AFTER_TEXT: &[&str] = &[
    "Reason=",
    "Comment=",
    "Extra=",
    "InstanceId=",
    "InstanceType=",
    "ReservationName=",
];

/// Parses the description of the node `name`. Times are in `zone`.
///
/// # Errors
/// When the text describes another node, several, or none, or lacks a state or a host name.
pub fn show_node(text: &str, name: &str, zone: &TimeZone) -> Result<Node, ParseError> {
    let lines: Vec<&str> = text.lines().collect();
    let node = Lines { lines: &lines };
    node.is_only(name)?;
    let (state_at, state) = node.required("State=")?;
    let state = first_word(state);
    if state.is_empty() {
        return Err(error(state_at, "", "a state word after State="));
    }
    let words = words::read(state);
    Ok(Node {
        name: name.to_owned(),
        hostname: node.hostname()?,
        base: words.base,
        flags: words.flags,
        unknown_words: words.unknown,
        reason: node.reason(zone),
        comment: node.free_text("Comment="),
        extra: node.free_text("Extra="),
        has_extra: false,
        boot_time: node.time("BootTime=", "BootTime=", zone)?,
        slurmd_start_time: node.time("BootTime=", "SlurmdStartTime=", zone)?,
        gres: node
            .line("Gres=")
            .and_then(|(_, v)| not_null(v))
            .unwrap_or_default(),
        partitions: node
            .line("Partitions=")
            .map(|(_, names)| {
                first_word(names)
                    .split(',')
                    .filter(|n| !n.is_empty())
                    .map(str::to_owned)
                    .collect()
            })
            .unwrap_or_default(),
    })
}

struct Lines<'a> {
    lines: &'a [&'a str],
}

impl<'a> Lines<'a> {
    fn is_only(&self, name: &str) -> Result<(), ParseError> {
        let expected = format!("NodeName={name} and no other node");
        let mut seen = false;
        for (at, line) in self.lines.iter().enumerate() {
            let Some(value) = line.strip_prefix("NodeName=") else {
                continue;
            };
            if seen || first_word(value) != name {
                return Err(error(at + 1, line, expected));
            }
            seen = true;
        }
        if seen {
            Ok(())
        } else {
            Err(error(
                self.lines.len() + 1,
                self.lines.first().unwrap_or(&""),
                expected,
            ))
        }
    }

    /// The first line that begins with this key: its number from 1, and what follows the key.
    fn line(&self, key: &str) -> Option<(usize, &'a str)> {
        self.lines.iter().enumerate().find_map(|(at, line)| {
            let value = line.strip_prefix(INDENT)?.strip_prefix(key)?;
            Some((at + 1, value))
        })
    }

    fn required(&self, key: &str) -> Result<(usize, &'a str), ParseError> {
        self.line(key)
            .ok_or_else(|| error(self.lines.len() + 1, "", format!("a line with {key}")))
    }

    fn hostname(&self) -> Result<String, ParseError> {
        if let Some((_, value)) = self.line("NodeHostName=") {
            return Ok(first_word(value).to_owned());
        }
        let (at, rest) = self.required("NodeAddr=")?;
        rest.split_whitespace()
            .find_map(|word| word.strip_prefix("NodeHostName="))
            .map(str::to_owned)
            .ok_or_else(|| error(at, rest, "NodeHostName= behind NodeAddr="))
    }

    /// The time behind `key`, on the line that begins with `line`. `None` where Slurm knows none.
    fn time(&self, line: &str, key: &str, zone: &TimeZone) -> Result<Option<i64>, ParseError> {
        let Some((at, rest)) = self.line(line) else {
            return Ok(None);
        };
        let value = if line == key {
            Some(first_word(rest))
        } else {
            rest.split_whitespace().find_map(|word| word.strip_prefix(key))
        };
        match value {
            None | Some("None" | "Unknown" | "N/A" | "(null)") => Ok(None),
            Some(text) => match seconds(text, zone) {
                Some(time) => Ok(Some(time)),
                None => Err(error(
                    at,
                    text,
                    format!("a time such as 2026-11-21T03:17:21 behind {key}"),
                )),
            },
        }
    }

    /// `Reason=first line [user@time]`, further lines indented below it.
    fn reason(&self, zone: &TimeZone) -> Option<NodeReason> {
        let (at, first) = self.line("Reason=")?;
        let signed = first.strip_suffix(']').and_then(|cut| {
            let (text, by) = cut.rsplit_once(" [")?;
            let (user, time) = by.rsplit_once('@')?;
            Some((text, user, seconds(time, zone)?))
        });
        let (first, user, time) = match signed {
            Some((text, user, time)) => (text, user, Some(time)),
            None => (first, "", None),
        };
        let mut text = first.to_owned();
        for line in self.lines.get(at..).unwrap_or_default() {
            let Some(more) = line.strip_prefix(REASON_INDENT) else {
                break;
            };
            text.push('\n');
            text.push_str(more);
        }
        Some(NodeReason {
            text: reason(&text)?,
            user: user.to_owned(),
            at: time,
        })
    }

    /// A text that may hold line breaks: it ends where another key begins.
    fn free_text(&self, key: &str) -> Option<String> {
        let (at, first) = self.line(key)?;
        let mut text = first.to_owned();
        for line in self.lines.get(at..).unwrap_or_default() {
            let key = line.strip_prefix(INDENT).unwrap_or_default();
            if AFTER_TEXT.iter().any(|after| key.starts_with(after)) {
                break;
            }
            text.push('\n');
            text.push_str(line);
        }
        not_null(text.trim())
    }
}

fn first_word(text: &str) -> &str {
    text.split_whitespace().next().unwrap_or_default()
}

/// A reason as sinfo prints it. scontrol prints the same for what a lift left.
pub(crate) fn reason(text: &str) -> Option<String> {
    not_null(text.trim()).filter(|text| text != NO_REASON)
}

pub(crate) fn not_null(text: &str) -> Option<String> {
    (!text.is_empty() && text != "(null)").then(|| text.to_owned())
}

/// A local time as Slurm's `standard` time format prints it.
pub(crate) fn seconds(text: &str, zone: &TimeZone) -> Option<i64> {
    let time: DateTime = text.parse().ok()?;
    Some(
        zone.to_ambiguous_zoned(time)
            .compatible()
            .ok()?
            .timestamp()
            .as_second(),
    )
}

fn error(line: usize, found: &str, expected: impl Into<String>) -> ParseError {
    ParseError {
        line,
        found: found.chars().take(80).collect(),
        expected: expected.into(),
    }
}

/// Fuzz target: no panic; an accepted text names the node and has no `(null)`.
pub fn fuzz(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Ok(node) = show_node(&text, "n0", &TimeZone::UTC) {
        debug_assert_eq!(node.name, "n0");
        debug_assert!(node.comment.as_deref() != Some("(null)"));
        debug_assert!(node.reason.is_none_or(|r| !r.text.is_empty()));
    }
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
