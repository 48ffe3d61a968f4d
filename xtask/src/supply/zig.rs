//! zig as linker and C compiler: it links against an older glibc than the build machine's, with the same Rust toolchain.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::Arch;
use crate::{cmd, deps};

/// The oldest glibc that the shipped program runs on: that of RHEL 8 and Debian 10.
pub(crate) const GLIBC: &str = "2.28";

/// Pinned: another version may give other bytes.
const CARGO_ZIGBUILD: &str = "0.24.1";
const ZIGLANG: &str = "0.15.2";

/// The tools, below target/tools.
pub(super) struct Zig {
    /// The folder of `cargo-zigbuild`.
    bin: PathBuf,
    /// `zig`, as PyPI's package ships it.
    zig: PathBuf,
    /// What both keep between builds.
    cache: PathBuf,
}

impl Zig {
    /// Installs what is missing, both as built programs from PyPI: to compile cargo-zigbuild takes minutes.
    ///
    /// # Errors
    /// When PyPI does not answer.
    pub(super) fn get() -> Result<Self> {
        let tools = cmd::target_dir()?.join("tools");
        let venv = tools.join(format!("zig-{ZIGLANG}-{CARGO_ZIGBUILD}"));
        let bin = venv.join("bin");
        let zig = bin.join("python-zig");
        if !zig.is_file() || !bin.join("cargo-zigbuild").is_file() {
            deps::install(&["python3-venv"])?;
            cmd::run(cmd::program("python3", &["-m", "venv"]).arg(&venv))?;
            let zigbuild = format!("cargo-zigbuild=={CARGO_ZIGBUILD}");
            let ziglang = format!("ziglang=={ZIGLANG}");
            let pip = bin.join("pip");
            cmd::run(&mut cmd::program(
                &pip.to_string_lossy(),
                &["install", "--quiet", &zigbuild, &ziglang],
            ))?;
        }
        let said = cmd::output(&mut cmd::program(&zig.to_string_lossy(), &["version"]))?;
        ensure!(
            said.trim() == ZIGLANG,
            "{}: found zig {said:?}, expected {ZIGLANG}",
            zig.display()
        );
        Ok(Self {
            bin,
            zig,
            cache: tools.join("cache"),
        })
    }

    /// Makes `cargo zigbuild` of arguments; `renamed` are folders, and what stands for them in the output of C compilers.
    ///
    /// # Errors
    /// When a path is not UTF-8.
    pub(super) fn cargo(&self, arch: Arch, args: &[&str], renamed: &[(String, &str)]) -> Result<Command> {
        let mut cargo = cmd::cargo(&["zigbuild"]);
        let target = arch.target();
        cargo.args(args).arg(format!("--target={target}.{GLIBC}"));
        let path = std::env::var_os("PATH").unwrap_or_default();
        let all = [self.bin.clone()].into_iter().chain(std::env::split_paths(&path));
        cargo.env("PATH", std::env::join_paths(all).context("PATH")?);
        cargo.env("CARGO_ZIGBUILD_ZIG_PATH", &self.zig);
        cargo.env("CARGO_ZIGBUILD_CACHE_DIR", self.cache.join("cargo-zigbuild"));
        cargo.env("ZIG_GLOBAL_CACHE_DIR", self.cache.join("zig"));
        let name = format!("CFLAGS_{}", target.replace('-', "_"));
        cargo.env(name, c_flags(renamed).join(" "));
        Ok(cargo)
    }
}

/// Where cargo puts what it builds for that target.
pub(super) fn built(target_dir: &Path, arch: Arch, profile: &str) -> PathBuf {
    target_dir.join(arch.target()).join(profile)
}

fn c_flags(renamed: &[(String, &str)]) -> Vec<String> {
    let flag = |(from, to): &(String, &str)| format!("-ffile-prefix-map={from}={to}");
    renamed.iter().map(flag).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_in_c_knows_no_path_of_its_build() {
        let flags = c_flags(&[("/build/nw".to_owned(), "/usr/src/nodewarden")]);
        assert_eq!(flags, ["-ffile-prefix-map=/build/nw=/usr/src/nodewarden"]);
    }
}
