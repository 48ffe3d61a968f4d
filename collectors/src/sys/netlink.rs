//! Netlink sockets. The kernel answers a request inside send(2), so a driver that blocks, blocks there.

mod lane;
mod recorded;

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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

/// An answer is at most 8 KiB (`NLMSG_DEFAULT_SIZE`), and the kernel fits the pieces of a list to the buffer.
const PIECE: usize = 16 * 1024;

/// Time-out of an answer after send(2) has returned. It is available by then, except later pieces of a list.
const MISSING: Duration = Duration::from_secs(5);

/// Why a query has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NetlinkError {
    /// The kernel rejected it, or the protocol does not exist.
    #[error("{0}")]
    Kernel(#[from] Errno),
    /// The answer is malformed.
    #[error(transparent)]
    Garbled(#[from] Garbled),
    /// It was not sent: the kernel would answer it only after another request, which may be stuck.
    #[error("another request is in flight")]
    Busy,
}

/// The transport of queries: the kernel, or a test.
pub(crate) trait NetlinkTransport: Send {
    /// Sends a query, and passes on every message of the answer.
    ///
    /// # Errors
    /// When the kernel rejects the query, does not answer, or the answer is malformed.
    fn ask(
        &mut self,
        request: &mut Request,
        take: &mut dyn FnMut(&[u8]) -> Result<(), Garbled>,
    ) -> Result<(), NetlinkError>;
}

/// The transport in this environment: a socket of this protocol, or the recording in a folder. The kernel's modules of
/// routing and of generic netlink cannot be unloaded, so the socket stays open.
pub(crate) fn asker(
    recorded: Option<&Path>,
    protocol: Protocol,
    budget: &Arc<DescriptorBudget>,
) -> Box<dyn NetlinkTransport> {
    let idle = IdleSocket::new();
    idle.keep();
    asker_with(recorded, protocol, budget, idle)
}

/// The transport to RDMA in this environment: its socket is `idle`'s between two queries.
pub(crate) fn rdma_asker(
    recorded: Option<&Path>,
    budget: &Arc<DescriptorBudget>,
    idle: &Arc<IdleSocket>,
) -> Box<dyn NetlinkTransport> {
    asker_with(recorded, Protocol::Rdma, budget, Arc::clone(idle))
}

fn asker_with(
    recorded: Option<&Path>,
    protocol: Protocol,
    budget: &Arc<DescriptorBudget>,
    idle: Arc<IdleSocket>,
) -> Box<dyn NetlinkTransport> {
    match recorded {
        Some(folder) => Box::new(recorded::RecordedNetlink::new(folder, protocol)),
        None => {
            let lazy = Box::new(LazySocket {
                protocol,
                permit: budget.take(),
                budget: Arc::clone(budget),
                idle,
            });
            match protocol {
                Protocol::Rdma if lane::is_single() => Box::new(lane::InLane::new(lazy)),
                _ => lazy,
            }
        }
    }
}

/// A socket between two queries, of one transport or of several that take turns. While a socket to RDMA is open, the
/// kernel keeps its module ib_core loaded (`netlink_create` in net/netlink/af_netlink.c), and a restart of the drivers fails. So
/// it is kept only during a batch of readings.
#[derive(Debug, Default)]
pub(crate) struct IdleSocket(Mutex<Idle>);

#[derive(Debug, Default)]
struct Idle {
    is_kept: bool,
    socket: Option<Socket>,
}

impl IdleSocket {
    /// Keeps none: each query has its own.
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    fn lock(&self) -> MutexGuard<'_, Idle> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on a socket stays open after its query.
    pub(crate) fn keep(&self) {
        self.lock().is_kept = true;
    }

    /// Closes it, and one in use after its query.
    pub(crate) fn close(&self) {
        *self.lock() = Idle::default();
    }

    fn take(&self) -> Option<Socket> {
        self.lock().socket.take()
    }

    fn put(&self, socket: Socket) {
        let mut idle = self.lock();
        if idle.is_kept {
            idle.socket = Some(socket);
        }
    }
}

/// A socket that is opened at the first query, within the budget of descriptors. Its permit is taken first: files
/// can be reopened for each reading, a socket cannot.
struct LazySocket {
    protocol: Protocol,
    budget: Arc<DescriptorBudget>,
    permit: Option<Permit>,
    idle: Arc<IdleSocket>,
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
        let mut socket = match self.idle.take() {
            Some(socket) => socket,
            None => Socket::of(self.protocol)?,
        };
        let answer = socket.ask(request, take);
        // After another error, late messages must not be taken for the next answer.
        if matches!(answer, Ok(()) | Err(NetlinkError::Kernel(_))) {
            self.idle.put(socket);
        }
        answer
    }
}

