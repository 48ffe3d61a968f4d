//! `cargo xtask docs`: runs the generator, `xtask/docgen`, and writes what is made without it.

use anyhow::{Context, Result};

use crate::{bans, cmd};

/// Writes the generated documents and the clippy.toml of pure crates, or fails where one differs from what would be written.
pub(crate) fn run(check: bool) -> Result<()> {
    let mut command = cmd::cargo(&[
        "run",
        "--quiet",
        "--locked",
        "--profile=ci",
        "--package=docgen",
        "--",
    ]);
    command.arg(cmd::root().join("docs"));
    if check {
        command.arg("--check");
    }
    cmd::run(&mut command).context("the documents below docs/ are made by `cargo xtask docs`")?;
    bans::run(check)
}
