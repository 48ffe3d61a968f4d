//! "Did you mean": the known word that a mistyped one is closest to.

/// The nearest of `known`, where it is near enough to be meant.
pub(super) fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let allowed = (word.chars().count() / 3).max(1);
    known
        .map(|candidate| (distance(word, candidate), candidate))
        .filter(|(far, _)| *far <= allowed)
        .min()
        .map(|(_, candidate)| candidate)
}

/// Edits between two words: a character more, less, other, or two swapped.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let replace = last.get(j).copied().unwrap_or(usize::MAX) + usize::from(x != y);
            let delete = last.get(j + 1).copied().unwrap_or(usize::MAX) + 1;
            let insert = row.get(j).copied().unwrap_or(usize::MAX) + 1;
            let mut best = replace.min(delete).min(insert);
            let swapped = i > 0 && j > 0 && a.get(i - 1) == Some(y) && b.get(j - 1) == Some(x);
            if swapped {
                best = best.min(before_last.get(j - 1).copied().unwrap_or(usize::MAX) + 1);
            }
            row.push(best);
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        assert_eq!(distance("mode", "mode"), 0);
        assert_eq!(distance("mdoe", "mode"), 1);
        assert_eq!(distance("mods", "mode"), 1);
        assert_eq!(distance("", "mode"), 4);
    }

    #[test]
    fn only_a_near_word_is_suggested() {
        let known = ["mode", "settle", "operators"];
        assert_eq!(nearest("operator", known.into_iter()), Some("operators"));
        assert_eq!(nearest("mdoe", known.into_iter()), Some("mode"));
        assert_eq!(nearest("interval", known.into_iter()), None);
    }
}
