//! The fields of each NVLink, by its generation.

use super::generation::Generation;
use crate::nvidia::fields::{Scale, counter, narrow_counter};
use crate::nvidia::metrics as n;
use crate::sys::nvml::{Code, FieldValue, Wanted};
use crate::{Block, Value};

pub(super) const KIB: Scale = Scale::Times(1024);
const MB: Scale = Scale::Times(1_000_000);
pub(super) const ONE: Scale = Scale::Times(1);

/// How a field's id is found.
#[derive(Clone, Copy, Debug)]
enum FieldId {
    /// One id; the link is the scope.
    Scoped(u32),
    /// An id for each link: links 0 to 5 from the first id on, links 6 to 11 from the second.
    Numbered(u32, u32),
}

/// A field of a link, in the driver's unit.
#[derive(Clone, Copy, Debug)]
struct LinkField {
    id: FieldId,
    scale: Scale,
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
    /// The field with the same value where the driver does not offer the first.
    instead: Option<LinkField>,
    purpose: LinkValueUse,
    /// The label `kind`, or a separate name.
    pub(super) word: &'static str,
}

/// The answer of one link: its value in our unit, or the return code. `Absent` is a value that the driver did not read.
pub(super) type Answer = Result<Value, Code>;

const fn scoped(field: u32, purpose: LinkValueUse, word: &'static str, scale: Scale) -> LinkValue {
    LinkValue {
        field: LinkField {
            id: FieldId::Scoped(field),
            scale,
        },
        instead: None,
        purpose,
        word,
    }
}

/// Errors as NVLink 3 and older count them.
const fn numbered(first: u32, second: u32, word: &'static str) -> LinkValue {
    let errors = scoped(0, LinkValueUse::Error, word, ONE);
    LinkValue {
        field: LinkField {
            id: FieldId::Numbered(first, second),
            ..errors.field
        },
        ..errors
    }
}

/// Errors as NVLink 4 and 5 count them.
const fn counted(field: u32, word: &'static str) -> LinkValue {
    scoped(field, LinkValueUse::Error, word, ONE)
}

/// The first value, or the second where the driver does not offer the first.
const fn either(first: LinkValue, second: LinkValue) -> LinkValue {
    LinkValue {
        instead: Some(second.field),
        ..first
    }
}

const STATE: LinkValue = scoped(165, LinkValueUse::State, "state", ONE);
const SPEED: LinkValue = scoped(164, LinkValueUse::Speed, "speed", MB);
/// The speed by link with drivers before R525.
const OLD_SPEED: LinkValue = LinkValue {
    field: LinkField {
        scale: MB,
        ..numbered(84, 132, "speed").field
    },
    ..SPEED
};
const TRANSMITTED: LinkValue = scoped(138, LinkValueUse::Transmitted, "transmitted", KIB);
const RECEIVED: LinkValue = scoped(139, LinkValueUse::Received, "received", KIB);

/// Bytes as NVLink 5 counts them, in bytes.
const TRANSMITTED_BYTES: LinkValue = scoped(202, LinkValueUse::Transmitted, "transmitted", ONE);
const RECEIVED_BYTES: LinkValue = scoped(204, LinkValueUse::Received, "received", ONE);

/// NVLink 1 to 3. 148 to 159, ECC errors of data, are of the one lane of the link that is their scope (nvml.h): only their total is read.
const FLITS: [LinkValue; 2] = [numbered(32, 96, "crc_flit"), numbered(39, 102, "crc_data")];
const REPLAY: LinkValue = numbered(46, 108, "replay");
const RECOVERY: LinkValue = numbered(53, 114, "recovery");

/// NVLink 4 and newer.
const DATA_LINK_CRC: LinkValue = counted(163, "crc");
const DATA_LINK_REPLAY: LinkValue = counted(161, "replay");
const DATA_LINK_RECOVERY: LinkValue = counted(162, "recovery");

/// NVLink 5 and newer.
const COUNTS: [LinkValue; 14] = [
    counted(208, "receive"),
    counted(206, "malformed_packet"),
    counted(207, "buffer_overrun"),
    counted(209, "remote"),
    counted(210, "general"),
    counted(211, "link_integrity"),
    counted(212, "transmit_discard"),
    counted(221, "symbol"),
    counted(219, "effective"),
    counted(215, "recovery_attempted"),
    counted(213, "recovery_succeeded"),
    counted(214, "recovery_failed"),
    scoped(220, LinkValueUse::BitErrors, "effective", ONE),
    scoped(222, LinkValueUse::BitErrors, "symbol", ONE),
];

