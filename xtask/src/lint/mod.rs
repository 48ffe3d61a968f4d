//! `cargo xtask lint`: formatting, clippy, and the rules that no ready-made tool knows.

mod folders;
pub(crate) mod layers;
mod layout;
mod licences;
pub(crate) mod links;
mod public;
mod since;
mod source;
pub(crate) mod tree;
mod vendors;
mod words;

use anyhow::{Result, bail};

use crate::stage::Stages;
use crate::{cmd, fuzz};

/// Runs them all, or those whose name contains `filter`.
pub(crate) fn stages(stages: &mut Stages, filter: Option<&str>) {
    let (mut names, mut is_known) = (Vec::new(), false);
    let mut run = |name: &'static str, body: &dyn Fn() -> Result<()>| {
        names.push(name);
        is_known |= filter.is_none_or(|f| name.contains(f));
        if filter.is_none_or(|f| name.contains(f)) {
            stages.run(&format!("lint: {name}"), body);
        }
    };
    run("format", &|| {
        cmd::run(&mut cmd::cargo(&["fmt", "--all", "--check"]))?;
        cmd::run(&mut cmd::cargo(&[
            "fmt",
            "--check",
            "--manifest-path",
            fuzz::MANIFEST,
        ]))
    });
    // Twice: without tests, clippy reports code that only tests use.
    run("clippy", &|| {
        clippy(&["--package=nodewarden"])?;
        clippy(&["--workspace", "--all-targets", "--all-features"])
    });
    run("layers", &|| report(layers::check()?));
    run("source", &|| report(source::check()?));
    run("layout", &|| report(layout::check()?));
    run("links", &|| report(links::check()?));
    run("public face", &|| report(public::check()?));
    run("vendors", &|| report(vendors::check()?));
    run("spelling", &words::spelling);
    run("words", &|| report(words::check()?));
    run("licences", &|| report(licences::check()?));
    if !is_known {
        stages.run("lint", || {
            bail!("unknown lint, expected one of: {}", names.join(", "))
        });
    }
}

fn clippy(what: &[&str]) -> Result<()> {
    // The profile of the tests: macros and build scripts are compiled once for both.
    let mut command = cmd::cargo(&["clippy", "--locked", "--profile=ci"]);
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
