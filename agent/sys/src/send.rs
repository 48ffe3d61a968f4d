//! Messages without a reply.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, UnixAddr, connect, send, socket};

/// A connection to a unix socket. Never waits.
pub(crate) fn connected(path: &Path) -> io::Result<OwnedFd> {
    // connect(2) follows links, and the daemon's user could place one that leads to another program's socket.
    let flags = libc::O_PATH | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    let place = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if !place.metadata()?.file_type().is_socket() {
        let what = "found another kind of file, expected a socket";
        return Err(io::Error::new(io::ErrorKind::InvalidData, what));
    }
    let path = format!("/proc/self/fd/{}", place.as_raw_fd());
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let fd = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    connect(fd.as_raw_fd(), &UnixAddr::new(path.as_str())?)?;
    Ok(fd)
}

/// Sends the bytes that the socket takes at once. The runtime's call does not try on a socket that it has not polled
/// yet.
///
/// # Errors
/// Of send(2).
pub fn now(socket: &impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
    Ok(send(socket.as_fd().as_raw_fd(), bytes, flags)?)
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixListener;

    use super::*;

    /// Sends without a reader's help.
    fn once(path: &Path, bytes: &[u8]) -> io::Result<usize> {
        now(&connected(path)?, bytes)
    }

    #[test]
    fn it_is_left_though_nobody_takes_it_yet_and_nobody_waits_where_there_is_no_room() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        assert!(once(&path, b"x").is_err());
        let listener = UnixListener::bind(&path).unwrap();
        assert_eq!(once(&path, b"one\n").unwrap(), 4);
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(once(&link, b"other\n").is_err());
        let full = (0..100_000).find_map(|_| once(&path, b"more\n").err()).unwrap();
        assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
        let mut text = String::new();
        listener.accept().unwrap().0.read_to_string(&mut text).unwrap();
        assert_eq!(text, "one\n");
    }
}
