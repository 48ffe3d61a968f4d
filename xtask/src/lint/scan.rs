//! Rust source with everything blanked that is not code, so that a word search finds no comments and no strings.

/// The code of a source file. Comments, strings and characters become spaces; lines stay where they are.
pub(super) fn code(source: &str) -> String {
    let bytes = source.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    while let Some(rest) = bytes.get(at..).filter(|r| !r.is_empty()) {
        let len = skipped(rest, at.checked_sub(1).and_then(|i| bytes.get(i)).copied());
        if len == 0 {
            at += 1;
            continue;
        }
        for byte in out.iter_mut().skip(at).take(len) {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
        at += len;
    }
    // Whole tokens were blanked, so what is left is still UTF-8.
    String::from_utf8_lossy(&out).into_owned()
}

/// How many bytes from here are a comment, a string or a character; 0: it is code.
fn skipped(rest: &[u8], before: Option<u8>) -> usize {
    if rest.starts_with(b"//") {
        return rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len());
    }
    if rest.starts_with(b"/*") {
        return block_comment(rest);
    }
    let in_word = before.is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_');
    if rest.starts_with(b"\"") {
        return quoted(rest, b'"');
    }
    if !in_word && (rest.starts_with(b"r\"") || rest.starts_with(b"r#")) {
        return raw(rest, 1);
    }
    if !in_word && (rest.starts_with(b"br\"") || rest.starts_with(b"br#") || rest.starts_with(b"cr\"")) {
        return raw(rest, 2);
    }
    if rest.starts_with(b"'") {
        // 'a' and '\n' are characters; 'a without an end is a lifetime.
        let escaped = rest.get(1) == Some(&b'\\');
        let wide = rest.get(1).map_or(0, |b| b.leading_ones().max(1) as usize);
        if escaped || rest.get(1 + wide) == Some(&b'\'') {
            return quoted(rest, b'\'');
        }
    }
    0
}

fn block_comment(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < rest.len() {
        if rest[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                break;
            }
        } else {
            at += 1;
        }
    }
    at
}

fn quoted(rest: &[u8], end: u8) -> usize {
    let mut at = 1;
    while let Some(byte) = rest.get(at) {
        at += if *byte == b'\\' { 2 } else { 1 };
        if *byte == end {
            break;
        }
    }
    at.min(rest.len())
}

fn raw(rest: &[u8], prefix: usize) -> usize {
    let hashes = rest[prefix..].iter().take_while(|b| **b == b'#').count();
    if rest.get(prefix + hashes) != Some(&b'"') {
        return 0; // r#ident
    }
    let mut end = vec![b'"'];
    end.resize(1 + hashes, b'#');
    let body = prefix + hashes + 1;
    let found = rest[body..].windows(end.len()).position(|w| w == end);
    found.map_or(rest.len(), |i| body + i + end.len())
}

/// The code with everything below `#[cfg(test)]` blanked too.
pub(super) fn without_tests(code: &str) -> String {
    let mut out = code.to_owned();
    let mut from = 0;
    while let Some(start) = out[from..].find("#[cfg(test)]").map(|i| from + i) {
        let end = item_end(&out, start);
        let blank: String = out[start..end]
            .chars()
            .map(|c| if c == '\n' { '\n' } else { ' ' })
            .collect();
        out.replace_range(start..end, &blank);
        from = start + blank.len();
    }
    out
}

/// Where the item ends that begins here: its closing brace, or its semicolon.
fn item_end(code: &str, start: usize) -> usize {
    let mut depth = 0_usize;
    for (i, c) in code[start..].char_indices() {
        match c {
            '{' => depth += 1,
            '}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return start + i + 1;
                }
            }
            ';' if depth == 0 => return start + i + 1,
            _ => {}
        }
    }
    code.len()
}

/// The lines (from 1) on which a word stands alone.
pub(super) fn lines_with_word<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let part_of_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let has = move |line: &str| {
        line.match_indices(word).any(|(i, _)| {
            let (before, after) = (
                line[..i].chars().next_back(),
                line[i + word.len()..].chars().next(),
            );
            !before.is_some_and(part_of_word) && !after.is_some_and(part_of_word)
        })
    };
    code.lines()
        .enumerate()
        .filter(move |(_, l)| has(l))
        .map(|(i, _)| i + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(source: &str, word: &str) -> Vec<usize> {
        lines_with_word(&code(source), word).collect()
    }

    #[test]
    fn comments_strings_and_characters_are_not_code() {
        let source = concat!(
            "// a\n/* a /* a */ a */ b\n\"a \\\" a\" b\nr#\"a \" a\"# b\n",
            "'a' b\n'\\'' a\nfn f<'a>() {}\nbr\"a\" r#a\n'ä' a\n\"a\na\"\n"
        );
        assert_eq!(lines(source, "a"), [6, 7, 8, 9]);
        assert_eq!(lines(source, "b"), [2, 3, 4, 5]);
    }

    #[test]
    fn a_word_inside_another_is_not_found() {
        assert_eq!(lines("unsafe_code\nis_unsafe\nunsafe {}\n", "unsafe"), [3]);
    }

    #[test]
    fn what_only_tests_compile_is_blanked_and_lines_stay() {
        let source =
            "fn a() {}\n#[cfg(test)]\nmod tests {\n fn x() {}\n}\nfn x() {}\n#[cfg(test)]\nmod t;\nx\n";
        let left = without_tests(&code(source));
        assert_eq!(lines_with_word(&left, "x").collect::<Vec<_>>(), [6, 9]);
    }
}
