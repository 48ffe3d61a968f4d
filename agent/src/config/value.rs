//! Reading one TOML value as what a key expects, with the position of what does not fit.

use std::ops::{Range, RangeInclusive};
use std::path::PathBuf;
use std::time::Duration;

use toml::Spanned;
use toml::de::DeValue;

use super::duration;

/// A value with its position.
pub(super) type Item<'i> = Spanned<DeValue<'i>>;

/// A value that does not fit.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) span: Range<usize>,
    pub(super) found: String,
    pub(super) expected: &'static str,
}

/// A value, or everything that does not fit in it.
pub(super) type Fits<T> = Result<T, Vec<Fault>>;

/// Says that `item` does not fit.
pub(super) fn misfit<T>(item: &Item<'_>, expected: &'static str) -> Fits<T> {
    Err(vec![Fault {
        span: item.span(),
        found: describe(item.get_ref()),
        expected,
    }])
}

/// A value as an error message shows it.
pub(super) fn describe(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(s) => {
            let short: String = s.chars().take(60).collect();
            let more = if short.len() < s.len() { "..." } else { "" };
            format!("string {short:?}{more}")
        }
        DeValue::Integer(i) => format!("integer {i}"),
        DeValue::Float(f) => format!("float {f}"),
        DeValue::Boolean(b) => format!("boolean {b}"),
        DeValue::Datetime(d) => format!("date-time {d}"),
        DeValue::Array(_) => "an array".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    }
}

/// A string that `take` accepts.
pub(super) fn text<T>(item: &Item<'_>, expected: &'static str, take: impl Fn(&str) -> Option<T>) -> Fits<T> {
    match item.get_ref() {
        DeValue::String(s) => take(s).map_or_else(|| misfit(item, expected), Ok),
        _ => misfit(item, expected),
    }
}

/// An array of strings that `take` accepts; every one that does not fit is reported.
pub(super) fn list<T>(
    item: &Item<'_>,
    expected: &'static str,
    each: &'static str,
    take: impl Fn(&str) -> Option<T>,
) -> Fits<Vec<T>> {
    let DeValue::Array(items) = item.get_ref() else {
        return misfit(item, expected);
    };
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    for item in items.iter() {
        match text(item, each, &take) {
            Ok(value) => good.push(value),
            Err(faults) => bad.extend(faults),
        }
    }
    if bad.is_empty() { Ok(good) } else { Err(bad) }
}

/// A whole number within `range`.
pub(super) fn whole(item: &Item<'_>, expected: &'static str, range: &RangeInclusive<u64>) -> Fits<u64> {
    let number = match item.get_ref() {
        DeValue::Integer(i) => u64::from_str_radix(i.as_str(), i.radix()).ok(),
        _ => None,
    };
    let fits = number.filter(|n| range.contains(n));
    fits.map_or_else(|| misfit(item, expected), Ok)
}

/// An array of whole numbers within `range`; every one that does not fit is reported.
pub(super) fn wholes(
    item: &Item<'_>,
    expected: &'static str,
    each: &'static str,
    range: &RangeInclusive<u64>,
) -> Fits<Vec<u64>> {
    let DeValue::Array(items) = item.get_ref() else {
        return misfit(item, expected);
    };
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    for item in items.iter() {
        match whole(item, each, range) {
            Ok(value) => good.push(value),
            Err(faults) => bad.extend(faults),
        }
    }
    if bad.is_empty() { Ok(good) } else { Err(bad) }
}

/// A whole number within `range`, or an array of them.
pub(super) fn one_or_more(
    item: &Item<'_>,
    expected: &'static str,
    range: &RangeInclusive<u64>,
) -> Fits<Vec<u64>> {
    match item.get_ref() {
        DeValue::Array(_) => wholes(item, expected, expected, range),
        _ => whole(item, expected, range).map(|number| vec![number]),
    }
}

/// A duration above 0.
pub(super) fn positive(item: &Item<'_>) -> Fits<Duration> {
    text(
        item,
        "a duration above 0, such as \"250ms\", \"15s\" or \"5m\"",
        |s| duration::parse(s).filter(|d| !d.is_zero()),
    )
}

/// A duration; 0 is allowed.
pub(super) fn any_duration(item: &Item<'_>) -> Fits<Duration> {
    text(item, duration::EXPECTED, duration::parse)
}

/// An absolute path.
pub(super) fn path(item: &Item<'_>) -> Fits<PathBuf> {
    text(item, "an absolute path", |s| {
        (s.starts_with('/') && !s.contains('\0')).then(|| PathBuf::from(s))
    })
}

/// `true` or `false`.
pub(super) fn boolean(item: &Item<'_>) -> Fits<bool> {
    match item.get_ref() {
        DeValue::Boolean(b) => Ok(*b),
        _ => misfit(item, "true or false"),
    }
}
