//! Talks to the daemon's control socket.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::dirs;
use crate::http::control::{Reply, Request, SOCKET};
use crate::screen::ColourArgs;

/// The most that a reply may hold, in bytes.
const MAX_REPLY: u64 = 64 << 20;

/// Longer than the daemon takes to give up on an order.
const PATIENCE: Duration = Duration::from_secs(20);

/// The daemon did not answer.
#[derive(Debug, thiserror::Error)]
#[error("the daemon does not answer on {path}: {reason}")]
pub(super) struct Unreachable {
    path: String,
    reason: String,
}

/// Sends one request and waits for its reply.
pub(super) fn ask(run_dir: &Path, request: &Request) -> Result<Reply, Unreachable> {
    ask_within(run_dir, request, PATIENCE)
}

/// What the reply to a request holds: `take` gives it, or nothing where the reply is of another kind.
pub(super) fn answer<T>(
    run_dir: &Path,
    request: &Request,
    take: impl FnOnce(Reply) -> Option<T>,
) -> anyhow::Result<T> {
    match ask(run_dir, request)? {
        Reply::Refused(text) => anyhow::bail!(text),
        reply => take(reply).ok_or_else(|| Unreachable::odd(run_dir).into()),
    }
}

/// What a command that shows something is told besides.
#[derive(Debug, clap::Args)]
pub(super) struct ShowArgs {
    /// Print JSON.
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) colour: ColourArgs,
    /// The daemon's run directory.
    #[arg(long, value_name = "DIR")]
    pub(super) run_dir: Option<PathBuf>,
}

impl ShowArgs {
    /// Asks the daemon that it names.
    pub(super) fn ask<T>(
        &self,
        request: &Request,
        take: impl FnOnce(Reply) -> Option<T>,
    ) -> anyhow::Result<T> {
        answer(&dirs::to_read(self.run_dir.as_deref()), request, take)
    }
}

/// The same, with a limit for each wait on the socket.
pub(super) fn ask_within(
    run_dir: &Path,
    request: &Request,
    patience: Duration,
) -> Result<Reply, Unreachable> {
    Connection::open(run_dir, patience)?.ask(request)
}

/// A connection, for more than one request.
pub(super) struct Connection {
    path: String,
    patience: Duration,
    stream: BufReader<UnixStream>,
}

impl Connection {
    /// Connects, with a limit for each wait on the socket.
    pub(super) fn open(run_dir: &Path, patience: Duration) -> Result<Self, Unreachable> {
        let path = run_dir.join(SOCKET);
        let connect = || {
            let stream = UnixStream::connect(&path)?;
            stream.set_read_timeout(Some(patience))?;
            stream.set_write_timeout(Some(patience))?;
            Ok(stream)
        };
        let path = path.display().to_string();
        match connect() {
            Ok(stream) => Ok(Self {
                path,
                patience,
                stream: BufReader::new(stream),
            }),
            Err(e) => Err(Unreachable {
                path,
                reason: reason(&e, patience),
            }),
        }
    }

    /// Another descriptor of it.
    pub(super) fn copy(&self) -> io::Result<UnixStream> {
        self.stream.get_ref().try_clone()
    }

    /// Sends one request and waits for its reply.
    pub(super) fn ask(&mut self, request: &Request) -> Result<Reply, Unreachable> {
        exchange(&mut self.stream, request).map_err(|e| Unreachable {
            path: self.path.clone(),
            reason: reason(&e, self.patience),
        })
    }
}

/// What is wrong, and what a person can do about it.
fn reason(e: &io::Error, patience: Duration) -> String {
    match e.kind() {
        io::ErrorKind::NotFound => "there is no such socket. Start it with `systemctl start nodewarden`, or \
             name the run directory of another one with --run-dir"
            .to_owned(),
        io::ErrorKind::ConnectionRefused => {
            "nobody listens there: the daemon is not running. See `journalctl -u \
             nodewarden` for why, and start it with `systemctl start nodewarden`"
                .to_owned()
        }
        io::ErrorKind::PermissionDenied => {
            "no permission for the socket or a folder above it; try as root".to_owned()
        }
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => format!(
            "no reply in {} s. It runs and is stuck, or the machine is overloaded: see `journalctl -u nodewarden`",
            patience.as_secs()
        ),
        io::ErrorKind::UnexpectedEof => "it hung up without a reply; it may be starting or ending".to_owned(),
        _ => e.to_string(),
    }
}

fn exchange(stream: &mut BufReader<UnixStream>, request: &Request) -> io::Result<Reply> {
    let mut line = serde_json::to_string(request)?;
    line.push('\n');
    match stream.get_mut().write_all(line.as_bytes()) {
        // One that has no place for us says so and hangs up without having heard us.
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => {}
        written => written?,
    }
    let mut reply = String::new();
    stream.take(MAX_REPLY).read_line(&mut reply)?;
    if !reply.ends_with('\n') {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(serde_json::from_str(&reply)?)
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.get_ref().as_fd()
    }
}

impl Unreachable {
    /// A reply of a kind that was not asked for: another version of the daemon.
    pub(super) fn odd(run_dir: &Path) -> Self {
        Self {
            path: run_dir.join(SOCKET).display().to_string(),
            reason: "the reply is of another kind; is the daemon of another version?".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests;