/// Code words by corrected symbols: 0 to 15.
pub(super) const CODEWORDS: [&str; 16] = [
    "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15",
];

/// The queried values of each link.
pub(super) fn kinds(generation: Generation) -> Vec<LinkValue> {
    let mut kinds = vec![STATE, either(SPEED, OLD_SPEED)];
    if generation.has_counts() {
        kinds.push(either(TRANSMITTED, TRANSMITTED_BYTES));
        kinds.push(either(RECEIVED, RECEIVED_BYTES));
    } else {
        kinds.extend([TRANSMITTED, RECEIVED]);
    }
    if generation.has_flits() {
        kinds.extend(FLITS);
    }
    match (generation.has_data_link(), generation.has_flits()) {
        (true, true) => kinds.extend([
            DATA_LINK_CRC,
            either(DATA_LINK_REPLAY, REPLAY),
            either(DATA_LINK_RECOVERY, RECOVERY),
        ]),
        (true, false) => kinds.extend([DATA_LINK_CRC, DATA_LINK_REPLAY, DATA_LINK_RECOVERY]),
        (false, _) => kinds.extend([REPLAY, RECOVERY]),
    }
    if generation.has_counts() {
        kinds.extend(COUNTS);
        let words = (235..).zip(CODEWORDS);
        kinds.extend(words.map(|(field, word)| scoped(field, LinkValueUse::Codewords, word, ONE)));
    }
    kinds
}

impl LinkField {
    fn wanted(&self, link: u32) -> Wanted {
        match self.id {
            FieldId::Scoped(field) => Wanted { field, scope: link },
            FieldId::Numbered(first, _) if link < 6 => Wanted {
                field: first + link,
                scope: 0,
            },
            // Only 12 links have ids; further queries are not offered.
            FieldId::Numbered(_, second) if link < 12 => Wanted {
                field: second + link - 6,
                scope: 0,
            },
            FieldId::Numbered(..) => Wanted {
                field: u32::MAX,
                scope: 0,
            },
        }
    }
}

impl LinkValue {
    /// The field, and the one that is queried in its place.
    pub(super) fn wanted(&self, link: u32) -> (Wanted, Option<Wanted>) {
        (self.field.wanted(link), self.instead.map(|f| f.wanted(link)))
    }

    /// The value: of the second field only where the driver does not offer the first, so that a counter never changes
    /// its source because of one failed answer.
    pub(super) fn answer(
        &self,
        first: Result<FieldValue, Code>,
        second: Option<Result<FieldValue, Code>>,
    ) -> Answer {
        match (first, self.instead, second) {
            (Err(code), Some(instead), Some(second)) if code.is_unsupported() => {
                second.map(|value| self.read(instead, value))
            }
            _ => first.map(|value| self.read(self.field, value)),
        }
    }

    fn read(&self, field: LinkField, value: FieldValue) -> Value {
        match self.purpose {
            LinkValueUse::State | LinkValueUse::Speed => narrow_counter(value),
            _ => counter(value),
        }
        .map_or(Value::Absent, |number| match self.purpose {
            LinkValueUse::BitErrors => Value::F64(ratio(number)),
            _ => field.scale.of(number),
        })
    }

    pub(super) fn is_state(&self) -> bool {
        self.purpose == LinkValueUse::State
    }

    /// Whether this is the error or counter of that name: a bit error ratio has the name of an error.
    pub(super) fn is_count_of(&self, word: &str) -> bool {
        self.word == word && self.purpose != LinkValueUse::BitErrors
    }

    pub(super) fn is_ratio_of(&self, word: &str) -> bool {
        self.word == word && self.purpose == LinkValueUse::BitErrors
    }

    #[cfg(test)]
    pub(super) fn is_error(&self) -> bool {
        self.purpose == LinkValueUse::Error
    }

    pub(super) fn push(&self, gpu: &str, link: &str, answer: Answer, out: &mut Block) {
        let value = answer.unwrap_or(Value::Absent);
        match self.purpose {
            LinkValueUse::State => {}
            LinkValueUse::Speed => out.push(&n::NVLINK_LINK_SPEED, &[gpu, link], value),
            LinkValueUse::Transmitted => out.push(&n::NVLINK_LINK_TRANSMITTED, &[gpu, link], value),
            LinkValueUse::Received => out.push(&n::NVLINK_LINK_RECEIVED, &[gpu, link], value),
            LinkValueUse::Error => out.push(&n::NVLINK_LINK_ERRORS, &[gpu, link, self.word], value),
            LinkValueUse::Codewords => out.push(&n::NVLINK_LINK_FEC, &[gpu, link, self.word], value),
            LinkValueUse::BitErrors => out.push(&n::NVLINK_LINK_BER, &[gpu, link, self.word], value),
        }
    }
}

