//! A gzip compressor that is reused: to create one costs more than to compress most pages.

use flate2::{Compress, Compression, FlushCompress, Status};

/// Shorter answers are not compressed, in bytes.
pub const WORTH: usize = 1024;

/// Bytes that are compressed by themselves. A longer text would move the compressor's window, which rewrites 192 KiB of its tables.
const PART: usize = 60 << 10;

/// Deflate without flags, time or system (RFC 1952, 2.3).
const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];

/// Compresses at level 1: 80 % of the savings of level 6 in one seventh of its time.
#[derive(Debug)]
pub struct Gzip {
    compress: Compress,
    /// The size of the last result: the next one is similar.
    size: usize,
}

impl Default for Gzip {
    fn default() -> Self {
        Self {
            compress: Compress::new(Compression::fast(), false),
            size: 4096,
        }
    }
}

impl Gzip {
    /// `body` as one gzip member, or `None` where the compressor fails.
    pub fn gzip(&mut self, body: &[u8]) -> Option<Vec<u8>> {
        let mut out = Vec::with_capacity(self.size + self.size / 4);
        out.extend_from_slice(&HEADER);
        let (parts, last) = body.split_at(body.len().saturating_sub(1) / PART * PART);
        for part in parts.chunks(PART) {
            self.part(part, FlushCompress::Sync, &mut out)?;
        }
        self.part(last, FlushCompress::Finish, &mut out)?;
        out.extend_from_slice(&crc32fast::hash(body).to_le_bytes());
        // The format keeps the size modulo 2^32.
        #[expect(clippy::cast_possible_truncation, reason = "the format keeps the lower half")]
        out.extend_from_slice(&(body.len() as u32).to_le_bytes());
        self.size = out.len();
        Some(out)
    }

    fn part(&mut self, part: &[u8], flush: FlushCompress, out: &mut Vec<u8>) -> Option<()> {
        self.compress.reset();
        loop {
            let done = usize::try_from(self.compress.total_in()).ok()?;
            let rest = part.get(done..)?;
            let status = self.compress.compress_vec(rest, out, flush).ok()?;
            // With room left, all that was taken has been written.
            let is_whole = rest.is_empty() || self.compress.total_in() == part.len() as u64;
            match status {
                Status::StreamEnd => return Some(()),
                Status::Ok | Status::BufError
                    if flush != FlushCompress::Finish && is_whole && out.len() < out.capacity() =>
                {
                    return Some(());
                }
                Status::Ok | Status::BufError => out.reserve(out.capacity() / 2 + 64),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;

    use super::*;

    #[test]
    fn every_answer_is_a_member_of_its_own_that_unpacks_to_the_same() {
        let mut gzip = Gzip::default();
        for size in [0, 1, 100, 15_359, 15_360, 15_361, 60_000, 3_000_000, 10] {
            let body: Vec<u8> = (0..size)
                .flat_map(|n: u32| n.wrapping_mul(2_654_435_761).to_le_bytes())
                .collect();
            let packed = gzip.gzip(&body).unwrap();
            let mut back = Vec::new();
            GzDecoder::new(packed.as_slice()).read_to_end(&mut back).unwrap();
            assert!(back == body, "{size}");
        }
    }
}
