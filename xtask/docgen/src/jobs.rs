//! The generated part of docs/operations/jobs.md, from the table that the end-to-end tests run.

use std::path::Path;

use anyhow::{Context, Result};

use table::{Answer, Kind, Row, TABLE, yes};

#[path = "../../../agent/tests/jobs/table.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    reason = "the tests of jobs use the rest"
)]
mod table;

const BEGIN: &str = "<!-- From agent/tests/jobs/table.rs by `cargo xtask docs`; do not edit. -->\n";
const END: &str = "<!-- End of the generated part. -->\n";

/// The committed page with a newly generated table.
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
        "The end-to-end tests run every row on a Slurm cluster, with each of these kinds of job:\n\n\
         * {}\n\n\
         In gres.conf of one node, the devices are in another order than in the kernel.\n\n\
         `all` means that nodewarden reports all GPUs of each job, with this `evidence`. `unknown` means that it \
         reports none of them, with this `reason`.\n\n\
         | Slurm | cgroup | hook | `ConstrainDevices` | GPUs of a job |\n|---|---|---|---|---|\n",
        kinds.join("\n* ")
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
            cell(*answer)
        );
    }
    out
}

fn cell(answer: Answer) -> String {
    match answer {
        Answer::Exact(evidence) => format!("all, `{evidence}`"),
        Answer::Unknown(reason) => format!("unknown, `{reason}`"),
    }
}