/// One socket for users that take turns.
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
    /// For one piece of an answer; reused, not cleared for each query.
    buffer: Box<[u8]>,
}

impl Socket {
    /// The kernel loads its RDMA module if it is installed; otherwise `EPROTONOSUPPORT`.
    ///
    /// # Errors
    /// The errors of socket(2).
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

    /// Sends a query, and passes on every message of the answer.
    ///
    /// # Errors
    /// When the kernel rejects the query, does not answer, or the answer is malformed.
    pub(crate) fn ask(
        &mut self,
        request: &mut Request,
        take: &mut dyn FnMut(&[u8]) -> Result<(), Garbled>,
    ) -> Result<(), NetlinkError> {
        self.sequence = self.sequence.wrapping_add(1);
        let bytes = request.numbered(self.sequence);
        send(self.fd.as_raw_fd(), bytes, MsgFlags::empty())?;
        let until = Instant::now() + MISSING;
        // The rest of an answer is read, or the kernel would still be busy with it at the next query.
        let mut taken = Ok(());
        while Instant::now() < until {
            let piece = piece(&self.fd, &mut self.buffer)?;
            for message in Messages::new(piece) {
                let message = message?;
                if message.sequence != self.sequence {
                    // An answer to an earlier query that came too late.
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

/// The messages of one datagram.
fn piece<'a>(fd: &OwnedFd, buffer: &'a mut [u8]) -> Result<&'a [u8], NetlinkError> {
    loop {
        let (length, from) = match recvfrom::<NetlinkAddr>(fd.as_raw_fd(), buffer) {
            Err(Errno::EINTR) => continue,
            got => got?,
        };
        if from.is_some_and(|from| from.pid() != 0) {
            // Not from the kernel.
            continue;
        }
        return Ok(buffer.get(..length).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every kernel has this protocol; queries need no capability.
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
            let mut count = 0;
            socket
                .ask(&mut links(), &mut |payload| {
                    count += 1;
                    assert!(payload.len() >= 16);
                    Ok(())
                })
                .unwrap();
            assert!(count >= 1, "lo");
        }
    }

    #[test]
    fn a_socket_has_its_place_before_files_take_the_rest() {
        let budget = DescriptorBudget::new(1);
        let mut first = asker(None, Protocol::Route, &budget);
        assert!(budget.take().is_none(), "no permit is left for files");
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
        let unknown = &mut Request::one(2000).with_fixed(&[0; 16]);
        assert_eq!(
            route().ask(unknown, &mut |_| Ok(())),
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

    /// A socket to RDMA that stays open prevents that ib_core is unloaded.
    #[test]
    fn a_socket_is_kept_for_a_batch_and_shared_by_those_that_take_turns() {
        let idle = IdleSocket::new();
        let budget = DescriptorBudget::new(2);
        let transport = || asker_with(None, Protocol::Route, &budget, Arc::clone(&idle));
        let (mut one, mut other) = (transport(), transport());
        let fd = || idle.lock().socket.as_ref().map(|socket| socket.fd.as_raw_fd());
        let ask = |kernel: &mut Box<dyn NetlinkTransport>| {
            kernel.ask(&mut links(), &mut |_| Ok(())).unwrap();
            fd()
        };
        assert_eq!(ask(&mut one), None, "outside of a batch");
        idle.keep();
        let first = ask(&mut one);
        assert!(first.is_some());
        assert_eq!(ask(&mut other), first);
        // A reading that ends after its batch.
        let late = idle.take().unwrap();
        idle.close();
        idle.put(late);
        assert_eq!((fd(), ask(&mut one)), (None, None));
    }
}
