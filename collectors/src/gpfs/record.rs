//! Replies of mmfsd to requests of mmpmon: lines of keys and values (`_k_ v`), by name, in any order.

use std::collections::BTreeMap;

/// Maximum number of keys in a line.
const MOST_KEYS: usize = 64;

/// One line of a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record<'a> {
    /// The request that it answers: `fis`, `gfis`, `fs_io_s`, `ver`.
    pub(super) kind: &'a str,
    fields: BTreeMap<&'a str, &'a str>,
}

/// A line that is not understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BadLine<'a> {
    /// The line.
    pub(super) line: &'a str,
    /// The expected content.
    pub(super) expected: &'static str,
}

impl<'a> Record<'a> {
    /// The value of a key.
    pub(super) fn text(&self, key: &str) -> Option<&'a str> {
        self.fields.get(key).copied()
    }

    /// A whole number. `None`: absent, or not a number.
    pub(super) fn number(&self, key: &str) -> Option<u64> {
        self.text(key)?.parse().ok()
    }

    /// The result of the request: 0 success.
    pub(super) fn code(&self) -> Option<u64> {
        self.number("_rc_")
    }
}

/// The kind of a line: `_mmpmon::fis_` from the socket, `_fs_io_s_` from the program.
fn kind(word: &str) -> Option<&str> {
    let word = word.strip_prefix('_')?.strip_suffix('_')?;
    let word = word.strip_prefix("mmpmon::").unwrap_or(word);
    (!word.is_empty()).then_some(word)
}

fn is_key(word: &str) -> bool {
    word.len() > 2 && word.starts_with('_') && word.ends_with('_')
}

/// One line. A value may look like a key: a filesystem may be named `_d_`.
fn record(line: &str) -> Result<Record<'_>, BadLine<'_>> {
    let bad = |expected| BadLine { line, expected };
    let mut words = line.split_whitespace();
    let kind = words.next().and_then(kind).ok_or(bad("_mmpmon::REQUEST_"))?;
    let mut fields = BTreeMap::new();
    while let Some(key) = words.next() {
        if !is_key(key) || fields.len() >= MOST_KEYS {
            return Err(bad("pairs of _key_ and value"));
        }
        let value = words.next().ok_or(bad("a value behind each _key_"))?;
        fields.entry(key).or_insert(value);
    }
    Ok(Record { kind, fields })
}

/// The lines of a reply, without those that frame it. A line that is not understood hides no other one.
pub(super) fn records(reply: &str) -> impl Iterator<Item = Result<Record<'_>, BadLine<'_>>> {
    reply
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with("_response_"))
        .map(record)
}

/// Any bytes: no panic, and what is understood is consistent.
pub(crate) fn check(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    for record in records(&text).flatten() {
        assert!(!record.kind.is_empty());
        assert!(record.fields.len() <= MOST_KEYS);
        assert!(record.fields.keys().all(|key| is_key(key)));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(reply: &str) -> Vec<Result<Record<'_>, BadLine<'_>>> {
        records(reply).collect()
    }

    #[test]
    fn a_line_of_the_socket_and_one_of_the_program_are_the_same() {
        let socket =
            "_response_ begin mmpmon fis\n_mmpmon::fis_ _rc_ 0 _fs_ scratch _br_ 7\n_response_ end\n";
        let program = "_fs_io_s_ _rc_ 0 _fs_ scratch _br_ 7\n";
        for (reply, kind) in [(socket, "fis"), (program, "fs_io_s")] {
            let found = all(reply);
            let [Ok(record)] = found.as_slice() else {
                panic!("{found:?}")
            };
            assert_eq!((record.kind, record.code()), (kind, Some(0)));
            assert_eq!(
                (record.text("_fs_"), record.number("_br_")),
                (Some("scratch"), Some(7))
            );
        }
    }

    #[test]
    fn a_value_may_begin_with_an_underscore() {
        let found = all("_fs_io_s_ _cl_ _c_ _fs_ _d_ _d_ 4 _br_ 1");
        let [Ok(record)] = found.as_slice() else {
            panic!("{found:?}")
        };
        assert_eq!(record.text("_cl_"), Some("_c_"));
        assert_eq!(record.text("_fs_"), Some("_d_"));
        assert_eq!(record.number("_d_"), Some(4));
    }

    #[test]
    fn a_line_that_was_cut_hides_no_other_line() {
        let found = all("_fs_io_s_ _fs_ a _br_ 1\n_fs_io_s_ _fs_ b _br_\n_fs_io_s_ _fs_ c _br_ 3\n");
        assert_eq!(found.len(), 3);
        assert_eq!(found.iter().filter(|r| r.is_ok()).count(), 2);
        assert_eq!(
            found[1].as_ref().unwrap_err().expected,
            "a value behind each _key_"
        );
    }

    #[test]
    fn a_key_that_is_not_known_is_skipped() {
        let found = all("_mmpmon::gfis_ _fs_ a _new_ 1.5e3 _br_ 9");
        assert_eq!(found[0].as_ref().unwrap().number("_br_"), Some(9));
        assert_eq!(found[0].as_ref().unwrap().number("_new_"), None);
    }

    proptest! {
        #[test]
        fn any_text_is_taken(data in proptest::collection::vec(any::<u8>(), 0..400)) {
            check(&data);
        }

        #[test]
        fn numbers_come_back(br in any::<u64>(), oc in any::<u32>()) {
            let line = format!("_fs_io_s_ _n_ 10.0.0.1 _nn_ n1 _rc_ 0 _cl_ c _fs_ f _br_ {br} _oc_ {oc}");
            let found = all(&line);
            let record = found[0].as_ref().unwrap();
            prop_assert_eq!(record.number("_br_"), Some(br));
            prop_assert_eq!(record.number("_oc_"), Some(u64::from(oc)));
        }
    }
}
