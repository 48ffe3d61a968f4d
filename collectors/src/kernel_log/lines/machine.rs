//! Processors and memory: arch/x86/kernel/cpu/mce, drivers/edac, drivers/acpi/apei/ghes.c, mm/memory-failure.c,
//! drivers/thermal.

use super::form::{Form, at};
use super::{Ends, Meaning, ROW, Row};
use crate::SubjectKind::MemoryController;

/// The row of an uncorrected record of the firmware.
pub(super) const GHES_UNCORRECTED: &str = "ghes-uncorrected";

const fn fault(ends: Ends) -> Meaning {
    Meaning::Fault {
        check: "machine-check",
        ends,
    }
}

const BANK: &[Form] = &[
    at("[Hardware Error]: CPU %: Machine Check* Bank %: %"),
    at("EDAC * MC%: CPU %: Machine Check *: % Bank %: %"),
];

/// AMD's decoder prints them in place of the bank.
const DECODED: &[Form] = &[
    at("[Hardware Error]: Uncorrected, software restartable error."),
    at("[Hardware Error]: Uncorrected, software containable error."),
    at("[Hardware Error]: System Fatal error."),
    at("[Hardware Error]: Deferred error"),
];

/// The status register of a bank: bit 63 valid, 61 uncorrected (Intel SDM vol. 3, IA32_MCi_STATUS). Bank 128 is the
/// kernel's own record of heat.
fn is_uncorrected(text: &str) -> bool {
    let status = || {
        let (bank, status) = text.rsplit_once(" Bank ")?.1.split_once(": ")?;
        let status = status.split_ascii_whitespace().next()?;
        // Newer drivers of EDAC print it with `%#llx`.
        let status = status.strip_prefix("0x").unwrap_or(status);
        (bank != "128").then(|| u64::from_str_radix(status, 16).ok())?
    };
    status().is_some_and(|status| status >> 63 == 1 && status >> 61 & 1 == 1)
}

/// Whether it was polled: MCGSTATUS, before the bank, is not 0 in an exception. `mcheck_late_init()` prints what firmware left
/// in the banks, before a program runs.
fn is_left_over(text: &str) -> bool {
    let before = text
        .rsplit_once(" Bank ")
        .and_then(|(before, _)| before.rsplit_once(": "));
    is_uncorrected(text) && before.is_some_and(|(_, status)| matches!(status, "0" | "0x0"))
}

/// Those that a bank may keep over a boot. The others are of exceptions that the kernel has just survived.
const DECODED_LEFT_OVER: &[Form] = &[
    at("[Hardware Error]: System Fatal error."),
    at("[Hardware Error]: Deferred error"),
];

