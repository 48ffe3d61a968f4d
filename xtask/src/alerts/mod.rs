//! `cargo xtask alerts`: writes the rules, their tests and their document from one table, and has promtool check them.

mod agent;
mod check;
mod fabric;
mod fleet;
mod jobs;
mod nodes;
mod storage;
mod write;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::{cmd, deps};

/// Rules that are evaluated together.
struct Group {
    name: &'static str,
    /// One sentence for the document.
    about: &'static str,
    records: &'static [Record],
    alerts: &'static [Alert],
    /// Tests beside the two of each alert.
    further: &'static [FurtherCase],
}

/// A recording rule.
struct Record {
    name: &'static str,
    expr: &'static str,
}

/// An alert.
struct Alert {
    name: &'static str,
    expr: &'static str,
    /// How long the expression must hold; empty: not at all.
    lasts: &'static str,
    severity: Severity,
    summary: &'static str,
    description: &'static str,
    /// What an operator does about it, for the document.
    act: &'static str,
    runbook: Runbook,
    /// A situation in which it fires once.
    fires: Case,
    /// A similar one in which it does not. `None`: it always fires.
    silent: Option<Case>,
}

/// Who must act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Severity {
    /// An operator, immediately: many nodes are concerned.
    Page,
    /// An operator, in working hours: one node, or no harm yet.
    Ticket,
    /// No one: its absence is the alert.
    None,
}

impl Severity {
    const fn word(self) -> &'static str {
        match self {
            Self::Page => "page",
            Self::Ticket => "ticket",
            Self::None => "none",
        }
    }
}

/// The page that says what to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Runbook {
    /// That of the check in the label `check`; of a command of the site, custom-check.
    OfCheck,
    /// The alert's section in docs/operations/alerts.md.
    Own,
}

/// A test: series by the minute, and the time of the evaluation.
struct Case {
    /// Each in promtool's form: series and values.
    input: &'static [(&'static str, &'static str)],
    at: &'static str,
}

/// A further test of an alert.
struct FurtherCase {
    alert: &'static str,
    /// What the situation shows.
    about: &'static str,
    case: Case,
    expected: Expected,
}

/// The outcome of a test.
enum Expected {
    /// The number of alerts of this name that fire.
    Firing(u8),
    /// One fires, with these labels, summary, description and file of its runbook.
    Shown {
        labels: &'static [(&'static str, &'static str)],
        summary: &'static str,
        description: &'static str,
        runbook: &'static str,
    },
}

pub(crate) use check::{core_metrics, metrics};

/// The names of all recording rules.
pub(crate) fn records() -> impl Iterator<Item = &'static str> {
    GROUPS
        .iter()
        .flat_map(|group| group.records)
        .map(|record| record.name)
}

static GROUPS: &[&Group] = &[
    &nodes::GROUP,
    &fleet::GROUP,
    &fabric::GROUP,
    &storage::GROUP,
    &jobs::GROUP,
    &agent::GROUP,
];

/// Where the package installs the documents. A site replaces it by the address of its own copy.
const DOCUMENTS: &str = "file:///usr/share/doc/nodewarden";

const RULES: &str = "alerts/nodewarden.rules.yml";
const TESTS: &str = "alerts/nodewarden.tests.yml";
const EXAMPLE: &str = "alerts/alertmanager.example.yml";

/// Debian packages with promtool and amtool.
pub(crate) const PACKAGES: &[&str] = &["prometheus", "prometheus-alertmanager"];

/// The files and their content.
fn files() -> Vec<(&'static str, String)> {
    vec![
        (RULES, write::rules(GROUPS)),
        ("alerts/nodewarden.prometheusrule.yaml", write::manifest(GROUPS)),
        (TESTS, write::tests(GROUPS)),
        ("docs/operations/alerts.md", write::document(GROUPS)),
    ]
}

/// Writes the files; with `check`, fails if one differs. Then promtool and amtool read them.
///
/// # Errors
/// When a file differs, a rule breaks the rules of this repository, or a test of promtool fails.
pub(crate) fn run(check: bool) -> Result<()> {
    let root = cmd::root();
    let public = fs::read_to_string(root.join("docs/public-interface.txt"))?;
    let problems = check::problems(GROUPS, &public);
    ensure!(problems.is_empty(), "{}", problems.join("\n"));
    for (name, text) in files() {
        let path = root.join(name);
        if !check {
            fs::write(&path, text).with_context(|| name.to_owned())?;
        } else if fs::read_to_string(&path).unwrap_or_default() != text {
            bail!("{name} differs from the table: `cargo xtask alerts` writes it");
        }
    }
    deps::install(PACKAGES)?;
    let tool = |program: &str, args: &[&str], file: &str| {
        let path: PathBuf = root.join(Path::new(file));
        cmd::run(cmd::program(program, args).arg(path))
    };
    tool("promtool", &["check", "rules"], RULES)?;
    tool("promtool", &["test", "rules"], TESTS)?;
    tool("amtool", &["check-config"], EXAMPLE)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Alertmanager looks at a group at each `group_interval`, and sends it again if the last notification is older than
    /// `repeat_interval`: with equal intervals, each second one is left out.
    #[test]
    fn the_watchdog_of_the_example_is_sent_at_each_interval() {
        let example = fs::read_to_string(cmd::root().join(EXAMPLE)).unwrap();
        let minutes = |text: &str, key: &str| -> Option<u32> {
            let value = text.split_once(key)?.1.lines().next()?;
            value.trim().strip_suffix('m')?.parse().ok()
        };
        let (_, watchdog) = example.split_once("receiver: watchdog").unwrap();
        let [interval, repeat] = [
            minutes(&example, "group_interval:"),
            minutes(watchdog, "repeat_interval:"),
        ];
        assert!(repeat.unwrap() < interval.unwrap(), "{repeat:?} {interval:?}");
    }
}
