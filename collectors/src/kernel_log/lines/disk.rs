//! Local disks: drivers/nvme/host/{pci,core}.c, block/blk-core.c, drivers/scsi, drivers/ata/libata-eh.c, drivers/md.

use super::form::{at, driver};
use super::{Ends, Meaning, ROW, Row};
use crate::SubjectKind::{Disk, Pci};

const fn fault(ends: Ends) -> Meaning {
    Meaning::Fault {
        check: "disk-error",
        ends,
    }
}

/// Whether a disk, or the device of a filesystem, is not a file, memory, a network's or removable.
pub(super) fn is_local(name: &str) -> bool {
    !["sr", "fd", "loop", "zram", "nbd", "ram", "rbd"]
        .iter()
        .any(|no| name.starts_with(no))
}

pub(super) static ROWS: &[Row] = &[
    Row {
        id: "nvme-timeout",
        what: "an NVMe command timed out",
        about: Disk,
        meaning: fault(Ends::Quiet(6)),
        forms: &[
            at("nvme <>: I/O % QID % timeout, aborting"),
            at("nvme <>: I/O % QID % timeout, reset controller"),
            at("nvme <>: I/O % QID % timeout, disable controller"),
            at("nvme <>: I/O % (*) QID % timeout, "),
            at("nvme <>: I/O tag % *QID % timeout, "),
        ],
        not: &["completion polled"],
        ..ROW
    },
    Row {
        id: "nvme-down",
        what: "an NVMe controller stopped",
        about: Disk,
        meaning: fault(Ends::Quiet(6)),
        forms: &[
            at("nvme <>: controller is down; will reset: "),
            at("<>: controller is down; will reset: "),
        ],
        ..ROW
    },
    Row {
        id: "nvme-dead",
        what: "an NVMe controller was given up",
        about: Disk,
        meaning: fault(Ends::Reboot),
        forms: &[
            at("nvme <>: Removing after probe failure"),
            at("nvme <>: Disabling device after reset failure"),
            at("nvme <>: Device not ready; aborting "),
        ],
        ..ROW
    },
    // The only line of a drive that answers, but not to all that its start asks.
    Row {
        id: "nvme-not-started",
        what: "an NVMe controller was not started by its driver",
        about: Pci,
        meaning: fault(Ends::Reboot),
        forms: &[
            at("nvme: probe of <> failed with error "),
            driver("nvme", "probe with driver nvme failed with error "),
        ],
        // Tried again later.
        not: &["error -517"],
        ..ROW
    },
    Row {
        id: "nvme-reset",
        what: "an NVMe controller was reset after an error",
        about: Disk,
        meaning: fault(Ends::Quiet(6)),
        forms: &[
            at("nvme <>: frozen state error detected, reset controller"),
            at("nvme <>: restart after slot reset"),
            at("nvme <>: resetting controller due to AER"),
            at("nvme <>: resetting controller due to persistent internal error"),
            at("nvme <>: firmware activation timeout, reset controller"),
        ],
        ..ROW
    },
    // Status code type 2, codes 80h to 84h (NVM Express base specification): write fault, unrecovered read, failed
    // protection. Other codes answer questions that a drive does not support.
    Row {
        id: "nvme-media",
        what: "an NVMe medium error",
        about: Disk,
        meaning: fault(Ends::Quiet(24)),
        forms: &[
            at("<>: *(%) @ LBA %, * (sct 0x2 / sc 0x80)"),
            at("<>: *(%) @ LBA %, * (sct 0x2 / sc 0x81)"),
            at("<>: *(%) @ LBA %, * (sct 0x2 / sc 0x82)"),
            at("<>: *(%) @ LBA %, * (sct 0x2 / sc 0x83)"),
            at("<>: *(%) @ LBA %, * (sct 0x2 / sc 0x84)"),
        ],
        // Other lines begin with `NAME: ` too, and then hold a path that a user chose.
        when: |text| text.starts_with("nvme"),
        ..ROW
    },
    Row {
        id: "disk-medium",
        what: "a medium error",
        about: Disk,
        meaning: fault(Ends::Quiet(24)),
        forms: &[at("critical medium error, dev <>")],
        ..ROW
    },
    Row {
        id: "disk-io",
        what: "an I/O error",
        about: Disk,
        meaning: fault(Ends::Quiet(6)),
        // Not "recoverable transport error": only paths of a fabric report it (BLK_STS_TRANSPORT).
        forms: &[
            at("I/O error, dev <>"),
            // Since Linux 5.18, of a disk that was given up.
            at("device offline error, dev <>"),
            at("critical target error, dev <>"),
            at("critical nexus error, dev <>"),
            at("timeout error, dev <>"),
            at("protection error, dev <>"),
        ],
        // Commands that the disk does not support.
        not: &["(DISCARD)", "(WRITE_ZEROES)"],
        ..ROW
    },
    Row {
        id: "disk-offline",
        what: "a disk was given up",
        about: Disk,
        meaning: fault(Ends::Reboot),
        forms: &[
            at("sd <>: rejecting I/O to offline device"),
            at("sd <>: Device offlined - not ready after error recovery"),
            at("scsi <>: Device offlined - not ready after error recovery"),
            at("<>: disabled"),
            at("<>: disable device"),
        ],
        when: |text| text.starts_with("sd ") || text.starts_with("scsi ") || is_ata(text),
        ..ROW
    },
    Row {
        id: "ata-exception",
        what: "a disk did not answer",
        about: Disk,
        meaning: fault(Ends::Quiet(6)),
        forms: &[at("<>: exception Emask *frozen")],
        when: is_ata,
        ..ROW
    },
    Row {
        id: "raid-degraded",
        what: "a RAID array lost a disk",
        about: Disk,
        meaning: fault(Ends::Person),
        forms: &[
            at("md/raid*:<>: Disk failure on "),
            // These have no colon before the name of the array.
            at("md/raid0<>: Disk failure on "),
            at("md/linear<>: Disk failure on "),
            // The same, Linux 5.4 to 6.4.
            at("md: <>: * array has a missing/failed member"),
            at("md/raid*:<>: active with % out of % "),
            at("md/raid*:<>: not enough operational "),
            at("md: kicking non-fresh <> from array!"),
        ],
        when: lacks_a_disk,
        ..ROW
    },
];

/// A whole array starts with the same line: `active with 2 out of 2 mirrors`. RAID 4, 5 and 6 have another (`raid level 5 active
/// with 3 out of 4`), which is no fault: a new array starts as one of which a disk is rebuilt.
fn lacks_a_disk(text: &str) -> bool {
    let Some((_, counts)) = text.split_once(" active with ") else {
        return true;
    };
    let mut counts = counts.split(' ').filter_map(|word| word.parse::<u32>().ok());
    counts.next() < counts.next()
}

/// `ata1.00: ...`
fn is_ata(text: &str) -> bool {
    let port = text.strip_prefix("ata");
    port.is_some_and(|port| port.starts_with(|c: char| c.is_ascii_digit()))
}
