//! Short files of `name: number` lines (max_cached_mb, unstable_stats, statahead_stats), and files of one number.

use std::collections::BTreeMap;

/// Numbers by name; spaces in a name are underscores. A line that is none is left out.
pub(super) fn parse(text: &str) -> BTreeMap<String, u64> {
    let field = |line: &str| {
        let (name, value) = line.split_once(':')?;
        let name = name.trim();
        let is_plain = |b: u8| b.is_ascii_alphanumeric() || b == b' ' || b == b'_';
        let is_name = (1..=40).contains(&name.len()) && name.bytes().all(is_plain);
        let value = value.split_whitespace().next()?.parse().ok()?;
        is_name.then(|| (name.replace(' ', "_"), value))
    };
    text.lines().filter_map(field).collect()
}

/// A file that holds one number. `None`: it holds something else.
pub(super) fn number(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

/// MiB as bytes. `None`: more than 64 bits hold.
pub(super) const fn mib(count: u64) -> Option<u64> {
    count.checked_mul(1 << 20)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_with_spaces_and_unknown_lines_are_no_obstacle() {
        let fields = parse("statahead total: 12\nstatahead wrong: 1\n- odd\nagl total:7\nused_mb: -1\n");
        let expected = [("agl_total", 7), ("statahead_total", 12), ("statahead_wrong", 1)];
        assert_eq!(fields, expected.map(|(n, v)| (n.to_owned(), v)).into());
        assert_eq!(
            [number("7\n"), number(""), number("-1"), number("7 8")],
            [Some(7), None, None, None]
        );
        assert_eq!([mib(2), mib(u64::MAX)], [Some(2 << 20), None]);
    }

    proptest! {
        #[test]
        fn every_field_survives_printing(name in "[a-z_]{1,20}", value: u64, pad in 0_usize..4) {
            let text = format!("{}{name}: {value}\n", " ".repeat(pad));
            let fields = parse(&text);
            prop_assert_eq!(fields.get(&name), Some(&value));
        }
    }
}
