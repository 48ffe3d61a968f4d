//! Durations as people write them: `250ms`, `15s`, `5m`, `1h`, `2d`; and a bare `0`.

use std::time::Duration;

/// What is accepted, in words.
pub const EXPECTED: &str = "a duration such as \"250ms\", \"15s\", \"5m\", \"1h\" or \"2d\"";

/// Units, longest first, in milliseconds.
const UNITS: &[(&str, u64)] = &[
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1000),
    ("ms", 1),
];

/// Reads one duration. `None` for anything else, and for one of more than u64 milliseconds.
pub fn parse(text: &str) -> Option<Duration> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok()?;
    if unit.is_empty() {
        return (number == 0).then_some(Duration::ZERO);
    }
    let (_, millis) = UNITS.iter().find(|(name, _)| *name == unit)?;
    number.checked_mul(*millis).map(Duration::from_millis)
}

/// Writes a duration in the longest unit that holds it exactly; below a millisecond it is cut.
pub fn show(duration: Duration) -> String {
    let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    if millis == 0 {
        return "0s".to_owned();
    }
    let (name, unit) = UNITS
        .iter()
        .find(|(_, unit)| millis % unit == 0)
        .unwrap_or(&("ms", 1));
    format!("{}{name}", millis / unit)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn units() {
        assert_eq!(parse("250ms"), Some(Duration::from_millis(250)));
        assert_eq!(parse("15s"), Some(Duration::from_secs(15)));
        assert_eq!(parse("5m"), Some(Duration::from_secs(300)));
        assert_eq!(parse("1h"), Some(Duration::from_secs(3600)));
        assert_eq!(parse("2d"), Some(Duration::from_secs(172_800)));
        assert_eq!(parse("0"), Some(Duration::ZERO));
        for bad in [
            "",
            "s",
            "15",
            "15 s",
            "-1s",
            "+1s",
            "1.5s",
            "1us",
            "15S",
            "99999999999999999d",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read_back(millis in any::<u64>()) {
            let duration = Duration::from_millis(millis);
            prop_assert_eq!(parse(&show(duration)), Some(duration));
        }

        #[test]
        fn any_text_is_taken_or_refused(text in "\\PC*") {
            // What is taken can be shown and read back.
            if let Some(duration) = parse(&text) {
                prop_assert_eq!(parse(&show(duration)), Some(duration));
            }
        }
    }
}
