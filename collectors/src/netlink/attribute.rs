//! Attributes: length, kind, bytes (`struct nlattr`, include/uapi/linux/netlink.h).

use super::{Garbled, aligned};

/// Length and kind.
const HEADER: usize = 4;
/// Without the flags for nested and for big-endian ones.
const KIND: u16 = 0x3fff;
/// `NLA_F_NESTED`: the attribute holds others.
pub(crate) const NESTED: u16 = 0x8000;

/// The attributes of a message, or of an attribute that holds others.
#[derive(Clone, Debug)]
pub(crate) struct Attributes<'a>(&'a [u8]);

impl<'a> Attributes<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = Result<(u16, &'a [u8]), Garbled>;

    fn next(&mut self) -> Option<Self::Item> {
        // Fewer bytes than a header are filling.
        let (header, _) = self.0.split_first_chunk::<HEADER>()?;
        let [a, b, c, d] = *header;
        let length = usize::from(u16::from_ne_bytes([a, b]));
        let kind = u16::from_ne_bytes([c, d]) & KIND;
        let value = self.0.get(HEADER..length);
        self.0 = match value {
            Some(_) => self.0.get(aligned(length)..).unwrap_or_default(),
            // Nothing behind it can be trusted.
            None => &[],
        };
        Some(
            value
                .map(|v| (kind, v))
                .ok_or(Garbled("an attribute beyond its message")),
        )
    }
}

/// Appends an attribute with a number.
pub(crate) fn push_u32(to: &mut Vec<u8>, kind: u16, value: u32) {
    to.extend(8_u16.to_ne_bytes());
    to.extend(kind.to_ne_bytes());
    to.extend(value.to_ne_bytes());
}

/// Appends an attribute. Nothing that is asked here comes near the longest that there can be.
pub(crate) fn push(to: &mut Vec<u8>, kind: u16, value: &[u8]) {
    let length = u16::try_from(HEADER + value.len()).unwrap_or(u16::MAX);
    to.extend(length.to_ne_bytes());
    to.extend(kind.to_ne_bytes());
    to.extend(value);
    to.resize(aligned(to.len()), 0);
}

/// A number of 16 bits.
pub(crate) fn u16(bytes: &[u8]) -> Result<u16, Garbled> {
    let bytes = bytes
        .try_into()
        .map_err(|_| Garbled("a number of 16 bits of another length"))?;
    Ok(u16::from_ne_bytes(bytes))
}

/// A number of 8 bits.
pub(crate) fn u8(bytes: &[u8]) -> Result<u8, Garbled> {
    match bytes {
        [byte] => Ok(*byte),
        _ => Err(Garbled("a number of 8 bits of another length")),
    }
}

/// A number of 32 bits.
pub(crate) fn u32(bytes: &[u8]) -> Result<u32, Garbled> {
    let bytes = bytes
        .try_into()
        .map_err(|_| Garbled("a number of 32 bits of another length"))?;
    Ok(u32::from_ne_bytes(bytes))
}

/// A number of 64 bits.
pub(crate) fn u64(bytes: &[u8]) -> Result<u64, Garbled> {
    let bytes = bytes
        .try_into()
        .map_err(|_| Garbled("a number of 64 bits of another length"))?;
    Ok(u64::from_ne_bytes(bytes))
}

/// A text, to its first zero.
pub(crate) fn text(bytes: &[u8]) -> Result<&str, Garbled> {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    let (text, _) = bytes.split_at(end);
    let text = std::str::from_utf8(text).map_err(|_| Garbled("a text that is none"))?;
    if text.chars().any(char::is_control) {
        return Err(Garbled("a text with control characters"));
    }
    Ok(text)
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// An attribute as the kernel writes it.
    pub(crate) fn written(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut bytes = u16::try_from(HEADER + value.len())
            .unwrap()
            .to_ne_bytes()
            .to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(value);
        bytes.resize(aligned(bytes.len()), 0);
        bytes
    }

    #[test]
    fn an_attribute_that_ends_beyond_its_message_is_an_error_and_the_last_one() {
        let mut bytes = written(1, b"abc");
        bytes.extend([9, 0, 2, 0, 1]);
        let all: Vec<_> = Attributes::new(&bytes).collect();
        assert_eq!(all.first(), Some(&Ok((1, &b"abc"[..]))));
        assert!(all[1].is_err() && all.len() == 2, "{all:?}");
        for short in [[0, 0, 1, 0], [3, 0, 1, 0]] {
            assert!(Attributes::new(&short).all(|a| a.is_err()), "{short:?}");
        }
    }

    #[test]
    fn a_text_ends_at_its_first_zero() {
        assert_eq!(text(b"mlx5_0\0\0"), Ok("mlx5_0"));
        assert_eq!(text(b""), Ok(""));
        assert!(text(b"a\nb\0").is_err() && text(b"\xff\0").is_err());
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(all in prop::collection::vec((0..KIND, prop::collection::vec(any::<u8>(), 0..40)), 0..20)) {
            let bytes: Vec<u8> = all.iter().flat_map(|(kind, value)| written(*kind, value)).collect();
            let read: Result<Vec<_>, _> = Attributes::new(&bytes).collect();
            let read: Vec<(u16, Vec<u8>)> = read.unwrap().into_iter().map(|(k, v)| (k, v.to_vec())).collect();
            prop_assert_eq!(read, all);
        }

        #[test]
        fn any_bytes_come_to_an_end(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(Attributes::new(&bytes).count() <= bytes.len() / HEADER);
        }
    }
}
