//! Every format string of the kernel and of its drivers, filled and read as a line: which of them are events.
//!
//! `fixtures/kernel_strings/strings.txt` has the strings, `events.txt` those that are events, with the row. Review each new
//! line of it: a string that reports no fault must not be one of a fault's row. `UPDATE_GOLDEN=1` writes it again.

#![allow(
    clippy::disallowed_methods,
    reason = "a test reads and writes its own fixtures"
)]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use super::firmware;
use super::grammar::{self, LogLine};
use super::lines::{self, Meaning};
use crate::EventBody;

/// What stands for `%s` and for numbers.
const FILLS: [(&str, &str); 2] = [("eth0", "7"), ("completed", "0")];

/// A format string with values in place of its conversions.
fn filled(format: &str, (word, number): (&str, &str)) -> String {
    let mut out = String::new();
    let mut rest = format;
    while let Some((before, behind)) = rest.split_once('%') {
        out.push_str(before);
        let behind = behind.trim_start_matches(|c: char| "-+ #0123456789.*".contains(c));
        let conversion = behind.trim_start_matches(['h', 'l', 'L', 'z', 't', 'j']);
        let kind = conversion.chars().next().unwrap_or('%');
        rest = conversion.get(kind.len_utf8()..).unwrap_or_default();
        if kind == 'p' {
            let name: &str = rest.get(..1).unwrap_or_default();
            let (value, letters) = match name {
                "V" => ("a message", 1),
                "S" | "s" | "B" => ("function+0x1a/0x40", 1),
                "M" => ("02:00:00:00:00:01", 1),
                "I" | "i" => ("10.0.0.1", 2),
                "U" => ("6f1c2f0e-7a4d-4c55-9b7e-3d1a8e52c0f4", 2),
                "R" | "r" => ("[mem 0xfe000000-0xfe0fffff]", 1),
                "a" => ("0x00000000fe000000", 1),
                "d" | "D" => ("file", 1),
                "h" => ("00 11 22", 1),
                _ => ("000000001c2d3e4f", 0),
            };
            out.push_str(value);
            rest = rest.get(letters..).unwrap_or_default();
        } else {
            out.push_str(match kind {
                's' => word,
                'c' => "c",
                '%' => "%",
                _ => number,
            });
        }
    }
    out + rest
}

/// What the kernel prints before a message of this module that has no level of its own: dev_err() and the like
/// put driver and device there, filesystems their name and device.
fn heads(module: &str) -> Vec<String> {
    let mut heads = vec![String::new(), format!("{module} 0000:3b:00.0: ")];
    let more: &[&str] = match module {
        "vmlinux" => &[
            "pcieport 0000:00:1c.0: ",
            "pcieport 0000:00:1c.0: AER: ",
            "sd 0:0:0:0: ",
            "nvme0n1: ",
            "iommu ivhd0: ",
            "thermal thermal_zone0: ",
        ],
        "amdgpu" => &["amdgpu 0000:3b:00.0: {7}", "[drm:amdgpu_init [amdgpu]] *ERROR* "],
        "bnxt_re" => &["bnxt_en 0000:3b:00.0: "],
        "nvme" | "nvme_core" | "nvme_fabrics" | "nvme_rdma" | "nvme_tcp" => &["nvme nvme0: ", "nvme0n1: "],
        // ext4_error() has its own head in the string.
        "ext4" => &["EXT4-fs (sda1): ", "EXT4-fs warning (device sda1): "],
        "xfs" => &["XFS (sda1): "],
        "btrfs" => &[
            "BTRFS info (device sda1): ",
            "BTRFS warning (device sda1): ",
            "BTRFS error (device sda1): ",
            "BTRFS critical (device sda1): ",
        ],
        "libata" => &["ata1.00: ", "ata1: "],
        "scsi_mod" | "sd_mod" | "ses" | "sg" => &["sd 0:0:0:0: ", "scsi 0:0:0:0: ", "sd 0:0:0:0: [sda] "],
        name if name.contains("edac") => &["EDAC MC0: "],
        name if name.starts_with("md") || name.starts_with("raid") => &["md/raid1:md0: ", "md: "],
        name if name.starts_with("ib_") || name.contains("_ib") || name.contains("rdma") => {
            &["infiniband mlx5_0: ", "ib0: "]
        }
        _ => &[],
    };
    heads.extend(more.iter().map(|head| (*head).to_owned()));
    heads
}

/// Whether a message of this module can have that head. The strings of amdgpu's dev_err() begin with the driver's name. Others
/// are DRM_ERROR(), without an address, or RAS events, which have a number there.
fn fits(module: &str, head: &str, format: &str) -> bool {
    if module != "amdgpu" || head.is_empty() {
        return true;
    }
    if format.starts_with("amdgpu: ") {
        return head == "amdgpu 0000:3b:00.0: ";
    }
    let is_ras_event = format.contains("hardware errors") || format.contains("poison");
    head.starts_with("[drm:") || head.ends_with('}') && is_ras_event
}

