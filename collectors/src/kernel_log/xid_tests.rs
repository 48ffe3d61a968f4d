//! Every shape of Xid line that drivers are known to print.

use proptest::prelude::*;

use crate::event::{Recovery, Xid};
use crate::kernel_log::grammar::{LogLine, parse};
use crate::{EventBody, PciAddress};

fn blank(pci: &str, code: u32) -> Xid {
    Xid {
        pci: PciAddress::parse(pci).unwrap(),
        code,
        ..Xid::default()
    }
}

fn xid(line: &str) -> Xid {
    match parse(line.as_bytes(), true, None, u64::MAX) {
        LogLine::Event(EventBody::Xid(xid)) => xid,
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn a_contained_error_may_need_a_reset_of_the_gpu() {
    for (end, expected) in [
        ("RST: No, D-RST: Yes", Some(Recovery::DrainAndReset)),
        ("RST: No, D-RST: No", None),
        ("", None),
    ] {
        let line = format!(
            "NVRM: Xid (PCI:0000:04:00 GPU-I:03): 94, pid=9, name=a, Contained: LTC (0x1,0x0). {end}"
        );
        assert_eq!(xid(&line).recovery, expected, "{line}");
    }
    let named =
        "NVRM: Xid (PCI:0000:04:00): 94, pid=9, name=a, D-RST: Yes, Contained: SM (0x1). RST: No, D-RST: No";
    assert_eq!(xid(named).recovery, None);
    let uncontained = "NVRM: Xid (PCI:0000:04:00): 13, pid=9, name=a, D-RST: Yes";
    assert_eq!(xid(uncontained).recovery, None);
}

#[test]
fn address_code_and_process() {
    let named = |pci: &str, code, pid, process: &str| Xid {
        pid: Some(pid),
        process: Some(process.to_owned()),
        ..blank(pci, code)
    };
    for (line, want) in [
        (
            "NVRM: Xid (PCI:0000:05:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
            blank("0000:05:00.0", 79),
        ),
        (
            "NVRM: Xid (PCI:0000:05:00): 79, GPU has fallen off the bus.",
            blank("0000:05:00.0", 79),
        ),
        (
            "NVRM: Xid (0000:03:00): 14, Channel 00000001",
            blank("0000:03:00.0", 14),
        ),
        ("NVRM: Xid (PCI:0000:b3:00.1): 79, x", blank("0000:b3:00.1", 79)),
        ("NVRM: Xid (PCI:00000000:B3:00): 79, x", blank("0000:b3:00.0", 79)),
        ("NVRM: Xid (PCI:10000:01:00): 79, x", blank("10000:01:00.0", 79)),
        (
            "NVRM: Xid (PCI:0000:04:00): 94, pid=207955, name=python3, Contained: SM",
            named("0000:04:00", 94, 207_955, "python3"),
        ),
        (
            "NVRM: Xid (PCI:0000:04:00): 79, pid=9, name=nvc:[driver], GPU",
            named("0000:04:00", 79, 9, "nvc:[driver]"),
        ),
        (
            "NVRM: Xid (PCI:0000:04:00): 45, pid=9, name=a",
            named("0000:04:00", 45, 9, "a"),
        ),
        (
            "NVRM: Xid (PCI:0000:65:00): 74, pid=<n/a>, name=<unknown>, NVLink",
            blank("0000:65:00", 74),
        ),
        (
            "NVRM: Xid (PCI:0000:65:00): 13, pid=x12, name=, y",
            blank("0000:65:00", 13),
        ),
        (
            "NVRM: Xid (PCI:0000:65:00): 13, pid=+12, y",
            blank("0000:65:00", 13),
        ),
        (
            "NVRM: Xid (PCI:0000:65:00): 13, pid=99999999999, y",
            blank("0000:65:00", 13),
        ),
        ("NVRM: Xid (PCI:0000:65:00): 79", blank("0000:65:00", 79)),
        ("NVRM: Xid (PCI:0000:65:00): 79, ", blank("0000:65:00", 79)),
        ("NVRM: Xid (PCI:0000:65:00): 062, x", blank("0000:65:00", 62)),
        ("NVRM:  Xid  (PCI:0000:65:00):  62,x", blank("0000:65:00", 62)),
        (
            "NVRM: Xid (PCI:0000:55:00): 63, Row Remapper: New row (0x0000000e9b9107e0) marked for remapping",
            blank("0000:55:00", 63),
        ),
    ] {
        assert_eq!(xid(line), want, "{line}");
    }
}

#[test]
fn a_mig_instance_is_the_place_inside_or_behind_the_parentheses() {
    for (head, place) in [
        ("(PCI:0000:3b:00 GPU-I:01 GPU-CI:02)", "GPU-I:01 GPU-CI:02"),
        ("(PCI:0000:3b:00 GPU-I:01)", "GPU-I:01"),
        ("(PCI:0000:3b:00, MIG (1))", "MIG (1)"),
        ("(PCI:0000:3b:00) GPU-I:01", "GPU-I:01"),
        ("(0000:3b:00 a) b: c", "a b: c"),
    ] {
        let got = xid(&format!(
            "NVRM: Xid {head}: 13, pid=9, name=a, Graphics Exception"
        ));
        assert_eq!(
            (got.place.as_str(), got.code, got.pid),
            (place, 13, Some(9)),
            "{head}"
        );
        assert_eq!(got.pci.0, "0000:3b:00.0");
    }
}

#[test]
fn nvlink_registers_and_nvlink_5_words() {
    let nvlink5 = |code, unit: &str, fatal, link, words: &[u64]| Xid {
        unit: Some(unit.to_owned()),
        fatal: Some(fatal),
        link,
        words: words.to_vec(),
        ..blank("0008:01:00", code)
    };
    for (rest, want) in [
        (
            "74, pid='<unknown>', name=<unknown>, NVLink: fatal error detected on link 14(0x0, 0x0, 0x10000, 0x0, 0x0, 0x0, 0x0)",
            Xid {
                link: Some(14),
                words: vec![0, 0, 0x10000, 0, 0, 0, 0],
                ..blank("0008:01:00", 74)
            },
        ),
        (
            "145, pid=11436, name=cache_mgr_main, RLW_SRC_TRACK Nonfatal XC1 i0 Link 03 (0x00000005 0x00000000 0x1)",
            Xid {
                pid: Some(11436),
                process: Some("cache_mgr_main".to_owned()),
                ..nvlink5(145, "RLW_SRC_TRACK", false, Some(3), &[5, 0, 1])
            },
        ),
        (
            "146, TLW_RX/TLW_RX_PIPE0 Fatal XC0 i0 Link 00 (0x1 0x80000000)",
            nvlink5(146, "TLW_RX/TLW_RX_PIPE0", true, Some(0), &[1, 0x8000_0000]),
        ),
        (
            "149, NETIR Fatal XC0 i0 Link -1 (0x004505c6)",
            nvlink5(149, "NETIR", true, Some(-1), &[0x0045_05c6]),
        ),
        (
            "149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 09 (0x025525c6 0x0)",
            nvlink5(149, "NETIR_LINK_EVT", true, Some(9), &[0x0255_25c6, 0]),
        ),
        (
            "149, NETIR_LINK_EVT Fatal XC 1 i 2 Link 01 [0x0000000a]",
            nvlink5(149, "NETIR_LINK_EVT", true, Some(1), &[10]),
        ),
        (
            "149, NETIR_INT  Fatal   XC0 i0 Link -1",
            nvlink5(149, "NETIR_INT", true, Some(-1), &[]),
        ),
        (
            "149, NETIR Fatal XC0 i0 Link 01 (0x1 0x2",
            nvlink5(149, "NETIR", true, Some(1), &[]),
        ),
        (
            "149, NETIR Fatal XC0 i0 Link 01 (0x1 what)",
            nvlink5(149, "NETIR", true, Some(1), &[]),
        ),
        (
            "150, MSE_WATCHDOG Nonfatal XC0 i0",
            nvlink5(150, "MSE_WATCHDOG", false, None, &[]),
        ),
        ("149, something new", blank("0008:01:00", 149)),
        ("143, NETIR Fatal XC0 i0 Link 01 (0x1)", blank("0008:01:00", 143)),
    ] {
        assert_eq!(
            xid(&format!("NVRM: Xid (PCI:0008:01:00): {rest}")),
            want,
            "{rest}"
        );
    }
}

#[test]
fn a_process_name_with_a_comma_does_not_hide_the_unit() {
    let got =
        xid("NVRM: Xid (PCI:0008:01:00): 149, pid=1, name=A Fatal b, c, NETIR Nonfatal XC0 i0 Link 02 (0x1)");
    assert_eq!(
        (got.unit.as_deref(), got.fatal, got.link),
        (Some("NETIR"), Some(false), Some(2))
    );
    assert_eq!(got.process.as_deref(), Some("A Fatal b"));
}

#[test]
fn the_new_recovery_action_is_the_verdict() {
    for (change, want) in [
        ("0x0 (None) to 0x1 (GPU Reset Required)", Some(Recovery::GpuReset)),
        (
            "0x0 (None) to 0x2 (Node Reboot Required)",
            Some(Recovery::NodeReboot),
        ),
        ("0x0 (None) to 0x3 (Drain P2P)", Some(Recovery::DrainP2p)),
        (
            "0x0 (None) to 0x4 (Drain and Reset)",
            Some(Recovery::DrainAndReset),
        ),
        ("0x2 (Node Reboot Required) to 0x0 (None)", Some(Recovery::None)),
        (
            "0x4 (Drain and Reset) to 0x1 (GPU Reset Required)",
            Some(Recovery::GpuReset),
        ),
        // Newer words for the same numbers.
        ("0x0 (None) to 0x1 (PF FLR)", Some(Recovery::GpuReset)),
        ("0x0 (None) to 0x2 (OS Reboot)", Some(Recovery::NodeReboot)),
        ("0x0 (None) to 0x2 (Something Newer)", Some(Recovery::NodeReboot)),
        ("0x0 (None) to 0x2 (Node Reb", Some(Recovery::NodeReboot)),
        ("0x0 (None) to 0x2", Some(Recovery::NodeReboot)),
        // The number's meaning differs between releases: no verdict rather than a wrong one.
        ("0x0 (None) to 0x6 (Something Newer)", None),
        ("0x0 (None) to ", None),
        ("0x0 (None)", None),
    ] {
        let line = format!("NVRM: Xid (PCI:0008:01:00): 154, GPU recovery action changed from {change}");
        let got = xid(&line);
        assert_eq!((got.code, got.recovery), (154, want), "{change}");
    }
    let named = "NVRM: Xid (PCI:0008:01:00): 154, pid=4, name=a b, GPU recovery action changed from 0x0 (None) to 0x1 (PF FLR)";
    assert_eq!(
        (xid(named).recovery, xid(named).pid),
        (Some(Recovery::GpuReset), Some(4))
    );
    let other = "NVRM: Xid (PCI:0008:01:00): 43, GPU recovery action changed from 0x0 (None) to 0x1 (PF FLR)";
    assert_eq!(xid(other).recovery, None);
}

#[test]
fn control_characters_of_a_process_name_are_escaped() {
    let got = xid("NVRM: Xid (PCI:0000:66:00 \x1b[1m): 43, pid=1, name=a\x1b]0;x\x07, y");
    assert_eq!(got.process.as_deref(), Some("a\\x1b]0;x\\x07"));
    assert_eq!(got.place, "\\x1b[1m");
}

prop_compose! {
    fn any_pci()(domain in 0_u32..0x10_0000, bus: u8, device in 0_u8..32, function in 0_u8..8) -> (String, PciAddress) {
        let text = format!("{domain:04X}:{bus:02x}:{device:02x}.{function}");
        let pci = PciAddress(text.to_lowercase());
        (text, pci)
    }
}

proptest! {
    #[test]
    fn a_printed_xid_is_read_back(
        (text, pci) in any_pci(),
        code in 1_u32..1000,
        process in proptest::option::of((1_u32..4_194_304, "[!-+\\--;=?-~]{1,15}")),
        place in "(GPU-I:[0-9]{2}( GPU-CI:[0-9]{2})?)?",
        unit in "[A-Z][A-Z0-9_]{1,12}(/[A-Z0-9_]{1,12})?",
        fatal: bool,
        link in -1_i32..72,
        words in proptest::collection::vec(any::<u32>(), 0..8),
    ) {
        let mut line = format!("NVRM: Xid (PCI:{text}");
        if !place.is_empty() {
            line += &format!(" {place}");
        }
        line += &format!("): {code}, ");
        if let Some((pid, name)) = &process {
            line += &format!("pid={pid}, name={name}, ");
        }
        let list: Vec<String> = words.iter().map(|w| format!("{w:#010x}")).collect();
        let severity = if fatal { "Fatal" } else { "Nonfatal" };
        line += &format!("{unit} {severity} XC0 i0 Link {link:02} ({})", list.join(" "));
        let nvlink5 = (144..=150).contains(&code);
        let got = xid(&line);
        prop_assert_eq!(got.pci, pci);
        prop_assert_eq!((got.code, got.place), (code, place));
        let quotes = |n: &String| n.trim_matches(['\'', '"']).to_owned();
        let name = process.as_ref().map(|(_, n)| quotes(n)).filter(|n| !n.is_empty());
        prop_assert_eq!((got.pid, got.process), (process.as_ref().map(|p| p.0), name));
        if nvlink5 {
            prop_assert_eq!((got.unit, got.fatal, got.link), (Some(unit), Some(fatal), Some(link)));
        }
        if nvlink5 || code == 74 {
            prop_assert_eq!(got.words, words.into_iter().map(u64::from).collect::<Vec<_>>());
        }
    }
}
