//! The heads of kernel lines: driver and address, Lustre's numbers, and the words that some versions put before a message.

use super::form::is_name_char;
use crate::PciAddress;

/// Words before messages that differ by version.
const BEFORE: [&str; 8] = [
    "mce: ",
    // Enterprise Linux 8: a 4.18 in which mce.c became mce/core.c, with KBUILD_MODNAME as its head.
    "core: ",
    "NMI watchdog: ",
    "watchdog: ",
    "rcu: ",
    "blk_update_request: ",
    "print_req_error: ",
    "end_request: ",
];

/// Words between address and message that differ by version.
const BETWEEN: [&str; 5] = ["AER: ", "Multiple ", "amdgpu: ", "[drm] ", "*ERROR* "];

/// A message, and what is behind each of its possible heads.
#[derive(Debug)]
pub(super) struct Line<'t> {
    /// Behind [`BEFORE`].
    pub(super) text: &'t str,
    /// The word before the address.
    pub(super) driver: &'t str,
    /// The address.
    pub(super) pci: Option<PciAddress>,
    /// Behind driver and address.
    pub(super) message: Option<&'t str>,
    /// Behind the head of a line of Lustre or LNet.
    pub(super) lustre: Option<&'t str>,
    /// Behind driver and device of a network interface's line.
    pub(super) interface: Option<&'t str>,
    /// Behind the name of a process: then the line is no other one.
    pub(super) process: Option<&'t str>,
}

impl<'t> Line<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        let device = device(text);
        let (driver, pci, message) = match device {
            Some((driver, pci, message)) => (driver, Some(pci), Some(message)),
            None => ("", None, None),
        };
        Self {
            text: without(text, &BEFORE),
            driver,
            pci,
            message,
            lustre: lustre(text),
            interface: interface(text),
            process: None,
        }
    }

    /// What the line of a process says behind its name.
    pub(super) const fn of_process(said: &'t str) -> Self {
        Self {
            text: "",
            driver: "",
            pci: None,
            message: None,
            lustre: None,
            interface: None,
            process: Some(said),
        }
    }
}

fn without<'t>(text: &'t str, words: &[&str]) -> &'t str {
    let mut rest = text;
    while let Some(behind) = words.iter().find_map(|word| rest.strip_prefix(word)) {
        rest = behind;
    }
    rest
}

/// `driver 0000:3b:00.0: message`, `driver 0000:3b:00.0 eth0: message`, and old `driver 0000:3b:00.0:pcie24: message`.
fn device(text: &str) -> Option<(&str, PciAddress, &str)> {
    let (driver, rest) = text.split_once(' ')?;
    let (word, behind) = rest.split_once(' ')?;
    let (address, message) = match word.strip_suffix(':') {
        Some(word) => (
            word.split_once(":pcie").map_or(word, |(address, _)| address),
            behind,
        ),
        None => (word, behind_name(behind)?),
    };
    let pci = PciAddress::parse(address)?;
    let message = without(message.trim_start(), &BETWEEN);
    let message = match driver {
        "mlx5_core" => function(message),
        "amdgpu" => of_event(message),
        _ => message,
    };
    Some((driver, pci, message))
}

/// Behind the name of an interface or RDMA device, which stands between address and message: one word, and the state of an
/// interface that is not registered. Any other text there is not a driver's.
pub(in super::super) fn behind_name(text: &str) -> Option<&str> {
    let (name, message) = text.split_once(": ")?;
    let name = name.strip_prefix("(unnamed net_device)").or_else(|| {
        let end = name.find(' ').unwrap_or(name.len());
        name.get(end..)
    })?;
    let is_state = |state: &str| state.bytes().all(|b| b.is_ascii_lowercase());
    let state = name.strip_prefix(" (").and_then(|name| name.strip_suffix(')'));
    (name.is_empty() || state.is_some_and(is_state)).then_some(message)
}

/// Behind `driver device `, of any bus.
fn interface(text: &str) -> Option<&str> {
    let mut parts = text.splitn(3, ' ');
    let is_name = |word: &str| !word.is_empty() && word.bytes().all(is_name_char);
    (is_name(parts.next()?) && is_name(parts.next()?)).then(|| parts.next())?
}

/// Behind `function:line:(pid N): `, which some builds of mlx5_core leave out in part or whole.
pub(in super::super) fn function(message: &str) -> &str {
    let behind = || {
        let (name, rest) = message.split_once(':')?;
        let (line, rest) = rest.split_once(':')?;
        let is_name = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        if !is_name || line.parse::<u32>().is_err() {
            return None;
        }
        let pid = rest.strip_prefix("(pid ").and_then(|rest| rest.split_once("):"));
        Some(pid.map_or(rest, |(_, rest)| rest).trim_start())
    };
    behind().unwrap_or(message)
}

