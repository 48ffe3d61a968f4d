//! Xid lines: `NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python3, GPU has fallen off the bus.`
//! Every part behind the code is optional, and a part that cannot be read is absent, never a reason to drop the line.

use super::grammar::head;
use crate::event::{Recovery, Xid};
use crate::text::printable;

/// A process name (`TASK_COMM_LEN` is 16 bytes; what the driver keeps may be longer).
const MAX_NAME: usize = 64;
/// A unit word of an NVLink 5 error.
const MAX_UNIT: usize = 64;
/// Words in the last parentheses; the driver prints up to seven.
const MAX_WORDS: usize = 32;

/// A memory error that only one application noticed.
const CONTAINED: u32 = 94;
/// NVLink errors up to NVLink 4.
const NVLINK: u32 = 74;
/// NVLink 5 errors.
const NVLINK5: std::ops::RangeInclusive<u32> = 144..=150;

/// Reads what follows `NVRM: Xid`.
pub(super) fn parse(text: &str, whole: bool) -> Option<Xid> {
    let head = head(text, whole)?;
    let (pid, process, message) = process(head.rest);
    let mut xid = Xid {
        pci: head.pci,
        place: head.place,
        code: head.code,
        pid,
        process,
        ..Xid::default()
    };
    match head.code {
        NVLINK => {
            xid.link = number_behind(message, "on link ");
            xid.words = words(message);
        }
        code if NVLINK5.contains(&code) => {
            if let Some((unit, fatal, rest)) = unit(message) {
                xid.unit = Some(unit.to_owned());
                xid.fatal = Some(fatal);
                xid.link = number_behind(rest, "Link ");
                xid.words = words(rest);
            }
        }
        Recovery::XID => xid.recovery = recovery(message),
        // With MIG, other instances go on and the GPU needs a reset. At the end: a program may call itself anything.
        CONTAINED if message.trim_end().ends_with(" D-RST: Yes") => {
            xid.recovery = Some(Recovery::DrainAndReset);
        }
        _ => {}
    }
    Some(xid)
}

/// Takes `pid=...` and `name=...` off the front. Without a process the driver writes neither, or `<unknown>` for both.
fn process(text: &str) -> (Option<u32>, Option<String>, &str) {
    let (pid, text) = match text.strip_prefix("pid=") {
        Some(rest) => {
            let (pid, rest) = part(rest);
            let pid = pid.trim_matches(['\'', '"']);
            let digits = pid.bytes().all(|b| b.is_ascii_digit());
            (digits.then(|| pid.parse().ok()).flatten(), rest)
        }
        None => (None, text),
    };
    match text.strip_prefix("name=") {
        Some(rest) => {
            let (name, rest) = part(rest);
            let name = name.trim_matches(['\'', '"']);
            let known = !name.is_empty() && name != "<unknown>";
            (pid, known.then(|| printable(name.as_bytes(), MAX_NAME)), rest)
        }
        None => (pid, None, text),
    }
}

fn part(text: &str) -> (&str, &str) {
    let (part, rest) = text.split_once(',').unwrap_or((text, ""));
    (part.trim(), rest.trim_start())
}

/// `UNIT Fatal ...`. The last such pair counts: a process name may hold commas and blanks, and so what looks like one.
fn unit(message: &str) -> Option<(&str, bool, &str)> {
    let (at, fatal, len) = [(" Fatal ", true), (" Nonfatal ", false)]
        .into_iter()
        .filter_map(|(word, fatal)| Some((message.rfind(word)?, fatal, word.len())))
        .max()?;
    let before = message.get(..at)?.trim_end();
    let unit = before.rsplit([' ', ',']).next()?;
    let valid = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_' || c == '/';
    let valid = !unit.is_empty() && unit.len() <= MAX_UNIT && unit.chars().all(valid);
    valid.then_some((unit, fatal, message.get(at + len..)?))
}

/// The number behind the last `word`.
fn number_behind(text: &str, word: &str) -> Option<i32> {
    let (_, rest) = text.rsplit_once(word)?;
    let rest = rest.trim_start();
    let (negative, digits) = match rest.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, rest),
    };
    let digits = digits.split(|c: char| !c.is_ascii_digit()).next()?;
    let number: i32 = digits.parse().ok()?;
    Some(if negative { -number } else { number })
}

/// The words in the last parentheses (brackets before R575), all of them or none: a cut list would be misread.
fn words(text: &str) -> Vec<u64> {
    let Some(open) = text.rfind(['(', '[']) else {
        return Vec::new();
    };
    let list = text.get(open + 1..).unwrap_or_default();
    let Some(close) = list.find([')', ']']) else {
        return Vec::new();
    };
    let list = list.get(..close).unwrap_or_default();
    let words = list.split([',', ' ']).filter(|w| !w.is_empty()).take(MAX_WORDS);
    words.map(hex).collect::<Option<_>>().unwrap_or_default()
}

fn hex(word: &str) -> Option<u64> {
    let digits = word.strip_prefix("0x")?;
    // from_str_radix alone would take a sign.
    let valid = digits.bytes().all(|b| b.is_ascii_hexdigit());
    valid.then(|| u64::from_str_radix(digits, 16).ok())?
}

/// `GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)`: the new action. The words are what
/// people see and come first. Newer drivers (seen in R610) write others, `PF FLR` and `OS Reboot`, while 0 to 4 kept
/// the meaning of `nvmlDeviceGpuRecoveryAction_t`; 5 and above mean different things in different releases.
fn recovery(message: &str) -> Option<Recovery> {
    let (_, change) = message.rsplit_once("GPU recovery action changed from ")?;
    let (_, new) = change.split_once(" to ")?;
    let (number, name) = new.split_once(' ').unwrap_or((new, ""));
    let name = name
        .trim_start()
        .strip_prefix('(')
        .and_then(|n| n.split_once(')'));
    let known = match name.map(|(name, _)| name) {
        Some("None") => Some(Recovery::None),
        Some("GPU Reset Required" | "PF FLR") => Some(Recovery::GpuReset),
        Some("Node Reboot Required" | "OS Reboot") => Some(Recovery::NodeReboot),
        Some("Drain P2P") => Some(Recovery::DrainP2p),
        Some("Drain and Reset") => Some(Recovery::DrainAndReset),
        _ => None,
    };
    known.or(match hex(number)? {
        0 => Some(Recovery::None),
        1 => Some(Recovery::GpuReset),
        2 => Some(Recovery::NodeReboot),
        3 => Some(Recovery::DrainP2p),
        4 => Some(Recovery::DrainAndReset),
        _ => None,
    })
}

#[cfg(test)]
#[path = "xid_tests.rs"]
mod tests;
