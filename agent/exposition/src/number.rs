//! Exact numbers for the text formats, without std::fmt for whole numbers.

use std::io::Write;

use collectors::Value;

/// Below this every whole `f64` is exact.
const EXACT: f64 = 9_007_199_254_740_992.0;

const fn pairs() -> [[u8; 2]; 100] {
    let mut pairs = [[b'0'; 2]; 100];
    let mut n: u8 = 0;
    while n < 100 {
        pairs[n as usize] = [b'0' + n / 10, b'0' + n % 10];
        n += 1;
    }
    pairs
}

/// `00` to `99`.
static PAIRS: [[u8; 2]; 100] = pairs();

/// Writes a value. [`Value::Absent`] writes nothing.
#[inline]
pub fn value(value: Value, out: &mut Vec<u8>) {
    match value {
        Value::U64(v) => u64(v, out),
        Value::F64(v) => f64(v, out),
        Value::Absent => {}
    }
}

/// Writes every digit of a whole number.
#[inline]
pub fn u64(mut v: u64, out: &mut Vec<u8>) {
    if v < 10 {
        out.push(b'0' + u8::try_from(v).unwrap_or_default());
        return;
    }
    // u64::MAX has 20 digits, so `at` stays above 0.
    let mut digits = [0_u8; 20];
    let mut at = digits.len();
    while v >= 10 {
        let [ten, one] = PAIRS[(v % 100) as usize];
        at -= 2;
        digits[at] = ten;
        digits[at + 1] = one;
        v /= 100;
    }
    if v > 0 {
        at -= 1;
        digits[at] = b'0' + u8::try_from(v).unwrap_or_default();
    }
    out.extend_from_slice(&digits[at..]);
}

/// Writes the digits of a whole number over those of another. False: it has more or fewer, and what is written has no meaning.
#[inline]
pub fn over(mut v: u64, digits: &mut [u8]) -> bool {
    let mut left = &mut *digits;
    while let [before @ .., ten, one] = left {
        [*ten, *one] = PAIRS[(v % 100) as usize];
        v /= 100;
        left = before;
    }
    if let [one] = left {
        *one = b'0' + u8::try_from(v % 10).unwrap_or_default();
        v /= 10;
    }
    v == 0 && matches!(digits, [b'0'] | [b'1'..=b'9', ..])
}

/// Writes the shortest digits that read back as the same number; `NaN`, `+Inf`, `-Inf`.
pub fn f64(v: f64, out: &mut Vec<u8>) {
    let size = v.abs();
    if size < EXACT && v.fract() == 0.0 {
        if v < 0.0 {
            out.push(b'-');
        }
        #[expect(clippy::cast_sign_loss, reason = "a size has no sign")]
        return u64(size as u64, out);
    }
    let done = if v.is_nan() {
        out.write_all(b"NaN")
    } else if v.is_infinite() {
        out.write_all(if v > 0.0 { b"+Inf" } else { b"-Inf" })
    } else if (1e-5..1e17).contains(&size) {
        write!(out, "{v}")
    } else {
        write!(out, "{v:e}")
    };
    debug_assert!(done.is_ok(), "writing into memory cannot fail");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(v: Value) -> String {
        let mut out = Vec::new();
        value(v, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn special_values() {
        assert_eq!(text(Value::F64(f64::NAN)), "NaN");
        assert_eq!(text(Value::F64(f64::INFINITY)), "+Inf");
        assert_eq!(text(Value::F64(f64::NEG_INFINITY)), "-Inf");
        assert_eq!(text(Value::F64(0.0)), "0");
        assert_eq!(text(Value::F64(-12.0)), "-12");
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
        fn digits_replace_as_many_and_no_others(v in any::<u64>(), shift in 0_u32..64, room in 0_usize..22) {
            let v = v >> shift;
            let mut digits = vec![b'.'; room];
            let fits = over(v, &mut digits);
            prop_assert_eq!(fits, v.to_string().len() == room);
            prop_assert!(!fits || digits == v.to_string().as_bytes());
            let mut digits = vec![b'9'; v.to_string().len()];
            prop_assert!(over(v, &mut digits));
            prop_assert_eq!(digits, v.to_string().into_bytes());
        }

        #[test]
        fn real_numbers_read_back(v in any::<f64>(), whole in any::<i64>()) {
            #[expect(clippy::cast_precision_loss, reason = "any number will do")]
            for v in [v, whole as f64] {
                let back: f64 = text(Value::F64(v)).parse().unwrap();
                prop_assert!(back == v || v.is_nan());
            }
        }
    }
}
