//! What follows a message's head, as words.

use super::{RecordingFault, Word, number};
use crate::netlink::aligned;

/// Attributes within attributes. The kernel's own go six deep at most.
const DEEPEST: usize = 16;

/// Bytes that are being put together.
#[derive(Default)]
pub(super) struct Payload<'a> {
    bytes: Vec<u8>,
    /// Where each attribute begins that is not closed yet, and the word that opened it.
    open: Vec<(usize, Word<'a>)>,
}

impl<'a> Payload<'a> {
    /// Reads all words of one payload.
    pub(super) fn read(words: &[Word<'a>]) -> Result<Vec<u8>, RecordingFault<'a>> {
        let mut payload = Self::default();
        for word in words {
            payload.take(*word)?;
        }
        match payload.open.last() {
            Some((_, word)) => Err((*word, "a `}` for it")),
            None => Ok(payload.bytes),
        }
    }

    fn take(&mut self, word: Word<'a>) -> Result<(), RecordingFault<'a>> {
        let (_, text) = word;
        if text == "}" {
            let (at, opened) = self.open.pop().ok_or((word, "a `{` before it"))?;
            return self.close(at).ok_or((opened, "less than 64 KiB in it"));
        }
        if let Some(kind) = text.strip_suffix('{') {
            let kind = number(kind).ok_or((word, "a kind below 65536 before `{`"))?;
            if self.open.len() >= DEEPEST {
                return Err((word, "no more than 16 within each other"));
            }
            let at = self.begin(kind);
            self.open.push((at, word));
            return Ok(());
        }
        if let Some((kind, value)) = text.split_once(':') {
            let kind = number(kind).ok_or((word, "a kind below 65536 before `:`"))?;
            let value = value_of(value).ok_or((
                word,
                "`\"text\"`, `u8=`, `u16=`, `u32=` or `u64=` with a number that fits, or bytes",
            ))?;
            let at = self.begin(kind);
            self.bytes.extend(value);
            return self.close(at).ok_or((word, "less than 64 KiB in it"));
        }
        let bytes = hexadecimal(text).ok_or((word, "bytes in hexadecimal or an attribute"))?;
        self.bytes.extend(bytes);
        Ok(())
    }

    /// Begins an attribute, and says where.
    fn begin(&mut self, kind: u16) -> usize {
        let at = self.bytes.len();
        self.bytes.extend([0, 0]);
        self.bytes.extend(kind.to_ne_bytes());
        at
    }

    /// Puts down how long an attribute has become, and fills up behind it. `None`: too long for one.
    fn close(&mut self, at: usize) -> Option<()> {
        let length = u16::try_from(self.bytes.len().checked_sub(at)?).ok()?;
        let place = self.bytes.get_mut(at..at + 2)?;
        place.copy_from_slice(&length.to_ne_bytes());
        self.bytes.resize(at + aligned(length.into()), 0);
        Some(())
    }
}

fn value_of(text: &str) -> Option<Vec<u8>> {
    if let Some(quoted) = text.strip_prefix('"') {
        let quoted = quoted.strip_suffix('"').filter(|t| !t.contains('"'))?;
        return Some([quoted.as_bytes(), &[0]].concat());
    }
    let Some((size, value)) = text.split_once('=') else {
        return hexadecimal(text);
    };
    Some(match size {
        "u8" => number::<u8>(value)?.to_ne_bytes().to_vec(),
        "u16" => number::<u16>(value)?.to_ne_bytes().to_vec(),
        "u32" => number::<u32>(value)?.to_ne_bytes().to_vec(),
        "u64" => number::<u64>(value)?.to_ne_bytes().to_vec(),
        _ => return None,
    })
}

fn hexadecimal(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    if !digits.iter().all(u8::is_ascii_hexdigit) || !digits.len().is_multiple_of(2) {
        return None;
    }
    let pairs = digits.chunks(2).map(|pair| {
        let pair = std::str::from_utf8(pair).ok()?;
        u8::from_str_radix(pair, 16).ok()
    });
    pairs.collect()
}
