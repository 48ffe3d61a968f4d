//! Text of others, made printable for people, logs and labels.

/// At most `max` bytes of printable text: what could steer a terminal or is not UTF-8 becomes `\xNN`, and a character or
/// escape that does not fit whole ends the text.
pub fn printable(bytes: &[u8], max: usize) -> String {
    let mut out = String::new();
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            if !steers(c) {
                if out.len() + c.len_utf8() > max {
                    return out;
                }
                out.push(c);
            } else if !push_escaped(&mut out, c.encode_utf8(&mut [0; 4]).as_bytes(), max) {
                return out;
            }
        }
        if !push_escaped(&mut out, chunk.invalid(), max) {
            return out;
        }
    }
    out
}

/// Whether a text has at most `max` bytes and is printable as it is.
pub fn is_printable(text: &str, max: usize) -> bool {
    text.len() <= max && printable(text.as_bytes(), max) == text
}

/// Control characters, and the format characters that reorder or break lines.
fn steers(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn push_escaped(out: &mut String, bytes: &[u8], max: usize) -> bool {
    const DIGITS: [char; 16] = [
        '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f',
    ];
    if out.len() + 4 * bytes.len() > max {
        return false;
    }
    for byte in bytes {
        out.push_str("\\x");
        for digit in [byte >> 4, byte & 15] {
            out.extend(DIGITS.get(usize::from(digit)));
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn text_is_cut_between_characters_and_never_inside_an_escape() {
        assert_eq!(printable(b"a\x1b[31mb", 512), "a\\x1b[31mb");
        assert_eq!(printable(b"a\xff\xfeb\n", 512), "a\\xff\\xfeb\\x0a");
        assert_eq!(printable("ab\u{e4}".as_bytes(), 3), "ab");
        assert_eq!(printable(b"ab\x1b", 5), "ab");
        assert_eq!(
            printable("\u{202e}x\u{85}".as_bytes(), 512),
            "\\xe2\\x80\\xaex\\xc2\\x85"
        );
    }

    proptest! {
        #[test]
        fn no_control_character_survives(bytes: Vec<u8>, max in 0_usize..600) {
            let text = printable(&bytes, max);
            prop_assert!(text.len() <= max);
            prop_assert!(!text.chars().any(steers));
        }
    }
}
