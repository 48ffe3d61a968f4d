//! Documents name files that exist: relative links, their headings, repository paths in backticks, and the functions in
//! tables with the columns `file` and `function`.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result};

use super::Report;
use crate::cmd;

/// The files of the repository and the text of each.
struct Tree {
    /// Every file and every folder above one.
    paths: BTreeSet<PathBuf>,
    read: fn(&Path) -> Option<String>,
}

pub(super) fn check() -> Result<Report> {
    let files = cmd::files()?;
    let tree = Tree::new(&files, |path| {
        std::fs::read_to_string(cmd::root().join(path)).ok()
    });
    let mut report = Report::default();
    for file in files.iter().filter(|f| f.extension().is_some_and(|e| e == "md")) {
        let text = (tree.read)(file).with_context(|| file.display().to_string())?;
        report.problems.extend(tree.problems(file, &text));
    }
    Ok(report)
}

impl Tree {
    fn new(files: &[PathBuf], read: fn(&Path) -> Option<String>) -> Self {
        let paths = files.iter().flat_map(|f| f.ancestors()).map(Path::to_owned);
        Self {
            paths: paths.collect(),
            read,
        }
    }

    fn problems(&self, file: &Path, text: &str) -> Vec<String> {
        let mut found = Vec::new();
        // The columns of the current table, if they are `file` and `function`.
        let mut columns = None;
        for (number, line, is_code) in lines(text) {
            let mut say = |what: String| found.push(format!("{}:{number}: {what}", file.display()));
            let words: Vec<&str> = if is_code {
                line.split([' ', '(', ')', ',', ';']).collect()
            } else {
                code(line).collect()
            };
            for path in words.into_iter().filter(|word| self.is_path(word)) {
                if !self.paths.contains(Path::new(path.trim_end_matches('/'))) {
                    say(format!("`{path}`: no such file"));
                }
            }
            if is_code {
                continue;
            }
            for link in links(line) {
                if let Some(problem) = self.broken(file, text, link) {
                    say(format!("{link}: {problem}"));
                }
            }
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            let place = |name: &str| cells.iter().position(|cell| *cell == name);
            if let (Some(file), Some(function)) = (place("file"), place("function")) {
                columns = Some((file, function));
            } else if cells.len() < 2 {
                columns = None;
            } else if let Some((path, names)) = columns {
                let cell = |at: usize| code(cells.get(at).copied().unwrap_or_default());
                let Some(source) = cell(path).next().and_then(|p| (self.read)(Path::new(p))) else {
                    continue;
                };
                for name in cell(names).filter(|name| !defines(&source, name)) {
                    say(format!("`{name}`: not in that file"));
                }
            }
        }
        found
    }

    /// Whether it begins with a folder of the repository, and has no placeholder.
    fn is_path(&self, word: &str) -> bool {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
        let top = word.split_once('/').map_or("", |(top, _)| top);
        !top.is_empty() && word.chars().all(is_plain) && self.paths.contains(Path::new(top))
    }

    /// The problem of a link from this file.
    fn broken(&self, from: &Path, text: &str, link: &str) -> Option<&'static str> {
        if link.contains("://") || link.starts_with("mailto:") {
            return None;
        }
        let (path, heading) = link.split_once('#').unwrap_or((link, ""));
        let target = normal(&from.parent()?.join(path));
        if !path.is_empty() && !self.paths.contains(&target) {
            return Some("no such file");
        }
        if heading.is_empty() {
            return None;
        }
        let other = if path.is_empty() {
            None
        } else {
            (self.read)(&target)
        };
        let headings = lines(other.as_deref().unwrap_or(text)).filter(|(_, _, is_code)| !is_code);
        let mut slugs = headings.filter_map(|(_, line, _)| slug(line));
        (!slugs.any(|s| s == heading)).then_some("no such heading")
    }
}

/// Each line with its number, and whether it is in a code block.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str, bool)> {
    let mut is_code = false;
    (1..).zip(text.lines()).map(move |(number, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        (number, line, is_code || is_fence)
    })
}

/// Words in backticks.
fn code(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// Targets of `[text](target)`.
pub(crate) fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](")
        .skip(1)
        .filter_map(|rest| Some(rest.split_once(')')?.0))
}

/// The anchor of a heading: lower case, hyphens for blanks, no punctuation.
fn slug(line: &str) -> Option<String> {
    let title = line.trim_start_matches('#').strip_prefix(' ')?;
    let kept = title
        .chars()
        .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    line.starts_with('#')
        .then(|| kept.collect::<String>().to_lowercase().replace(' ', "-"))
}

/// Whether a file has that function, or that constant for a name in capitals.
fn defines(source: &str, name: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let is_constant = name.starts_with(char::is_uppercase);
    let wanted = if is_constant {
        name.to_owned()
    } else {
        format!("fn {name}")
    };
    source
        .split(&wanted)
        .skip(1)
        .any(|rest| !rest.starts_with(is_word))
}

/// Without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(out.pop()),
            Component::CurDir => {}
            part => out.push(part),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let files = ["README.md", "docs/a.md", "src/x.rs"].map(PathBuf::from);
        let tree = Tree::new(&files, |path| match path.to_str()? {
            "src/x.rs" => Some("fn take() {}\nfn taken() {}\nstatic ROW: u8 = 0;\n".to_owned()),
            "README.md" => Some("# One: the `first` part\n".to_owned()),
            _ => None,
        });
        let problems = tree.problems(Path::new("docs/a.md"), text);
        problems
            .iter()
            .filter_map(|p| Some(p.split_once(": ")?.1.to_owned()))
            .collect()
    }

    #[test]
    fn paths_and_links_exist() {
        let good = "`src/x.rs`, `src/`, `src/<name>.rs`, `other/x.rs`, [a](../README.md#one-the-first-part) [b](https://c/d)\n\
                    ```\n# a (src/x.rs) b/c [a](gone.md)\n```\n";
        assert_eq!(found(good), [""; 0]);
        assert_eq!(found("`src/gone.rs`"), ["`src/gone.rs`: no such file"]);
        assert_eq!(
            found("```sh\ncat src/gone.rs\n```"),
            ["`src/gone.rs`: no such file"]
        );
        assert_eq!(found("[a](gone.md)"), ["gone.md: no such file"]);
        assert_eq!(found("[a](#two)\n## One"), ["#two: no such heading"]);
        assert_eq!(
            found("[a](../README.md#two)"),
            ["../README.md#two: no such heading"]
        );
    }

    #[test]
    fn functions_in_a_table_are_in_their_file() {
        let table = |row: &str| format!("| | file | function |\n|---|---|---|\n| 1 | {row} |\n");
        assert_eq!(found(&table("`src/x.rs` | `take`, `ROW`")), [""; 0]);
        assert_eq!(found(&table("`src/x.rs` | `gone`")), ["`gone`: not in that file"]);
        assert_eq!(found(&table("`src/x.rs` | `RO`")), ["`RO`: not in that file"]);
        // Another table.
        assert_eq!(
            found("| file | what |\n|---|---|\n| `src/x.rs` | `gone` |\n"),
            [""; 0]
        );
        assert_eq!(
            found(&format!(
                "{}\n| `src/x.rs` | - | `gone` |",
                table("`src/x.rs` | `take`")
            )),
            [""; 0]
        );
    }
}
