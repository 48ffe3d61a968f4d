//! The totals of all NVLinks of a GPU.

use super::generation::Generation;
use super::kinds::{Answer, CODEWORDS, KIB, LinkValue, ONE, ratio};
use crate::nvidia::fields::{ALL_LINKS, Scale, counter};
use crate::nvidia::metrics as n;
use crate::sys::nvml::{Code, FieldValue, Wanted};
use crate::{Metric, Value};

/// How the total follows from the links where the driver offers no field with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FromLinks {
    Sum,
    /// Of ratios, the worst link's.
    Worst,
    Nothing,
}

/// The total of all links.
#[derive(Clone, Copy, Debug)]
pub(super) struct LinkTotal {
    /// `None`: no field has it.
    field: Option<Wanted>,
    scale: Scale,
    from_links: FromLinks,
    metric: &'static Metric,
    /// The label after `gpu`, and the name of the link's value.
    kind: &'static str,
}

const fn errors(field: u32, kind: &'static str) -> LinkTotal {
    LinkTotal {
        field: Some(Wanted { field, scope: 0 }),
        scale: ONE,
        from_links: FromLinks::Sum,
        metric: &n::NVLINK_ERRORS,
        kind,
    }
}

/// Data over all links: the scope selects them.
const fn data(field: u32, metric: &'static Metric, kind: &'static str, scale: Scale) -> LinkTotal {
    LinkTotal {
        field: Some(Wanted {
            field,
            scope: ALL_LINKS,
        }),
        metric,
        scale,
        ..errors(field, kind)
    }
}

/// Errors as NVLink 5 counts them.
const fn counted(field: u32, kind: &'static str) -> LinkTotal {
    data(field, &n::NVLINK_ERRORS, kind, ONE)
}

/// A counter that is read as a total only.
const fn whole(field: u32, metric: &'static Metric) -> LinkTotal {
    LinkTotal {
        from_links: FromLinks::Nothing,
        ..data(field, metric, "", ONE)
    }
}

const fn bit_errors(field: u32, kind: &'static str) -> LinkTotal {
    LinkTotal {
        from_links: FromLinks::Worst,
        ..data(field, &n::NVLINK_BER, kind, ONE)
    }
}

/// The sum of a value that is read by link anyway.
const fn summed(metric: &'static Metric, kind: &'static str) -> LinkTotal {
    LinkTotal {
        field: None,
        metric,
        ..errors(0, kind)
    }
}

/// Every generation.
const COMMON: [LinkTotal; 7] = [
    data(138, &n::NVLINK_TRANSMITTED, "transmitted", KIB),
    data(139, &n::NVLINK_RECEIVED, "received", KIB),
    errors(38, "crc_flit"),
    errors(45, "crc_data"),
    errors(160, "ecc_data"),
    errors(52, "replay"),
    errors(59, "recovery"),
];

/// NVLink 5 and newer.
const COUNTS: [LinkTotal; 18] = [
    whole(201, &n::NVLINK_PACKETS_TRANSMITTED),
    whole(203, &n::NVLINK_PACKETS_RECEIVED),
    whole(202, &n::NVLINK_COUNTED_TRANSMITTED),
    whole(204, &n::NVLINK_COUNTED_RECEIVED),
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
    bit_errors(220, "effective"),
    bit_errors(222, "symbol"),
];

/// The totals in the order in which they are queried and shown.
pub(super) fn totals(generation: Generation) -> Vec<LinkTotal> {
    let mut totals = COMMON.to_vec();
    if generation.has_data_link() {
        totals.push(summed(&n::NVLINK_ERRORS, "crc"));
    }
    if generation.has_counts() {
        totals.extend(COUNTS);
        totals.extend(CODEWORDS.map(|word| summed(&n::NVLINK_FEC, word)));
    }
    totals
}

impl LinkTotal {
    pub(super) fn wanted(&self) -> Option<Wanted> {
        self.field
    }

