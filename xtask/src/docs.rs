//! `cargo xtask docs`: runs the generator, `xtask/docgen`, and writes the clippy.toml of pure crates.

use anyhow::{Context, Result};

use crate::{bans, cmd};

/// Writes the generated documents and the clippy.toml of pure crates; with `check`, fails if one differs.
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
    cmd::run(&mut command).context("`cargo xtask docs` writes these files")?;
    bans::run(check)
}
