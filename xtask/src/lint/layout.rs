//! Rules about the tree: fixtures name their source, the changelog has its section, no file contains paths of the
//! developer's machine.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::Report;
use crate::cmd;

/// Words that are never committed. In two halves, so that this list does not find itself.
const FORBIDDEN: &[(&str, &str)] = &[("TO", "DO"), ("FIX", "ME"), ("<<<<", "<<< "), (">>>>", ">>> ")];

pub(super) fn check() -> Result<Report> {
    let files = cmd::files()?;
    let mut report = Report::default();
    report.problems.extend(cases_without_source(&files));
    let changelog = std::fs::read_to_string(cmd::root().join("CHANGELOG.md")).context("CHANGELOG.md")?;
    if !changelog.lines().any(|l| l == "## [Unreleased]") {
        report
            .problems
            .push("CHANGELOG.md: no section `## [Unreleased]`".to_owned());
    }
    let mut words: Vec<String> = FORBIDDEN.iter().map(|(a, b)| format!("{a}{b}")).collect();
    words.push(cmd::root().display().to_string());
    // A home directly below the root (/root) is a word that any path may contain.
    words.extend(std::env::var("HOME").ok().filter(|h| h.matches('/').count() >= 2));
    for file in &files {
        // Binary recordings are not text.
        let path = cmd::root().join(file);
        if !path.is_file() {
            continue;
        }
        let Ok(text) = String::from_utf8(std::fs::read(&path).with_context(|| file.display().to_string())?)
        else {
            continue;
        };
        report.problems.extend(forbidden(file, &text, &words));
    }
    Ok(report)
}

fn forbidden(file: &Path, text: &str, words: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    for (i, line) in text.lines().enumerate() {
        for word in words.iter().filter(|w| line.contains(w.as_str())) {
            found.push(format!("{}:{}: forbidden word `{word}`", file.display(), i + 1));
        }
    }
    found
}

/// A case is the folder above `root.tree`, `steps` or expected output: fixtures/<collector>/<case>, or fixtures/<case>.
fn cases_without_source(files: &[PathBuf]) -> Vec<String> {
    let mut cases = BTreeSet::new();
    // A fuzzing corpus is arbitrary input without a source.
    let fixtures = files
        .iter()
        .filter(|f| f.starts_with("fixtures") && !f.starts_with("fixtures/fuzz"));
    for file in fixtures {
        let parts: Vec<_> = file
            .components()
            .map(|c| c.as_os_str().to_string_lossy())
            .collect();
        // The first folder called `steps` ends the name of the case.
        let end = parts.iter().position(|p| p == "steps").unwrap_or(parts.len() - 1);
        // Files directly below fixtures/ or fixtures/<collector>/, such as a README, are not a case.
        if end >= 2 && file.file_name().is_some_and(|n| n != "README.md") {
            cases.insert(parts[..end].join("/"));
        }
    }
    // Recorded replies have their own folders inside a case: only the outermost folder needs the file.
    let has_source = |case: &str| {
        let case = Path::new(case);
        case.ancestors().any(|dir| files.contains(&dir.join("SOURCE")))
    };
    cases
        .iter()
        .filter(|c| !has_source(c))
        .map(|c| format!("{c}: no file SOURCE that states its origin"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_without_source_is_named_once() {
        let files: Vec<PathBuf> = [
            "fixtures/README.md",
            "fixtures/host/README.md",
            "fixtures/host/good/SOURCE",
            "fixtures/host/good/root.tree",
            "fixtures/host/good/replies/a",
            "fixtures/host/bad/root.tree",
            "fixtures/host/bad/expected.prom",
            "fixtures/host/bad/steps/1.tree",
            "fixtures/demo/SOURCE",
            "fixtures/demo/root.tree",
            "fixtures/demo/kmsg",
        ]
        .map(PathBuf::from)
        .into();
        assert_eq!(
            cases_without_source(&files),
            ["fixtures/host/bad: no file SOURCE that states its origin"]
        );
    }

    #[test]
    fn a_forbidden_word_is_found_with_its_line() {
        let found = forbidden(Path::new("a.md"), "good\nbad word\n", &["bad".to_owned()]);
        assert_eq!(found, ["a.md:2: forbidden word `bad`"]);
    }
}
