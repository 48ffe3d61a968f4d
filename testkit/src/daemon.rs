//! Any program as a child: its output, its descendants, its end.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::sys::signal::Signal;
use tempfile::TempDir;

use crate::guard::Guard;
use crate::proc::{self, Stat};
use crate::wait;

/// How long a program may take to end by itself.
const GRACE: Duration = Duration::from_secs(20);

/// Set in the program's environment, and so inherited by descendants that leave its session.
const MARK: &str = "TESTKIT_DAEMON";

/// A running program. Dropping it sends SIGTERM, and SIGKILL where that did not help, to it and its descendants only.
#[derive(Debug)]
pub struct Daemon {
    pid: u32,
    child: Mutex<Child>,
    output: TempDir,
    guard: Option<Guard>,
    /// Descendants seen so far: once their parent is gone, /proc no longer tells whose they are.
    known: Mutex<Vec<Stat>>,
}

impl Daemon {
    /// Runs `program` with `args` and the caller's environment.
    pub fn run(program: impl AsRef<OsStr>, args: &[&str]) -> Result<Self> {
        let mut command = Command::new(program);
        command.args(args);
        Self::start(command)
    }

    /// Runs a prepared command. Its stdin is empty; its stdout and stderr go to files.
    pub fn start(mut command: Command) -> Result<Self> {
        let output = tempfile::tempdir()?;
        let file = |name: &str| {
            File::options()
                .create(true)
                .append(true)
                .open(output.path().join(name))
        };
        // A session of its own, so that descendants whose parent died can still be told from others.
        // SAFETY: setsid is async-signal-safe and touches no memory of ours.
        unsafe {
            command.pre_exec(|| nix::unistd::setsid().map(drop).map_err(Into::into));
        }
        command
            .env(MARK, output.path())
            .stdin(Stdio::null())
            .stdout(file("stdout")?)
            .stderr(file("stderr")?);
        let mark = format!("{MARK}={}", output.path().display());
        let guard = Some(Guard::of_processes(&mark, output.path())?);
        let child = command.spawn().with_context(|| format!("start {command:?}"))?;
        Ok(Self {
            pid: child.id(),
            child: Mutex::new(child),
            output,
            guard,
            known: Mutex::default(),
        })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The file that holds its stdout.
    pub fn stdout_file(&self) -> PathBuf {
        self.output.path().join("stdout")
    }

    /// The file that holds its stderr.
    pub fn stderr_file(&self) -> PathBuf {
        self.output.path().join("stderr")
    }

    /// What it has written to stdout.
    pub fn stdout(&self) -> String {
        text(&self.stdout_file())
    }

    /// What it has written to stderr.
    pub fn stderr(&self) -> String {
        text(&self.stderr_file())
    }

    /// Waits for a line of stdout or stderr that contains `part`, and gives the line. The program's end is an error.
    pub fn wait_for_line(&self, part: &str, timeout: Duration) -> Result<String> {
        wait::until(&format!("line with {part:?}"), timeout, || {
            // Whether it has ended is asked first: what it wrote at last is then in the files.
            let ended = self.ended()?;
            let found = [self.stdout(), self.stderr()]
                .iter()
                .find_map(|text| text.lines().find(|l| l.contains(part)).map(str::to_owned));
            match (found, ended) {
                (Some(line), _) => Ok(Some(line)),
                (None, Some(status)) => bail!("{status} before a line with {part:?}"),
                (None, None) => Ok(None),
            }
        })
        .with_context(|| format!("stdout:\n{}\nstderr:\n{}", self.stdout(), self.stderr()))
    }

    /// Its exit status; `None` while it runs.
    pub fn ended(&self) -> Result<Option<ExitStatus>> {
        Ok(self
            .child
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .try_wait()?)
    }

    /// Waits until it has ended by itself.
    pub fn wait(&self, timeout: Duration) -> Result<ExitStatus> {
        wait::until(&format!("end of {}", self.pid), timeout, || self.ended())
            .with_context(|| format!("stdout:\n{}\nstderr:\n{}", self.stdout(), self.stderr()))
    }

    /// Sends it a signal; an error once it has ended.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        self.descendants();
        if let Some(status) = self.ended()? {
            bail!("already ended: {status}");
        }
        proc::send(self.pid, signal)
    }

    /// SIGKILL to it alone, and waits for its end. Its descendants stay.
    pub fn kill9(&self) -> Result<ExitStatus> {
        self.signal(Signal::SIGKILL)?;
        self.wait(GRACE)
    }

