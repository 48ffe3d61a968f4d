//! `cargo xtask lint`: formatting, clippy, and the rules that no ready-made tool knows.

mod folders;
pub(crate) mod layers;
mod layout;
mod licences;
mod public;
mod source;
pub(crate) mod tree;
mod words;

use anyhow::{Result, bail};

use crate::stage::Stages;
use crate::{cmd, fuzz};

/// Runs them all.
pub(crate) fn stages(stages: &mut Stages) {
    stages.run("lint: format", || {
        cmd::run(&mut cmd::cargo(&["fmt", "--all", "--check"]))?;
        cmd::run(&mut cmd::cargo(&[
            "fmt",
            "--check",
            "--manifest-path",
            fuzz::MANIFEST,
        ]))
    });
    // Twice: what only tests use must be unused, and so reported, in the program that is shipped.
    stages.run("lint: clippy", || {
        clippy(&["--package=nodewarden"])?;
        clippy(&["--workspace", "--all-targets", "--all-features"])
    });
    stages.run("lint: layers", || report(layers::check()?));
    stages.run("lint: source", || report(source::check()?));
    stages.run("lint: layout", || report(layout::check()?));
    stages.run("lint: public face", || report(public::check()?));
    stages.run("lint: spelling", words::spelling);
    stages.run("lint: words", || report(words::check()?));
    stages.run("lint: licences", || report(licences::check()?));
}

fn clippy(what: &[&str]) -> Result<()> {
    let mut command = cmd::cargo(&["clippy", "--locked"]);
    command.args(what).args(["--", "--deny=warnings"]);
    // Of the workspace's lints these hold for tools too.
    for lint in ["allow_attributes_without_reason", "todo", "unimplemented"] {
        command.arg(format!("--deny=clippy::{lint}"));
    }
    cmd::run(&mut command)
}

/// What the rules found: problems fail, remarks do not.
#[derive(Default)]
struct Report {
    problems: Vec<String>,
    remarks: Vec<String>,
}

fn report(report: Report) -> Result<()> {
    for remark in &report.remarks {
        println!("remark: {remark}");
    }
    for problem in &report.problems {
        println!(
            "error: {}",
            problem.replace(&format!("{}/", cmd::root().display()), "")
        );
    }
    match report.problems.len() {
        0 => Ok(()),
        count => bail!("{count} problems"),
    }
}
