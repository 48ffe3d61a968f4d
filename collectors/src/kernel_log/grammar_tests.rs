//! Every shape of line that drivers are known to print, and lines that only look like them.

use proptest::prelude::*;

use super::*;
use crate::event::Sxid;

fn sxid(line: &str) -> Sxid {
    match parse(line.as_bytes(), true, None, u64::MAX) {
        LogLine::Event(EventBody::Sxid(sxid)) => sxid,
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn switch_errors() {
    for (line, code, fatal, link) in [
        (
            "nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error (First)",
            12028,
            Some(false),
            Some(32),
        ),
        (
            "nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 24007, Fatal, Link 30 sourcetrack timeout error",
            24007,
            Some(true),
            Some(30),
        ),
        (
            "nvidia-nvswitch1 SXid (PCI:0000:05:00.0): 20009, Non-fatal, Link 04",
            20009,
            Some(false),
            Some(4),
        ),
        (
            "SXid (PCI:0000:05:00.0): 22013, Minion Link 33 DLREQ interrupt",
            22013,
            None,
            Some(33),
        ),
        (
            "nvidia-nvswitch12: SXid (PCI:0000:05:00): 10003, Host_ptimer",
            10003,
            None,
            None,
        ),
        ("SXid (0000:05:00.0): 00042", 42, None, None),
    ] {
        let want = Sxid {
            pci: PciAddress("0000:05:00.0".to_owned()),
            code,
            fatal,
            link,
        };
        assert_eq!(sxid(line), want, "{line}");
    }
}

#[test]
fn further_records_of_a_switch_error_are_no_second_event() {
    for line in [
        "SXid (PCI:0000:05:00.0): 20034, Data {0x50610002, 0x10100030}",
        "nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 20034, Data {0x50610002",
        "nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Severity 0 Engine instance 32 Sub-engine instance 00",
    ] {
        assert_eq!(
            parse(line.as_bytes(), true, None, u64::MAX),
            LogLine::Detail,
            "{line}"
        );
    }
}

#[test]
fn a_lost_gpu_without_a_code() {
    for (line, pci) in [
        (
            "NVRM: GPU 0000:29:00.0: GPU has fallen off the bus.",
            "0000:29:00.0",
        ),
        (
            "NVRM: GPU 0000:29:00.0: GPU has fallen off the bus",
            "0000:29:00.0",
        ),
        (
            "NVRM: GPU at 0000:29:00.0 has fallen off the bus.",
            "0000:29:00.0",
        ),
        (
            "NVRM: The NVIDIA GPU 0000:18:00.0\nNVRM: (PCI ID: 10de:2330) installed in this system has\nNVRM: fallen off the bus and is not responding to commands.",
            "0000:18:00.0",
        ),
        (
            "The NVIDIA GPU 0000:18:00.0 (PCI ID: 10de:2330) installed in this system has fallen off the bus and is not responding to commands.",
            "0000:18:00.0",
        ),
    ] {
        let want = EventBody::FallenOffBus {
            pci: PciAddress(pci.to_owned()),
        };
        assert_eq!(
            parse(line.as_bytes(), true, None, u64::MAX),
            LogLine::Event(want),
            "{line}"
        );
    }
    let pci = PciAddress("0000:18:00.0".to_owned());
    for line in [
        "NVRM: The NVIDIA GPU 0000:18:00.0",
        "The NVIDIA GPU 0000:18:00.0 (PCI ID: 10de:2330)",
    ] {
        assert_eq!(
            parse(line.as_bytes(), true, None, u64::MAX),
            LogLine::LostStart(pci.clone()),
            "{line}"
        );
    }
    for line in [
        "NVRM: fallen off the bus and is not responding to commands.",
        "fallen off the bus and is not responding to commands.",
        "NVRM: (PCI ID: 10de:2330) installed in this system has fallen off the bus and is not",
        "NVRM: installed in this system has fallen off the bus and is not responding to commands.",
    ] {
        assert_eq!(
            parse(line.as_bytes(), true, None, u64::MAX),
            LogLine::LostEnd,
            "{line}"
        );
    }
}

#[test]
fn the_parts_of_a_lost_gpu_message_are_joined_over_a_few_records() {
    let start = || LogLine::LostStart(PciAddress("0000:18:00.0".to_owned()));
    let mut parts = lost::Parts::default();
    assert_eq!(parts.join(LogLine::LostEnd), LogLine::Other);
    assert_eq!(parts.join(start()), LogLine::Other);
    assert_eq!(parts.join(LogLine::Other), LogLine::Other);
    assert!(matches!(
        parts.join(LogLine::LostEnd),
        LogLine::Event(EventBody::FallenOffBus { .. })
    ));
    assert_eq!(parts.join(LogLine::LostEnd), LogLine::Other);
    parts.join(start());
    for _ in 0..9 {
        parts.join(LogLine::Other);
    }
    assert_eq!(parts.join(LogLine::LostEnd), LogLine::Other);
}

#[test]
fn lines_that_begin_like_an_xid_and_are_none() {
    for line in [
        "NVRM: Xid",
        "NVRM: Xid : 32, pid=2280636",
        "NVRM: Xid (62): GPU has fallen off the bus",
        "NVRM: Xid (PCI:0000:66:00): abc, pid=2280636",
        "NVRM: Xid (PCI:0000:66:00): 79abc",
        "NVRM: Xid (PCI:0000:66:00): 99999999999, x",
        "NVRM: Xid (PCI:0000:66:00): -79, x",
        "NVRM: Xid (PCI:0000:66:20): 79, x",
        "NVRM: Xid (PCI:0000:66:00",
        "NVRM: Xid (PCI:0000:66:00)",
        "NVRM: Xid (): 79",
        "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): garbled, Fatal",
        "SXid (PCI:0000:c1:00.0):",
    ] {
        let got = parse(line.as_bytes(), true, None, u64::MAX);
        // "NVRM: Xid" alone is a word that ends the line, not the start of an Xid.
        let want = if line == "NVRM: Xid" {
            LogLine::Other
        } else {
            LogLine::Malformed
        };
        assert_eq!(got, want, "{line}");
    }
}

#[test]
fn lines_that_only_quote_one() {
    for line in [
        "usb 1-1: Product: NVRM: Xid (PCI:0000:66:00): 79, x",
        " NVRM: Xid (PCI:0000:66:00): 79, x",
        "NVRM: NVRM: Xid (PCI:0000:66:00): 79, x",
        "NVRM: GPU0 saw NVRM: Xid (PCI:0000:66:00): 79, x",
        "NVRM: Xids (PCI:0000:66:00): 79, x",
        "nvrm: xid (PCI:0000:66:00): 79, x",
        "a\nNVRM: Xid (PCI:0000:66:00): 79, x",
        "nvidia-nvswitch: Probing SXid (PCI:0000:66:00.0): 12028, Fatal",
        "NVRM: SXid (PCI:0000:66:00.0): 12028, Fatal",
        "NVRM: GPU 0000:01:00.0: nothing",
        "NVRM: GPU 0000:01:00.0: rm_init_adapter failed! GPU has fallen off the bus.",
        "NVRM: GPU0 has fallen off the bus.",
        "the GPU has fallen off the bus.",
        "",
    ] {
        assert_eq!(
            parse(line.as_bytes(), true, None, u64::MAX),
            LogLine::Other,
            "{line}"
        );
    }
}

#[test]
fn a_cut_line_counts_only_with_a_complete_code() {
    let line = "NVRM: Xid (PCI:0000:66:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)";
    let code_ends = line.find(", GPU").unwrap();
    for end in 10..line.len() {
        let got = parse(&line.as_bytes()[..end], false, None, u64::MAX);
        let event = matches!(&got, LogLine::Event(EventBody::Xid(xid)) if xid.code == 154);
        assert_eq!(event, end > code_ends, "{end}: {got:?}");
    }
    assert!(matches!(
        parse(b"NVRM: Xid (PCI:0000:66:00): 7", true, None, u64::MAX),
        LogLine::Event(_)
    ));
    assert_eq!(
        parse(b"NVRM: Xid (PCI:0000:66:00): 7", false, None, u64::MAX),
        LogLine::Malformed
    );
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes: Vec<u8>, whole: bool) {
        parse(&bytes, whole, None, u64::MAX);
    }

    #[test]
    fn arbitrary_ends_never_panic(rest in "\\PC{0,60}", whole: bool) {
        for start in ["NVRM: Xid (", "NVRM: Xid (PCI:0000:01:00): 149, ", "SXid (PCI:0000:01:00.0): ", "NVRM: GPU "] {
            parse(format!("{start}{rest}").as_bytes(), whole, None, u64::MAX);
        }
    }

    #[test]
    fn nothing_before_the_driver_makes_an_event(prefix in "\\PC{1,20}") {
        let line = format!("{prefix}NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.");
        prop_assert!(!matches!(parse(line.as_bytes(), true, None, u64::MAX), LogLine::Event(EventBody::Xid(_) | EventBody::Sxid(_))));
    }
}
