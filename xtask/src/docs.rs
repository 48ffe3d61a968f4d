//! `cargo xtask docs`: runs the generator, `xtask/docgen`, and writes the clippy.toml of pure crates.

use std::process::Command;

use anyhow::{Context, Result};

use crate::{bans, cmd};

/// Writes the generated documents and the clippy.toml of pure crates; with `check`, fails if one differs.
pub(crate) fn run(check: bool) -> Result<()> {
    let mut command = Command::new(cmd::build("docgen")?);
    command.arg(cmd::root().join("docs"));
    if check {
        command.arg("--check");
    }
    cmd::run(&mut command).context("`cargo xtask docs` writes these files")?;
    bans::run(check)
}
