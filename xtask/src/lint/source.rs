//! Rules about Rust source: where unsafe code and unbounded I/O may stand, what is never committed, how long a file is.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::{Report, scan};
use crate::cmd;

/// The only folders with unsafe code and direct I/O: small, and read line by line.
const SYS: &[&str] = &["collectors/src/sys", "agent/src/sys"];

/// Crates that never run on a node.
const TOOLS: &[&str] = &["xtask", "testkit", "fuzz"];

/// Lints that may be relaxed below [`SYS`] alone.
const SYS_ONLY: &[&str] = &[
    "unsafe_code",
    "clippy::disallowed_methods",
    "clippy::disallowed_types",
];

/// Groups hold the lints above: they are never relaxed as a whole.
const GROUPS: &[&str] = &[
    "clippy::all",
    "clippy::style",
    "clippy::restriction",
    "clippy::correctness",
    "clippy::suspicious",
    "clippy::complexity",
    "clippy::pedantic",
    "(warnings",
    ",warnings",
];

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
        if lines > MOST_LINES {
            report
                .problems
                .push(format!("{}: {lines} lines, at most {MOST_LINES}", file.display()));
        } else if lines > MANY_LINES {
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
    let code = scan::code(text);
    let mut found = Vec::new();
    let mut say = |line: usize, what: &str| found.push(format!("{}:{line}: {what}", file.display()));
    for what in ["todo", "unimplemented"] {
        for line in scan::lines_with_word(&code, what) {
            if code
                .lines()
                .nth(line - 1)
                .is_some_and(|l| l.contains(&format!("{what}!")))
            {
                say(line, "unfinished");
            }
        }
    }
    for (i, line) in code.lines().enumerate() {
        if line.contains("#[ignore") {
            say(i + 1, "a test that nobody runs");
        }
    }
    if within(file, SYS) || within(file, TOOLS) || is_test(file) {
        return found;
    }
    let shipped = scan::without_tests(&code);
    for line in scan::lines_with_word(&shipped, "unsafe") {
        say(line, "unsafe code stands below sys/ alone");
    }
    for (line, attribute) in relaxations(&shipped) {
        if SYS_ONLY.iter().any(|lint| attribute.contains(lint)) {
            say(line, "this lint is relaxed below sys/ alone");
        } else if GROUPS.iter().any(|group| attribute.contains(group)) {
            say(line, "a group of lints is relaxed; name the lint");
        } else if !attribute.contains("reason") {
            say(line, "a relaxed lint says why: reason = \"...\"");
        }
    }
    found
}

/// Every `allow(...)` and `expect(...)` of an attribute, with its line.
fn relaxations(code: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (start, _) in code.match_indices("#[").chain(code.match_indices("#![")) {
        let attribute: String = balanced(&code[start..]);
        let words = attribute.replace(char::is_whitespace, "");
        if ["[allow(", "[expect(", ",allow(", ",expect("]
            .iter()
            .any(|w| words.contains(w))
        {
            found.push((code[..start].lines().count().max(1), words));
        }
    }
    found
}

fn balanced(text: &str) -> String {
    let mut depth = 0_usize;
    let mut taken = String::new();
    for c in text.chars() {
        taken.push(c);
        match c {
            '[' => depth += 1,
            ']' if depth == 1 => break,
            ']' => depth -= 1,
            _ => {}
        }
    }
    taken
}

fn within(file: &Path, folders: &[&str]) -> bool {
    // `sys/` and, for a module that is one file, `sys.rs`.
    folders
        .iter()
        .any(|f| file.starts_with(f) || file == PathBuf::from(format!("{f}.rs")))
}

/// A file of tests alone. Tests inside other files are behind `cfg(test)`.
fn is_test(file: &Path) -> bool {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    stem == "tests" || stem.ends_with("_tests") || file.components().any(|c| c.as_os_str() == "tests")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(file: &str, text: &str) -> usize {
        problems(Path::new(file), text).len()
    }

    #[test]
    fn unsafe_code_is_found_outside_sys_and_tests() {
        let text = "fn f() { unsafe { g() } }\n";
        assert_eq!(count("agent/src/parent.rs", text), 1);
        for file in [
            "agent/src/sys/fd.rs",
            "collectors/src/sys.rs",
            "agent/tests/a.rs",
            "testkit/src/lib.rs",
        ] {
            assert_eq!(count(file, text), 0, "{file}");
        }
        assert_eq!(
            count(
                "agent/src/parent.rs",
                "// unsafe\n#[cfg(test)]\nmod tests { unsafe fn f() {} }\n"
            ),
            0
        );
    }

    #[test]
    fn a_relaxed_lint_is_found_in_every_spelling() {
        for attribute in [
            "#[allow(unsafe_code, reason = \"x\")]",
            "#![allow(clippy::disallowed_methods)]",
            "#[expect(\n    unsafe_code,\n    reason = \"x\"\n)]",
            "#[cfg_attr(a, allow(unsafe_code))]",
            "#[allow(dead_code)]",
        ] {
            assert_eq!(count("agent/src/core/mod.rs", attribute), 1, "{attribute}");
        }
        assert_eq!(
            count(
                "agent/src/core/mod.rs",
                "#[allow(missing_docs, reason = \"x\")]\nfn f() { x.expect(1) }"
            ),
            0
        );
    }

    #[test]
    fn what_is_unfinished_or_never_run_is_found_in_tests_too() {
        let text = concat!(
            "fn f() { to",
            "do!() }\n#[ig",
            "nore]\nfn g() { unimpl",
            "emented!() }\n"
        );
        assert_eq!(count("agent/tests/a.rs", text), 3);
        assert_eq!(count("agent/tests/a.rs", "fn todo() { unimplemented(); }"), 0);
    }
}
