//! A program as a child process: its output, its descendants, its end.

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
use crate::{http, wait};

/// Time that a program has to end before SIGKILL.
const GRACE: Duration = Duration::from_secs(20);

/// Lines of its stderr that are printed when its test has failed.
const SHOWN_LINES: usize = 100;

/// Set in the program's environment, and so inherited by descendants that leave its session.
const MARK: &str = "TESTKIT_DAEMON";

/// A running program. Dropping it sends SIGTERM, and then SIGKILL, to it and its descendants only.
#[derive(Debug)]
pub struct Daemon {
    pid: u32,
    child: Mutex<Child>,
    output: TempDir,
    guard: Option<Guard>,
    /// Descendants seen so far: once their parent has ended, /proc no longer shows their origin.
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
        // Its own session, so that descendants whose parent has died can still be recognised.
        // SAFETY: setsid is async-signal-safe and does not access our memory.
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

    /// Its stdout so far.
    pub fn stdout(&self) -> String {
        text(&self.stdout_file())
    }

    /// Its stderr so far.
    pub fn stderr(&self) -> String {
        text(&self.stderr_file())
    }

    /// Waits until it answers `/-/ready`, as the servers of the Prometheus project do.
    ///
    /// # Errors
    /// When it ends or is not ready in time, with what it has logged.
    pub fn wait_ready(&self, name: &str, address: &str) -> Result<()> {
        let ready = wait::until(&format!("{name} ready"), wait::PATIENCE, || {
            if let Some(status) = self.ended()? {
                bail!("{status}");
            }
            let ready = http::get(address, "/-/ready", &[], Duration::from_secs(10));
            Ok(ready.ok().filter(|r| r.status == 200).map(drop))
        });
        ready.with_context(|| self.stderr())
    }

    /// Waits for a line of stdout or stderr that contains `part`, and gives the line. The program's end is an error.
    pub fn wait_for_line(&self, part: &str, timeout: Duration) -> Result<String> {
        wait::until(&format!("line with {part:?}"), timeout, || {
            // The exit status first: if the program has ended, the files contain its last output.
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

    /// Waits until it has ended.
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

    /// Its running descendants, orphans included.
    pub fn descendants(&self) -> Vec<Stat> {
        let mut found = proc::descendants(self.pid);
        // No other process can be in its session, whose id is its pid, or have its mark.
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

    /// Waits for a descendant whose arguments contain all of `parts`.
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
        // Keeps the guard until the end of this function; a mark without processes is harmless.
        let _guard = self.guard.take();
        // A failed test that does not come again shows why only here.
        if std::thread::panicking() {
            let stderr = self.stderr();
            let lines: Vec<_> = stderr.lines().collect();
            let last = lines.len().saturating_sub(SHOWN_LINES);
            eprintln!("stderr of {}, from line {}:", self.pid, last + 1);
            eprintln!("{}", lines.get(last..).unwrap_or_default().join("\n"));
        }
        let mut left = self.descendants();
        if self.signal(Signal::SIGTERM).is_ok() {
            // A stopped process receives the signal only now.
            self.signal(Signal::SIGCONT).ok();
            if self.wait(GRACE).is_err() {
                left = self.descendants();
                self.kill9().ok();
            }
        }
        left.extend(self.descendants());
        // Some may be ending. The others get SIGKILL; those that survive it are reported.
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
    fn ends_processes_that_ignore_sigterm_or_are_stopped() {
        let daemon = shell("echo up; exec sleep 1000");
        daemon.wait_for_line("up", PATIENCE).unwrap();
        daemon.signal(Signal::SIGSTOP).unwrap();
        proc::wait_for_state(daemon.pid(), 'T', PATIENCE).unwrap();
        let stat = Stat::read(daemon.pid()).unwrap();
        drop(daemon);
        assert!(!stat.alive());
    }
}
