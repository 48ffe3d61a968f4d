//! Bytes of a log line: the kernel's `\xNN` undone for the parsers.

use std::borrow::Cow;

/// Undoes the `\xNN` that /dev/kmsg writes for control characters, bytes above 0x7e and the backslash.
pub(super) fn unescape(text: &[u8]) -> Cow<'_, [u8]> {
    if !text.contains(&b'\\') {
        return Cow::Borrowed(text);
    }
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, tail)) = rest.split_first() {
        if let [b'\\', b'x', high, low, tail @ ..] = rest
            && let (Some(high), Some(low)) = (digit(*high), digit(*low))
        {
            out.push(high << 4 | low);
            rest = tail;
        } else {
            out.push(*first);
            rest = tail;
        }
    }
    Cow::Owned(out)
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|d| u8::try_from(d).ok())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_kernels_escapes_are_undone_and_nothing_else_is() {
        for (text, want) in [
            (&b"plain"[..], &b"plain"[..]),
            (b"a\\x0ab", b"a\nb"),
            (b"\\x5cx41", b"\\x41"),
            (b"\\xc3\\xa4", "\u{e4}".as_bytes()),
            (b"\\xg1 \\x4", b"\\xg1 \\x4"),
            (b"\\", b"\\"),
        ] {
            assert_eq!(*unescape(text), *want);
        }
    }

    proptest! {
        #[test]
        fn undoing_escapes_never_makes_text_longer(bytes: Vec<u8>) {
            prop_assert!(unescape(&bytes).len() <= bytes.len());
        }
    }
}
