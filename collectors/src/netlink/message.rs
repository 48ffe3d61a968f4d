//! Messages: `struct nlmsghdr` and what follows it (include/uapi/linux/netlink.h).

use nix::errno::Errno;

use super::{Garbled, aligned, attribute};

const HEADER: usize = 16;

const REQUEST: u16 = 0x1;
const ACK: u16 = 0x4;
const DUMP: u16 = 0x300;

const ERROR: u16 = 2;
const DONE: u16 = 3;

/// A request under construction.
#[derive(Debug)]
pub(crate) struct Request {
    bytes: Vec<u8>,
}

impl Request {
    /// Queries one object. The kernel always acknowledges it, so that an empty answer is distinguished from no
    /// answer.
    pub(crate) fn one(kind: u16) -> Self {
        Self::new(kind, REQUEST | ACK)
    }

    /// Queries all objects of a kind.
    pub(crate) fn all(kind: u16) -> Self {
        Self::new(kind, REQUEST | DUMP)
    }

    fn new(kind: u16, flags: u16) -> Self {
        let mut bytes = vec![0; HEADER];
        for (at, half) in [(4, kind), (6, flags)] {
            if let Some(to) = bytes.get_mut(at..at + 2) {
                to.copy_from_slice(&half.to_ne_bytes());
            }
        }
        Self { bytes }
    }

    /// Adds a number.
    pub(crate) fn with(mut self, kind: u16, value: u32) -> Self {
        attribute::push_u32(&mut self.bytes, kind, value);
        self
    }

    /// Adds the fixed part that a protocol expects before the attributes.
    pub(crate) fn with_fixed(mut self, part: &[u8]) -> Self {
        self.bytes.extend(part);
        self
    }

    /// Creates the object; it must not exist (`NLM_F_EXCL`, `NLM_F_CREATE`).
    #[cfg(test)]
    pub(crate) fn creating(mut self) -> Self {
        let (_, flags) = self.kind_and_flags();
        self.bytes[6..8].copy_from_slice(&(flags | 0x600).to_ne_bytes());
        self
    }

    /// Its kind and its flags.
    pub(crate) fn kind_and_flags(&self) -> (u16, u16) {
        let half = |at: usize| {
            let half = self.bytes.get(at..).and_then(|b| b.first_chunk());
            half.map_or(0, |half| u16::from_ne_bytes(*half))
        };
        (half(4), half(6))
    }

    /// The content after the header.
    pub(crate) fn payload(&self) -> &[u8] {
        self.bytes.get(HEADER..).unwrap_or_default()
    }

    /// Adds a text with a final zero byte.
    pub(crate) fn with_text(mut self, kind: u16, value: &str) -> Self {
        attribute::push(&mut self.bytes, kind, &[value.as_bytes(), &[0]].concat());
        self
    }

    /// Adds an attribute that holds those of another request.
    pub(crate) fn with_nest(mut self, kind: u16, inner: &Self) -> Self {
        attribute::push(&mut self.bytes, kind | attribute::NESTED, inner.payload());
        self
    }

    /// The bytes, with that sequence number.
    pub(crate) fn numbered(&mut self, sequence: u32) -> &[u8] {
        let length = u32::try_from(self.bytes.len()).unwrap_or(u32::MAX);
        for (at, word) in [(0, length), (8, sequence)] {
            if let Some(to) = self.bytes.get_mut(at..at + 4) {
                to.copy_from_slice(&word.to_ne_bytes());
            }
        }
        &self.bytes
    }
}

/// One message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Message<'a> {
    /// Its type, as its protocol numbers it.
    pub(crate) kind: u16,
    /// The sequence number of the request that it answers.
    pub(crate) sequence: u32,
    pub(crate) payload: &'a [u8],
}

/// The meaning of a message for the exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Content; more may follow.
    Goes,
    /// The end of the answer.
    Over,
    /// The request was rejected.
    Refused(Errno),
}

impl Message<'_> {
    /// The meaning of this message.
    ///
    /// # Errors
    /// When it is an error without a number.
    pub(crate) fn turn(&self) -> Result<Turn, Garbled> {
        let code = || {
            let (code, _) = self
                .payload
                .split_first_chunk::<4>()
                .ok_or(Garbled("error without its number"))?;
            Ok::<_, Garbled>(i32::from_ne_bytes(*code))
        };
        match self.kind {
            ERROR => Ok(match code()? {
                0 => Turn::Over,
                code => Turn::Refused(Errno::from_raw(code.saturating_neg())),
            }),
            // An interrupted list reports its error at its end; an old kernel's end is empty.
            DONE if self.payload.len() >= 4 => Ok(match code()? {
                0.. => Turn::Over,
                code => Turn::Refused(Errno::from_raw(code.saturating_neg())),
            }),
            DONE => Ok(Turn::Over),
            _ => Ok(Turn::Goes),
        }
    }
}

