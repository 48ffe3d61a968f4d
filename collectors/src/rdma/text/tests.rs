use proptest::prelude::*;

use super::*;

#[test]
fn a_counter_is_decimal_digits_alone() {
    for (text, value) in [
        ("0\n", 0),
        ("42", 42),
        ("18446744073709551614\n", u64::MAX - 1),
        ("007\n", 7),
    ] {
        assert_eq!(number(text.as_bytes()), Ok(value), "{text:?}");
    }
    for (bytes, reason) in [
        (b"".as_slice(), Reason::Empty),
        (b" \n", Reason::Empty),
        (b"N/A (no PMA)\n", Reason::Unsupported),
        (b"-1\n", Reason::Malformed),
        (b"+1\n", Reason::Malformed),
        (b"0x1f\n", Reason::Malformed),
        (b"1 2\n", Reason::Malformed),
        (b"1.0\n", Reason::Malformed),
        (b"\xff\x00\x01", Reason::Malformed),
        (b"1\0", Reason::Malformed),
        (b"18446744073709551616\n", Reason::Malformed),
        (b"99999999999999999999\n", Reason::Malformed),
        (b"000000000000000000001\n", Reason::Malformed),
        (b"18446744073709551615\n", Reason::AllOnes),
        ([b'1'; LONGEST].as_slice(), Reason::Malformed),
        ([b' '; LONGEST].as_slice(), Reason::Malformed),
    ] {
        assert_eq!(number(bytes), Err(reason), "{bytes:?}");
    }
}

#[test]
fn an_interface_is_up_or_not_or_does_not_say() {
    for (text, expected) in [
        ("up\n", Ok(Some(true))),
        ("down\n", Ok(Some(false))),
        ("lowerlayerdown\n", Ok(Some(false))),
        ("notpresent", Ok(Some(false))),
        ("dormant", Ok(Some(false))),
        ("testing", Ok(Some(false))),
        ("unknown\n", Ok(None)),
        ("UP", Err(Reason::Malformed)),
        ("", Err(Reason::Empty)),
    ] {
        assert_eq!(operstate(text.as_bytes()), expected, "{text:?}");
    }
}

#[test]
fn a_state_is_a_number_with_a_name() {
    assert_eq!(state(b"4: ACTIVE\n"), Ok(4));
    assert_eq!(state(b"6: LinkErrorRecovery\n"), Ok(6));
    assert_eq!(state(b"9: <unknown>\n"), Ok(9));
    for bytes in [
        b"4\n".as_slice(),
        b"ACTIVE\n",
        b"4:\n",
        b"-1: DOWN\n",
        b"256: X\n",
    ] {
        assert_eq!(state(bytes), Err(Reason::Malformed), "{bytes:?}");
    }
    assert_eq!(state(b""), Err(Reason::Empty));
}

#[test]
fn rates_of_every_generation() {
    for (text, bytes_per_second, lanes) in [
        ("2.5 Gb/sec (1X SDR)", 312_500_000, 1),
        ("10 Gb/sec (1X FDR10)", 1_250_000_000, 1),
        ("56 Gb/sec (4X FDR)", 7_000_000_000, 4),
        ("100 Gb/sec (4X EDR)", 12_500_000_000, 4),
        ("112.5 Gb/sec (12X QDR)", 14_062_500_000, 12),
        ("200 Gb/sec (2X NDR)", 25_000_000_000, 2),
        ("400 Gb/sec (4X NDR)\n", 50_000_000_000, 4),
        ("800 Gb/sec (4X XDR)", 100_000_000_000, 4),
    ] {
        let expected = PortRate {
            bytes_per_second,
            lanes,
        };
        assert_eq!(rate(text.as_bytes()), Ok(expected), "{text}");
    }
    for text in [
        "unknown",
        "400 Gb/sec",
        "400 Gb/sec (X NDR)",
        "400 Gb/sec (0X NDR)",
        "400 Mb/sec (4X NDR)",
        "-1 Gb/sec (4X NDR)",
        "1000001 Gb/sec (4X NDR)",
        "4.25 Gb/sec (4X NDR)",
    ] {
        assert_eq!(rate(text.as_bytes()), Err(Reason::Malformed), "{text}");
    }
}

proptest! {
    #[test]
    fn every_counter_survives_printing(n in 0..u64::MAX) {
        prop_assert_eq!(number(format!("{n}\n").as_bytes()), Ok(n));
    }

    #[test]
    fn every_state_survives_printing(n in 0_u64..256, name in "[A-Z][A-Za-z]{0,20}") {
        prop_assert_eq!(state(format!("{n}: {name}\n").as_bytes()), Ok(n));
    }

    #[test]
    fn every_rate_survives_printing(tenths in 0_u64..100_000, lanes in 1_u64..=12) {
        let text = if tenths % 10 == 0 {
            format!("{} Gb/sec ({lanes}X NDR)\n", tenths / 10)
        } else {
            format!("{}.{} Gb/sec ({lanes}X NDR)\n", tenths / 10, tenths % 10)
        };
        let rate = rate(text.as_bytes()).unwrap();
        prop_assert_eq!((rate.bytes_per_second, rate.lanes), (tenths * 12_500_000, lanes));
    }

    #[test]
    fn no_bytes_break_the_readers(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        check(&bytes);
    }

    #[test]
    fn no_text_breaks_the_readers(text in "[0-9]{0,22}[ .:]?[0-9A-Za-z/ ()]{0,30}") {
        check(text.as_bytes());
    }
}
