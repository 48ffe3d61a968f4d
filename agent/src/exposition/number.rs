//! Numbers as the text format wants them: exact, and without the formatting machinery for the common case.

use collectors::Value;

/// Writes a value. [`Value::Absent`] writes nothing.
pub fn value(value: Value, out: &mut String) {
    match value {
        Value::U64(v) => u64(v, out),
        Value::F64(v) => f64(v, out),
        Value::Absent => {}
    }
}

/// Writes every digit of a whole number.
pub fn u64(mut v: u64, out: &mut String) {
    let mut digits = [0_u8; 20];
    let mut from = digits.len();
    for (at, digit) in digits.iter_mut().enumerate().rev() {
        *digit = b'0' + u8::try_from(v % 10).unwrap_or_default();
        from = at;
        v /= 10;
        if v == 0 {
            break;
        }
    }
    out.extend(digits.iter().skip(from).copied().map(char::from));
}

/// Writes the shortest digits that read back as the same number; `NaN`, `+Inf`, `-Inf`.
pub fn f64(v: f64, out: &mut String) {
    use std::fmt::Write;
    let size = v.abs();
    let done = if v.is_nan() {
        out.write_str("NaN")
    } else if v.is_infinite() {
        out.write_str(if v > 0.0 { "+Inf" } else { "-Inf" })
    } else if size != 0.0 && !(1e-5..1e17).contains(&size) {
        write!(out, "{v:e}")
    } else {
        write!(out, "{v}")
    };
    debug_assert!(done.is_ok(), "writing into a String cannot fail");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(v: Value) -> String {
        let mut out = String::new();
        value(v, &mut out);
        out
    }

    #[test]
    fn special_values() {
        assert_eq!(text(Value::F64(f64::NAN)), "NaN");
        assert_eq!(text(Value::F64(f64::INFINITY)), "+Inf");
        assert_eq!(text(Value::F64(f64::NEG_INFINITY)), "-Inf");
        assert_eq!(text(Value::F64(0.0)), "0");
        assert_eq!(text(Value::F64(36.6)), "36.6");
        assert_eq!(text(Value::F64(1e300)), "1e300");
        assert_eq!(text(Value::U64(0)), "0");
        assert_eq!(text(Value::U64(u64::MAX)), "18446744073709551615");
        assert_eq!(text(Value::Absent), "");
    }

    proptest! {
        #[test]
        fn whole_numbers_are_exact(v in any::<u64>(), shift in 0_u32..64) {
            let v = v >> shift;
            prop_assert_eq!(text(Value::U64(v)), v.to_string());
        }

        #[test]
        fn real_numbers_read_back(v in any::<f64>()) {
            let back: f64 = text(Value::F64(v)).parse().unwrap();
            prop_assert!(back == v || v.is_nan());
        }
    }
}
