//! The records, in the kernel's format.

use std::collections::VecDeque;
use std::fmt::Write;

/// Size of the ring, above which it overwrites the oldest records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Nothing is ever overwritten.
    None,
    /// Number of records.
    Records(usize),
    /// Bytes of printed records.
    Bytes(usize),
}

/// One record, as a read returns it.
type Record = Box<[u8]>;

#[derive(Debug)]
pub(super) struct Ring {
    records: VecDeque<Record>,
    first: u64,
    bytes: usize,
    limit: Limit,
    cleared: u64,
}

impl Ring {
    pub(super) fn new() -> Self {
        Self {
            records: VecDeque::new(),
            first: 0,
            bytes: 0,
            limit: Limit::None,
            cleared: 0,
        }
    }

    /// Sequence number of the oldest record in the ring.
    pub(super) fn first(&self) -> u64 {
        self.first
    }

    /// Sequence number that the next record gets.
    pub(super) fn next(&self) -> u64 {
        self.first + self.records.len() as u64
    }

    /// First record after the last clear.
    pub(super) fn cleared(&self) -> u64 {
        self.cleared.max(self.first)
    }

    pub(super) fn clear(&mut self) {
        self.cleared = self.next();
    }

    pub(super) fn get(&self, seq: u64) -> Option<&[u8]> {
        let index = usize::try_from(seq.checked_sub(self.first)?).ok()?;
        self.records.get(index).map(|r| &**r)
    }

    pub(super) fn set_limit(&mut self, limit: Limit) {
        self.limit = limit;
        self.trim();
    }

    pub(super) fn push(&mut self, record: Record) -> u64 {
        let seq = self.next();
        self.bytes += record.len();
        self.records.push_back(record);
        self.trim();
        seq
    }

    fn trim(&mut self) {
        while self.over() {
            if let Some(old) = self.records.pop_front() {
                self.bytes -= old.len();
                self.first += 1;
            }
        }
    }

    fn over(&self) -> bool {
        match self.limit {
            Limit::None => false,
            Limit::Records(most) => self.records.len() > most,
            Limit::Bytes(most) => self.bytes > most && !self.records.is_empty(),
        }
    }
}

/// Prints a record: header, escaped text, newline, and one line per property.
pub(super) fn print(prio: u32, seq: u64, usec: u64, text: &str, properties: &[(&str, &str)]) -> Record {
    let mut out = String::with_capacity(text.len() + 32);
    write!(out, "{prio},{seq},{usec},-;").ok();
    escape(&mut out, text);
    out.push('\n');
    for (key, value) in properties {
        write!(out, " {key}=").ok();
        escape(&mut out, value);
        out.push('\n');
    }
    out.into_bytes().into_boxed_slice()
}

// Bytes, not characters: the kernel has no encoding.
fn escape(out: &mut String, text: &str) {
    for byte in text.bytes() {
        match byte {
            b' '..=b'~' if byte != b'\\' => out.push(char::from(byte)),
            _ => drop(write!(out, "\\x{byte:02x}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_like_the_kernel() {
        let record = print(
            14,
            7,
            12,
            "a\tb\\\u{e9}\n",
            &[("SUBSYSTEM", "pci"), ("DEVICE", "+pci:0")],
        );
        let text = String::from_utf8(record.into_vec()).unwrap();
        assert_eq!(
            text,
            "14,7,12,-;a\\x09b\\x5c\\xc3\\xa9\\x0a\n SUBSYSTEM=pci\n DEVICE=+pci:0\n"
        );
    }

    #[test]
    fn overwrites_the_oldest() {
        let mut ring = Ring::new();
        ring.set_limit(Limit::Records(2));
        for i in 0..5_u8 {
            assert_eq!(ring.push(Box::new([i])), u64::from(i));
        }
        assert_eq!(
            (ring.first(), ring.next(), ring.get(2), ring.get(3)),
            (3, 5, None, Some(&[3_u8][..]))
        );
        ring.set_limit(Limit::Bytes(1));
        assert_eq!((ring.first(), ring.cleared()), (4, 4));
        ring.clear();
        assert_eq!(ring.cleared(), 5);
    }
}