/// The messages of one datagram.
#[derive(Clone, Debug)]
pub(crate) struct Messages<'a>(&'a [u8]);

impl<'a> Messages<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = Result<Message<'a>, Garbled>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let message = read(self.0);
        self.0 = match &message {
            Ok(message) => self
                .0
                .get(aligned(HEADER + message.payload.len())..)
                .unwrap_or_default(),
            Err(_) => &[],
        };
        Some(message)
    }
}

fn read(bytes: &[u8]) -> Result<Message<'_>, Garbled> {
    let short = Garbled("message shorter than its header");
    let (header, _) = bytes.split_first_chunk::<HEADER>().ok_or(short)?;
    let [a, b, c, d, k, l, _, _, s, t, u, v, ..] = *header;
    let length = usize::try_from(u32::from_ne_bytes([a, b, c, d])).map_err(|_| short)?;
    Ok(Message {
        kind: u16::from_ne_bytes([k, l]),
        sequence: u32::from_ne_bytes([s, t, u, v]),
        payload: bytes.get(HEADER..length).ok_or(Garbled("truncated message"))?,
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A message as the kernel writes it.
    pub(crate) fn written(kind: u16, sequence: u32, payload: &[u8]) -> Vec<u8> {
        let mut bytes = u32::try_from(HEADER + payload.len())
            .unwrap()
            .to_ne_bytes()
            .to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend([0, 0]);
        bytes.extend(sequence.to_ne_bytes());
        bytes.extend([0; 4]);
        bytes.extend(payload);
        bytes.resize(aligned(bytes.len()), 0);
        bytes
    }

    fn turn(kind: u16, payload: &[u8]) -> Result<Turn, Garbled> {
        let bytes = written(kind, 1, payload);
        Messages::new(&bytes).next().unwrap().unwrap().turn()
    }

    #[test]
    fn a_request_has_its_length_kind_number_and_attributes() {
        let mut request = Request::one(0x1411).with(1, 2).with(3, 4);
        let bytes = request.numbered(7).to_vec();
        let expected: [&[u8]; 8] = [
            &32_u32.to_ne_bytes(),
            &0x1411_u16.to_ne_bytes(),
            &5_u16.to_ne_bytes(),
            &7_u32.to_ne_bytes(),
            &[0; 4],
            &[8, 0, 1, 0, 2, 0, 0, 0],
            &[8, 0, 3, 0, 4, 0, 0, 0],
            &[],
        ];
        assert_eq!(bytes, expected.concat());
        assert_eq!(request.numbered(8)[8..12], 8_u32.to_ne_bytes());
    }

    #[test]
    fn the_kernel_says_no_with_a_number_and_yes_with_zero() {
        assert_eq!(
            turn(ERROR, &(-22_i32).to_ne_bytes()),
            Ok(Turn::Refused(Errno::EINVAL))
        );
        assert_eq!(turn(ERROR, &0_i32.to_ne_bytes()), Ok(Turn::Over));
        assert_eq!(turn(DONE, &0_i32.to_ne_bytes()), Ok(Turn::Over));
        assert_eq!(
            turn(DONE, &(-4_i32).to_ne_bytes()),
            Ok(Turn::Refused(Errno::EINTR))
        );
        assert_eq!(turn(DONE, &[]), Ok(Turn::Over));
        assert_eq!(turn(0x1401, &[]), Ok(Turn::Goes));
        assert!(turn(ERROR, &[1]).is_err());
        assert_eq!(
            turn(ERROR, &i32::MIN.to_ne_bytes()),
            Ok(Turn::Refused(Errno::UnknownErrno))
        );
    }

    #[test]
    fn what_is_cut_off_is_an_error_and_the_last_message() {
        let whole = [written(16, 1, b"abcd"), written(17, 1, b"efgh")].concat();
        for end in 1..whole.len() {
            let all: Vec<_> = Messages::new(&whole[..end]).collect();
            assert_eq!(
                all.iter().filter(|m| m.is_err()).count(),
                usize::from(end != 20),
                "{end}: {all:?}"
            );
        }
        assert_eq!(Messages::new(&whole).filter(|m| m.is_ok()).count(), 2);
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(all in prop::collection::vec((4..u16::MAX, any::<u32>(), prop::collection::vec(any::<u8>(), 0..40)), 0..10)) {
            let bytes: Vec<u8> = all.iter().flat_map(|(kind, sequence, payload)| written(*kind, *sequence, payload)).collect();
            let read: Result<Vec<_>, _> = Messages::new(&bytes).collect();
            let read: Vec<_> = read.unwrap().into_iter().map(|m| (m.kind, m.sequence, m.payload.to_vec())).collect();
            prop_assert_eq!(read, all);
        }

        #[test]
        fn any_bytes_give_messages_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            crate::netlink::check(&bytes);
        }
    }
}
