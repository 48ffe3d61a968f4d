//! SXid lines: `nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Non-fatal, Link 32 egress ...`.

use super::grammar::{LogLine, head};
use crate::EventBody;
use crate::event::Sxid;

/// What follows `SXid`, where the text begins with it or with the switch's name and then it.
pub(super) fn start(text: &str) -> Option<&str> {
    let text = match text.strip_prefix("nvidia-nvswitch") {
        Some(rest) => {
            let number = rest.trim_start_matches(|c: char| c.is_ascii_digit());
            number
                .strip_prefix(':')
                .unwrap_or(number)
                .strip_prefix(' ')?
                .trim_start()
        }
        None => text,
    };
    Some(text.strip_prefix("SXid")?.trim_start())
}

/// Reads what follows `SXid`.
pub(super) fn parse(text: &str, whole: bool) -> LogLine {
    let Some(head) = head(text, whole) else {
        return LogLine::Malformed;
    };
    // The driver prints each error in two or three records with the same code: what happened, then severity and
    // engine, then the raw words. Only the first is an event, or every error would count three times.
    if head.rest.starts_with("Data {") || head.rest.starts_with("Severity ") {
        return LogLine::Detail;
    }
    let severity = head.rest.split([',', ' ']).next().unwrap_or_default();
    let fatal = match severity {
        "Fatal" => Some(true),
        "Non-fatal" | "Nonfatal" => Some(false),
        _ => None,
    };
    let link = head
        .rest
        .split_once("Link ")
        .map(|(_, n)| n.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default())
        .and_then(|n| n.parse().ok());
    LogLine::Event(EventBody::Sxid(Sxid {
        pci: head.pci,
        code: head.code,
        fatal,
        link,
    }))
}
