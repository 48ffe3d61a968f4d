//! Cleans up after a test process that is killed and so drops nothing.
//!
//! A guard is a shell that looks once a second whether this process still lives. A pipe would not tell: a process with
//! a thread that waits on its own mount stays a zombie with all its files open.

use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

const WATCH: &str = r#"
while read -r stat <"/proc/$1/stat"; do
    case ${stat##*) } in Z* | X*) break ;; esac
    sleep 1
done
shift
"#;

/// Arguments: connection, mount point.
const UNMOUNT: &str = r#"
echo 1 >"/sys/fs/fuse/connections/$1/abort"
umount -l "$2"
"#;

/// Arguments: a variable with its value, a folder, cgroups. Twice, because a process may start another while this looks.
const END: &str = r#"
for round in 1 2; do
    for dir in /proc/[0-9]*; do
        tr '\0' '\n' <"$dir/environ" | grep -qxF "$1" && kill -9 "${dir#/proc/}"
        # Slurm's step daemons clear their environment.
        read -r comm <"$dir/comm" && [ "$comm" = slurmstepd ] &&
            ls -l "$dir/fd" | grep -qF -- "$2/" && kill -9 "${dir#/proc/}"
    done
done
rm -rf "$2"
shift 2
for group; do
    [ ! -e "$group/cgroup.kill" ] || echo 1 >"$group/cgroup.kill"
    for round in 1 2 3 4 5; do
        [ -d "$group" ] || break
        find "$group" -depth -type d -exec rmdir {} + && break
        sleep 1
    done
    rmdir "${group%/*}"
done
"#;

/// A running guard. Dropping it means that the cleaning was done otherwise.
#[derive(Debug)]
pub(crate) struct Guard {
    shell: Child,
}

impl Guard {
    /// Takes a FUSE mount down.
    pub(crate) fn of_mount(connection: u64, dir: &Path) -> Result<Self> {
        Self::start(UNMOUNT, OsStr::new(&connection.to_string()), dir, &[])
    }

    /// Ends every process that was started with `variable` (as `KEY=value`), and removes `dir`.
    pub(crate) fn of_processes(variable: &str, dir: &Path) -> Result<Self> {
        Self::start(END, OsStr::new(variable), dir, &[])
    }

    /// The same, and ends what runs in these cgroups and removes them.
    pub(crate) fn of_cluster(variable: &str, dir: &Path, cgroups: &[PathBuf]) -> Result<Self> {
        Self::start(END, OsStr::new(variable), dir, cgroups)
    }

    fn start(clean: &str, what: &OsStr, dir: &Path, rest: &[PathBuf]) -> Result<Self> {
        let mut command = Command::new("/bin/sh");
        command
            .arg("-c")
            .arg(format!("{WATCH}{clean}"))
            .arg("testkit-guard");
        command
            .arg(std::process::id().to_string())
            .arg(what)
            .arg(dir)
            .args(rest)
            .current_dir("/");
        // A group of its own, so that it outlives a signal to the tests' group.
        command
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Ok(Self {
            shell: command.spawn().context("start a guard")?,
        })
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // With its sleep, which is of its group. Not yet waited for, so its id is still its own.
        if let Ok(group) = i32::try_from(self.shell.id()) {
            killpg(Pid::from_raw(group), Signal::SIGKILL).ok();
        }
        self.shell.wait().ok();
    }
}
