//! The fields of an NVLink, by its version.

use crate::nvidia::fields::{Scale, counter};
use crate::nvidia::metrics as n;
use crate::sys::nvml::{FieldValue, Wanted};
use crate::{Block, Metric, Value};

const KIB: Scale = Scale::Times(1024);
const MB: Scale = Scale::Times(1_000_000);
const ONE: Scale = Scale::Times(1);

/// How a field's id is found.
#[derive(Clone, Copy, Debug)]
enum LinkField {
    /// One id; the link is the scope.
    Scoped(u32),
    /// An id for each link: links 0 to 5 from the first id on, links 6 to 11 from the second.
    Numbered(u32, u32),
}

/// How a value is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LinkValueUse {
    State,
    Speed,
    Transmitted,
    Received,
    Error,
    BitErrors,
    Codewords,
}

/// One value of each link.
#[derive(Clone, Copy, Debug)]
pub(super) struct LinkValue {
    field: LinkField,
    purpose: LinkValueUse,
    /// The label `kind`, or a separate name.
    pub(super) word: &'static str,
    pub(super) scale: Scale,
    /// No field has the total of all links.
    by_link_only: bool,
}

/// The total of all links.
#[derive(Clone, Copy, Debug)]
pub(super) struct LinkTotal {
    pub(super) field: u32,
    pub(super) by_scope: bool,
    pub(super) metric: &'static Metric,
    pub(super) kind: &'static str,
    pub(super) scale: Scale,
}

impl LinkTotal {
    pub(super) fn labels<'a>(&self, gpu: &'a str) -> Vec<&'a str> {
        if self.metric.labels.len() == 1 {
            vec![gpu]
        } else {
            vec![gpu, self.kind]
        }
    }
}

const fn total(field: u32, kind: &'static str) -> LinkTotal {
    LinkTotal {
        field,
        by_scope: false,
        metric: &n::NVLINK_ERRORS,
        kind,
        scale: ONE,
    }
}

const fn bytes(field: u32, metric: &'static Metric, kind: &'static str) -> LinkTotal {
    LinkTotal {
        by_scope: true,
        metric,
        scale: KIB,
        ..total(field, kind)
    }
}

/// All totals, in the order in which they are queried and shown.
pub(super) static TOTALS: &[LinkTotal] = &[
    bytes(138, &n::NVLINK_TRANSMITTED, "transmitted"),
    bytes(139, &n::NVLINK_RECEIVED, "received"),
    total(38, "crc_flit"),
    total(45, "crc_data"),
    total(160, "ecc_data"),
    total(52, "replay"),
    total(59, "recovery"),
];

const fn scoped(field: u32, purpose: LinkValueUse, word: &'static str, scale: Scale) -> LinkValue {
    LinkValue {
        field: LinkField::Scoped(field),
        purpose,
        word,
        scale,
        by_link_only: false,
    }
}

/// Errors as NVLink 3 and older count them.
const fn numbered(first: u32, second: u32, word: &'static str) -> LinkValue {
    LinkValue {
        field: LinkField::Numbered(first, second),
        ..scoped(0, LinkValueUse::Error, word, ONE)
    }
}

/// Errors as NVLink 5 counts them.
const fn counted(field: u32, word: &'static str) -> LinkValue {
    LinkValue {
        by_link_only: true,
        ..scoped(field, LinkValueUse::Error, word, ONE)
    }
}

/// The fields of every version.
const COMMON: [LinkValue; 4] = [
    scoped(165, LinkValueUse::State, "state", ONE),
    scoped(164, LinkValueUse::Speed, "speed", MB),
    scoped(138, LinkValueUse::Transmitted, "transmitted", KIB),
    scoped(139, LinkValueUse::Received, "received", KIB),
];

/// NVLink 1 to 3.
const OLD: [LinkValue; 5] = [
    numbered(32, 96, "crc_flit"),
    numbered(39, 102, "crc_data"),
    numbered(148, 154, "ecc_data"),
    numbered(46, 108, "replay"),
    numbered(53, 114, "recovery"),
];

/// NVLink 4 and newer.
const DATA_LINK: [LinkValue; 3] = [
    counted(163, "crc"),
    scoped(161, LinkValueUse::Error, "replay", ONE),
    scoped(162, LinkValueUse::Error, "recovery", ONE),
];

/// NVLink 5 and newer.
const FIFTH: [LinkValue; 14] = [
    counted(208, "receive"),
    counted(206, "malformed_packet"),
    counted(207, "buffer_overrun"),
    counted(209, "remote"),
    counted(210, "general"),
    counted(211, "link_integrity"),
    counted(212, "transmit_discard"),
    counted(221, "symbol"),
    counted(219, "effective"),
    counted(213, "recovery_succeeded"),
    counted(214, "recovery_failed"),
    scoped(218, LinkValueUse::BitErrors, "raw", ONE),
    scoped(220, LinkValueUse::BitErrors, "effective", ONE),
    scoped(222, LinkValueUse::BitErrors, "symbol", ONE),
];

