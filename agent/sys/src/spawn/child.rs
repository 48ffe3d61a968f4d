//! A running child: its output, its end, its signals.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::Pid;

use super::{CommandOutput, GRACE, MAX_OUTPUT, SpawnError, failed};

/// One stream of a child.
pub(super) struct Stream {
    pipe: Option<OwnedFd>,
    bytes: Vec<u8>,
    truncated: bool,
}

impl Stream {
    pub(super) fn new(pipe: OwnedFd) -> Self {
        Self {
            pipe: Some(pipe),
            bytes: Vec::new(),
            truncated: false,
        }
    }

    /// Reads available output without waiting, a limited amount at a time: a child that writes without end must not
    /// keep the reader from checking the deadline.
    fn read(&mut self) {
        let mut buffer = [0; 16 * 1024];
        for _ in 0..16 {
            let Some(pipe) = &self.pipe else { return };
            match nix::unistd::read(pipe, &mut buffer) {
                Ok(0) => self.pipe = None,
                Ok(count) => {
                    let room = MAX_OUTPUT.saturating_sub(self.bytes.len());
                    let kept = buffer.get(..count.min(room)).unwrap_or_default();
                    self.bytes.extend_from_slice(kept);
                    self.truncated |= count > room;
                }
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => return,
                Err(_) => self.pipe = None,
            }
        }
    }
}

pub(super) struct Child {
    pub(super) pid: Pid,
    /// stdout, stderr, and the pipe that exec closes or that reports an errno.
    pub(super) streams: [Stream; 3],
}

impl Child {
    /// Reads until the child has ended and its output is closed; a background process gets a short grace period to
    /// close it. False: the deadline passed first.
    pub(super) fn follow(&mut self, deadline: Instant) -> bool {
        let mut given_up = None;
        let mut pause = 1;
        loop {
            let now = Instant::now();
            if self.has_ended() {
                let until = *given_up.get_or_insert(now + GRACE);
                self.read_all();
                if now >= until || self.streams.iter().all(|s| s.pipe.is_none()) {
                    return true;
                }
            } else if now >= deadline {
                return false;
            }
            self.wait(pause);
            self.read_all();
            pause = (pause * 2).min(25);
        }
    }

    /// Waits for output with a time-out: on older kernels the end of a process causes no wake-up.
    fn wait(&self, milliseconds: u8) {
        let mut fds: Vec<PollFd<'_>> = self
            .streams
            .iter()
            .filter_map(|s| s.pipe.as_ref())
            .map(|pipe| PollFd::new(pipe.as_fd(), PollFlags::POLLIN))
            .collect();
        // An interrupted or failed poll only shortens the pause.
        poll(&mut fds, PollTimeout::from(milliseconds)).ok();
    }

    pub(super) fn read_all(&mut self) {
        for stream in &mut self.streams {
            stream.read();
        }
    }

    /// Whether it has ended; it stays a zombie, so its pid is not reused.
    fn has_ended(&self) -> bool {
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        !matches!(waitid(Id::Pid(self.pid), flags), Ok(WaitStatus::StillAlive))
    }

    pub(super) fn signal(&self, signal: Signal) {
        // ESRCH: the whole group has ended.
        killpg(self.pid, signal).ok();
    }

    pub(super) fn reap(&self, until: Instant) -> Result<Option<WaitStatus>, SpawnError> {
        loop {
            match waitpid(self.pid, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::StillAlive) if Instant::now() >= until => return Ok(None),
                Ok(WaitStatus::StillAlive) => std::thread::sleep(Duration::from_millis(2)),
                Ok(status) => return Ok(Some(status)),
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(failed("wait")(errno)),
            }
        }
    }

    pub(super) fn exec_error(&self) -> Option<Errno> {
        let [_, _, exec] = &self.streams;
        let bytes = exec.bytes.as_slice().try_into().ok()?;
        Some(Errno::from_raw(i32::from_ne_bytes(bytes)))
    }

    pub(super) fn output(self, code: i32) -> CommandOutput {
        let [stdout, stderr, _] = self.streams;
        CommandOutput {
            code,
            truncated: stdout.truncated || stderr.truncated,
            stdout: stdout.bytes,
            stderr: stderr.bytes,
        }
    }
}
