//! One record of /dev/kmsg: `prio,seq,usec,flags[,...];text\n KEY=value\n ...` (Documentation/ABI/testing/dev-kmsg).

use crate::PciAddress;

/// One record, its text still as the kernel escaped it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KmsgRecord<'a> {
    /// The syslog facility: 0 is the kernel. What a program writes to /dev/kmsg never gets 0.
    pub(super) facility: u32,
    /// The syslog level, 0 (emergency) to 7 (debug).
    pub(super) level: u8,
    /// The sequence number within this boot.
    pub(super) seq: u64,
    /// The time stamp in microseconds since boot.
    pub(super) at_us: u64,
    /// The message.
    pub(super) text: &'a [u8],
    /// The message ended with its newline: nothing of it was cut off.
    pub(super) whole: bool,
    /// What follows the message: lines ` KEY=value`.
    pub(super) dictionary: &'a [u8],
}

/// Why something is not a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum RecordError {
    #[error("no ';' behind the prefix")]
    NoPrefix,
    #[error("the {0} is not a number")]
    NotANumber(&'static str),
    #[error("the flags are missing")]
    NoFlags,
}

impl<'a> KmsgRecord<'a> {
    /// Takes one record apart.
    pub(super) fn parse(bytes: &'a [u8]) -> Result<Self, RecordError> {
        let semicolon = bytes
            .iter()
            .position(|b| *b == b';')
            .ok_or(RecordError::NoPrefix)?;
        let (prefix, rest) = bytes.split_at(semicolon);
        let mut parts = prefix.split(|b| *b == b',');
        let mut number = |name| number(parts.next().unwrap_or_default()).ok_or(RecordError::NotANumber(name));
        let priority = number("priority")?;
        let priority = u32::try_from(priority).map_err(|_| RecordError::NotANumber("priority"))?;
        let (seq, at_us) = (number("sequence number")?, number("time stamp")?);
        // Later kernels add parts behind the flags; they are passed over, as the ABI asks.
        parts.next().ok_or(RecordError::NoFlags)?;
        let text = rest.get(1..).unwrap_or_default();
        let end = text.iter().position(|b| *b == b'\n');
        Ok(Self {
            facility: priority >> 3,
            level: (priority & 7) as u8,
            seq,
            at_us,
            text: end.map_or(text, |end| text.get(..end).unwrap_or_default()),
            whole: end.is_some(),
            dictionary: end.and_then(|end| text.get(end + 1..)).unwrap_or_default(),
        })
    }

    /// The PCI function that the dictionary names.
    pub(super) fn pci(&self) -> Option<PciAddress> {
        let mut lines = self.dictionary.split(|b| *b == b'\n');
        let device = lines.find_map(|line| line.strip_prefix(b" DEVICE=+pci:"))?;
        PciAddress::parse(std::str::from_utf8(device).ok()?)
    }
}

/// Digits only: str::parse alone would take a sign.
fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |sum, b| {
        let digit = b.is_ascii_digit().then(|| u64::from(b - b'0'))?;
        sum.checked_mul(10)?.checked_add(digit)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn prefix_and_text_are_taken_apart() {
        let record =
            KmsgRecord::parse(b"30,18446744073709551615,7,c,caller=T1;a;b\n SUBSYSTEM=pci\n").unwrap();
        assert_eq!(
            record,
            KmsgRecord {
                facility: 3,
                level: 6,
                seq: u64::MAX,
                at_us: 7,
                text: b"a;b",
                whole: true,
                dictionary: b" SUBSYSTEM=pci\n",
            }
        );
    }

    #[test]
    fn the_dictionary_names_a_pci_function_or_something_else() {
        let pci = |dictionary: &str| {
            let record = format!("3,1,2,-;text\n{dictionary}");
            KmsgRecord::parse(record.as_bytes())
                .unwrap()
                .pci()
                .map(|pci| pci.0)
        };
        let named = pci(" SUBSYSTEM=pci\n DEVICE=+pci:0000:b1:00.0\n");
        assert_eq!(named.as_deref(), Some("0000:b1:00.0"));
        for other in [
            "",
            " DEVICE=n7\n",
            "DEVICE=+pci:0000:b1:00.0\n",
            " DEVICE=+pci:x\n",
            " DEVICE=+usb:1-1\n",
        ] {
            assert_eq!(pci(other), None, "{other}");
        }
    }

    #[test]
    fn a_text_without_its_newline_is_not_whole() {
        let record = KmsgRecord::parse(b"3,1,2,-;cut he").unwrap();
        assert!(!record.whole);
        assert_eq!(record.text, b"cut he");
        assert_eq!(KmsgRecord::parse(b"3,1,2,-;").unwrap().text, b"");
    }

    #[test]
    fn what_is_no_record_says_why() {
        for (bytes, want) in [
            (&b""[..], RecordError::NoPrefix),
            (b"6,1,2,-", RecordError::NoPrefix),
            (b";text", RecordError::NotANumber("priority")),
            (b"+6,1,2,-;", RecordError::NotANumber("priority")),
            (b"4294967296,1,2,-;", RecordError::NotANumber("priority")),
            (
                b"6,18446744073709551616,2,-;",
                RecordError::NotANumber("sequence number"),
            ),
            (b"6,1,-2,-;", RecordError::NotANumber("time stamp")),
            (b"6,1;", RecordError::NotANumber("time stamp")),
            (b"6,1,2;text", RecordError::NoFlags),
        ] {
            assert_eq!(KmsgRecord::parse(bytes), Err(want), "{}", bytes.escape_ascii());
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
            prop_assert!(KmsgRecord::parse(&bytes).is_err() || bytes.contains(&b';'));
        }

        #[test]
        fn arbitrary_bytes_behind_a_prefix_are_text_and_dictionary(
            prio in 0_u32..300,
            rest in prop::collection::vec(prop_oneof![Just(b'\n'), any::<u8>()], 0..40),
        ) {
            let bytes = [format!("{prio},1,2,-;").as_bytes(), &rest].concat();
            let record = KmsgRecord::parse(&bytes).unwrap();
            let end: &[u8] = if record.whole { b"\n" } else { b"" };
            prop_assert_eq!([record.text, end, record.dictionary].concat(), rest);
            prop_assert!(!record.text.contains(&b'\n'));
            record.pci();
        }

        #[test]
        fn what_was_printed_is_read_back(prio in 0_u32..192, seq: u64, at_us: u64, text in "[ -~]{0,80}") {
            let line = format!("{prio},{seq},{at_us},-,caller=T7;{text}\n");
            let record = KmsgRecord::parse(line.as_bytes()).unwrap();
            prop_assert_eq!((record.facility, u32::from(record.level)), (prio / 8, prio % 8));
            prop_assert_eq!((record.seq, record.at_us, record.whole), (seq, at_us, true));
            prop_assert_eq!(record.text, text.as_bytes());
        }
    }
}
