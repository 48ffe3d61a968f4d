//! Words that nobody waits for an answer to.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;

use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, UnixAddr, connect, send, socket};

/// Connects to a unix socket, leaves these bytes there and hangs up. Never waits: one who does not listen or whose queue
/// is full is an error.
///
/// # Errors
/// What socket(2), connect(2) and send(2) say; and that not all of it was taken.
pub fn once(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let fd = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    connect(fd.as_raw_fd(), &UnixAddr::new(path)?)?;
    if now(&fd, bytes)? == bytes.len() {
        return Ok(());
    }
    Err(io::ErrorKind::WriteZero.into())
}

/// Sends as much as a socket takes at once. The runtime's own call does not try on a socket that it has not polled yet.
///
/// # Errors
/// What send(2) says.
pub fn now(socket: &impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
    Ok(send(socket.as_fd().as_raw_fd(), bytes, flags)?)
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn it_is_left_though_nobody_takes_it_yet_and_nobody_waits_where_there_is_no_room() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        assert!(once(&path, b"x").is_err());
        let listener = UnixListener::bind(&path).unwrap();
        once(&path, b"one\n").unwrap();
        let full = (0..100_000).find_map(|_| once(&path, b"more\n").err()).unwrap();
        assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
        let mut text = String::new();
        listener.accept().unwrap().0.read_to_string(&mut text).unwrap();
        assert_eq!(text, "one\n");
    }
}