    /// Its living descendants, also those that it left behind.
    pub fn descendants(&self) -> Vec<Stat> {
        let mut found = proc::descendants(self.pid);
        // Nobody else can be in its session, whose id is its pid, or have its mark.
        let mark = format!("{MARK}={}", self.output.path().display());
        let ours =
            |s: &Stat| s.session == self.pid || proc::environ(s.pid).is_ok_and(|env| env.contains(&mark));
        found.extend(proc::all().into_iter().filter(|s| s.pid != self.pid && ours(s)));
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        for stat in found {
            let below = proc::descendants(stat.pid);
            for stat in std::iter::once(stat).chain(below) {
                if !known.iter().any(|k| k.pid == stat.pid && k.start == stat.start) {
                    known.push(stat);
                }
            }
        }
        known.retain(Stat::alive);
        // A name changes with execve, so it is read again.
        known.iter().filter_map(|k| Stat::read(k.pid)).collect()
    }

    /// Process ids of [`Daemon::descendants`].
    pub fn children(&self) -> Vec<u32> {
        self.descendants().iter().map(|s| s.pid).collect()
    }

    /// The descendant whose arguments contain all of `parts`, once it is there.
    pub fn wait_for_child(&self, parts: &[&str], timeout: Duration) -> Result<u32> {
        wait::until(&format!("child with {parts:?}"), timeout, || {
            Ok(self.children().into_iter().find(|pid| {
                let args = proc::cmdline(*pid).unwrap_or_default();
                parts.iter().all(|part| args.iter().any(|arg| arg == part))
            }))
        })
        .with_context(|| format!("stdout:\n{}\nstderr:\n{}", self.stdout(), self.stderr()))
    }
}

fn text(file: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(file).unwrap_or_default()).into_owned()
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // The guard outlives this work; a mark that nobody has any more harms nobody.
        let _guard = self.guard.take();
        let mut left = self.descendants();
        if self.signal(Signal::SIGTERM).is_ok() {
            // One that is frozen takes the signal only now.
            self.signal(Signal::SIGCONT).ok();
            if self.wait(GRACE).is_err() {
                left = self.descendants();
                self.kill9().ok();
            }
        }
        left.extend(self.descendants());
        // They may be on their way out; those that are not are ended, and one that even that does not end is told.
        let gone =
            |timeout| wait::until_true("descendants to end", timeout, || !left.iter().any(Stat::alive));
        if gone(Duration::from_secs(5)).is_err() {
            left.iter().for_each(|stat| stat.signal(Signal::SIGKILL));
            if gone(GRACE).is_err() {
                left.retain(Stat::alive);
                eprintln!("testkit: descendants of {} that do not end: {left:?}", self.pid);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait::PATIENCE;

    fn shell(script: &str) -> Daemon {
        Daemon::run("/bin/sh", &["-c", script]).unwrap()
    }

    #[test]
    fn captures_lines_and_the_end() {
        let daemon = shell("echo one; echo two words >&2; exit 3");
        assert_eq!(daemon.wait_for_line("two", PATIENCE).unwrap(), "two words");
        assert_eq!(daemon.wait(PATIENCE).unwrap().code(), Some(3));
        assert_eq!(
            (daemon.stdout().as_str(), daemon.stderr().as_str()),
            ("one\n", "two words\n")
        );
        let error = format!("{:#}", daemon.wait_for_line("three", PATIENCE).unwrap_err());
        assert!(
            error.contains("exit status: 3") && error.contains("two words"),
            "{error}"
        );
        assert!(daemon.signal(Signal::SIGTERM).is_err());
    }

    #[test]
    fn ends_descendants_that_lost_their_parent_and_ignore_sigterm() {
        let daemon =
            shell("trap '' TERM; (trap '' TERM; sleep 1000 & wait) & (setsid sleep 2000 &) ; echo up; wait");
        daemon.wait_for_line("up", PATIENCE).unwrap();
        let sleeps = |stats: &[Stat]| stats.iter().filter(|s| s.comm == "sleep").count();
        wait::until_true("two sleeps", PATIENCE, || sleeps(&daemon.descendants()) == 2).unwrap();
        daemon.wait_for_child(&["1000"], PATIENCE).unwrap();
        let status = daemon.kill9().unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9));
        let left = daemon.descendants();
        assert_eq!(sleeps(&left), 2, "{left:?}");
        drop(daemon);
        assert!(!left.iter().any(Stat::alive));
    }

    #[test]
    fn ends_what_ignores_sigterm_or_is_frozen() {
        let daemon = shell("echo up; exec sleep 1000");
        daemon.wait_for_line("up", PATIENCE).unwrap();
        daemon.signal(Signal::SIGSTOP).unwrap();
        proc::wait_for_state(daemon.pid(), 'T', PATIENCE).unwrap();
        let stat = Stat::read(daemon.pid()).unwrap();
        drop(daemon);
        assert!(!stat.alive());
    }
}
