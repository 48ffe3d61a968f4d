//! Durations in configuration syntax: `250ms`, `15s`, `1h30m`, `2d`; and a bare `0`.

use std::time::Duration;

use jiff::SpanRelativeTo;
use jiff::fmt::friendly::{Spacing, SpanParser, SpanPrinter};

/// The accepted form, for error messages.
pub const EXPECTED: &str = "a duration such as \"250ms\", \"15s\", \"5m\", \"1h\" or \"2d\"";

/// Reads one duration in whole milliseconds. `None` for anything else.
pub fn parse(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    // jiff also reads signs, fractions, spaces and clock times.
    if !text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()) {
        return None;
    }
    let span = SpanParser::new().parse_span(text).ok()?;
    let signed = span.to_duration(SpanRelativeTo::days_are_24_hours()).ok()?;
    let duration = Duration::try_from(signed).ok()?;
    (duration.subsec_nanos() % 1_000_000 == 0).then_some(duration)
}

/// Writes a duration.
pub fn show(duration: Duration) -> String {
    let printer = SpanPrinter::new().spacing(Spacing::None);
    printer.unsigned_duration_to_string(&duration)
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
        assert_eq!(parse("1h30m"), Some(Duration::from_secs(5400)));
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
            "1sago",
            "1mo",
            "1y",
            "1:30:00",
            "pt5m",
            "99999999999999999d",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn written_in_the_units_that_are_read() {
        for text in ["0s", "250ms", "30s", "5m", "1h30m"] {
            assert_eq!(show(parse(text).unwrap()), text);
        }
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read_back(millis in 0_u64..100_000_000_000_000) {
            let duration = Duration::from_millis(millis);
            prop_assert_eq!(parse(&show(duration)), Some(duration));
        }

        #[test]
        fn what_is_taken_can_be_shown_and_read_back(text in "([0-9]{1,4}(d|h|m|s|ms|w|us|[a-z]{1,3}|)[ ,+.-]?){1,3}") {
            if let Some(duration) = parse(&text) {
                prop_assert_eq!(parse(&show(duration)), Some(duration));
            }
        }

        #[test]
        fn any_text_is_taken_or_refused(text in "\\PC*") {
            parse(&text);
        }
    }
}
