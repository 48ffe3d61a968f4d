//! docs/checks.md, from the table of checks.

use health::checks::{CHECKS, Check, May, Scope};

use crate::cell;

const HEAD: &str = "# Checks

Made by `cargo xtask docs` from the table in the code; do not edit.

What a check may do is the least of three: `health.mode`, its entry in `health.checks` (or what stands here under \"at
most\"; what that column does not name is refused), and observe where it is younger than `health.baseline`. A fault of
something that nodes share never drains by default: when everyone has it, it is not the node.

| check | about | finds | scope | at most | since | ends | runbook |
|---|---|---|---|---|---|---|---|
";

pub(crate) fn page() -> String {
    let mut out = HEAD.to_owned();
    for check in CHECKS {
        out.push_str(&row(check));
    }
    out
}

fn row(check: &Check) -> String {
    let scope = match check.scope {
        Scope::Node => "node",
        Scope::Shared => "shared",
    };
    let most = match check.may {
        May::CommentOrDrain => "comment, or drain where `health.checks` says so",
        may => may.by_default().word(),
    };
    format!(
        "| `{}` | {} | {} | {scope} | {most} | {}.{}.{} | {} | [{}]({}) |\n",
        check.id,
        cell(check.subject.word()),
        cell(check.condition),
        check.since.0,
        check.since.1,
        check.since.2,
        cell(check.clears),
        check.id,
        check.runbook.trim_start_matches("docs/"),
    )
}
