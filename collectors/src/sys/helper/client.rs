//! The worker's side.

use std::io::IoSlice;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Mutex;

use nix::errno::Errno;
use nix::sys::socket::{ControlMessage, MsgFlags, recv, send, sendmsg};

use super::Question;
use crate::sys::message::{self, retried};

/// The socket to a helper; one request at a time.
#[derive(Debug)]
pub(crate) struct Client(Mutex<OwnedFd>);

impl Client {
    pub(super) fn new(socket: OwnedFd) -> Self {
        Self(Mutex::new(socket))
    }

    /// Asks, and waits for the reply. `folder` is the cgroup of [`Question::Attached`].
    ///
    /// # Errors
    /// The kernel's error in the helper; `EPIPE` if the helper has ended, after which the parent restarts both.
    pub(crate) fn ask(&self, question: Question, folder: Option<BorrowedFd<'_>>) -> Result<Vec<u8>, Errno> {
        let socket = self.0.lock().map_err(|_| Errno::EIO)?;
        request(&socket, question, folder)?;
        let mut reply = vec![0; size_of::<i32>() + question.most()];
        let length = retried(|| recv(socket.as_raw_fd(), &mut reply, MsgFlags::empty()))?;
        reply.truncate(length);
        answered(&reply).map(<[u8]>::to_vec)
    }

    /// Asks for a descriptor, and waits for it.
    ///
    /// # Errors
    /// Like [`Self::ask`].
    pub(crate) fn descriptor(&self, question: Question) -> Result<OwnedFd, Errno> {
        let socket = self.0.lock().map_err(|_| Errno::EIO)?;
        request(&socket, question, None)?;
        let mut reply = [0; size_of::<i32>()];
        let message = message::receive(&*socket, &mut reply, MsgFlags::empty())?;
        answered(reply.get(..message.length).unwrap_or_default())?;
        message.descriptors.into_iter().next().ok_or(Errno::EBADF)
    }
}

fn request(socket: &OwnedFd, question: Question, folder: Option<BorrowedFd<'_>>) -> Result<(), Errno> {
    let request = question.encode();
    let fd = socket.as_raw_fd();
    let sent = retried(|| match folder {
        Some(folder) => sendmsg::<()>(
            fd,
            &[IoSlice::new(&request)],
            &[ControlMessage::ScmRights(&[folder.as_raw_fd()])],
            MsgFlags::MSG_NOSIGNAL,
            None,
        ),
        // A worker that passes no descriptor needs no right to.
        None => send(fd, &request, MsgFlags::MSG_NOSIGNAL),
    });
    sent.map(drop)
}

/// The bytes of a reply, or its error.
fn answered(reply: &[u8]) -> Result<&[u8], Errno> {
    let (code, bytes) = reply.split_first_chunk().ok_or(Errno::EPIPE)?;
    match i32::from_ne_bytes(*code) {
        0 => Ok(bytes),
        code => Err(Errno::from_raw(code)),
    }
}
