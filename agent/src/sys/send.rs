//! Last words on a connection that nobody will wait for.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use nix::sys::socket::{MsgFlags, send};

/// Sends as much as a socket takes at once. The runtime's own call does not try on a socket that it has not polled yet.
///
/// # Errors
/// What send(2) says.
pub fn now(socket: &impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
    Ok(send(socket.as_fd().as_raw_fd(), bytes, flags)?)
}
