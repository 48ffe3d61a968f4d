//! The socket of mmfsd that the program mmpmon uses. A request is a line; the reply ends with `_response_ end`.

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};

use super::helper::{self, Question};
use super::root;
use crate::{Env, Error, domain};

/// The path of the socket. Root owns it.
pub(crate) const SOCKET: &str = "/var/mmfs/mmpmon/mmpmonSocket";
/// Time limit of a reply. mmfsd answers from memory.
const PATIENCE: Duration = Duration::from_secs(2);
/// Size limit of a reply, in bytes: 2,000 filesystems.
const MOST: usize = 1 << 20;

/// What came back.
#[derive(Debug)]
pub(crate) enum Reply {
    /// The reply, whole.
    Text(String),
    /// No process listens: mmfsd does not run.
    NoDaemon,
}

/// Asks mmfsd, or the recording. Never blocks for longer than 2 s.
///
/// # Errors
/// `Denied` without write permission on the socket; `State` with reason `timeout` if mmfsd does not answer in 2 s; `Parse`
/// if it closes the connection before the end of its reply; `Io` with the kernel's error.
pub(crate) fn ask(env: &Env, request: &'static str) -> Result<Reply, Error> {
    let path = env.path(SOCKET);
    if env.is_live() {
        return live(&path, request, PATIENCE);
    }
    let recorded = root::read_text_within(&path, MOST as u64)?;
    let reply = recorded.as_deref().map(|text| reply_to(text, request));
    match reply {
        None => Ok(Reply::NoDaemon),
        Some(Some(reply)) => Ok(Reply::Text(reply.to_owned())),
        // What mmfsd sends for a request that it does not know.
        Some(None) => Ok(Reply::Text("_response_ end".to_owned())),
    }
}

fn live(path: &Path, request: &str, patience: Duration) -> Result<Reply, Error> {
    let failed = |e: std::io::Error| Error::io(path, e);
    let Some(mut stream) = connected(path)? else {
        return Ok(Reply::NoDaemon);
    };
    let end = Instant::now() + patience;
    stream.set_write_timeout(Some(patience)).map_err(failed)?;
    stream
        .write_all(format!("mmpmon {request}\n").as_bytes())
        .map_err(failed)?;
    let mut reply = Vec::new();
    let mut part = [0; 8192];
    while !is_whole(&reply) {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(late(path, patience));
        }
        stream.set_read_timeout(Some(left)).map_err(failed)?;
        match stream.read(&mut part) {
            Ok(0) => return Err(cut(path, &reply, "a reply that ends with _response_ end")),
            Ok(count) => reply.extend_from_slice(part.get(..count).unwrap_or_default()),
            Err(e) if e.kind() == ErrorKind::WouldBlock => return Err(late(path, patience)),
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(failed(e)),
        }
        if reply.len() > MOST {
            return Err(cut(path, &reply, "a reply of up to 1 MiB"));
        }
    }
    // The reply is whole; how the connection ends changes nothing.
    let _closed = stream.shutdown(Shutdown::Both);
    Ok(Reply::Text(String::from_utf8_lossy(&reply).into_owned()))
}

/// `None`: no process listens.
fn connected(path: &Path) -> Result<Option<UnixStream>, Error> {
    let fd = match helper::of(&domain::MMPMON) {
        Some(helper) => helper.descriptor(Question::Mmpmon),
        None => connection(path),
    };
    let fd = match fd {
        Ok(fd) => fd,
        Err(Errno::ENOENT | Errno::ECONNREFUSED) => return Ok(None),
        Err(Errno::EACCES | Errno::EPERM) => {
            return Err(Error::Denied {
                what: path.display().to_string(),
                missing: "write permission on the socket",
            });
        }
        Err(Errno::EAGAIN) => return Err(late(path, Duration::ZERO)),
        Err(errno) => return Err(Error::io(path, errno.into())),
    };
    let stream = UnixStream::from(fd);
    stream.set_nonblocking(false).map_err(|e| Error::io(path, e))?;
    Ok(Some(stream))
}

/// A connection that does not block. If its queue is full, `EAGAIN`.
///
/// # Errors
/// Of socket(2) and connect(2).
pub(super) fn connection(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let fd = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    connect(fd.as_raw_fd(), &UnixAddr::new(path)?)?;
    Ok(fd)
}

