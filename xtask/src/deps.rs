//! Debian packages that a stage needs. Missing packages are installed just before the stage runs.

use anyhow::{Context, Result, bail};
use nix::unistd::Uid;

use crate::cmd;

/// Installs those of these packages that are missing.
///
/// # Errors
/// When something is missing and cannot be installed; the message names the packages.
pub(crate) fn install(packages: &[&str]) -> Result<()> {
    if packages.is_empty() {
        return Ok(());
    }
    let missing: Vec<&str> = packages.iter().copied().filter(|p| !installed(p)).collect();
    if missing.is_empty() {
        println!("installed: {}", packages.join(" "));
        return Ok(());
    }
    let list = missing.join(" ");
    if !cmd::exists("apt-get") {
        bail!("there is no apt-get here; install by hand what Debian calls: {list}");
    }
    if !Uid::effective().is_root() {
        bail!("packages are missing; run as root: apt-get install --no-install-recommends {list}");
    }
    cmd::run(&mut apt(&["update", "-q"]))?;
    let mut command = apt(&["install", "-q", "-y", "--no-install-recommends"]);
    cmd::run(command.args(&missing)).with_context(|| format!("could not install {list}"))
}

fn installed(package: &str) -> bool {
    let mut query = cmd::program("dpkg-query", &["-W", "-f=${db:Status-Status}", package]);
    query
        .output()
        .is_ok_and(|out| out.status.success() && out.stdout == b"installed")
}

fn apt(args: &[&str]) -> std::process::Command {
    let mut command = cmd::program("apt-get", args);
    command.env("DEBIAN_FRONTEND", "noninteractive");
    command
}
