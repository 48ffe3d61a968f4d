//! Text for people: lines that fit, columns that align, times in local time.

use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// How many columns a line may have.
pub(super) const WIDTH: usize = 100;

/// Writes to standard output. A reader that has gone away is no error.
pub(super) fn print(text: &str, code: ExitCode) -> anyhow::Result<ExitCode> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => Err(e.into()),
        _ => Ok(code),
    }
}

/// Writes an error message, each line under the program's name.
pub(crate) fn complain(text: &str) {
    let mut err = io::stderr().lock();
    for line in text.lines() {
        if writeln!(err, "nodewarden: {line}").is_err() {
            return;
        }
    }
}

/// A time in local time.
pub(super) fn time(at: i64) -> String {
    local(at, "%Y-%m-%d %H:%M:%S")
}

/// A time in local time, where the year goes without saying.
pub(super) fn short_time(at: i64) -> String {
    local(at, "%m-%d %H:%M")
}

fn local(at: i64, form: &str) -> String {
    let zoned = Timestamp::from_second(at).map(|t| t.to_zoned(TimeZone::system()));
    zoned.map_or_else(|_| format!("@{at}"), |z| z.strftime(form).to_string())
}

/// An error with its causes, each said once: many a message holds its cause already.
pub(crate) fn chain(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}

/// One line: control characters replaced, cut to the width.
pub(super) fn line(text: &str) -> String {
    let clean: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    let clean = clean.trim_end();
    if clean.chars().count() <= WIDTH {
        return clean.to_owned();
    }
    let cut: String = clean.chars().take(WIDTH - 3).collect();
    format!("{cut}...")
}

/// Lines of at most the width, broken between words where that is possible, each indented.
pub(super) fn wrapped(text: &str, indent: usize) -> String {
    let room = WIDTH - indent;
    let (mut out, mut current) = (String::new(), String::new());
    let mut flush = |current: &mut String| {
        out.push_str(&format!("{:indent$}{current}\n", ""));
        current.clear();
    };
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()) {
        let used = current.chars().count();
        if used > 0 && used + 1 + word.chars().count() > room {
            flush(&mut current);
        }
        if !current.is_empty() {
            current.push(' ');
        }
        for c in word.chars() {
            if current.chars().count() == room {
                flush(&mut current);
            }
            current.push(c);
        }
    }
    flush(&mut current);
    out
}

/// Rows with aligned columns; the last column takes what room is left.
pub(super) fn table(rows: &[Vec<String>], indent: usize) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let widths: Vec<usize> = (0..columns)
        .map(|c| {
            let cells = rows.iter().filter_map(|r| r.get(c));
            cells.map(|t| t.chars().count()).max().unwrap_or_default()
        })
        .collect();
    let mut out = String::new();
    for row in rows {
        let mut text = " ".repeat(indent);
        for (cell, width) in row.iter().zip(&widths) {
            text.push_str(&format!("{cell:width$}  "));
        }
        out.push_str(&line(&text));
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_wider_than_the_screen() {
        let long = "word ".repeat(60) + &"x".repeat(250);
        for text in [
            line(&long),
            wrapped(&long, 4),
            table(&[vec!["a".to_owned(), long.clone()]], 2),
        ] {
            assert!(text.lines().all(|l| l.chars().count() <= WIDTH), "{text}");
        }
        assert_eq!(wrapped(&long, 4).replace(['\n', ' '], ""), long.replace(' ', ""));
    }

    #[test]
    fn columns_align() {
        let row = |a: &str, b: &str| vec![a.to_owned(), b.to_owned()];
        assert_eq!(
            table(&[row("a", "b"), row("long", "c")], 1),
            " a     b\n long  c\n"
        );
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(line("a\x1b[31mb\n"), "a [31mb");
    }
}
