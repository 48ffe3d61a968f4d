//! The daemons of a cluster, and the end of everything that they started.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::sys::signal::Signal;
use nix::unistd::User;

use crate::proc::{self, Stat};
use crate::{exec, wait};

/// In the environment of everything that a cluster starts; its value is the cluster's folder.
pub(super) const MARK: &str = "TESTKIT_SLURM";

const GRACE: Duration = Duration::from_secs(10);

/// A daemon that is ended with its value.
#[derive(Debug)]
pub(super) struct SlurmProcess {
    pid: u32,
    // Looking whether a child has ended changes it.
    child: Mutex<Child>,
    log: PathBuf,
}

impl SlurmProcess {
    pub(super) fn start(mut command: Command, base: &Path, name: &str) -> Result<Self> {
        let log = base.join("log").join(format!("{name}.out"));
        command.env(MARK, base);
        let out = File::options().create(true).append(true).open(&log)?;
        // A group of its own: a signal to the tests' group is for Drop to handle.
        command
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(out.try_clone()?)
            .stderr(out);
        let child = command.spawn().with_context(|| format!("start {command:?}"))?;
        Ok(Self {
            pid: child.id(),
            child: Mutex::new(child),
            log,
        })
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    fn ended(&self) -> Result<Option<std::process::ExitStatus>> {
        let mut child = self
            .child
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        Ok(child.try_wait()?)
    }

    /// An error if it has ended.
    pub(super) fn check(&self) -> Result<()> {
        if let Some(status) = self.ended()? {
            bail!(
                "{}: {status}: {}",
                self.log.display(),
                fs::read_to_string(&self.log).unwrap_or_default()
            );
        }
        Ok(())
    }

    pub(super) fn signal(&self, signal: Signal) -> Result<()> {
        // Once it has been waited for, its id may be another's.
        self.check()?;
        proc::send(self.pid, signal)
    }

    /// Ends it without giving it a chance to say anything.
    pub(super) fn kill(self) {
        self.signal(Signal::SIGKILL).ok();
    }
}

impl Drop for SlurmProcess {
    fn drop(&mut self) {
        self.signal(Signal::SIGTERM).ok();
        let gone = |timeout| wait::until("end", timeout, || self.ended());
        if gone(GRACE).is_err() {
            self.signal(Signal::SIGKILL).ok();
            gone(GRACE).ok();
        }
    }
}

/// Starts munged with a key and a socket of its own, as the user that the package made for it.
pub(super) fn munged(base: &Path) -> Result<SlurmProcess> {
    let dir = &base.join("munge");
    let user = User::from_name("munge")?.context("no user munge: is the package munge installed?")?;
    let own = |path: &Path, mode| {
        chown(path, Some(user.uid.as_raw()), Some(user.gid.as_raw()))?;
        fs::set_permissions(path, Permissions::from_mode(mode))
    };
    own(dir, 0o755)?;
    let key = dir.join("key");
    let mut random = [0; 128];
    std::io::Read::read_exact(&mut File::open("/dev/urandom")?, &mut random)?;
    fs::write(&key, random)?;
    own(&key, 0o400)?;
    let mut command = Command::new(exec::which("munged")?);
    command.args(["--foreground", "--force", "--num-threads=2"]);
    for (option, file) in [
        ("key-file", "key"),
        ("socket", "socket"),
        ("pid-file", "pid"),
        ("seed-file", "seed"),
        ("log-file", "log"),
    ] {
        command.arg(format!("--{option}={}", dir.join(file).display()));
    }
    command.uid(user.uid.as_raw()).gid(user.gid.as_raw());
    let daemon = SlurmProcess::start(command, base, "munged")?;
    let socket = dir.join("socket");
    wait::until("munged's socket", wait::PATIENCE, || {
        daemon.check()?;
        Ok(std::os::unix::net::UnixStream::connect(&socket).ok().map(drop))
    })?;
    Ok(daemon)
}

/// Ends remaining processes of the cluster in `base`: step daemons and jobs' processes, which are not our children.
pub(super) fn end_steps(base: &Path) {
    let done = wait::until_true("steps to end", GRACE, || {
        let left = steps(base);
        for stat in &left {
            stat.signal(Signal::SIGKILL);
        }
        left.is_empty()
    });
    if let Err(error) = done {
        eprintln!("testkit: {error}");
    }
}

/// Living processes with the cluster's mark, its step daemons, and their descendants.
pub fn steps(base: &Path) -> Vec<Stat> {
    let mark = format!("{MARK}={}", base.display());
    let marked = |pid| proc::environ(pid).is_ok_and(|env| env.contains(&mark));
    // Step daemons clear their environment but hold files of their cluster open.
    let holds = |pid: u32| {
        let Ok(fds) = fs::read_dir(format!("/proc/{pid}/fd")) else {
            return false;
        };
        // In a mount namespace of their own it has a longer name.
        let base = base.to_string_lossy();
        fds.flatten()
            .any(|fd| fs::read_link(fd.path()).is_ok_and(|to| to.to_string_lossy().contains(&*base)))
    };
    let ours = |s: &Stat| s.alive() && (marked(s.pid) || (s.comm == "slurmstepd" && holds(s.pid)));
    let mut found: Vec<Stat> = proc::all().into_iter().filter(ours).collect();
    let below: Vec<Stat> = found
        .iter()
        .flat_map(|s| proc::descendants(s.pid))
        .filter(Stat::alive)
        .collect();
    found.extend(below);
    found
}
