//! A small Debian with systemd, made once by mmdebstrap and kept below target/vm.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::{image, kernel};
use crate::cmd;

/// What it has besides the essential packages and apt's absence. D-Bus is there for the parent not to reach it.
const INCLUDE: &str = "systemd,systemd-sysv,dbus,mount,passwd,init-system-helpers,curl";

/// Unpacks it, new, to `root`.
///
/// # Errors
/// When it cannot be made: mostly no way to Debian's mirror.
pub(super) fn unpack(work: &Path, root: &Path) -> Result<()> {
    let archive = get(work)?;
    image::empty(root)?;
    cmd::run(
        cmd::program("tar", &["--extract", "--numeric-owner", "--file"])
            .arg(&archive)
            .arg("--directory")
            .arg(root),
    )
}

/// The archive, from the last run where this Debian still has the same systemd, and the list is the same.
fn get(work: &Path) -> Result<PathBuf> {
    let release = fs::read_to_string("/etc/os-release")?;
    let suite = release
        .lines()
        .find_map(|l| l.strip_prefix("VERSION_CODENAME="))
        .context("/etc/os-release names no VERSION_CODENAME: the guest is made of this machine's Debian")?;
    let version = kernel::version("systemd")?.replace(['/', ':', '~'], "_");
    let list = INCLUDE.replace(',', "+");
    let archive = work.join(format!("rootfs-{suite}-{version}-{list}.tar"));
    if archive.is_file() {
        return Ok(archive);
    }
    for old in fs::read_dir(work)? {
        let old = old?;
        if old.file_name().to_string_lossy().starts_with("rootfs-") {
            fs::remove_file(old.path())?;
        }
    }
    let new = work.join("new-rootfs.tar");
    let mut command = cmd::program("mmdebstrap", &["--variant=essential", "--format=tar"]);
    command.arg(format!("--include={INCLUDE}"));
    for path in ["doc", "locale", "man", "info"] {
        command.arg(format!("--dpkgopt=path-exclude=/usr/share/{path}/*"));
    }
    command.arg("--aptopt=APT::Install-Recommends \"false\"");
    cmd::run(command.arg(suite).arg(&new))?;
    // Its name shows that it is complete.
    fs::rename(&new, &archive)?;
    Ok(archive)
}
