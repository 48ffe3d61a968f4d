//! Root file systems of other releases of Debian, each with its Slurm, for the tests that are run in them.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};
use nix::unistd::Uid;

use crate::cmd;

/// One of them.
pub(crate) struct Root {
    /// Debian's name of the release.
    suite: &'static str,
    /// The release of Slurm in it.
    pub(crate) slurm: &'static str,
}

/// Debian 12 has 22.05. The newest is of a release that is in the making: once it has another Slurm, this and the table of
/// the tests need a line.
pub(crate) const ROOTS: &[Root] = &[
    Root {
        suite: "bullseye",
        slurm: "20.11",
    },
    Root {
        suite: "trixie",
        slurm: "24.11",
    },
    Root {
        suite: "forky",
        slurm: "26.05",
    },
];

/// slurmctld and slurmd depend on the rest.
const PACKAGES: &str = "--include=slurmctld,slurmd,slurm-client,slurm-wlm-basic-plugins";
const MIRROR: &str = "http://deb.debian.org/debian";
const SCRIPTS: &str = "/usr/share/debootstrap/scripts";

impl Root {
    /// Its path.
    ///
    /// # Errors
    /// When cargo fails.
    pub(crate) fn folder(&self) -> Result<PathBuf> {
        Ok(cmd::target_dir()?.join("slurm-roots").join(self.suite))
    }

    /// Builds it unless it exists: 300 MB, 1 min.
    ///
    /// # Errors
    /// When it cannot be built, or has another Slurm.
    pub(crate) fn build(&self) -> Result<()> {
        if !Uid::effective().is_root() {
            bail!("needs root: debootstrap does");
        }
        let folder = self.folder()?;
        if !folder.exists() {
            // Only a complete root has the name.
            let new = folder.with_extension("new");
            if new.exists() {
                std::fs::remove_dir_all(&new)?;
            }
            bootstrap(self.suite, PACKAGES, &new)?;
            // This machine's is mounted on it.
            std::fs::write(new.join("etc/hosts"), "")?;
            std::fs::rename(&new, &folder)?;
        }
        let mut version = cmd::program("chroot", &[]);
        let said = cmd::output(version.arg(&folder).args(["slurmctld", "-V"]))?;
        println!("{}: {}", folder.display(), said.trim());
        if !said
            .split(' ')
            .any(|word| word.starts_with(&format!("{}.", self.slurm)))
        {
            bail!(
                "{}: found {said:?}, expected Slurm {}",
                folder.display(),
                self.slurm
            );
        }
        Ok(())
    }
}

/// The programs that [`plain`] starts, as Debian packages.
pub(crate) const PLAIN: &str = "mmdebstrap";

/// A root of a release, with the essential packages and systemd's programs: 170 MB. mmdebstrap takes half of debootstrap's time;
/// it makes no root of a release that this Debian does not know.
///
/// # Errors
/// When it cannot be built.
pub(crate) fn plain(suite: &str) -> Result<PathBuf> {
    let folder = cmd::target_dir()?.join("package-roots").join(suite);
    if !folder.exists() {
        // Only a complete root has the name.
        let new = folder.with_extension("new");
        if new.exists() {
            std::fs::remove_dir_all(&new)?;
        }
        std::fs::create_dir_all(&new)?;
        let mut make = without_mounts("mmdebstrap");
        make.args([
            "--quiet",
            "--mode=root",
            "--variant=essential",
            "--include=systemd",
        ]);
        cmd::run(make.arg(suite).arg(&new).arg(MIRROR))?;
        std::fs::rename(&new, &folder)?;
    }
    Ok(folder)
}

/// Makes a root in a new folder.
fn bootstrap(suite: &str, packages: &str, folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    cmd::run(&mut debootstrap(suite, packages, folder))?;
    // Packages that are unpacked by now, and lists of others.
    for rest in ["var/cache/apt/archives", "var/lib/apt/lists"] {
        std::fs::remove_dir_all(folder.join(rest))?;
    }
    Ok(())
}

fn debootstrap(suite: &str, packages: &str, folder: &Path) -> Command {
    let mut command = without_mounts("debootstrap");
    command.args(["--variant=minbase", packages, suite]);
    command.arg(folder).arg(MIRROR);
    // Later releases than this Debian knows are made like the newest that it does.
    let own = PathBuf::from(SCRIPTS).join(suite);
    let script = if own.exists() { suite } else { "sid" };
    command.arg(PathBuf::from(SCRIPTS).join(script));
    command
}

/// A program whose mounts go with it, however it ends.
fn without_mounts(name: &str) -> Command {
    cmd::program("unshare", &["--mount", "--propagation=private", name])
}
