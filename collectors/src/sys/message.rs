//! Messages of sockets, with the descriptors that come along.

use std::io::IoSliceMut;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};

use nix::errno::Errno;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg};

/// The kernel's limit of descriptors in a message (`SCM_MAX_FD`). Of a list for fewer it installs a part that no owner
/// closes.
const MAX_DESCRIPTORS: usize = 253;

/// A message, whose bytes are in the caller's buffer.
#[derive(Debug)]
pub struct Message {
    /// Bytes received. 0: the other end is closed.
    pub length: usize,
    /// The message is longer than the buffer.
    pub is_cut: bool,
    /// What came along. Dropping closes it.
    pub descriptors: Vec<OwnedFd>,
}

/// Receives one message (recvmsg(2)); a signal does not end it. Descriptors are closed on exec.
///
/// # Errors
/// The kernel's error; `EAGAIN` without a message, if `flags` or the socket say so.
#[allow(unsafe_code, reason = "takes ownership of received descriptors")]
pub fn receive(socket: &impl AsFd, buffer: &mut [u8], flags: MsgFlags) -> Result<Message, Errno> {
    let mut space = nix::cmsg_space!([RawFd; MAX_DESCRIPTORS]);
    let mut slices = [IoSliceMut::new(buffer)];
    let (socket, flags) = (socket.as_fd().as_raw_fd(), flags | MsgFlags::MSG_CMSG_CLOEXEC);
    let message = retried(|| {
        let message = recvmsg::<()>(socket, &mut slices, Some(&mut space), flags)?;
        let control: Vec<ControlMessageOwned> = message.cmsgs()?.collect();
        Ok((message.bytes, message.flags, control))
    });
    let (length, flags, control) = message?;
    let mut descriptors = Vec::new();
    for control in control {
        if let ControlMessageOwned::ScmRights(fds) = control {
            // SAFETY: the kernel has just installed these descriptors, and no other code owns them.
            descriptors.extend(fds.into_iter().map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }));
        }
    }
    Ok(Message {
        length,
        is_cut: flags.contains(MsgFlags::MSG_TRUNC),
        descriptors,
    })
}

/// A call that a signal has interrupted is made again.
///
/// # Errors
/// Any other error of the call.
pub fn retried<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno::EINTR) => {}
            done => return done,
        }
    }
}
