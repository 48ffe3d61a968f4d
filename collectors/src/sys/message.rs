//! Messages of sockets, with the descriptors that come along.

use std::io::IoSliceMut;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};

use nix::errno::Errno;
use nix::sys::socket::MsgFlags;

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
/// The kernel's error; `EAGAIN` without a message, if `flags` or the socket say so; `ENOBUFS` when not all descriptors
/// could be received, none of which then stays open.
#[allow(unsafe_code, reason = "takes ownership of received descriptors")]
pub fn receive(socket: &impl AsFd, buffer: &mut [u8], flags: MsgFlags) -> Result<Message, Errno> {
    let mut space = nix::cmsg_space!([RawFd; MAX_DESCRIPTORS]);
    let mut slice = IoSliceMut::new(buffer);
    let (socket, flags) = (socket.as_fd().as_raw_fd(), flags | MsgFlags::MSG_CMSG_CLOEXEC);
    // SAFETY: null pointers and lengths of 0 are valid.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    // An IoSliceMut has the layout of an iovec.
    header.msg_iov = (&raw mut slice).cast();
    header.msg_iovlen = 1;
    header.msg_control = space.as_mut_ptr().cast();
    header.msg_controllen = space.capacity();
    let length = retried(|| {
        // SAFETY: the header points to the slice and to the space, which have these lengths and outlive the call.
        Errno::result(unsafe { libc::recvmsg(socket, &raw mut header, flags.bits()) })
    })?;
    // Not by nix, which refuses a list that was cut, and leaves its descriptors open.
    // SAFETY: the kernel has filled the header and the list that it points to.
    let descriptors = unsafe { owned(&header) };
    if header.msg_flags & libc::MSG_CTRUNC != 0 {
        return Err(Errno::ENOBUFS);
    }
    Ok(Message {
        length: usize::try_from(length).unwrap_or_default(),
        is_cut: header.msg_flags & libc::MSG_TRUNC != 0,
        descriptors,
    })
}

/// The descriptors of a control list.
///
/// # Safety
/// recvmsg(2) has filled the header, and the list has no other owner.
#[allow(unsafe_code, reason = "takes ownership of received descriptors")]
unsafe fn owned(header: &libc::msghdr) -> Vec<OwnedFd> {
    let mut descriptors = Vec::new();
    // SAFETY: by contract; the C library's macros stay inside the list. The kernel has just installed the descriptors,
    // and no other code owns them.
    unsafe {
        let mut next = libc::CMSG_FIRSTHDR(header);
        while let Some(control) = next.as_ref() {
            if (control.cmsg_level, control.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
                let bytes = control.cmsg_len.saturating_sub(libc::CMSG_LEN(0) as usize);
                let first = libc::CMSG_DATA(next).cast::<RawFd>();
                for at in 0..bytes / size_of::<RawFd>() {
                    descriptors.push(OwnedFd::from_raw_fd(first.add(at).read_unaligned()));
                }
            }
            next = libc::CMSG_NXTHDR(header, next);
        }
    }
    descriptors
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

#[cfg(test)]
mod tests {
    use std::io::{IoSlice, PipeReader, pipe};
    use std::os::unix::net::UnixStream;

    use nix::poll::{PollFd, PollFlags, poll};
    use nix::sys::socket::{ControlMessage, sendmsg, setsockopt, sockopt};

    use super::*;

    /// A message with the writer of a pipe, as often as a message may have it.
    fn sent(to: &UnixStream) -> PipeReader {
        let (reader, writer) = pipe().unwrap();
        let fds = [writer.as_raw_fd(); MAX_DESCRIPTORS];
        let control = [ControlMessage::ScmRights(&fds)];
        let flags = MsgFlags::empty();
        sendmsg::<()>(to.as_raw_fd(), &[IoSlice::new(b"x")], &control, flags, None).unwrap();
        reader
    }

    /// Waits for a child that another test has just forked.
    fn has_no_writer(reader: &PipeReader) -> bool {
        poll(&mut [PollFd::new(reader.as_fd(), PollFlags::POLLIN)], 10_000_u16) == Ok(1)
    }

    #[test]
    fn as_many_descriptors_as_a_message_may_have_are_owned() {
        let (from, to) = UnixStream::pair().unwrap();
        let reader = sent(&from);
        let message = receive(&to, &mut [0; 8], MsgFlags::empty()).unwrap();
        assert_eq!((message.length, message.is_cut), (1, false));
        assert_eq!(message.descriptors.len(), MAX_DESCRIPTORS);
        drop(message);
        assert!(has_no_writer(&reader));
    }

    /// The sender's ids come first and leave no room for all descriptors: those that had room stayed open.
    #[test]
    fn of_a_list_that_is_cut_no_descriptor_stays_open() {
        let (from, to) = UnixStream::pair().unwrap();
        setsockopt(&to, sockopt::PassCred, &true).unwrap();
        let reader = sent(&from);
        let received = receive(&to, &mut [0; 8], MsgFlags::empty());
        assert_eq!(received.unwrap_err(), Errno::ENOBUFS);
        assert!(has_no_writer(&reader));
    }
}
