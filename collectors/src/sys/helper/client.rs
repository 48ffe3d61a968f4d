//! The worker's side.

use std::io::IoSlice;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Mutex;

use nix::errno::Errno;
use nix::sys::socket::{ControlMessage, MsgFlags, recv, send, sendmsg};

use super::Question;
use crate::sys::message::retried;

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
        let request = question.encode();
        retried(|| match folder {
            Some(folder) => sendmsg::<()>(
                socket.as_raw_fd(),
                &[IoSlice::new(&request)],
                &[ControlMessage::ScmRights(&[folder.as_raw_fd()])],
                MsgFlags::MSG_NOSIGNAL,
                None,
            ),
            // A worker that passes no descriptor needs no right to.
            None => send(socket.as_raw_fd(), &request, MsgFlags::MSG_NOSIGNAL),
        })?;
        let mut reply = vec![0; size_of::<i32>() + question.most()];
        let length = retried(|| recv(socket.as_raw_fd(), &mut reply, MsgFlags::empty()))?;
        reply.truncate(length);
        let (code, bytes) = reply.split_first_chunk().ok_or(Errno::EPIPE)?;
        match i32::from_ne_bytes(*code) {
            0 => Ok(bytes.to_vec()),
            code => Err(Errno::from_raw(code)),
        }
    }
}
