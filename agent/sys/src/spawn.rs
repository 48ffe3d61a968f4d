//! Runs one command with a hard deadline, so that no command can block the caller.
//!
//! Own fork, because std's spawn waits for the exec, and a program on a dead mount blocks there.
//! [`CommandRunner::run`] always returns: a group with a process that cannot be killed is kept as a leftover, and no other
//! command starts meanwhile.

mod child;
mod fork;
mod leftover;

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::WaitStatus;
use nix::unistd::Pid;

use leftover::Leftover;

/// Limit of bytes kept of each output stream. Slurm allows 10,000 reservations, and lists each with 400 bytes.
pub const MAX_OUTPUT: usize = 8 * 1024 * 1024;

/// Grace period for a signal to take effect, and for a background child to close the output.
const GRACE: Duration = Duration::from_millis(500);

/// A command.
#[derive(Clone, Debug)]
pub struct CommandLine {
    /// The program; an absolute path.
    pub program: PathBuf,
    /// Its arguments, without its own name.
    pub args: Vec<String>,
    /// Its whole environment.
    pub env: Vec<(String, String)>,
    /// Its standard input; empty: /dev/null.
    pub input: Vec<u8>,
    /// Deadline.
    pub deadline: Duration,
}

/// The result of a command that exited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandOutput {
    /// The exit code.
    pub code: i32,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: Vec<u8>,
    /// Whether either was longer than [`MAX_OUTPUT`].
    pub truncated: bool,
}

/// Why a command gave no result.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// The program does not exist, or the interpreter of its first line (`#!`): the kernel reports both alike.
    #[error("{0}: no such program, or no such interpreter in its first line (#!)")]
    NotFound(PathBuf),
    /// The program may not be executed.
    #[error("{0}: permission denied to execute it")]
    Denied(PathBuf),
    /// It did not end in time and was killed.
    #[error("timed out after {0:?} and was killed")]
    TimedOut(Duration),
    /// An earlier command cannot be killed, so this one was not started.
    #[error(
        "not started: earlier process {pid} has resisted SIGKILL for {since:?} (state {state}, wait channel {wchan})"
    )]
    Stuck {
        /// Its process id.
        pid: i32,
        /// Time since SIGKILL.
        since: Duration,
        /// Its state letter.
        state: char,
        /// Its wait channel; empty if the kernel does not report it.
        wchan: String,
    },
    /// A signal ended it.
    #[error("ended by {0}")]
    Signalled(Signal),
    /// A system call failed.
    #[error("{what}: {source}")]
    Io {
        /// The system call.
        what: &'static str,
        /// Its error.
        source: io::Error,
    },
}

fn failed(what: &'static str) -> impl Fn(Errno) -> SpawnError {
    move |errno| SpawnError::Io {
        what,
        source: errno.into(),
    }
}

/// Runs commands one at a time, and keeps the groups with a process that could not be killed. Clones share them: they
/// outlive the thread that started them.
#[derive(Clone, Debug, Default)]
pub struct CommandRunner {
    leftovers: Arc<Mutex<Vec<Leftover>>>,
    /// The group of the command that runs, while its number cannot be another's.
    running: Arc<Mutex<Option<Pid>>>,
}

impl CommandRunner {
    /// Runs a command to its end or its deadline; returns at most 1 s after the deadline.
    ///
    /// # Errors
    /// When it could not be started, timed out, or was ended by a signal.
    pub fn run(&mut self, command: &CommandLine) -> Result<CommandOutput, SpawnError> {
        self.reap_leftovers()?;
        let mut child = self.start(command)?;
        let deadline = Instant::now() + command.deadline;
        let ended = child.follow(deadline);
        if !ended {
            child.signal(Signal::SIGTERM);
            child.follow(Instant::now() + GRACE);
        }
        // Always the whole group: a grandchild must not keep our pipes. The leader is not reaped yet, so its pid
        // cannot have been reused.
        child.signal(Signal::SIGKILL);
        *self.running() = None;
        let until = Instant::now() + GRACE;
        let Some(status) = child.reap(until)? else {
            self.leftovers().push(Leftover::of_leader(child.pid));
            return Err(SpawnError::TimedOut(command.deadline));
        };
        let members = Leftover::of_members(child.pid, until);
        self.leftovers().extend(members);
        child.read_all();
        if let Some(errno) = child.exec_error() {
            return Err(match errno {
                Errno::ENOENT | Errno::ENOTDIR => SpawnError::NotFound(command.program.clone()),
                Errno::EACCES | Errno::EPERM => SpawnError::Denied(command.program.clone()),
                other => failed("exec")(other),
            });
        }
        if !ended {
            return Err(SpawnError::TimedOut(command.deadline));
        }
        match status {
            WaitStatus::Exited(_, code) => Ok(child.output(code)),
            WaitStatus::Signaled(_, signal, _) => Err(SpawnError::Signalled(signal)),
            _ => Err(failed("wait")(Errno::EINVAL)),
        }
    }

    /// Kills the whole group of the command that runs, before this process ends: what a script started has no deadline then.
    pub fn kill(&self) {
        if let Some(group) = *self.running() {
            // ESRCH: it has ended.
            killpg(group, Signal::SIGKILL).ok();
        }
    }

    fn start(&self, command: &CommandLine) -> Result<child::Child, SpawnError> {
        let mut running = self.running();
        let child = fork::start(command)?;
        *running = Some(child.pid);
        Ok(child)
    }

    fn running(&self) -> MutexGuard<'_, Option<Pid>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a process is left that could not be killed.
    pub fn is_stuck(&mut self) -> bool {
        self.reap_leftovers().is_err()
    }

    fn leftovers(&self) -> MutexGuard<'_, Vec<Leftover>> {
        self.leftovers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reaps the processes that could not be killed.
    ///
    /// # Errors
    /// [`SpawnError::Stuck`] if one still exists.
    fn reap_leftovers(&mut self) -> Result<(), SpawnError> {
        let mut stuck = None;
        self.leftovers().retain_mut(|leftover| {
            let process = leftover.process();
            let is_left = process.is_some();
            stuck = stuck.take().or(process.map(|process| (process, leftover.since)));
            is_left
        });
        let Some((process, since)) = stuck else {
            return Ok(());
        };
        Err(SpawnError::Stuck {
            pid: process.tid,
            since: since.elapsed(),
            state: process.state,
            wchan: process.wchan,
        })
    }
}

#[cfg(test)]
mod tests;
