//! `name{label="value"} `: the constant part of a sample line, equal in both formats.

use std::io::Write;

use collectors::{Kind, Part};

/// Appends the start of a line, up to the value. `scale`: the factor of the values, which
/// also applies to the bounds of buckets.
pub fn start<'a>(
    name: &str,
    kind: Kind,
    part: Part,
    scale: f64,
    labels: impl Iterator<Item = (&'a str, &'a str)>,
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(suffix(part).as_bytes());
    let mut open = b'{';
    for (label, value) in labels {
        out.push(open);
        open = b',';
        out.extend_from_slice(label.as_bytes());
        out.extend_from_slice(b"=\"");
        escape(value, true, out);
        out.push(b'"');
    }
    if let Part::Bucket(at) = part {
        out.push(open);
        open = b',';
        out.extend_from_slice(b"le=\"");
        match kind {
            Kind::Histogram(buckets) => bound(buckets.bounds().get(usize::from(at)), scale, out),
            Kind::Counter | Kind::Gauge | Kind::Info => bound(None, scale, out),
        }
        out.push(b'"');
    }
    out.extend_from_slice(if open == b',' { b"} " } else { b" " });
}

/// What a part adds to the name of its metric.
pub(crate) fn suffix(part: Part) -> &'static str {
    match part {
        Part::Whole => "",
        Part::Bucket(_) => "_bucket",
        Part::Sum => "_sum",
        Part::Count => "_count",
    }
}

/// OpenMetrics and Prometheus 3 require `1.0`, not `1`.
fn bound(bound: Option<&f64>, scale: f64, out: &mut Vec<u8>) {
    let done = match bound {
        Some(bound) => write!(out, "{:?}", bound * scale),
        None => out.write_all(b"+Inf"),
    };
    debug_assert!(done.is_ok(), "writing into memory cannot fail");
}

/// Escapes `\` and line feed, and `"` where `quotes`: always in label values, and in the help of OpenMetrics.
pub fn escape(text: &str, quotes: bool, out: &mut Vec<u8>) {
    let mut rest = text.as_bytes();
    while let Some(at) = rest
        .iter()
        .position(|b| matches!(b, b'\\' | b'\n') || (quotes && *b == b'"'))
    {
        let (plain, special) = rest.split_at(at);
        out.extend_from_slice(plain);
        let Some((byte, after)) = special.split_first() else {
            break;
        };
        out.extend_from_slice(&[b'\\', if *byte == b'\n' { b'n' } else { *byte }]);
        rest = after;
    }
    out.extend_from_slice(rest);
}

#[cfg(test)]
mod tests {
    use collectors::Buckets;

    use super::*;

    fn of(kind: Kind, part: Part, labels: &[(&str, &str)]) -> String {
        let mut out = Vec::new();
        start("m", kind, part, 1.0, labels.iter().copied(), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn labels_are_escaped_and_their_order_kept() {
        assert_eq!(of(Kind::Gauge, Part::Whole, &[]), "m ");
        assert_eq!(
            of(Kind::Gauge, Part::Whole, &[("b", "\\\"\n"), ("a", "ä}")]),
            "m{b=\"\\\\\\\"\\n\",a=\"ä}\"} "
        );
    }

    #[test]
    fn a_bucket_has_its_bound_as_the_last_label() {
        let kind = Kind::Histogram(Buckets::new(&[0.5, 1.0]));
        assert_eq!(of(kind, Part::Bucket(0), &[]), "m_bucket{le=\"0.5\"} ");
        assert_eq!(
            of(kind, Part::Bucket(1), &[("a", "x")]),
            "m_bucket{a=\"x\",le=\"1.0\"} "
        );
        assert_eq!(of(kind, Part::Bucket(2), &[]), "m_bucket{le=\"+Inf\"} ");
        assert_eq!(of(kind, Part::Sum, &[]), "m_sum ");
        assert_eq!(of(kind, Part::Count, &[]), "m_count ");
    }
}
