//! Slurm's lists of names: `n[01-03,7],x1`, of nodes and of device files.

/// More names than these are no list of one site's nodes.
const MOST: usize = 65_536;
/// More digits than these are no number of a node or device.
const DIGITS: usize = 9;

/// The names in order (src/common/hostlist.c). `None`: of a form in which releases of Slurm differ, or that is none: two pairs of
/// brackets in one name, something behind a bracket, a range that is empty or has no numbers.
pub fn expand(text: &str) -> Option<Vec<String>> {
    let mut names = Vec::new();
    for token in tokens(text)? {
        match token.split_once('[') {
            None => names.push(token.to_owned()),
            Some((prefix, rest)) => {
                let ranges = rest.strip_suffix(']')?;
                if ranges.contains(['[', ']']) {
                    return None;
                }
                for range in ranges.split(',') {
                    push(prefix, range, &mut names)?;
                }
            }
        }
        if names.len() > MOST {
            return None;
        }
    }
    Some(names)
}

/// What stands between commas, tabs and spaces that are in no bracket.
fn tokens(text: &str) -> Option<Vec<&str>> {
    let mut depth = 0_u32;
    let mut is_odd = false;
    let mut between = |c: char| {
        match c {
            '[' => depth += 1,
            ']' if depth == 0 => is_odd = true,
            ']' => depth -= 1,
            _ => {}
        }
        depth == 0 && matches!(c, ',' | '\t' | ' ')
    };
    let tokens = text.split(&mut between).filter(|t| !t.is_empty()).collect();
    (depth == 0 && !is_odd).then_some(tokens)
}

/// `7`, or `01-03`, whose numbers have as many digits as the first.
fn push(prefix: &str, range: &str, names: &mut Vec<String>) -> Option<()> {
    let (low, high) = range.split_once('-').unwrap_or((range, range));
    let (first, last) = (number(low)?, number(high)?);
    if first > last || (last - first) as usize >= MOST {
        return None;
    }
    let width = low.len();
    names.extend((first..=last).map(|n| format!("{prefix}{n:0width$}")));
    Some(())
}

fn number(text: &str) -> Option<u32> {
    let plain = !text.is_empty() && text.len() <= DIGITS && text.bytes().all(|b| b.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn expanded(text: &str) -> Option<String> {
        expand(text).map(|names| names.join(" "))
    }

    #[test]
    fn names_come_in_the_order_in_which_they_stand() {
        for (text, names) in [
            ("", ""),
            ("n1", "n1"),
            (
                "/dev/nvidia[0-3]",
                "/dev/nvidia0 /dev/nvidia1 /dev/nvidia2 /dev/nvidia3",
            ),
            ("d2,d3,d0", "d2 d3 d0"),
            ("d[3,0-1],d2", "d3 d0 d1 d2"),
            ("n[08-11]", "n08 n09 n10 n11"),
            ("a[1-2], b1\tb2", "a1 a2 b1 b2"),
            // A hyphen outside of brackets is part of a name.
            ("gpu-1,rack1-2", "gpu-1 rack1-2"),
        ] {
            assert_eq!(expanded(text).as_deref(), Some(names), "{text}");
        }
    }

    #[test]
    fn what_releases_read_differently_is_no_list() {
        for text in [
            "n[0-1]m[0-1]",
            "n[0-1]-ib",
            "n[3-1]",
            "n[]",
            "n[1",
            "n1]",
            "n[a-b]",
            "n[-1]",
            "n[[1]]",
            "n[0-99999]",
            "n[0-1x]",
            "n[9999999999]",
        ] {
            assert_eq!(expand(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_range_is_each_of_its_numbers(prefix in "[a-z/.-]{1,8}", first in 0_u32..2000, more in 0_u32..200) {
            let list = format!("{prefix}[{first}-{}]", first + more);
            let names: Vec<String> = (first..=first + more).map(|n| format!("{prefix}{n}")).collect();
            prop_assert_eq!(expand(&list), Some(names.clone()));
            prop_assert_eq!(expand(&names.join(",")), Some(names));
        }

        #[test]
        fn no_text_upsets_it(text in "[n0-9,\\[\\] -]{0,40}") {
            let _names = expand(&text);
        }
    }
}