/// Whether the reply is whole.
fn is_whole(reply: &[u8]) -> bool {
    let end = b"_response_ end";
    let trimmed = reply.trim_ascii_end();
    trimmed.ends_with(end)
}

/// The reply to one request among several, as a recording holds them.
fn reply_to<'a>(replies: &'a str, request: &str) -> Option<&'a str> {
    let begin = format!("_response_ begin mmpmon {request}\n");
    let (_, rest) = replies.split_once(&begin)?;
    let end = rest
        .find("_response_ end")
        .map_or(rest.len(), |at| at + "_response_ end".len());
    rest.get(..end)
}

fn late(path: &Path, patience: Duration) -> Error {
    Error::State {
        what: format!(
            "{}: mmfsd did not answer in {} s",
            path.display(),
            patience.as_secs()
        ),
        reason: "timeout",
    }
}

fn cut(path: &Path, reply: &[u8], expected: &'static str) -> Error {
    let start = reply.get(..reply.len().min(80)).unwrap_or_default();
    Error::parse(
        path.display().to_string(),
        &String::from_utf8_lossy(start),
        expected,
    )
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::os::unix::net::UnixListener;
    use std::thread;

    use super::*;

    /// A mmfsd that sends these bytes to the first request, then closes, or holds the connection until the test ends.
    fn answered(reply: &'static [u8], closes: bool) -> Result<Reply, Error> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mmpmonSocket");
        let listener = UnixListener::bind(&path).unwrap();
        let server = thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line).unwrap();
            assert_eq!(line, "mmpmon fis\n");
            (&stream).write_all(reply).unwrap();
            (!closes).then_some(stream)
        });
        let got = live(&path, "fis", Duration::from_millis(300));
        drop(server.join().unwrap());
        got
    }

    #[test]
    fn a_whole_reply_is_returned_while_the_connection_stays_open() {
        let got = answered(
            b"_response_ begin mmpmon fis\n_mmpmon::fis_ _rc_ 1\n_response_ end\n",
            false,
        );
        let Ok(Reply::Text(text)) = got else {
            panic!("{got:?}")
        };
        assert!(text.contains("_rc_ 1"));
    }

    #[test]
    fn half_a_reply_is_an_error_and_no_value() {
        let error = answered(b"_response_ begin mmpmon fis\n_mmpmon::fis_ _rc_", true).unwrap_err();
        assert_eq!(error.reason(), "parse");
        assert!(error.to_string().contains("_response_ end"), "{error}");
    }

    #[test]
    fn a_daemon_that_stops_in_its_reply_is_left_after_the_limit() {
        let error = answered(b"_response_ begin", false).unwrap_err();
        assert_eq!(error.reason(), "timeout");
    }

    #[test]
    fn a_daemon_that_sends_without_end_is_left_at_the_size_limit() {
        let flood: &'static [u8] = Vec::leak(vec![b'x'; MOST + 1]);
        let error = answered(flood, true).unwrap_err();
        assert!(error.to_string().contains("up to 1 MiB"), "{error}");
    }

    #[test]
    fn a_socket_that_nothing_listens_to_means_no_daemon() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mmpmonSocket");
        assert!(matches!(live(&path, "fis", PATIENCE), Ok(Reply::NoDaemon)));
        drop(UnixListener::bind(&path).unwrap());
        assert!(matches!(live(&path, "fis", PATIENCE), Ok(Reply::NoDaemon)));
    }

    #[test]
    fn a_reply_is_whole_when_its_last_line_says_so() {
        assert!(is_whole(b"_response_ begin mmpmon fis\n_response_ end\n"));
        assert!(!is_whole(b"_response_ begin mmpmon fis\n_mmpmon::fis_ _rc_ 0"));
    }

    #[test]
    fn a_recording_holds_several_replies() {
        let replies = "_response_ begin mmpmon ver\n_mmpmon::ver_ _v_ 3\n_response_ end\n_response_ begin mmpmon fis\nx\n_response_ end\n";
        assert_eq!(reply_to(replies, "fis"), Some("x\n_response_ end"));
        assert_eq!(reply_to(replies, "gfis"), None);
    }
}
