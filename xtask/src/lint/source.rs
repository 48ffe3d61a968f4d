//! Rules about the lines of Rust files: how many there are, and that every test is run.

use std::path::Path;

use anyhow::{Context, Result};

use super::Report;
use crate::cmd;

const MOST_LINES: usize = 800;
const MANY_LINES: usize = 400;

pub(super) fn check() -> Result<Report> {
    let mut report = Report::default();
    let mut long = Vec::new();
    for file in cmd::files()? {
        if file.extension().is_none_or(|e| e != "rs") {
            continue;
        }
        let text =
            std::fs::read_to_string(cmd::root().join(&file)).with_context(|| file.display().to_string())?;
        let lines = text.lines().count();
        if lines > MANY_LINES {
            long.push((lines, file.clone()));
        }
        report.problems.extend(problems(&file, &text));
    }
    long.sort();
    report.remarks.extend(
        long.iter()
            .rev()
            .map(|(n, f)| format!("{}: {n} lines", f.display())),
    );
    Ok(report)
}

fn problems(file: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut say = |line: usize, what: &str| found.push(format!("{}:{line}: {what}", file.display()));
    let mut in_example = false;
    for (i, line) in text.lines().map(str::trim_start).enumerate() {
        if i == MOST_LINES {
            say(i + 1, &format!("more than {MOST_LINES} lines"));
        }
        if line.starts_with("#[ignore") {
            say(i + 1, "an ignored test is never run");
        }
        let comment = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
        if let Some(language) = comment.and_then(|c| c.trim_start().strip_prefix("```")) {
            if !in_example && language.trim() != "text" {
                say(i + 1, "a doc test is never run: write a test, or ```text");
            }
            in_example = !in_example;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_that_is_never_run_and_a_long_file_are_found() {
        let text = "/// ```text\n/// x\n/// ```\n//! ```\n//! x\n//! ```\n    #[ignore]\n";
        let lines = |text: &str| -> Vec<String> {
            let found = problems(Path::new("a.rs"), text).into_iter();
            found
                .filter_map(|p| Some(p.split(':').nth(1)?.to_owned()))
                .collect()
        };
        assert_eq!(lines(text), ["4", "7"]);
        assert_eq!(lines(&"\n".repeat(MOST_LINES)), [""; 0]);
        assert_eq!(lines(&"\n".repeat(MOST_LINES + 9)), ["801"]);
    }
}
