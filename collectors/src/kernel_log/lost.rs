//! Messages that a GPU has left the bus, without a code. The driver's probe prints one over several lines, which arrive
//! as one record with newlines in it or as several records.

use super::grammar::LogLine;
use crate::{EventBody, PciAddress};

const FALLEN: &str = "fallen off the bus";
/// How many records may stand between the parts of the message; other CPUs print in between.
const PATIENCE: u8 = 8;

/// Reads a message that is neither Xid nor SXid. `driver`: what follows `NVRM:`, where the text begins so.
pub(super) fn parse(driver: Option<&str>, text: &str) -> LogLine {
    let text = driver.unwrap_or(text);
    if let Some(rest) = text.strip_prefix("The NVIDIA GPU ") {
        let Some((pci, rest)) = address(rest) else {
            return LogLine::Other;
        };
        if rest.contains(FALLEN) {
            return LogLine::Event(EventBody::FallenOffBus { pci });
        }
        // "installed in this system is not supported" ends here: the last part of the message does not follow.
        return LogLine::LostStart(pci);
    }
    if driver.is_some() && is_end(text.as_bytes()) {
        return LogLine::LostEnd;
    }
    // `GPU 0000:3b:00.0: GPU has fallen off the bus.`, older: `GPU at 0000:3b:00.0 has fallen off the bus.`
    let fallen = driver.and_then(|t| t.strip_prefix("GPU ")).and_then(|t| {
        let (pci, rest) = address(t.strip_prefix("at ").unwrap_or(t))?;
        let rest = rest.trim_start_matches([':', ' ']);
        let rest = rest.strip_prefix("GPU ").unwrap_or(rest);
        rest.strip_prefix("has ")?.starts_with(FALLEN).then_some(pci)
    });
    fallen.map_or(LogLine::Other, |pci| {
        LogLine::Event(EventBody::FallenOffBus { pci })
    })
}

/// The last part of the message, where it is a record of its own.
pub(super) fn is_end(text: &[u8]) -> bool {
    let starts = [FALLEN, "installed in this system has", "(PCI ID:"];
    if !starts.iter().any(|s| text.starts_with(s.as_bytes())) {
        return false;
    }
    text.windows(FALLEN.len()).any(|part| part == FALLEN.as_bytes())
}

/// An address and what follows it.
fn address(text: &str) -> Option<(PciAddress, &str)> {
    let text = text.strip_prefix("PCI:").unwrap_or(text);
    let end = text
        .find(|c: char| !(c.is_ascii_hexdigit() || c == ':' || c == '.'))
        .unwrap_or(text.len());
    let (address, rest) = text.split_at_checked(end)?;
    Some((PciAddress::parse(address.trim_end_matches(':'))?, rest))
}

/// Joins the parts of the message that arrive as several records.
#[derive(Debug, Default)]
pub(super) struct Parts {
    open: Option<(PciAddress, u8)>,
}

impl Parts {
    /// Takes the next message of the kernel; gives back what it says, seen together with those before it.
    pub(super) fn join(&mut self, line: LogLine) -> LogLine {
        match (line, self.open.take()) {
            (LogLine::LostStart(pci), _) => {
                self.open = Some((pci, PATIENCE));
                LogLine::Other
            }
            (LogLine::LostEnd, Some((pci, _))) => LogLine::Event(EventBody::FallenOffBus { pci }),
            (LogLine::LostEnd, None) => LogLine::Other,
            (line, open) => {
                self.open = open.and_then(|(pci, left)| Some((pci, left.checked_sub(1)?)));
                line
            }
        }
    }
}
