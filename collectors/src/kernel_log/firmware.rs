//! Network adapters whose firmware does not answer its driver: `mlx5_core 0000:19:00.0: wait_func:1189:(pid 7): CREATE_QP(0x500)
//! timeout. Will cause a leak of a command resource`. Each fault counts once, by the line that ends it.
//!
//! A command that firmware refuses (`failed, status bad parameter`) is none: monitoring tools cause thousands of those.

use crate::event::FirmwareFault;
use crate::{EventBody, PciAddress};

/// What a driver's message says.
type Says = fn(&str) -> Option<FirmwareFault>;

/// Drivers, by the first word of their lines, and what their lines say.
const DRIVERS: [(&str, Says); 6] = [
    ("mlx5_core", mlx5),
    ("mlx4_core", mlx4),
    ("bnxt_en", bnxt),
    ("ice", ice),
    ("i40e", ice),
    ("ionic", ionic),
];

/// Whether a message is of one of the drivers.
pub(super) fn starts(text: &[u8]) -> bool {
    DRIVERS.iter().any(|(driver, _)| {
        text.strip_prefix(driver.as_bytes())
            .is_some_and(|rest| rest.first() == Some(&b' '))
    })
}

/// Reads a message of one of the drivers.
pub(super) fn parse(text: &str) -> Option<EventBody> {
    let (driver, rest) = text.split_once(' ')?;
    let (_, says) = DRIVERS.iter().find(|(name, _)| *name == driver)?;
    let (address, rest) = rest.split_once(' ')?;
    let (pci, message) = match address.strip_suffix(':') {
        Some(address) => (address, rest),
        None => (address, super::lines::behind_name(rest)?),
    };
    Some(EventBody::Firmware {
        pci: PciAddress::parse(pci)?,
        driver: driver.to_owned(),
        what: says(message.trim_start())?,
    })
}

/// mlx5_core writes `function:line:(pid N): message`; some builds leave the function out.
fn mlx5(text: &str) -> Option<FirmwareFault> {
    let message = super::lines::of_function(text);
    // Behind any other head the text is a quotation.
    if message.contains("(pid ") {
        return None;
    }
    // The line "No done completion" stands before it and says the same.
    if message.contains("timeout. Will cause a leak of a command resource") {
        Some(FirmwareFault::CommandTimeout)
    } else if message.contains("Command completion arrived after timeout") {
        Some(FirmwareFault::LateCompletion)
    } else if message.starts_with("device's health compromised") {
        Some(FirmwareFault::Unresponsive)
    } else if (message.starts_with("Fatal error ") && message.contains(" detected")) || is_assert(message) {
        Some(FirmwareFault::Fatal)
    } else if message.starts_with("health recovery failed")
        || message.starts_with("health recovery flow aborted, PCI reads still not working")
    {
        Some(FirmwareFault::Reset)
    } else {
        None
    }
}

/// `Health issue observed, firmware internal error, severity(3) ERROR:`. Since Linux 6.15 it is the only line of a firmware
/// assert. The severities are the kernel's log levels: above 3 it is a warning or information.
fn is_assert(message: &str) -> bool {
    let Some(rest) = message.strip_prefix("Health issue observed, ") else {
        return false;
    };
    // The air is at fault, not the firmware: row adapter-hot.
    if rest.starts_with("High temp") {
        return false;
    }
    let severity = rest
        .split_once("severity(")
        .and_then(|(_, rest)| rest.split_once(')'));
    severity.is_some_and(|(level, _)| ["0", "1", "2", "3"].contains(&level))
}

fn mlx4(text: &str) -> Option<FirmwareFault> {
    if text.starts_with("command 0x") && text.contains(" timed out") {
        Some(FirmwareFault::CommandTimeout)
    } else if text.starts_with("Internal error detected") {
        Some(FirmwareFault::Fatal)
    } else {
        None
    }
}

fn bnxt(text: &str) -> Option<FirmwareFault> {
    if text.starts_with("Error (timeout: ") || text.starts_with("Resp cmpl intr err msg: ") {
        Some(FirmwareFault::CommandTimeout)
    } else if text.starts_with("QPLIB: cmdq[") && text.contains(" timedout (") {
        // Before Linux 6.5. No later command is sent.
        Some(FirmwareFault::CommandTimeout)
    } else if text.starts_with("QPLIB: ") && text.contains(": FW STALL Detected. ") {
        // bnxt_re prints under the name of the Ethernet driver.
        Some(FirmwareFault::Unresponsive)
    } else if text.starts_with("Firmware not responding, status: ") {
        Some(FirmwareFault::Unresponsive)
    } else if text.starts_with("Firmware reset aborted") {
        // It failed.
        Some(FirmwareFault::Reset)
    } else if [
        "Fatal firmware reset event",
        "Firmware fatal reset event",
        // Its heartbeat stopped, or it reset itself.
        "Detected firmware fatal condition, initiating reset",
    ]
    .iter()
    .any(|words| text.starts_with(words))
    {
        Some(FirmwareFault::Fatal)
    } else {
        None
    }
}