/// Code words by corrected symbols: 0 to 15.
const CODEWORDS: [&str; 16] = [
    "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15",
];

/// The version of a GPU's links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NvLinkVersion {
    UpToThree,
    Four,
    Five,
}

impl NvLinkVersion {
    /// By the library's numbers: 4 is NVLink 3.0. Drivers that do not report it support no newer version.
    pub(super) const fn of(number: Option<u32>) -> Self {
        match number {
            Some(6) => Self::Four,
            Some(7..) => Self::Five,
            _ => Self::UpToThree,
        }
    }

    /// The queried fields of each link.
    pub(super) fn kinds(self) -> Vec<LinkValue> {
        let mut kinds = COMMON.to_vec();
        if self == Self::UpToThree {
            kinds.extend(OLD);
        } else {
            kinds.extend(DATA_LINK);
        }
        if self == Self::Five {
            kinds.extend(FIFTH);
            let words = (235..).zip(CODEWORDS);
            kinds.extend(words.map(|(field, word)| scoped(field, LinkValueUse::Codewords, word, ONE)));
        }
        kinds
    }
}

impl LinkValue {
    pub(super) fn wanted(&self, link: u32) -> Wanted {
        match self.field {
            LinkField::Scoped(field) => Wanted { field, scope: link },
            LinkField::Numbered(first, _) if link < 6 => Wanted {
                field: first + link,
                scope: 0,
            },
            // Only 12 links have ids; further queries are not offered.
            LinkField::Numbered(_, second) if link < 12 => Wanted {
                field: second + link - 6,
                scope: 0,
            },
            LinkField::Numbered(..) => Wanted {
                field: u32::MAX,
                scope: 0,
            },
        }
    }

    pub(super) fn is_state(&self) -> bool {
        self.purpose == LinkValueUse::State
    }

    /// Whether the errors of all links are available only as a sum over the links.
    pub(super) fn is_counted_only_by_link(&self) -> bool {
        self.by_link_only
    }

    pub(super) fn push(&self, gpu: &str, link: &str, answer: Option<FieldValue>, out: &mut Block) {
        let number = answer.and_then(counter);
        let value = number.map_or(Value::Absent, |v| self.scale.of(v));
        match self.purpose {
            LinkValueUse::State => {}
            LinkValueUse::Speed => out.push(&n::NVLINK_LINK_SPEED, &[gpu, link], value),
            LinkValueUse::Transmitted => out.push(&n::NVLINK_LINK_TRANSMITTED, &[gpu, link], value),
            LinkValueUse::Received => out.push(&n::NVLINK_LINK_RECEIVED, &[gpu, link], value),
            LinkValueUse::Error => out.push(&n::NVLINK_LINK_ERRORS, &[gpu, link, self.word], value),
            LinkValueUse::Codewords => out.push(&n::NVLINK_LINK_FEC, &[gpu, link, self.word], value),
            LinkValueUse::BitErrors => {
                let ratio = number.map_or(Value::Absent, |bits| Value::F64(ratio(bits)));
                out.push(&n::NVLINK_LINK_BER, &[gpu, link, self.word], ratio);
            }
        }
    }
}

/// A bit error ratio as packed in nvml.h: a mantissa of 4 bits, and the negative exponent below it.
fn ratio(bits: u64) -> f64 {
    let exponent = u8::try_from(bits & 0xff).map_or(0, i32::from);
    let mantissa = u8::try_from(bits >> 8 & 0xf).unwrap_or(0);
    // From its decimal form, so that the result is exactly 3e-12.
    format!("{mantissa}e-{exponent}").parse().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_of_bit_errors_is_unpacked() {
        assert_eq!(ratio(0x30c), 3e-12);
        assert_eq!(ratio(0), 0.0);
        assert_eq!(ratio(0xfff), 15e-255);
    }

    #[test]
    fn old_links_have_numbers_of_their_own() {
        let crc = OLD[0];
        let field = |link| crc.wanted(link).field;
        assert_eq!((field(0), field(5), field(6), field(11)), (32, 37, 96, 101));
        assert_eq!(field(12), u32::MAX);
        assert_eq!(
            DATA_LINK[0].wanted(17),
            Wanted {
                field: 163,
                scope: 17
            }
        );
    }

    #[test]
    fn nothing_is_reported_twice_of_one_link() {
        for version in [NvLinkVersion::UpToThree, NvLinkVersion::Four, NvLinkVersion::Five] {
            let mut seen = Vec::new();
            for kind in version.kinds() {
                let key = (kind.purpose, kind.word);
                assert!(!seen.contains(&key), "{version:?}: {key:?}");
                seen.push(key);
            }
        }
    }
}