/// A bit error ratio as packed in nvml.h: a mantissa of 4 bits, and the negative exponent below it.
pub(super) fn ratio(bits: u64) -> f64 {
    let exponent = u8::try_from(bits & 0xff).map_or(0, i32::from);
    let mantissa = u8::try_from(bits >> 8 & 0xf).unwrap_or(0);
    // From its decimal form, so that the result is exactly 3e-12.
    format!("{mantissa}e-{exponent}").parse().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Generation; 4] = [
        Generation::UpToThree,
        Generation::Four,
        Generation::Five,
        Generation::Unknown,
    ];

    #[test]
    fn a_ratio_of_bit_errors_is_unpacked() {
        assert_eq!(ratio(0x30c), 3e-12);
        assert_eq!(ratio(0), 0.0);
        assert_eq!(ratio(0xfff), 15e-255);
    }

    #[test]
    fn old_links_have_numbers_of_their_own() {
        let crc = FLITS[0];
        let field = |link| crc.wanted(link).0.field;
        assert_eq!((field(0), field(5), field(6), field(11)), (32, 37, 96, 101));
        assert_eq!(field(12), u32::MAX);
        let dl = DATA_LINK_CRC.wanted(17).0;
        assert_eq!((dl.field, dl.scope), (163, 17));
    }

    /// Drivers before R525 do not offer field 164.
    #[test]
    fn the_speed_of_a_link_has_a_number_of_its_own_with_older_drivers() {
        let speed = kinds(Generation::UpToThree)[1];
        let instead = |link| speed.wanted(link).1.map(|w| (w.field, w.scope));
        assert_eq!(instead(0), Some((84, 0)));
        assert_eq!(instead(7), Some((133, 0)));
        let old = speed.answer(Err(Code::NOT_SUPPORTED), Some(Ok(FieldValue::Unsigned(25_781))));
        assert_eq!(old, Ok(Value::U64(25_781_000_000)));
    }

    /// 148 to 159: the scope is one lane of several. 218: "Deprecated, do not use".
    #[test]
    fn no_field_is_asked_that_is_of_one_lane_or_deprecated() {
        for generation in ALL {
            for kind in kinds(generation) {
                let field = kind.wanted(0).0.field;
                assert!(
                    !(148..=159).contains(&field) && field != 218,
                    "{generation:?}: {field}"
                );
            }
        }
    }

    #[test]
    fn nothing_is_reported_twice_of_one_link() {
        for generation in ALL {
            let mut seen = Vec::new();
            for kind in kinds(generation) {
                let key = (kind.purpose, kind.word);
                assert!(!seen.contains(&key), "{generation:?}: {key:?}");
                seen.push(key);
            }
        }
    }

    #[test]
    fn of_links_that_nothing_is_known_of_all_is_asked() {
        let words = |generation| kinds(generation).into_iter().map(|k| (k.purpose, k.word));
        let all: Vec<_> = words(Generation::Unknown).collect();
        for generation in ALL {
            for word in words(generation) {
                assert!(all.contains(&word), "{generation:?}: {word:?}");
            }
        }
    }

    #[test]
    fn the_second_field_is_used_only_where_the_first_is_not_offered() {
        let bytes = either(TRANSMITTED, TRANSMITTED_BYTES);
        let kib = |n| Ok(FieldValue::Unsigned(n));
        let second = Some(Ok(FieldValue::Unsigned(5000)));
        assert_eq!(bytes.answer(kib(3), second), Ok(Value::U64(3072)));
        assert_eq!(
            bytes.answer(Err(Code::NOT_SUPPORTED), second),
            Ok(Value::U64(5000))
        );
        assert_eq!(bytes.answer(Err(Code::TIMEOUT), second), Err(Code::TIMEOUT));
        // All bits set: not read.
        assert_eq!(bytes.answer(kib(u64::MAX), second), Ok(Value::Absent));
        let speed = SPEED.answer(kib(u64::from(u32::MAX)), None);
        assert_eq!(speed, Ok(Value::Absent));
    }
}
