//! One number in the environment of a process. Nothing else of it leaves this file, since environments hold secrets.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The shards of a GPU that a task of Slurm has on its node; Slurm reports it to no prolog.
const NAME: &[u8] = b"SLURM_SHARDS_ON_NODE=";
/// Limit of an environment, in bytes.
const LONGEST: u64 = 4 << 20;

/// The number of shards in this `environ`, in decimal. `Ok(None)`: it has none.
///
/// Takes a lock of the process, which may hold it for ever.
///
/// # Errors
/// Of open(2) and read(2).
pub(crate) fn shards(environ: &Path) -> io::Result<Option<u32>> {
    let mut bytes = Vec::new();
    File::open(environ)?.take(LONGEST).read_to_end(&mut bytes)?;
    Ok(number(&bytes))
}

fn number(environ: &[u8]) -> Option<u32> {
    let value = environ.split(|b| *b == 0).find_map(|v| v.strip_prefix(NAME))?;
    let is_number = (1..=9).contains(&value.len()) && value.iter().all(u8::is_ascii_digit);
    let number = is_number
        .then(|| std::str::from_utf8(value).ok()?.parse().ok())
        .flatten();
    number.filter(|n| *n > 0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_a_whole_variable_with_a_number_counts() {
        assert_eq!(
            number(b"A=1\0SLURM_SHARDS_ON_NODE=2\0B=SLURM_SHARDS_ON_NODE=3\0"),
            Some(2)
        );
        for none in [
            &b""[..],
            b"XSLURM_SHARDS_ON_NODE=2\0",
            b"A=SLURM_SHARDS_ON_NODE=2\0",
            b"SLURM_SHARDS_ON_NODE=\0",
            b"SLURM_SHARDS_ON_NODE=0\0",
            b"SLURM_SHARDS_ON_NODE=-2\0",
            b"SLURM_SHARDS_ON_NODE=+2\0",
            b"SLURM_SHARDS_ON_NODE=1234567890\0",
            b"SLURM_SHARDS_ON_NODE=2 \0",
        ] {
            assert_eq!(number(none), None, "{:?}", String::from_utf8_lossy(none));
        }
    }

    proptest! {
        #[test]
        fn no_bytes_upset_it(bytes in prop::collection::vec(any::<u8>(), 0..64), n in 1..1_000_000_u32) {
            let _number = number(&bytes);
            let text = format!("A=b\0SLURM_SHARDS_ON_NODE={n}\0");
            prop_assert_eq!(number(text.as_bytes()), Some(n));
        }
    }
}