    pub(super) fn metric(&self) -> &'static Metric {
        self.metric
    }

    /// Whether it counts bytes in one direction.
    pub(super) fn is_data(&self) -> bool {
        self.metric == &n::NVLINK_TRANSMITTED || self.metric == &n::NVLINK_RECEIVED
    }

    pub(super) fn labels<'a>(&self, gpu: &'a str) -> Vec<&'a str> {
        if self.metric.labels.len() == 1 {
            vec![gpu]
        } else {
            vec![gpu, self.kind]
        }
    }

    /// The value: from the links only where the driver offers no total, so that it never changes its source because
    /// of one failed answer.
    pub(super) fn value(
        &self,
        answer: Result<FieldValue, Code>,
        kinds: &[LinkValue],
        links: &[Vec<Answer>],
    ) -> Value {
        let value = match answer {
            Ok(value) => counter(value).map(|number| match self.from_links {
                FromLinks::Worst => Value::F64(ratio(number)),
                _ => self.scale.of(number),
            }),
            Err(code) if code.is_unsupported() => match self.from_links {
                FromLinks::Sum => sum(kinds, links, self.kind),
                FromLinks::Worst => worst(kinds, links, self.kind),
                FromLinks::Nothing => None,
            },
            Err(_) => None,
        };
        value.unwrap_or(Value::Absent)
    }
}

/// The sum over all links. `None` if a link has no value.
fn sum(kinds: &[LinkValue], links: &[Vec<Answer>], word: &str) -> Option<Value> {
    let at = kinds.iter().position(|k| k.is_count_of(word))?;
    let mut sum = 0_u64;
    for answers in links {
        match answers.get(at) {
            Some(Ok(Value::U64(number))) => sum = sum.checked_add(*number)?,
            _ => return None,
        }
    }
    Some(Value::U64(sum))
}

/// The highest ratio of all links. `None` if a link has no value: it could be the worst.
fn worst(kinds: &[LinkValue], links: &[Vec<Answer>], word: &str) -> Option<Value> {
    let at = kinds.iter().position(|k| k.is_ratio_of(word))?;
    let mut worst = 0.0_f64;
    for answers in links {
        match answers.get(at) {
            Some(Ok(Value::F64(number))) => worst = worst.max(*number),
            _ => return None,
        }
    }
    Some(Value::F64(worst))
}

#[cfg(test)]
mod tests {
    use super::super::kinds::kinds;
    use super::*;

    #[test]
    fn a_total_is_summed_over_the_links_only_where_the_driver_has_none() {
        let kinds = kinds(Generation::Five);
        let answers = |count: u64| -> Vec<Answer> {
            let one = |k: &LinkValue| Ok(Value::U64(if k.is_count_of("receive") { count } else { 0 }));
            kinds.iter().map(one).collect()
        };
        let links = [answers(3), answers(4)];
        let total = counted(208, "receive");
        let of = |answer| total.value(answer, &kinds, &links);
        assert_eq!(of(Ok(FieldValue::Unsigned(9))), Value::U64(9));
        assert_eq!(of(Err(Code::NOT_SUPPORTED)), Value::U64(7));
        assert_eq!(of(Err(Code::TIMEOUT)), Value::Absent);
        assert_eq!(of(Ok(FieldValue::Unsigned(u64::MAX))), Value::Absent);
    }

    #[test]
    fn each_error_of_a_link_has_a_total_and_none_twice() {
        for generation in [
            Generation::UpToThree,
            Generation::Four,
            Generation::Five,
            Generation::Unknown,
        ] {
            let totals = totals(generation);
            let mut seen = Vec::new();
            for total in &totals {
                let key = (total.metric.name, total.kind);
                assert!(!seen.contains(&key), "{generation:?}: {key:?}");
                seen.push(key);
            }
            for kind in kinds(generation).iter().filter(|k| k.is_error()) {
                assert!(
                    seen.contains(&(n::NVLINK_ERRORS.name, kind.word)),
                    "{}",
                    kind.word
                );
            }
        }
    }
}