/// The event of a line, if it is one: what ends the fault's line, or that it is only counted, and the row.
fn event(line: &str) -> Option<String> {
    match grammar::parse(line.as_bytes(), true, None, u64::MAX) {
        LogLine::Event(EventBody::Firmware { driver, what, .. }) => {
            Some(format!("fault\trdma-firmware-timeout {driver} {what:?}"))
        }
        LogLine::Event(body) => Some(format!("fault\t{body:?}")),
        LogLine::Kernel(read) => {
            let id = &read.line.row;
            let meaning = match lines::row(id).unwrap().meaning {
                Meaning::Counted => "counted",
                Meaning::Fault { .. } => "fault",
                Meaning::AllClear(_) => "clear",
            };
            Some(format!("{meaning}\t{id}"))
        }
        LogLine::LostStart(_) | LogLine::LostEnd | LogLine::Detail | LogLine::Malformed => {
            Some("fault\tnvidia".to_owned())
        }
        LogLine::Suppressed(_) | LogLine::Other => None,
    }
}

/// The longest literal text of each form: a line without one of them is no event, and reading it would take long.
fn literals() -> BTreeSet<String> {
    let heads = ["ADDRESS: ", "Lustre: "];
    let longest = |form: String| {
        let text = heads
            .iter()
            .find_map(|head| Some(form.split_once(head)?.1))
            .unwrap_or(&form);
        let longest = text.split(['*', '%', '<', '>']).max_by_key(|part| part.len());
        longest.unwrap_or_default().to_owned()
    };
    lines::rows().flat_map(|row| row.forms().map(longest)).collect()
}

/// Events of all strings, each with the module and the string.
fn events(strings: &str) -> BTreeSet<String> {
    let (mut found, mut module, mut heads_of) = (BTreeSet::new(), "", Vec::new());
    let none = [String::new()];
    let literals = literals();
    // Messages that are events without a row.
    let others = ["NVRM", "SXid", "NVIDIA", "fallen off"];
    let may_be = |line: &str| {
        firmware::starts(line.as_bytes())
            || literals.iter().any(|text| line.contains(text.as_str()))
            || others.iter().any(|text| line.contains(text))
    };
    for line in strings.lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'))
            && !name.contains(' ')
        {
            (module, heads_of) = (name, heads(name));
            continue;
        }
        let (level, format) = line.split_once(' ').unwrap();
        // btrfs puts level and device before a message with a level of its own.
        let heads = if level == "-" || module == "btrfs" {
            heads_of.as_slice()
        } else {
            &none
        };
        for fill in FILLS {
            let text = filled(format, fill).replace("\\n", "\n");
            for head in heads {
                let line = format!("{head}{text}");
                if fits(module, head, format)
                    && may_be(&line)
                    && let Some(event) = event(&line)
                {
                    found.insert(format!("{event}\t{module}\t{format}"));
                }
            }
        }
    }
    found
}

#[test]
fn the_strings_of_the_kernel_that_are_events_are_those_that_were_reviewed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/kernel_strings");
    let strings = std::fs::read_to_string(folder.join("strings.txt")).unwrap();
    assert!(strings.lines().count() > 30_000);
    let found = events(&strings);
    let mut text =
        "# meaning, row, module, format string. Reviewed: each string of a fault reports one.\n".to_owned();
    for line in &found {
        writeln!(text, "{line}").unwrap();
    }
    let path = folder.join("events.txt");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let reviewed = std::fs::read_to_string(&path).unwrap();
    let reviewed: BTreeSet<&str> = reviewed.lines().filter(|line| !line.starts_with('#')).collect();
    let found: BTreeSet<&str> = found.iter().map(String::as_str).collect();
    let (new, gone): (Vec<_>, Vec<_>) = (
        found.difference(&reviewed).collect(),
        reviewed.difference(&found).collect(),
    );
    assert!(
        new.is_empty() && gone.is_empty(),
        "new: {new:#?}\nno longer events: {gone:#?}"
    );
}

#[test]
fn conversions_are_filled_as_the_kernel_prints_them() {
    for (format, want) in [
        ("CPU%d: %-10s at %#llx", "CPU7: eth0 at 7"),
        ("%pS+%*phN 100%%", "function+0x1a/0x40+00 11 22N 100%"),
        ("at %pISc done", "at 10.0.0.1c done"),
        ("plain %lu.%03u", "plain 7.7"),
        ("%", "%"),
    ] {
        assert_eq!(filled(format, FILLS[0]), want, "{format}");
    }
}
