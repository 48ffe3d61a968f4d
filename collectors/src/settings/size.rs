//! Sizes in configuration syntax: `512 GiB`, `1.5TiB`. Binary units only: `GB` means different things to different people.

/// The accepted form, for error messages.
pub const EXPECTED: &str = "a size such as \"512 GiB\" or \"1.5 TiB\"";

const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/// Reads one size, in bytes. `None` for anything else, and for 0.
pub fn parse(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(end);
    let unit = unit.strip_prefix(' ').unwrap_or(unit);
    let power = u32::try_from(UNITS.iter().position(|known| *known == unit)?).ok()?;
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    let is_number =
        |digits: &str| (1..=9).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
    if !is_number(whole) || !is_number(part) {
        return None;
    }
    let unit = 1024_u128.pow(power);
    let tenths = 10_u128.pow(u32::try_from(part.len()).ok()?);
    let bytes = whole.parse::<u128>().ok()? * unit + part.parse::<u128>().ok()? * unit / tenths;
    u64::try_from(bytes).ok().filter(|bytes| *bytes > 0)
}

/// Writes a size with two decimals, rounded down: `1.96 TiB`.
pub fn show(bytes: u64) -> String {
    let mut unit = (1, UNITS[0]);
    for (power, name) in (1..).zip(UNITS.into_iter().skip(1)) {
        let size = 1024_u64.pow(power);
        if bytes >= size {
            unit = (size, name);
        }
    }
    let (size, name) = unit;
    if size == 1 {
        return format!("{bytes} {name}");
    }
    let hundredths = u128::from(bytes % size) * 100 / u128::from(size);
    format!("{}.{hundredths:02} {name}", bytes / size)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sizes_have_a_binary_unit() {
        for (text, bytes) in [
            ("1 B", 1),
            ("512 GiB", 512 << 30),
            ("2TiB", 2 << 40),
            ("1.5 TiB", 3 << 39),
            ("0.5 KiB", 512),
            ("2015.25 GiB", 2015 * (1 << 30) + (1 << 28)),
        ] {
            assert_eq!(parse(text), Some(bytes), "{text}");
        }
        for text in [
            "",
            "2",
            "TiB",
            "2 TB",
            "2 T",
            "2  TiB",
            "-2 TiB",
            "1. GiB",
            ".5 GiB",
            "1.2.3 GiB",
            "0 GiB",
            "99999999 PiB",
            "2 TiB ",
        ] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn sizes_are_shown_in_the_largest_unit_that_they_reach() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.00 KiB"),
            (3 << 39, "1.50 TiB"),
            (2_164_135_043_072, "1.96 TiB"),
            (u64::MAX, "16383.99 PiB"),
        ] {
            assert_eq!(show(bytes), text);
        }
    }

    proptest! {
        #[test]
        fn a_shown_size_is_read_as_at_most_as_much(bytes in 1_u64..1 << 59) {
            let read = parse(&show(bytes)).unwrap();
            prop_assert!(read <= bytes && bytes - read <= bytes / 100 + 1, "{} {}", read, bytes);
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[0-9. KMGTPiB-]{0,24}") {
            parse(&text);
        }
    }
}
