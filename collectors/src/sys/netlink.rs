//! Netlink sockets. The kernel answers a request inside of send(2): a driver that blocks, blocks there.

mod lane;
mod recorded;

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, recvfrom, send, setsockopt,
    socket, sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike};

use crate::netlink::message::{Messages, Request, Turn};
use crate::netlink::{Garbled, Protocol};
use crate::sys::kept::{DescriptorBudget, Permit};
pub(crate) use recorded::check as check_recording;

/// An answer is at most 8 KiB (`NLMSG_DEFAULT_SIZE`), and the pieces of a list are made to fit the buffer.
const PIECE: usize = 16 * 1024;

/// How long an answer may be missing after send(2) has returned. It is there by then, but for a list's later pieces.
const MISSING: Duration = Duration::from_secs(5);

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NetlinkError {
    /// The kernel refused, or there is no such protocol.
    #[error("{0}")]
    Kernel(#[from] Errno),
    /// It said something else than it should.
    #[error(transparent)]
    Garbled(#[from] Garbled),
    /// It was not asked: it would not answer before another request, which may be stuck.
    #[error("another request is in flight")]
    Busy,
}

/// Who answers questions: the kernel, or a test in its place.
pub(crate) trait NetlinkTransport: Send {
    /// Asks, and hands out every message of the answer.
    ///
    /// # Errors
    /// When the kernel refuses, does not answer, or says what cannot be read.
    fn ask(
        &mut self,
        request: &mut Request,
        take: &mut dyn FnMut(&[u8]) -> Result<(), Garbled>,
    ) -> Result<(), NetlinkError>;
}

/// Who answers here: the kernel by a socket of this protocol, or the recording in a folder in its place.
pub(crate) fn asker(
    recorded: Option<&Path>,
    protocol: Protocol,
    budget: &Arc<DescriptorBudget>,
) -> Box<dyn NetlinkTransport> {
    match recorded {
        Some(folder) => Box::new(recorded::RecordedNetlink::new(folder, protocol)),
        None => {
            let lazy = Box::new(LazySocket {
                protocol,
                permit: budget.take(),
                budget: Arc::clone(budget),
                open: None,
            });
            match protocol {
                Protocol::Rdma if lane::is_single() => Box::new(lane::InLane::new(lazy)),
                _ => lazy,
            }
        }
    }
}

/// A socket that is opened at the first question, within the budget of descriptors. Its permit is taken before: files can be
/// opened anew for each reading, a socket cannot.
struct LazySocket {
    protocol: Protocol,
    budget: Arc<DescriptorBudget>,
    permit: Option<Permit>,
    open: Option<Socket>,
}

impl NetlinkTransport for LazySocket {
    fn ask(
        &mut self,
        request: &mut Request,
        take: &mut dyn FnMut(&[u8]) -> Result<(), Garbled>,
    ) -> Result<(), NetlinkError> {
        if self.permit.is_none() {
            self.permit = Some(self.budget.take().ok_or(Errno::EMFILE)?);
        }
        let socket = match &mut self.open {
            Some(socket) => socket,
            open => open.insert(Socket::of(self.protocol)?),
        };
        let answer = socket.ask(request, take);
        if answer.is_err_and(|error| !matches!(error, NetlinkError::Kernel(_))) {
            // What may still come is not to be taken for the next answer.
            self.open = None;
        }
        answer
    }
}

/// One socket for those who ask in turn.
#[derive(Clone)]
pub(crate) struct SharedTransport(Arc<Mutex<Box<dyn NetlinkTransport>>>);

impl SharedTransport {
    pub(crate) fn new(kernel: Box<dyn NetlinkTransport>) -> Self {
        Self(Arc::new(Mutex::new(kernel)))
    }
}

impl NetlinkTransport for SharedTransport {
    fn ask(
        &mut self,
        request: &mut Request,
        take: &mut dyn FnMut(&[u8]) -> Result<(), Garbled>,
    ) -> Result<(), NetlinkError> {
        let mut kernel = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kernel.ask(request, take)
    }
}

/// A socket to one protocol of the kernel.
#[derive(Debug)]
pub(crate) struct Socket {
    fd: OwnedFd,
    sequence: u32,
    /// For one piece of an answer; kept, not cleared for each question.
    buffer: Box<[u8]>,
}

impl Socket {
    /// The kernel loads its module for RDMA where there is one on the disk; otherwise `EPROTONOSUPPORT`.
    ///
    /// # Errors
    /// Of socket(2).
    pub(crate) fn of(protocol: Protocol) -> Result<Self, Errno> {
        let protocol = match protocol {
            Protocol::Rdma => SockProtocol::NetlinkRDMA,
            Protocol::Route => SockProtocol::NetlinkRoute,
            Protocol::Generic => SockProtocol::NetlinkGeneric,
        };
        let fd = socket(
            AddressFamily::Netlink,
            SockType::Raw,
            SockFlag::SOCK_CLOEXEC,
            protocol,
        )?;
        let missing = i64::try_from(MISSING.as_secs()).unwrap_or(i64::MAX);
        setsockopt(&fd, sockopt::ReceiveTimeout, &TimeVal::seconds(missing))?;
        Ok(Self {
            fd,
            sequence: 0,
            buffer: vec![0; PIECE].into_boxed_slice(),
        })
    }

    /// Asks, and hands out every message of the answer.
    ///
    /// # Errors
    /// When the kernel refuses, does not answer, or says what cannot be read.
    pub(crate) fn ask(
        &mut self,
        request: &mut Request,
        take: &mut dyn FnMut(&[u8]) -> Result<(), Garbled>,
    ) -> Result<(), NetlinkError> {
        self.sequence = self.sequence.wrapping_add(1);
        let bytes = request.numbered(self.sequence);
        send(self.fd.as_raw_fd(), bytes, MsgFlags::empty())?;
        let until = Instant::now() + MISSING;
        // The rest of an answer is read, or the kernel would be busy with it at the next question.
        let mut taken = Ok(());
        while Instant::now() < until {
            let piece = piece(&self.fd, &mut self.buffer)?;
            for message in Messages::new(piece) {
                let message = message?;
                if message.sequence != self.sequence {
                    // To an earlier question, whose answer came too late.
                    continue;
                }
                match message.turn()? {
                    Turn::Goes if taken.is_ok() => taken = take(message.payload),
                    Turn::Goes => {}
                    Turn::Over => return Ok(taken?),
                    Turn::Refused(errno) => return Err(errno.into()),
                }
            }
        }
        Err(Errno::ETIMEDOUT.into())
    }
}

/// What has come at one time.
fn piece<'a>(fd: &OwnedFd, buffer: &'a mut [u8]) -> Result<&'a [u8], NetlinkError> {
    loop {
        let (length, from) = match recvfrom::<NetlinkAddr>(fd.as_raw_fd(), buffer) {
            Err(Errno::EINTR) => continue,
            got => got?,
        };
        if from.is_some_and(|from| from.pid() != 0) {
            // Not the kernel.
            continue;
        }
        return Ok(buffer.get(..length).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every kernel has this protocol; nobody needs a right to ask it.
    const GET_LINK: u16 = 18;

    fn links() -> Request {
        // struct ifinfomsg
        Request::all(GET_LINK).with_fixed(&[0; 16])
    }

    fn route() -> Socket {
        Socket::of(Protocol::Route).unwrap()
    }

    #[test]
    fn the_kernel_answers_with_a_list_and_its_end() {
        let mut socket = route();
        for _ in 0..2 {
            let mut told = 0;
            socket
                .ask(&mut links(), &mut |payload| {
                    told += 1;
                    assert!(payload.len() >= 16);
                    Ok(())
                })
                .unwrap();
            assert!(told >= 1, "lo");
        }
    }

    #[test]
    fn a_socket_has_its_place_before_files_take_the_rest() {
        let budget = DescriptorBudget::new(1);
        let mut first = asker(None, Protocol::Route, &budget);
        assert!(budget.take().is_none(), "nothing is left for files");
        let mut second = asker(None, Protocol::Route, &budget);
        assert_eq!(
            second.ask(&mut links(), &mut |_| Ok(())),
            Err(Errno::EMFILE.into())
        );
        assert_eq!(first.ask(&mut links(), &mut |_| Ok(())), Ok(()));
        drop(first);
        assert_eq!(second.ask(&mut links(), &mut |_| Ok(())), Ok(()));
    }

    #[test]
    fn what_the_kernel_refuses_is_its_error() {
        let nobody = &mut Request::one(2000).with_fixed(&[0; 16]);
        assert_eq!(
            route().ask(nobody, &mut |_| Ok(())),
            Err(NetlinkError::Kernel(Errno::EOPNOTSUPP))
        );
    }

    #[test]
    fn what_the_taker_does_not_understand_ends_the_answer_and_not_the_socket() {
        let mut socket = route();
        let garbled = Garbled("a link");
        let refused = socket.ask(&mut links(), &mut |_| Err(garbled));
        assert_eq!(refused, Err(NetlinkError::Garbled(garbled)));
        assert_eq!(socket.ask(&mut links(), &mut |_| Ok(())), Ok(()));
    }
}
