//! Single-value files of sysfs: one text, one number. What does not hold exactly that is missing, never 0.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::errno::Errno;

use crate::Env;
use crate::sys::kept::{DescriptorBudget, Kept};
use crate::sys::root;

/// sysfs gives at most one page for one attribute; what is longer is not an attribute.
const PAGE: usize = 4096;

/// The text of an attribute. `None`: not there, not readable, not text, or too long. Empty text is kept.
pub(super) fn text(path: &Path) -> Option<String> {
    match root::read_text(path) {
        Ok(text) => text.filter(|t| t.len() <= PAGE),
        Err(error) => {
            tracing::debug!(%error, "left out");
            None
        }
    }
}

/// The text of an attribute that becomes a label: without control characters, which no slot or driver name has.
pub(super) fn label(path: &Path) -> Option<String> {
    text(path).filter(|t| !t.is_empty() && !t.chars().any(char::is_control))
}

/// The number in an attribute, as [`count`] reads it.
pub(super) fn number(path: &Path) -> Option<u64> {
    count(&text(path)?)
}

/// Makes the files that every reading reads, and that stay open.
#[derive(Clone)]
pub(super) struct OpenFiles {
    budget: Arc<DescriptorBudget>,
    on_disk: bool,
}

impl OpenFiles {
    pub(super) fn new(env: &Env) -> Self {
        Self {
            budget: DescriptorBudget::of_process(),
            on_disk: env.is_tree(),
        }
    }

    pub(super) fn file(&self, path: PathBuf) -> OpenFile {
        OpenFile(Kept::new(path, &self.budget, self.on_disk))
    }
}

/// One file that stays open.
pub(super) struct OpenFile(Kept);

impl OpenFile {
    /// What `take` finds in its text, which has less than `N` bytes. `None` too: not there, not readable, not text, or longer.
    pub(super) fn find<const N: usize, T>(&mut self, take: impl FnOnce(&str) -> Option<T>) -> Option<T> {
        let mut buffer = [0; N];
        let bytes = self.bytes(&mut buffer).filter(|bytes| bytes.len() < N)?;
        take(std::str::from_utf8(bytes).ok()?.trim())
    }

    /// The number in it, as [`count`] reads it.
    pub(super) fn number(&mut self) -> Option<u64> {
        self.find::<32, _>(count)
    }

    /// Its first bytes, as many as there is room for. `None`: not there, or not readable.
    pub(super) fn bytes<'b>(&mut self, buffer: &'b mut [u8]) -> Option<&'b [u8]> {
        let read = self.0.read(buffer);
        match read {
            Ok(bytes) => Some(bytes),
            Err(Errno::ENOENT | Errno::ENODEV) => None,
            Err(error) => {
                tracing::debug!(file = %self.0.path().display(), %error, "left out");
                None
            }
        }
    }
}

/// Reads an unsigned decimal number: digits alone, no sign, no more than 64 bits hold.
pub(super) fn count(text: &str) -> Option<u64> {
    let plain = (1..=20).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    plain.then(|| text.parse().ok())?
}

/// Reads the identifiers of PCI: `0x` and one to eight hexadecimal digits.
pub(super) fn hex(text: &str) -> Option<u32> {
    let digits = text.strip_prefix("0x")?;
    let plain = (1..=8).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_hexdigit());
    plain.then(|| u32::from_str_radix(digits, 16).ok())?
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_whole_numbers_are_numbers() {
        assert_eq!(count("18446744073709551615"), Some(u64::MAX));
        for text in [
            "",
            "-1",
            "+1",
            "0x1",
            "1 2",
            "1.0",
            "18446744073709551616",
            "\0",
            "１",
        ] {
            assert_eq!(count(text), None, "{text:?}");
        }
        assert_eq!(count(&"0".repeat(21)), None, "nothing prints a number like this");
    }

    #[test]
    fn only_prefixed_hexadecimal_is_an_identifier() {
        assert_eq!(hex("0x10de"), Some(0x10de));
        assert_eq!(hex("0x030200"), Some(0x03_0200));
        for text in ["", "0x", "10de", "0x+1", "0x-1", "0xg", "0x123456789", "0X10de"] {
            assert_eq!(hex(text), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn every_count_survives_printing(n: u64) {
            prop_assert_eq!(count(&n.to_string()), Some(n));
        }

        #[test]
        fn every_identifier_survives_printing(n: u32) {
            prop_assert_eq!(hex(&format!("{n:#x}")), Some(n));
            prop_assert_eq!(hex(&format!("{n:#010x}")), Some(n));
        }

        #[test]
        fn no_text_breaks_the_parsers(text in ".{0,40}") {
            if let Some(n) = count(&text) {
                prop_assert_eq!(text.parse::<u64>(), Ok(n));
                prop_assert!(text.bytes().all(|b| b.is_ascii_digit()));
            }
            if let Some(n) = hex(&text) {
                let digits = format!("{n:x}");
                prop_assert!(text.to_lowercase().ends_with(&digits), "{} {}", text, digits);
            }
        }
    }
}
