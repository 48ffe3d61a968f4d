//! Local filesystems: fs/ext4/super.c, fs/jbd2/journal.c, fs/xfs/{xfs_fsops,xfs_message}.c, fs/iomap, fs/btrfs/messages.c.

use super::form::at;
use super::{Ends, Meaning, ROW, Row};
use crate::SubjectKind::Filesystem;

const fn fault(ends: Ends) -> Meaning {
    Meaning::Fault {
        check: "filesystem-error",
        ends,
    }
}

/// The device of a filesystem. jbd2 calls a journal inside it `DEVICE-8`, by its inode; `dm-8` is a device.
pub(super) fn device(name: &str) -> &str {
    let device = name
        .strip_suffix("-8")
        .filter(|device| !device.is_empty() && *device != "dm");
    device.unwrap_or(name)
}

pub(super) static ROWS: &[Row] = &[
    Row {
        id: "ext4-readonly",
        what: "ext4 became read-only",
        about: Filesystem,
        meaning: fault(Ends::Reboot),
        follows: true,
        forms: &[at("EXT4-fs (<>): Remounting filesystem read-only")],
        ..ROW
    },
    Row {
        id: "ext4-error",
        what: "an ext4 error",
        names_program: true,
        about: Filesystem,
        meaning: fault(Ends::Reboot),
        follows: true,
        forms: &[
            at("EXT4-fs error (device <>): "),
            at("EXT4-fs error (device <>) in "),
            at("EXT4-fs (<>): failed to convert unwritten extents to written extents"),
            at("EXT4-fs warning (device <>): ext4_end_bio:"),
        ],
        ..ROW
    },
    Row {
        id: "journal-aborted",
        what: "a filesystem's journal was given up",
        about: Filesystem,
        meaning: fault(Ends::Reboot),
        follows: true,
        forms: &[
            at("Aborting journal on device <>."),
            at("JBD2: Detected IO errors while flushing file data on <>"),
        ],
        ..ROW
    },
    Row {
        id: "xfs-shutdown",
        what: "XFS shut a filesystem down",
        about: Filesystem,
        meaning: fault(Ends::Reboot),
        follows: true,
        forms: &[
            at("XFS (<>): *hutting down filesystem"),
            at("XFS (<>): Filesystem has been shut down due to log error "),
            at("XFS (<>): xfs_do_force_shutdown(%) called from "),
        ],
        // By a person or a test.
        not: &["User initiated", "xfs_do_force_shutdown(0x4)"],
        ..ROW
    },
    Row {
        id: "xfs-error",
        what: "an XFS error",
        about: Filesystem,
        meaning: fault(Ends::Reboot),
        follows: true,
        forms: &[
            at("XFS (<>): Metadata corruption detected at "),
            at("XFS (<>): Metadata CRC error detected at "),
            at("XFS (<>): metadata I/O error"),
            at("XFS (<>): log mount/recovery failed"),
            at("XFS (<>): Internal error "),
            at("XFS (<>): Corruption detected. Unmount and run xfs_repair"),
            at("XFS (<>): *writeback error on "),
            // Of iomap, which writes for XFS since Linux 5.5.
            at("<>: writeback error on inode %, offset "),
        ],
        ..ROW
    },
    Row {
        id: "btrfs-readonly",
        what: "Btrfs became read-only",
        about: Filesystem,
        meaning: fault(Ends::Reboot),
        follows: true,
        forms: &[
            at("BTRFS info (device <>*): forced readonly"),
            at("BTRFS: error (device <>*) in *: errno=-"),
            at("BTRFS error (device <>*) in *: errno=-"),
            at("BTRFS: Transaction aborted (error -"),
        ],
        // A full disk.
        not: &["errno=-28", "(error -28)"],
        ..ROW
    },
    Row {
        id: "btrfs-error",
        what: "a Btrfs error",
        about: Filesystem,
        meaning: fault(Ends::Quiet(24)),
        forms: &[
            at("BTRFS error (device <>*): bdev * errs: "),
            at("BTRFS warning (device <>*): *checksum verify failed"),
            at("BTRFS error (device <>*): *checksum verify failed"),
            at("BTRFS warning (device <>*): csum failed root "),
            at("BTRFS error (device <>*): parent transid verify failed"),
            at("BTRFS critical (device <>*): corrupt "),
            at("BTRFS error (device <>*): bad tree block start"),
            at("BTRFS error (device <>*): *read time tree block corruption detected"),
        ],
        ..ROW
    },
];
