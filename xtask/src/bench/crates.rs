//! Programs from crates.io: built below target/bench, never installed.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::cmd;

/// A program of the comparison.
pub(super) struct Published {
    /// The crate, and its program.
    pub(super) name: &'static str,
    /// The measured version. Each version has its own folder.
    pub(super) version: &'static str,
    /// The compiler that it requires; `None`: ours.
    pub(super) compiler: Option<&'static str>,
}

impl Published {
    /// The path of the program; built only if the last run did not build it.
    ///
    /// # Errors
    /// When it cannot be built.
    pub(super) fn get(&self, work: &Path) -> Result<PathBuf> {
        let program = self.program(work);
        if self.is_built(work) {
            return Ok(program);
        }
        let mut install = match self.compiler {
            Some(compiler) => {
                let toolchain = ["toolchain", "install", compiler, "--profile", "minimal"];
                cmd::run(cmd::program("rustup", &toolchain).arg("--no-self-update"))?;
                let mut install = cmd::program("rustup", &["run", compiler, "cargo", "install"]);
                // Variables of our own cargo, which select our compiler.
                for variable in ["CARGO", "RUSTC", "RUSTUP_TOOLCHAIN", "RUSTFLAGS"] {
                    install.env_remove(variable);
                }
                install
            }
            None => cmd::cargo(&["install"]),
        };
        install
            .args([self.name, "--locked", "--version", self.version, "--root"])
            .arg(self.folder(work))
            .env(
                "CARGO_TARGET_DIR",
                work.join(format!("peers/{}-target", self.name)),
            );
        cmd::run(&mut install)?;
        Ok(program)
    }

    fn folder(&self, work: &Path) -> PathBuf {
        work.join(format!("peers/{}-{}", self.name, self.version))
    }

    fn program(&self, work: &Path) -> PathBuf {
        self.folder(work).join("bin").join(self.name)
    }

    /// Whether an earlier run built it.
    pub(super) fn is_built(&self, work: &Path) -> bool {
        self.program(work).is_file()
    }
}