/// irdma prints under the name of the Ethernet driver below it.
fn ice(text: &str) -> Option<FirmwareFault> {
    if text.starts_with("Requesting a reset") || text.starts_with("Rebuild failed, unload and reload driver")
    {
        Some(FirmwareFault::Reset)
    } else if text.starts_with("Firmware recovery mode detected") {
        Some(FirmwareFault::Fatal)
    } else {
        None
    }
}

fn ionic(text: &str) -> Option<FirmwareFault> {
    if text.starts_with("DEVCMD ") && text.contains(") timeout after ") {
        Some(FirmwareFault::CommandTimeout)
    } else if text.starts_with("FW heartbeat stalled at ") {
        Some(FirmwareFault::Unresponsive)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn what(text: &str) -> Option<(String, FirmwareFault)> {
        assert!(starts(text.as_bytes()), "{text}");
        match parse(text)? {
            EventBody::Firmware { pci, what, .. } => Some((pci.0, what)),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_command_that_is_never_answered_counts_once_by_its_last_line() {
        // Three lines of one command, as a ConnectX printed them.
        for (line, expected) in [
            (
                "mlx5_core 0000:56:00.0: wait_func_handle_exec_timeout:1159:(pid 72061): cmd[0]: ACCESS_REG(0x805) No done completion",
                None,
            ),
            (
                "mlx5_core 0000:56:00.0: wait_func:1189:(pid 72061): ACCESS_REG(0x805) timeout. Will cause a leak of a command resource",
                Some(FirmwareFault::CommandTimeout),
            ),
            (
                "mlx5_core 0000:56:00.0: mlx5_cmd_comp_handler:1709:(pid 0): Command completion arrived after timeout (entry idx = 0).",
                Some(FirmwareFault::LateCompletion),
            ),
            (
                "mlx5_core 0000:56:00.0: cb_timeout_handler:887:(pid 9): cmd[3]: MODIFY_CQ(0x403) Async, timeout. Will cause a leak of a command resource",
                Some(FirmwareFault::CommandTimeout),
            ),
        ] {
            let expected = expected.map(|what| ("0000:56:00.0".to_owned(), what));
            assert_eq!(what(line), expected, "{line}");
        }
    }

    #[test]
    fn a_refused_command_is_noise() {
        for line in [
            "mlx5_core 0000:3b:00.0: mlx5_cmd_out_err:835:(pid 1190): ACCESS_REG(0x805) op_mod(0x1) failed, status bad operation(0x2), syndrome (0x305684), err(-22)",
            "mlx5_core 0000:3b:00.0: mlx5_cmd_check:810:(pid 4711): ACCESS_REG(0x805) op_mod(0x0) failed, status bad parameter(0x3), syndrome (0x15c356)",
            "mlx5_core 0000:3b:00.0: print_health_info:435:(pid 0): assert_var[0] 0x0521945b",
            "mlx5_core 0000:3b:00.0: print_health_info:431:(pid 0): Health issue observed, High temperature, severity(4) WARNING:",
            "mlx5_core 0000:3b:00.0: print_health_info:431:(pid 0): Health issue observed, High temperature, severity(2) CRITICAL:",
            "mlx5_core 0000:3b:00.0 ens1np0: Link down",
            "mlx5_core 0000:3b:00.0: Port module event: module 0, Cable plugged",
            "bnxt_en 0000:01:00.0 eth0: hwrm req_type 0x98 seq id 0x5a error 0xf",
            "bnxt_en 0000:01:00.0 eth0: NIC Link is Down",
            "ice 0000:31:00.0 ens1f0: NIC Link is Down",
            "ionic 0000:24:00.0: FW heartbeat restored at 7",
            "ionic 0000:24:00.0: DEVCMD IONIC_CMD_LIF_INIT (22) interrupted - FW is down",
        ] {
            assert_eq!(what(line), None, "{line}");
        }
    }

    #[test]
    fn every_driver_has_its_words() {
        for (line, pci, expected) in [
            (
                "mlx5_core 0000:0d:00.0: poll_health:801:(pid 0): device's health compromised - reached miss count",
                "0000:0d:00.0",
                FirmwareFault::Unresponsive,
            ),
            (
                "mlx5_core 0000:d2:00.0: poll_health:825: device's health compromised - reached miss count.",
                "0000:d2:00.0",
                FirmwareFault::Unresponsive,
            ),
            (
                "mlx5_core 0000:01:00.1: poll_health:797:(pid 0): Fatal error 1 detected",
                "0000:01:00.1",
                FirmwareFault::Fatal,
            ),
            (
                "mlx5_core 0000:08:00.0: print_health_info:425:(pid 912): Health issue observed, firmware internal error, severity(3) ERROR:",
                "0000:08:00.0",
                FirmwareFault::Fatal,
            ),
            (
                "mlx4_core 0000:0a:00.0: command 0x21 timed out (go bit not cleared)",
                "0000:0a:00.0",
                FirmwareFault::CommandTimeout,
            ),
            (
                "bnxt_en 0000:01:00.0 ens1np0: Error (timeout: 500015) msg {0x21 0x1234} len:0",
                "0000:01:00.0",
                FirmwareFault::CommandTimeout,
            ),
            (
                "bnxt_en 0000:3d:00.0 ens11np0: Detected firmware fatal condition, initiating reset",
                "0000:3d:00.0",
                FirmwareFault::Fatal,
            ),
            (
                "bnxt_en 0000:3d:00.0 ens11np0: Firmware not responding, status: 0x80008000",
                "0000:3d:00.0",
                FirmwareFault::Unresponsive,
            ),
            (
                "bnxt_en 0000:3d:00.0 ens11np0: Firmware reset aborted, rc = -19",
                "0000:3d:00.0",
                FirmwareFault::Reset,
            ),
            (
                "bnxt_en 0000:01:00.0 (unnamed net_device) (uninitialized): Error (timeout: 10015) msg {0x0 0x0} len:0",
                "0000:01:00.0",
                FirmwareFault::CommandTimeout,
            ),
            (
                "bnxt_en 0000:01:00.0 ens1np0: Fatal firmware reset event, data1: 0x2, data2: 0x0, min wait 0 ms, max wait 0 ms",
                "0000:01:00.0",
                FirmwareFault::Fatal,
            ),
            (
                "ice 0000:31:00.0 rocep49s0f0: Requesting a reset",
                "0000:31:00.0",
                FirmwareFault::Reset,
            ),
            (
                "ice 0000:31:00.0: Rebuild failed, unload and reload driver",
                "0000:31:00.0",
                FirmwareFault::Reset,
            ),
            (
                "bnxt_en 0000:c1:00.0: QPLIB: bnxt_re_is_fw_stalled: FW STALL Detected. cmdq[0x4b6]=0x1 waited (2001 > 2000) msec active 1",
                "0000:c1:00.0",
                FirmwareFault::Unresponsive,
            ),
            (
                "bnxt_en 0000:19:00.0: QPLIB: cmdq[0x41d]=0x3 timedout (20000)msec",
                "0000:19:00.0",
                FirmwareFault::CommandTimeout,
            ),
            (
                "ice 0000:31:00.0: Firmware recovery mode detected. Limiting functionality. Refer to the Intel(R) Ethernet Adapters and Devices User Guide for details on firmware recovery mode.",
                "0000:31:00.0",
                FirmwareFault::Fatal,
            ),
            (
                "ionic 0000:24:00.0: FW heartbeat stalled at -1342169688",
                "0000:24:00.0",
                FirmwareFault::Unresponsive,
            ),
            (
                "ionic 0000:24:00.0: DEVCMD IONIC_CMD_LIF_INIT (22) timeout after 10 secs",
                "0000:24:00.0",
                FirmwareFault::CommandTimeout,
            ),
        ] {
            assert_eq!(what(line), Some((pci.to_owned(), expected)), "{line}");
        }
    }

    #[test]
    fn what_only_quotes_a_line_or_names_no_place_is_none() {
        for line in [
            "mlx5_core: wait_func:1189:(pid 1): X timeout. Will cause a leak of a command resource",
            "mlx5_core 0000:56:00: wait_func",
            "mlx5_core 56: wait_func:1:(pid 1): X timeout. Will cause a leak of a command resource",
            "mlx5_core 0000:56:00.0: note: wait_func:1:(pid 1): X timeout. Will cause a leak of a command resource",
            "ice 0000:31:00.0 a[7] bad frame in b: Requesting a reset",
            "mlx5_core 0000:56:00.0: Health issue observed, firmware internal error, severity(",
            "mlx5_core ",
            "ice ",
        ] {
            assert_eq!(parse(line), None, "{line}");
        }
        assert!(!starts(b"icecream 0000:31:00.0") && !starts(b"my mlx5_core 0000:31:00.0"));
    }

    proptest! {
        #[test]
        fn no_text_breaks_it(text in "(mlx5_core |bnxt_en |ice )?[0-9a-f:. ]{0,16}.{0,80}") {
            starts(text.as_bytes());
            parse(&text);
        }
    }
}
