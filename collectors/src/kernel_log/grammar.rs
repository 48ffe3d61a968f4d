//! What a kernel message says. Everything is anchored at the start of the text: a message that quotes an Xid line, or a
//! process name with one in it, is no event. Lines that begin with such a name are separated first.

use super::{firmware, identity, lines, lost, process, sxid, xid};
use crate::{EventBody, PciAddress};

/// What one message says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LogLine {
    /// An event, complete in this message.
    Event(EventBody),
    /// A line of the table.
    Kernel(lines::Read),
    /// This many lines were left out before it.
    Suppressed(u64),
    /// First part of the driver's lost-GPU message; it counts only if [`LogLine::LostEnd`] follows.
    LostStart(PciAddress),
    /// Last part of the driver's lost-GPU message.
    LostEnd,
    /// A further record of an SXid whose first record is the event.
    Detail,
    /// It begins like an Xid or SXid and is none, or was cut before its code was complete.
    Malformed,
    /// Anything else.
    Other,
}

/// Reads one message, escapes undone. `whole`: nothing was cut off at its end. `device`: the PCI function that its record
/// names. `at_us`: its time since boot, in microseconds.
pub(super) fn parse(text: &[u8], whole: bool, device: Option<&PciAddress>, at_us: u64) -> LogLine {
    if let Some(said) = process::said(text) {
        return lines::of_process(&String::from_utf8_lossy(said)).map_or(LogLine::Other, LogLine::Kernel);
    }
    let line = of_drivers(text, whole);
    if !matches!(line, LogLine::Other) {
        return line;
    }
    let text = String::from_utf8_lossy(text);
    if let Some(read) = lines::read(&text, device, at_us) {
        LogLine::Kernel(read)
    } else if let Some(count) = lines::suppressed(&text) {
        LogLine::Suppressed(count)
    } else {
        LogLine::Other
    }
}

/// Messages with events of their own.
fn of_drivers(text: &[u8], whole: bool) -> LogLine {
    // Nearly every line ends here, before it costs a conversion.
    if !["NVRM: ", "nvidia-nvswitch", "SXid ", "The NVIDIA GPU "]
        .iter()
        .any(|start| text.starts_with(start.as_bytes()))
    {
        return if lost::is_end(text) {
            LogLine::LostEnd
        } else if firmware::starts(text) {
            firmware::parse(&String::from_utf8_lossy(text)).map_or(LogLine::Other, LogLine::Event)
        } else {
            LogLine::Other
        };
    }
    let text = String::from_utf8_lossy(text);
    let text = text.as_ref();
    let driver = text.strip_prefix("NVRM:").map(str::trim_start);
    if let Some(rest) = driver.and_then(|t| word(t, "Xid")) {
        xid::parse(rest, whole).map_or(LogLine::Malformed, |xid| LogLine::Event(EventBody::Xid(xid)))
    } else if let Some(rest) = sxid::start(text) {
        sxid::parse(rest, whole)
    } else if let Some(body) = driver.and_then(identity::parse) {
        LogLine::Event(body)
    } else {
        lost::parse(driver, text)
    }
}

/// What follows `word` and the white space behind it.
fn word<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let rest = text.strip_prefix(word)?;
    rest.starts_with([' ', '(', ':']).then(|| rest.trim_start())
}

/// The `(PCI:0000:3b:00 ...) ...: 79` that Xid and SXid lines share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Head<'a> {
    /// The device.
    pub(super) pci: PciAddress,
    /// What stands beside the address: the MIG instance.
    pub(super) place: String,
    /// The code.
    pub(super) code: u32,
    /// What follows the code and its comma.
    pub(super) rest: &'a str,
}

/// How far behind the parentheses the code may stand.
const MAX_PLACE: usize = 64;

/// Reads the head, from the opening parenthesis on.
pub(super) fn head(text: &str, whole: bool) -> Option<Head<'_>> {
    let inside = text.strip_prefix('(')?;
    let close = closing(inside)?;
    let (inside, behind) = (inside.get(..close)?, inside.get(close + 1..)?);
    let inside = inside.strip_prefix("PCI:").unwrap_or(inside).trim_start();
    let end = inside.find([' ', ',', ';']).unwrap_or(inside.len());
    let (address, beside) = (inside.get(..end)?, inside.get(end..)?);
    let pci = PciAddress::parse(address)?;

    let (between, behind) = before_code(behind)?;
    let digits = behind.len() - behind.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (code, rest) = (behind.get(..digits)?, behind.get(digits..)?);
    // At the end of a cut message more digits may have followed.
    if rest.is_empty() && !whole || rest.starts_with(|c: char| c.is_alphanumeric() || c == '\u{fffd}') {
        return None;
    }
    let code = code.parse().ok()?;
    let beside = beside.trim_start_matches([' ', ',', ';']).trim_end();
    let between = between.trim();
    let gap = if beside.is_empty() || between.is_empty() {
        ""
    } else {
        " "
    };
    let place = format!("{beside}{gap}{between}");
    Some(Head {
        pci,
        place: crate::text::printable(place.as_bytes(), MAX_PLACE),
        code,
        rest: rest.trim_start_matches([',', ' ']),
    })
}

/// The parenthesis that closes one opened before `text`.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0_u32;
    text.bytes().position(|b| match b {
        b'(' => {
            depth += 1;
            false
        }
        b')' if depth == 0 => true,
        b')' => {
            depth -= 1;
            false
        }
        _ => false,
    })
}

/// Splits `[text]: CODE...` before the code.
fn before_code(text: &str) -> Option<(&str, &str)> {
    let mut from = 0;
    loop {
        let colon = from + text.get(from..)?.find(':')?;
        if colon > MAX_PLACE {
            return None;
        }
        let behind = text.get(colon + 1..)?;
        let code = behind.trim_start();
        // Behind a text the colon of an address inside that text must not be taken for the one before the code.
        let spaced = colon == 0 || code.len() < behind.len();
        if spaced && code.starts_with(|c: char| c.is_ascii_digit()) {
            return Some((text.get(..colon)?, code));
        }
        from = colon + 1;
    }
}

#[cfg(test)]
#[path = "grammar_tests.rs"]
mod tests;
