//! all-smi from crates.io: built below target/bench with the compiler that it requires, never installed.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::{cmd, deps};

/// The measured version. Each version has its own folder.
pub(super) const VERSION: &str = "0.28.1";

/// Newer than ours: its crate requires it.
const COMPILER: &str = "1.96.0";

/// The path of the program; built only if the last run did not build it.
///
/// # Errors
/// When it cannot be built.
pub(super) fn get(work: &Path) -> Result<PathBuf> {
    let folder = work.join(format!("peers/all-smi-{VERSION}"));
    let program = folder.join("bin/all-smi");
    if program.is_file() {
        return Ok(program);
    }
    // One of its accelerator clients is generated code.
    deps::install(&["protobuf-compiler", "libprotobuf-dev"])?;
    cmd::run(&mut cmd::program(
        "rustup",
        &[
            "toolchain",
            "install",
            COMPILER,
            "--profile",
            "minimal",
            "--no-self-update",
        ],
    ))?;
    let mut install = cmd::program("rustup", &["run", COMPILER, "cargo", "install", "all-smi"]);
    install
        .args(["--locked", "--version", VERSION, "--root"])
        .arg(&folder)
        .env("CARGO_TARGET_DIR", work.join("peers/all-smi-target"));
    // Variables of our own cargo, which select our compiler.
    for variable in ["CARGO", "RUSTC", "RUSTUP_TOOLCHAIN", "RUSTFLAGS"] {
        install.env_remove(variable);
    }
    cmd::run(&mut install)?;
    Ok(program)
}