/// Behind `{number}` and `socket: N, die: N, ` of AMD's RAS lines.
fn of_event(message: &str) -> &str {
    let message = match message.strip_prefix('{').and_then(|rest| rest.split_once('}')) {
        Some((number, rest)) if number.parse::<u64>().is_ok() => rest,
        _ => message,
    };
    let message = message.trim_start();
    let behind = |message: &'_ str, word: &str| {
        let (number, rest) = message.strip_prefix(word)?.split_once(' ')?;
        number.trim_end_matches([',', ':']).parse::<u32>().ok()?;
        Some(message.len() - rest.len())
    };
    let mut at = 0;
    for word in ["socket: ", "die: "] {
        at += message.get(at..).and_then(|rest| behind(rest, word)).unwrap_or(0);
    }
    message.get(at..).unwrap_or_default()
}

/// Behind `LustreError: 11-0: 1234:0:(file.c:1:function()) `; number and place are not in every line.
fn lustre(text: &str) -> Option<&str> {
    let heads = ["Lustre: ", "LustreError: ", "LNet: ", "LNetError: "];
    let mut rest = heads.iter().find_map(|head| text.strip_prefix(head))?;
    if let Some((word, behind)) = rest.split_once(": ")
        && word.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-')
        && word.contains('-')
    {
        rest = behind;
    }
    if let Some((place, behind)) = rest.split_once("()) ")
        && place.bytes().next().is_some_and(|b| b.is_ascii_digit())
        && !place.contains(' ')
    {
        rest = behind;
    }
    Some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn driver_and_address_are_taken_from_every_form_of_a_devices_line() {
        for (text, want) in [
            (
                "pcieport 0000:00:03.0: AER: Multiple Corrected error",
                Some(("pcieport", "0000:00:03.0", "Corrected error")),
            ),
            (
                "pciehp 0000:02:05.0:pcie24: Link",
                Some(("pciehp", "0000:02:05.0", "Link")),
            ),
            (
                "mlx5_core 0000:41:00.0 ens1: poll_health:852:(pid 0): gone",
                Some(("mlx5_core", "0000:41:00.0", "gone")),
            ),
            (
                "mlx5_core 0000:41:00.0: a thing (pid 7): gone",
                Some(("mlx5_core", "0000:41:00.0", "a thing (pid 7): gone")),
            ),
            (
                "amdgpu 0000:c6:00.0: amdgpu: {12}socket: 0, die: 1, 2 new",
                Some(("amdgpu", "0000:c6:00.0", "2 new")),
            ),
            (
                "amdgpu 0000:c6:00.0: ring",
                Some(("amdgpu", "0000:c6:00.0", "ring")),
            ),
            (
                "bnxt_en 0000:01:00.0 (unnamed net_device) (uninitialized): gone",
                Some(("bnxt_en", "0000:01:00.0", "gone")),
            ),
            (
                "ice 0000:31:00.0 ens1f0 (unregistering): gone",
                Some(("ice", "0000:31:00.0", "gone")),
            ),
            ("ice 0000:31:00.0 is [1] bad: gone", None),
            ("ice 0000:31:00.0 a b: gone", None),
            ("ice 0000:31:00.0 a (B): gone", None),
            ("a b: c", None),
            ("a", None),
        ] {
            let line = Line::new(text);
            let of = line
                .pci
                .as_ref()
                .and_then(|pci| Some((line.driver, pci.0.as_str(), line.message?)));
            assert_eq!(of, want, "{text}");
        }
    }

    #[test]
    fn the_head_of_lustres_lines_has_four_forms() {
        for text in [
            "Lustre: x was lost",
            "LustreError: 167-0: x was lost",
            "LNetError: 3456:0:(o2iblnd_cb.c:3321:kiblnd_check()) x was lost",
            "LustreError: 11-0: 3456:0:(import.c:1:f()) x was lost",
        ] {
            assert_eq!(Line::new(text).lustre, Some("x was lost"), "{text}");
        }
        assert_eq!(Line::new("x was lost").lustre, None);
        let device = Line::new("Lustre: lustre-MDT0000: Connection (at 1:2) lost");
        assert_eq!(device.lustre, Some("lustre-MDT0000: Connection (at 1:2) lost"));
    }
}
