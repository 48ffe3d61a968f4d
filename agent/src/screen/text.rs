//! Lines that fit the screen and hold nothing that could drive it.

/// One line with a space for each hidden character.
pub(crate) fn clean(text: &str) -> String {
    let text: String = text.chars().map(|c| if is_hidden(c) { ' ' } else { c }).collect();
    text.trim_end().to_owned()
}

/// Whether a character drives a terminal, turns the direction of writing, or takes no room.
pub(crate) fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{180e}' | '\u{feff}' | '\u{3164}'
        )
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
        || matches!(c, '\u{fff0}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

/// How many columns a text takes. Where terminals differ it is the larger number: a line that is too short still fits.
pub(crate) fn columns(text: &str) -> usize {
    text.chars().map(width).sum()
}

fn width(c: char) -> usize {
    let wide = matches!(c, '\u{1100}'..='\u{115f}' | '\u{2e80}'..='\u{a4cf}' | '\u{a960}'..='\u{a97f}')
        || matches!(c, '\u{ac00}'..='\u{d7ff}' | '\u{f900}'..='\u{faff}' | '\u{fe10}'..='\u{fe6f}')
        || matches!(c, '\u{ff00}'..='\u{ff60}' | '\u{ffe0}'..='\u{ffe6}' | '\u{10000}'..='\u{3fffd}')
        || matches!(c, '\u{231a}'..='\u{231b}' | '\u{23e9}'..='\u{23f3}' | '\u{25fd}'..='\u{27bf}' | '\u{2b1b}'..='\u{2b55}');
    if wide { 2 } else { 1 }
}

/// A size with its largest binary unit.
pub(crate) fn bytes(mut size: f64) -> String {
    let mut unit = "B";
    for next in ["KiB", "MiB", "GiB", "TiB", "PiB"] {
        if size < 1024.0 {
            break;
        }
        (size, unit) = (size / 1024.0, next);
    }
    format!("{size:.1} {unit}")
}

/// The rate of a link in bytes per second, as bits.
pub(crate) fn bit_rate(rate: f64) -> String {
    let gigabits = rate * 8.0 / 1e9;
    let digits = usize::from(gigabits < 10.0);
    format!("{gigabits:.digits$} Gb/s")
}

/// One clean line, cut at the width with a mark.
pub(crate) fn cut(text: &str, room: usize) -> String {
    let clean = clean(text);
    if columns(&clean) <= room {
        return clean;
    }
    let mark = match room {
        0 => "",
        // As in sacct(1).
        1..=6 => "+",
        _ => "...",
    };
    let mut out = String::new();
    let mut left = room.saturating_sub(mark.len());
    for c in clean.chars() {
        if width(c) > left {
            break;
        }
        left -= width(c);
        out.push(c);
    }
    out + mark
}

/// Clean lines of at most `room` columns, broken between words where that is possible.
pub(crate) fn wrapped(text: &str, room: usize) -> Vec<String> {
    let room = room.max(2);
    let (mut lines, mut current) = (Vec::new(), String::new());
    for word in clean(text).split(' ').filter(|w| !w.is_empty()) {
        let used = columns(&current);
        if used > 0 && used + 1 + columns(word) > room {
            lines.push(std::mem::take(&mut current));
        }
        if !current.is_empty() {
            current.push(' ');
        }
        for c in word.chars() {
            if columns(&current) + width(c) > room {
                lines.push(std::mem::take(&mut current));
            }
            current.push(c);
        }
    }
    if !current.is_empty() || lines.is_empty() {
        lines.push(current);
    }
    lines
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn nothing_that_drives_a_terminal_is_left() {
        assert_eq!(clean("a\x1b[31mb\r\n"), "a [31mb");
        assert_eq!(clean("\u{9b}2J\u{202e}gpj\u{200b}x\u{7f}\u{feff}"), " 2J gpj x");
    }

    #[test]
    fn wide_characters_take_two_columns() {
        assert_eq!(columns("ab節点"), 6);
        assert_eq!(cut("節点節点節点", 9), "節点節...");
        assert_eq!(cut("節点", 3), "節+");
        assert_eq!(
            (cut("4711001", 5), cut("ab", 1)),
            ("4711+".to_owned(), "+".to_owned())
        );
    }

    #[test]
    fn long_words_are_broken_and_none_is_lost() {
        let text = "word ".repeat(30) + &"x".repeat(250);
        let lines = wrapped(&text, 40);
        assert!(lines.iter().all(|l| columns(l) <= 40), "{lines:?}");
        assert_eq!(lines.concat().replace(' ', ""), text.replace(' ', ""));
        assert_eq!(wrapped("", 40), [""]);
    }

    proptest! {
        #[test]
        fn whatever_comes_fits_and_drives_nothing(text in "\\PC{0,80}|[\\x00-\\u{ffff}]{0,80}", room in 2_usize..60) {
            let lines = wrapped(&text, room).into_iter().chain([cut(&text, room)]);
            for line in lines {
                prop_assert!(columns(&line) <= room, "{:?}", line);
                prop_assert!(!line.chars().any(is_hidden), "{:?}", line);
            }
        }
    }
}
