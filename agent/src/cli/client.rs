//! Client of the daemon's control socket.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::dirs;
use crate::http::control::{INVALID, Reply, Request, SOCKET};
use crate::screen::ColourArgs;

/// Limit of a reply, in bytes.
const MAX_REPLY: u64 = 64 << 20;

/// Longer than the daemon's own time-out for a request.
const PATIENCE: Duration = Duration::from_secs(20);

/// A daemon that works shows its state at once.
const SHOW_PATIENCE: Duration = Duration::from_secs(2);

/// The daemon did not answer.
#[derive(Debug, thiserror::Error)]
#[error("the daemon does not answer on {path}: {reason}")]
pub(super) struct Unreachable {
    path: String,
    reason: String,
    /// The error of the call; `None` for a reply of an unexpected kind.
    kind: Option<io::ErrorKind>,
}

/// Sends one request and waits for its reply.
pub(super) fn ask(run_dir: &Path, request: &Request) -> Result<Reply, Unreachable> {
    ask_within(run_dir, request, PATIENCE)
}

/// Sends a request and takes the reply's content with `take`; `None` from it is a reply of another kind.
pub(super) fn answer<T>(
    run_dir: &Path,
    request: &Request,
    take: impl FnOnce(Reply) -> Option<T>,
) -> anyhow::Result<T> {
    taken(run_dir, ask(run_dir, request)?, take)
}

/// The same for a request that only shows something: a hanging daemon is reported soon.
pub(super) fn show<T>(
    run_dir: &Path,
    request: &Request,
    take: impl FnOnce(Reply) -> Option<T>,
) -> anyhow::Result<T> {
    taken(run_dir, ask_within(run_dir, request, SHOW_PATIENCE)?, take)
}

fn taken<T>(run_dir: &Path, reply: Reply, take: impl FnOnce(Reply) -> Option<T>) -> anyhow::Result<T> {
    match reply {
        Reply::Refused(text) if text.starts_with(INVALID) => anyhow::bail!(
            "{text}; a daemon of another version than this program, {}, does not know all of its requests",
            env!("CARGO_PKG_VERSION")
        ),
        Reply::Refused(text) | Reply::Unstored(text) => anyhow::bail!(text),
        reply => take(reply).ok_or_else(|| Unreachable::odd(run_dir).into()),
    }
}

/// Arguments of the commands that show something.
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
    /// Sends a request to the daemon in the run directory.
    pub(super) fn ask<T>(
        &self,
        request: &Request,
        take: impl FnOnce(Reply) -> Option<T>,
    ) -> anyhow::Result<T> {
        show(&dirs::to_read(self.run_dir.as_deref()), request, take)
    }
}

/// Like [`ask`], with a time-out for each wait on the socket.
pub(super) fn ask_within(
    run_dir: &Path,
    request: &Request,
    patience: Duration,
) -> Result<Reply, Unreachable> {
    Connection::open(run_dir, patience)?.ask(request)
}

/// A connection for several requests.
pub(super) struct Connection {
    path: String,
    patience: Duration,
    stream: BufReader<UnixStream>,
}

impl Connection {
    /// Connects, with a time-out for each wait on the socket.
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
                kind: Some(e.kind()),
            }),
        }
    }

    /// A duplicate of the socket's descriptor.
    pub(super) fn copy(&self) -> io::Result<UnixStream> {
        self.stream.get_ref().try_clone()
    }

    /// Changes the time-out for each wait on the socket.
    pub(super) fn wait_at_most(&mut self, patience: Duration) -> io::Result<()> {
        self.stream.get_ref().set_read_timeout(Some(patience))?;
        self.patience = patience;
        Ok(())
    }

    /// Sends one request and waits for its reply.
    pub(super) fn ask(&mut self, request: &Request) -> Result<Reply, Unreachable> {
        exchange(&mut self.stream, request).map_err(|e| Unreachable {
            path: self.path.clone(),
            reason: reason(&e, self.patience),
            kind: Some(e.kind()),
        })
    }
}

/// The cause of the error, and the remedy.
fn reason(e: &io::Error, patience: Duration) -> String {
    match e.kind() {
        io::ErrorKind::NotFound => "no such socket. Start the daemon with `systemctl start nodewarden`, or \
             name its run directory with --run-dir. If it runs (`systemctl status nodewarden`), its run directory was \
             emptied: `systemctl restart nodewarden`"
            .to_owned(),
        io::ErrorKind::ConnectionRefused => {
            "no process listens: the daemon is not running. See `journalctl -u \
             nodewarden` for why, and start it with `systemctl start nodewarden`"
                .to_owned()
        }
        io::ErrorKind::PermissionDenied => {
            "permission denied for the socket or a folder above it; run as root".to_owned()
        }
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => format!(
            "no reply in {} s: daemon stuck or machine overloaded. See `journalctl -u nodewarden`",
            patience.as_secs()
        ),
        io::ErrorKind::UnexpectedEof => {
            "connection closed without a reply; the daemon may be starting or stopping".to_owned()
        }
        io::ErrorKind::InvalidData => format!(
            "the reply is not one of this version, {}: use the program of the daemon's version, also to see whether an \
             order was carried out ({e})",
            env!("CARGO_PKG_VERSION")
        ),
        _ => e.to_string(),
    }
}

fn exchange(stream: &mut BufReader<UnixStream>, request: &Request) -> io::Result<Reply> {
    let mut line = serde_json::to_string(request)?;
    line.push('\n');
    match stream.get_mut().write_all(line.as_bytes()) {
        // A daemon at its connection limit replies and closes without reading.
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
    /// A reply of an unexpected kind: the daemon has another version.
    pub(super) fn odd(run_dir: &Path) -> Self {
        Self {
            path: run_dir.join(SOCKET).display().to_string(),
            reason: "unexpected kind of reply; does the daemon have another version?".to_owned(),
            kind: None,
        }
    }

    /// The kind of the error, without its text, which has a path.
    pub(super) const fn kind(&self) -> Option<io::ErrorKind> {
        self.kind
    }
}

#[cfg(test)]
mod tests;
