//! Runs one command with a hard deadline, so that nothing can hang the caller.
//!
//! Own fork, because std's spawn waits for the exec, and a program on a dead mount blocks there. Whatever the child
//! does, [`CommandRunner::run`] comes back: a child that cannot even be killed is kept as a leftover, and while there is one
//! no other command is started.

mod child;
mod fork;

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use collectors::sys::task;
use nix::errno::Errno;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

/// The most that is kept of each output stream, in bytes.
pub const MAX_OUTPUT: usize = 256 * 1024;

/// How long a signal gets to take effect, and a background child to let go of the output.
const GRACE: Duration = Duration::from_millis(500);

/// What is run.
#[derive(Clone, Debug)]
pub struct CommandLine {
    /// The program; an absolute path.
    pub program: PathBuf,
    /// Its arguments, without its own name.
    pub args: Vec<String>,
    /// Its whole environment.
    pub env: Vec<(String, String)>,
    /// How long it may take.
    pub deadline: Duration,
}

/// What a command that ended by itself left.
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
    /// There is no such program.
    #[error("{0} is not there")]
    NotFound(PathBuf),
    /// The program may not be run.
    #[error("{0} may not be run")]
    Denied(PathBuf),
    /// It did not end in time and was killed.
    #[error("no end after {0:?}")]
    TimedOut(Duration),
    /// An earlier command cannot be killed; nothing was started.
    #[error("process {pid} cannot be killed for {since:?} (state {state}, waits in {wchan})")]
    Stuck {
        /// Its process id.
        pid: i32,
        /// How long ago it was given up.
        since: Duration,
        /// Its state letter.
        state: char,
        /// What it waits in, empty where the kernel does not say.
        wchan: String,
    },
    /// A signal ended it.
    #[error("ended by {0}")]
    Signalled(Signal),
    /// A system call failed.
    #[error("{what}: {source}")]
    Io {
        /// Which one.
        what: &'static str,
        /// How.
        source: io::Error,
    },
}

fn failed(what: &'static str) -> impl Fn(Errno) -> SpawnError {
    move |errno| SpawnError::Io {
        what,
        source: errno.into(),
    }
}

/// Runs commands, one at a time, and keeps the one child that could not be reaped.
#[derive(Debug, Default)]
pub struct CommandRunner {
    leftover: Option<(Pid, Instant)>,
}

impl CommandRunner {
    /// Runs a command to its end or its deadline; comes back at most a second after the deadline.
    ///
    /// # Errors
    /// Where it could not be started, did not end in time, or was ended by a signal.
    pub fn run(&mut self, command: &CommandLine) -> Result<CommandOutput, SpawnError> {
        self.reap_leftover()?;
        let mut child = fork::start(command)?;
        let deadline = Instant::now() + command.deadline;
        let ended = child.follow(deadline);
        if !ended {
            child.signal(Signal::SIGTERM);
            child.follow(Instant::now() + GRACE);
        }
        // Always the whole group: a grandchild must not live on with our pipes. The leader is not reaped yet, so its
        // number cannot have been given to anybody else.
        child.signal(Signal::SIGKILL);
        let Some(status) = child.reap(Instant::now() + GRACE)? else {
            self.leftover = Some((child.pid, Instant::now()));
            return Err(SpawnError::TimedOut(command.deadline));
        };
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

    /// The process that could not be killed, if there still is one.
    ///
    /// # Errors
    /// [`SpawnError::Stuck`] while there is.
    fn reap_leftover(&mut self) -> Result<(), SpawnError> {
        let Some((pid, since)) = self.leftover else {
            return Ok(());
        };
        if !matches!(
            waitpid(pid, Some(WaitPidFlag::WNOHANG)),
            Ok(WaitStatus::StillAlive)
        ) {
            self.leftover = None;
            return Ok(());
        }
        let (state, wchan) = waits_in(pid);
        Err(SpawnError::Stuck {
            pid: pid.as_raw(),
            since: since.elapsed(),
            state,
            wchan,
        })
    }
}

fn waits_in(pid: Pid) -> (char, String) {
    let task = task::read_at(Path::new(&format!("/proc/{pid}")), pid.as_raw());
    task.map_or(('?', String::new()), |task| (task.state, task.wchan))
}

#[cfg(test)]
mod tests;
