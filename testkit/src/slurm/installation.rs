//! Where a cluster's Slurm is installed: on this machine, or in a tree of its own that `debootstrap` has made.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::cgroups::{self, Version};
use crate::{exec, executable, wait};

/// A Slurm. munged is this machine's always: its protocol is the same for all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Installation {
    /// This machine's.
    #[default]
    Machine,
    /// That in a root file system of another release. Its programs see this machine's processes, devices, cgroups and
    /// `/tmp` under the same names.
    Root(PathBuf),
}

/// Arguments: the root, what is mounted in it as cgroups, and a command. In a mount namespace of its own, so that all mounts
/// go with the last process.
const ENTER: &str = r#"
set -eu
root=$1 cgroup=$2
shift 2
for dir in dev proc sys tmp; do mount --rbind "/$dir" "$root/$dir"; done
[ "$cgroup" = /sys/fs/cgroup ] || mount --rbind "$cgroup" "$root/sys/fs/cgroup"
mount --bind /etc/hosts "$root/etc/hosts"
mount -t tmpfs tmpfs "$root/run"
exec chroot "$root" "$@"
"#;

/// A root's libraries and loader: roots are of the architecture for which `xtask vm` and CI exist.
const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";
const LOADER: &str = "ld-linux-x86-64.so.2";

impl Installation {
    /// The root that `TESTKIT_SLURM_ROOT` names, or this machine's.
    pub fn of_environment() -> Self {
        std::env::var_os("TESTKIT_SLURM_ROOT").map_or(Self::Machine, |root| Self::Root(root.into()))
    }

    /// Its version, such as (22, 5).
    pub fn version(&self) -> Result<(u32, u32)> {
        let mut command = self.command("slurmctld", None)?;
        command.arg("-V");
        let said = exec::run(command, b"", wait::PATIENCE)?.ok()?.stdout;
        // `slurm-wlm 22.05.8`
        let version = said.split_whitespace().nth(1).and_then(|version| {
            let mut parts = version.split('.');
            Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
        });
        version.with_context(|| format!("slurmctld -V said {said}"))
    }

    /// A command that runs one of its programs. With cgroups of v2 a root has those alone, as a node without v1 has.
    pub(super) fn command(&self, program: &str, cgroups: Option<Version>) -> Result<Command> {
        let Self::Root(root) = self else {
            return Ok(Command::new(exec::which(program)?));
        };
        let folders = ["usr/sbin", "usr/bin", "sbin", "bin"];
        let folder = folders.iter().find(|dir| root.join(dir).join(program).exists());
        let Some(folder) = folder else {
            bail!("no program {program} in {}", root.display());
        };
        let mount = match cgroups {
            Some(Version::V2) => cgroups::mount()?,
            _ => "/sys/fs/cgroup".into(),
        };
        let mut command = Command::new(exec::which("unshare")?);
        command.args([
            "--mount",
            "--propagation=private",
            "/bin/sh",
            "-c",
            ENTER,
            "enter",
        ]);
        command
            .arg(root)
            .arg(mount)
            .arg(Path::new("/").join(folder).join(program));
        Ok(command)
    }

    /// A command that runs one of its programs in this machine's root folder: a process under test may have no right to enter
    /// another one. Its slurm.conf needs [`Installation::plugins`].
    pub(super) fn here(&self, program: &str) -> Result<Command> {
        let Self::Root(root) = self else {
            return self.command(program, None);
        };
        let libraries = root.join(LIBRARIES);
        let mut command = Command::new(libraries.join(LOADER));
        command
            .arg("--library-path")
            .arg(format!("{0}:{0}/slurm-wlm", libraries.display()))
            .arg(root.join("usr/bin").join(program));
        Ok(command)
    }

    /// A process that is a slurmd of this machine by its name, program and arguments, for one in a root: nodewarden takes the
    /// slurmd of another root folder for that of a container.
    pub(super) fn slurmd_here(&self, folder: &Path, node: &str, conf: &Path) -> Result<Option<Command>> {
        if *self == Self::Machine {
            return Ok(None);
        }
        let (shell, never) = (folder.join("slurmd"), folder.join("never"));
        if !shell.exists() {
            executable::copy(Path::new("/bin/dash"), &shell)?;
            nix::unistd::mkfifo(&never, nix::sys::stat::Mode::from_bits_truncate(0o600))?;
        }
        let mut command = Command::new(shell);
        command.arg("-c").arg(format!("read -r _ <>{}", never.display()));
        command.args(["-N", node, "-f"]).arg(conf);
        Ok(Some(command))
    }

    /// A line of slurm.conf for programs that run in this machine's root folder.
    pub(super) fn plugins(&self) -> String {
        match self {
            Self::Machine => String::new(),
            Self::Root(root) => format!("PluginDir={}\n", root.join(LIBRARIES).join("slurm-wlm").display()),
        }
    }

    /// What a script that Slurm runs, a prolog for one, writes to run a program of this machine outside of the root.
    pub fn outside(&self, program: &str) -> String {
        match self {
            Self::Machine => program.to_owned(),
            Self::Root(_) => {
                let us = std::process::id();
                format!("nsenter --target={us} --mount --root --wd=/ -- {program}")
            }
        }
    }

    /// Where its slurmd finds the cgroups that this machine has at `mount`.
    pub(super) fn seen(&self, version: Version, mount: PathBuf) -> PathBuf {
        match (self, version) {
            (Self::Root(_), Version::V2) => "/sys/fs/cgroup".into(),
            _ => mount,
        }
    }

    /// The folder in which clusters may have theirs; a root has this machine's `/tmp` and nothing else of its files.
    pub(super) fn folder(&self) -> PathBuf {
        match self {
            Self::Machine => std::env::temp_dir(),
            Self::Root(_) => "/tmp".into(),
        }
    }
}
