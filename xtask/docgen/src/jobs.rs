//! The part of docs/operations/jobs.md that is made from the table which the end-to-end tests try.

use std::path::Path;

use anyhow::{Context, Result};

use table::{Answer, Kind, Row, TABLE, yes};

#[path = "../../../agent/tests/jobs/table.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    reason = "the tests of jobs use the rest of it"
)]
mod table;

const BEGIN: &str = "<!-- From agent/tests/jobs/table.rs by `cargo xtask docs`; do not edit. -->\n";
const END: &str = "<!-- The end of what is made. -->\n";

/// The page as it is, with the table as it should be.
pub(crate) fn page(fixtures: &Path) -> Result<String> {
    let path = fixtures.with_file_name("docs").join("operations/jobs.md");
    let name = || path.display().to_string();
    let text = std::fs::read_to_string(&path).with_context(name)?;
    let parts = text.split_once(BEGIN).and_then(|(head, rest)| {
        let (_, tail) = rest.split_once(END)?;
        Some(format!("{head}{BEGIN}{}{END}{tail}", made()))
    });
    parts.with_context(|| format!("{}: found no {BEGIN:?} with an {END:?} below it", name()))
}

fn made() -> String {
    let kinds: Vec<&str> = Kind::ALL.into_iter().map(Kind::word).collect();
    let mut out = format!(
        "Kinds of job: {}; on one of the nodes gres.conf has the devices in another order than the kernel. A row \
         holds for all of them.\n\n\
         | Slurm | cgroup | hook | `ConstrainDevices` | what is said of a job's GPUs |\n|---|---|---|---|---|\n",
        kinds.join(", ")
    );
    for Row {
        release: (year, month),
        cgroup,
        has_hook,
        is_constrained,
        answer,
    } in TABLE
    {
        out += &format!(
            "| {year}.{month:02} | v{cgroup} | {} | {} | {} |\n",
            yes(*has_hook),
            yes(*is_constrained),
            said(*answer)
        );
    }
    out
}

fn said(answer: Answer) -> String {
    match answer {
        Answer::Exact(evidence) => format!("all of them, by `{evidence}`"),
        Answer::Unknown(reason) => format!("nothing, `{reason}`"),
    }
}
