//! Texts inside a table's row, in place of pointers to them. The loader writes each pointer of a table into memory of its own in
//! every process; a table without pointers stays on pages of the file, which all processes share.

use std::fmt;
use std::ops::Deref;

/// A text of at most `N` bytes, without a NUL.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Text<const N: usize> {
    length: u8,
    bytes: [u8; N],
}

impl<const N: usize> Text<N> {
    /// No text.
    pub const EMPTY: Self = Self {
        length: 0,
        bytes: [0; N],
    };

    /// This text.
    ///
    /// # Panics
    /// When it is too long or has a NUL; in a `static`, it does not compile.
    pub const fn new(text: &str) -> Self {
        Self::EMPTY.and(text)
    }

    /// With another text behind it.
    const fn and(mut self, text: &str) -> Self {
        let from = self.length as usize;
        let text = text.as_bytes();
        assert!(
            from + text.len() <= N && N <= u8::MAX as usize,
            "the text is too long for its place"
        );
        let mut at = 0;
        while at < text.len() {
            assert!(text[at] != 0, "a text with a NUL");
            self.bytes[from + at] = text[at];
            at += 1;
        }
        self.length += text.len() as u8;
        self
    }

    /// With a NUL behind it.
    const fn ended(mut self) -> Self {
        assert!((self.length as usize) < N, "the text is too long for its place");
        self.length += 1;
        self
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        // It was made of whole texts.
        str::from_utf8(self.as_bytes()).unwrap_or_default()
    }

    /// Its bytes, without the check that they are text.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.length)).unwrap_or_default()
    }
}

impl<const N: usize> Deref for Text<N> {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl<const N: usize> fmt::Display for Text<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self)
    }
}

impl<const N: usize> fmt::Debug for Text<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

/// Pairs of texts, of at most `N` bytes with a NUL behind each text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pairs<const N: usize>(Text<N>);

impl<const N: usize> Pairs<N> {
    /// No pairs.
    pub const EMPTY: Self = Self(Text::EMPTY);

    /// These pairs.
    ///
    /// # Panics
    /// When they are too long, or one has a NUL; in a `static`, it does not compile.
    pub const fn new(pairs: &[(&str, &str)]) -> Self {
        let mut text = Text::EMPTY;
        let mut rest = pairs;
        while let [(first, second), more @ ..] = rest {
            text = text.and(first).ended().and(second).ended();
            rest = more;
        }
        Self(text)
    }

    /// The pairs, in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut texts = self.0.split_terminator('\0');
        std::iter::from_fn(move || Some((texts.next()?, texts.next()?)))
    }
}

impl<const N: usize> fmt::Debug for Pairs<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_the_one_that_was_put_in() {
        for text in ["", "a", "µs", "12345678"] {
            let inline = Text::<8>::new(text);
            assert_eq!(inline.as_str(), text);
            assert_eq!(format!("{inline:>9}|{inline:?}"), format!("{text:>9}|{text:?}"));
        }
        assert!(std::panic::catch_unwind(|| Text::<8>::new("123456789")).is_err());
        assert!(std::panic::catch_unwind(|| Text::<8>::new("a\0b")).is_err());
    }

    #[test]
    fn pairs_keep_their_order_and_empty_texts() {
        let lists: [&[(&str, &str)]; 4] = [
            &[],
            &[("a", "b")],
            &[("", "")],
            &[("a", ""), ("", "b"), ("cd", "ef")],
        ];
        for pairs in lists {
            let inline = Pairs::<16>::new(pairs);
            assert_eq!(inline.iter().collect::<Vec<_>>(), pairs);
        }
        assert!(std::panic::catch_unwind(|| Pairs::<4>::new(&[("ab", "c")])).is_err());
    }
}
