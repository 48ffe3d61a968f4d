//! The lines of a configuration file of Slurm's: comments, lines that go on, keys and values (src/common/parse_config.c).

use crate::Error;

/// A line, and those that it goes on with.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct GresLine {
    /// `FILE:NUMBER` of its first.
    pub(super) place: String,
    pub(super) text: String,
}

impl GresLine {
    /// An error about this line.
    pub(super) fn error(&self, found: &str, expected: &'static str) -> Error {
        Error::parse(self.place.clone(), found, expected)
    }

    /// The file that it includes. Slurm knows the word at the beginning of a line alone.
    pub(super) fn included(&self) -> Option<&str> {
        let word = self.text.get(..7)?;
        let rest = self.text.get(7..)?;
        let is_include = word.eq_ignore_ascii_case("include") && rest.starts_with([' ', '\t']);
        is_include.then(|| rest.trim())
    }

    /// Keys, in small letters, and values, in order.
    ///
    /// # Errors
    /// Anything else than `key=value`, and a key that stands twice.
    pub(super) fn pairs(&self) -> Result<Vec<(String, &str)>, Error> {
        const EXPECTED: &str = "key=value, each key once";
        let mut pairs: Vec<(String, &str)> = Vec::new();
        let mut rest = self.text.trim();
        while !rest.is_empty() {
            let pair = pair(rest).filter(|(key, ..)| pairs.iter().all(|(known, _)| known != key));
            let (key, value, after) = pair.ok_or_else(|| self.error(rest, EXPECTED))?;
            pairs.push((key, value));
            rest = after.trim_start();
        }
        Ok(pairs)
    }
}

/// A key, its value, and what follows.
fn pair(text: &str) -> Option<(String, &str, &str)> {
    let (key, rest) = text.split_once('=')?;
    let key = key.trim_end();
    let is_key = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    if key.is_empty() || !key.chars().all(is_key) {
        return None;
    }
    let rest = rest.trim_start();
    let (value, after) = match rest.strip_prefix('"') {
        Some(quoted) => quoted.split_once('"')?,
        None => rest.split_at(rest.find(char::is_whitespace).unwrap_or(rest.len())),
    };
    let is_whole = after.is_empty() || after.starts_with(char::is_whitespace);
    // A quote inside of a word, or an escape, is nothing that a device or node is called.
    let is_plain = !value.is_empty() && !value.contains(['"', '\\']);
    (is_whole && is_plain).then(|| (key.to_ascii_lowercase(), value, after))
}

/// The lines of a file that say something.
pub(super) fn lines(file: &str, text: &str) -> Vec<GresLine> {
    let mut lines = Vec::new();
    let mut open: Option<GresLine> = None;
    for (line, number) in text.lines().zip(1..) {
        let (part, goes_on) = continued(without_comment(line));
        let mut whole = open.take().unwrap_or_else(|| GresLine {
            place: format!("{file}:{number}"),
            text: String::new(),
        });
        whole.text.push_str(part);
        if goes_on {
            open = Some(whole);
        } else {
            lines.push(whole);
        }
    }
    lines.extend(open);
    lines.retain(|line| !line.text.trim().is_empty());
    lines
}

/// What stands before a `#` that no odd number of backslashes is in front of.
fn without_comment(line: &str) -> &str {
    let mut escapes = 0;
    for (at, c) in line.char_indices() {
        match c {
            '#' if escapes % 2 == 0 => return line.get(..at).unwrap_or_default(),
            '\\' => escapes += 1,
            _ => escapes = 0,
        }
    }
    line
}

/// Without the backslash at its end, and whether there was one: of an odd number, the last.
fn continued(line: &str) -> (&str, bool) {
    let end = line.trim_end();
    let escapes = end.len() - end.trim_end_matches('\\').len();
    match end.strip_suffix('\\') {
        Some(rest) if escapes % 2 == 1 => (rest, true),
        _ => (line, false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<(String, String)> {
        let line = |line: GresLine| (line.place, line.text.trim().to_owned());
        lines("gres.conf", text).into_iter().map(line).collect()
    }

    #[test]
    fn comments_are_left_out_and_a_line_may_go_on() {
        let text = "# all\n\nName=gpu \\\n  File=/dev/nvidia0 # one \\\nName=nic\\  \n Count=1\n   \n";
        assert_eq!(
            texts(text),
            [
                (
                    "gres.conf:3".to_owned(),
                    "Name=gpu   File=/dev/nvidia0".to_owned()
                ),
                ("gres.conf:5".to_owned(), "Name=nic Count=1".to_owned()),
            ]
        );
    }

    #[test]
    fn keys_have_any_letters_and_values_may_be_quoted() {
        let line = |text: &str| GresLine {
            place: "gres.conf:1".to_owned(),
            text: text.to_owned(),
        };
        let of = line(" NODENAME=n[1-2]  name = gpu File=\"/dev/a,/dev/b\"");
        let pairs = of.pairs().unwrap();
        assert_eq!(
            pairs,
            [
                ("nodename".to_owned(), "n[1-2]"),
                ("name".to_owned(), "gpu"),
                ("file".to_owned(), "/dev/a,/dev/b")
            ]
        );
        for odd in [
            "Name",
            "=gpu",
            "Name=",
            "Na-me=gpu",
            "Name=gpu gpu",
            "Name=\"gpu",
            "Name=a\"b",
            "Name=a name=b",
            "File=a\\b",
        ] {
            let error = line(odd).pairs().unwrap_err().to_string();
            assert!(error.starts_with("gres.conf:1: found "), "{odd}: {error}");
        }
    }

    #[test]
    fn an_include_begins_its_line() {
        let included = |text: &str| {
            let line = GresLine {
                place: String::new(),
                text: text.to_owned(),
            };
            line.included().map(str::to_owned)
        };
        assert_eq!(included("INCLUDE \tgpus.conf ").as_deref(), Some("gpus.conf"));
        assert_eq!(included(" include gpus.conf"), None);
        assert_eq!(included("include=x"), None);
    }
}