pub(super) static ROWS: &[Row] = &[
    // It names no severity: corrected errors that were polled print it too.
    Row {
        id: "mce-logged",
        what: "machine check events were logged",
        forms: &[at("[Hardware Error]: Machine check events logged")],
        ..ROW
    },
    // A reboot would not end it: the banks may keep it until a power cycle.
    Row {
        id: "mce-left-over",
        what: "uncorrected machine check from before the boot, in its first 30 s",
        forms: BANK,
        when: is_left_over,
        is_early: true,
        ..ROW
    },
    Row {
        id: "mce-uncorrected",
        what: "uncorrected machine check",
        meaning: fault(Ends::Reboot),
        forms: BANK,
        when: is_uncorrected,
        ..ROW
    },
    Row {
        id: "mce-corrected",
        what: "corrected machine check",
        forms: BANK,
        ..ROW
    },
    Row {
        id: "mce-amd-left-over",
        what: "uncorrected machine check from before the boot, in its first 30 s",
        forms: DECODED_LEFT_OVER,
        is_early: true,
        echoes: &["mce-left-over"],
        ..ROW
    },
    Row {
        id: "mce-amd-uncorrected",
        what: "uncorrected machine check",
        meaning: fault(Ends::Reboot),
        forms: DECODED,
        echoes: &["mce-uncorrected", "mce-left-over"],
        ..ROW
    },
    Row {
        id: "mce-user",
        what: "uncorrected memory error in a program",
        meaning: fault(Ends::Reboot),
        forms: &[
            at("Uncorrected hardware memory error in user-access at "),
            // A read of the kernel for the program, since Linux 5.11.
            at("Kernel accessed poison in user space at "),
        ],
        ..ROW
    },
    Row {
        id: "mce-storm",
        what: "very many corrected machine checks",
        meaning: fault(Ends::Quiet(6)),
        forms: &[
            at("CMCI storm detected: switching to poll mode"),
            at("CPU% BANK% CMCI storm detected"),
        ],
        ..ROW
    },
    Row {
        id: "mce-storm-over",
        what: "the machine checks became few",
        meaning: Meaning::AllClear(&["mce-storm"]),
        forms: &[at("CMCI storm subsided"), at("CPU% BANK% CMCI storm subsided")],
        ..ROW
    },
    Row {
        id: "edac-corrected",
        what: "corrected memory error",
        about: MemoryController,
        forms: &[at("EDAC <>: % CE "), at("EDAC <>: CE page ")],
        ..ROW
    },
    // The controller's own count drains by check edac-uncorrected.
    Row {
        id: "edac-uncorrected",
        what: "uncorrected memory error",
        about: MemoryController,
        meaning: fault(Ends::Reboot),
        forms: &[at("EDAC <>: % UE "), at("EDAC <>: UE page ")],
        ..ROW
    },
    Row {
        id: "ghes-corrected",
        what: "the firmware reports a corrected error",
        forms: &[
            at("{%}[Hardware Error]: event severity: corrected"),
            at("{%}[Hardware Error]: event severity: info"),
        ],
        ..ROW
    },
    // An event only once its first section follows, see `sections`.
    Row {
        id: GHES_UNCORRECTED,
        what: "the firmware reports an uncorrected error, not of PCIe",
        meaning: fault(Ends::Reboot),
        forms: &[
            at("{%}[Hardware Error]: event severity: recoverable"),
            at("{%}[Hardware Error]: event severity: fatal"),
        ],
        ..ROW
    },
    // Its device follows, see `sections`.
    Row {
        id: "ghes-pcie",
        what: "the firmware reports a PCIe error, corrected or not",
        forms: &[at("{%}[Hardware Error]: *section_type: PCIe error")],
        ..ROW
    },
    Row {
        id: "bert",
        what: "the firmware kept error records of the last boot",
        forms: &[at("BERT: Error records from previous boot:")],
        ..ROW
    },
    Row {
        id: "memory-failure",
        what: "a memory page failed and was not recovered",
        meaning: fault(Ends::Reboot),
        forms: &[
            at("Memory failure: %: recovery action for *: Ignored"),
            at("Memory failure: %: recovery action for *: Failed"),
            at("MCE %: recovery action for *: Ignored"),
            at("MCE %: recovery action for *: Failed"),
        ],
        // A second report of a page that is no longer used.
        not: &["already poisoned page"],
        ..ROW
    },
    Row {
        id: "memory-failure-handled",
        what: "a memory page failed and is no longer used",
        meaning: fault(Ends::Quiet(24)),
        forms: &[
            at("Memory failure: %: recovery action for *: Recovered"),
            at("Memory failure: %: recovery action for *: Delayed"),
            at("MCE %: recovery action for *: Recovered"),
            at("MCE %: recovery action for *: Delayed"),
        ],
        ..ROW
    },
    Row {
        id: "soft-offline",
        what: "a memory page was moved before it failed",
        forms: &[
            at("Soft offline: %: "),
            at("soft offline: %: "),
            at("Soft offlining pfn %"),
        ],
        ..ROW
    },
    // Whether it lasts is in the processor's counters.
    Row {
        id: "cpu-throttled",
        what: "a processor is hot and runs slower",
        forms: &[
            at("CPU%: Core temperature above threshold"),
            at("CPU%: Package temperature above threshold"),
            at("CPU%: Core temperature is above threshold"),
            at("CPU%: Package temperature is above threshold"),
        ],
        ..ROW
    },
    Row {
        id: "overheated",
        what: "the node is hotter than it may be; the kernel shuts it down",
        meaning: fault(Ends::Reboot),
        follows: true,
        // Some kernels print the zone's type between, and not all say that they shut down.
        forms: &[at("thermal *: critical temperature reached")],
        ..ROW
    },
];
