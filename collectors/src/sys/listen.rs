//! Sockets on which the kernel reports changes of RDMA devices and network interfaces.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::socket::{
    AddressFamily, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recvfrom, socket,
};

use crate::sys::kept::{DescriptorBudget, Permit};

/// A message about an interface contains its statistics; a longer one is truncated, which is detected.
const PIECE: usize = 16 * 1024;
/// `RDMA_NL_GROUP_NOTIFY`, as a bit.
const NOTIFY: u32 = 1 << 3;
/// `RTNLGRP_LINK`, as a bit.
const LINK: u32 = 1;

/// An event of the sockets.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SocketEvent<'a> {
    /// Messages of RDMA.
    Rdma(&'a [u8]),
    /// Messages about network interfaces.
    Links(&'a [u8]),
    /// The kernel dropped messages because the receive buffer was full.
    Lost,
    /// Another thread woke the waiting one.
    Bell,
}

/// The source of events: sockets, or a test.
pub(crate) trait EventSource: Send {
    /// Waits up to `limit` for any event, and passes on all available ones.
    ///
    /// # Errors
    /// When no further events can be received.
    fn hear(&mut self, limit: Duration, take: &mut dyn FnMut(SocketEvent<'_>)) -> Result<(), Errno>;
}

/// Wakes the thread that waits for events.
#[derive(Debug)]
pub(crate) struct EventWaker {
    fd: EventFd,
    _permit: Permit,
}

impl EventWaker {
    /// # Errors
    /// EMFILE if the budget is used up, and the errors of eventfd(2).
    pub(crate) fn new(budget: &Arc<DescriptorBudget>) -> Result<Self, Errno> {
        let permit = budget.take().ok_or(Errno::EMFILE)?;
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        Ok(Self {
            fd: EventFd::from_value_and_flags(0, flags)?,
            _permit: permit,
        })
    }

    /// Wakes it, now or at its next wait.
    pub(crate) fn ring(&self) {
        // The counter is full, so a wake-up is already pending.
        self.fd.write(1).ok();
    }
}

/// Both sockets, and the waker.
pub(crate) struct EventSockets {
    /// `None` if the kernel has no RDMA, or rejects the subscription.
    rdma: Option<OwnedFd>,
    links: OwnedFd,
    bell: Arc<EventWaker>,
    _permits: [Permit; 2],
}

impl EventSockets {
    /// Receives messages from now on. A kernel before 6.12 sends none about RDMA.
    ///
    /// # Errors
    /// EMFILE if the budget is used up, and the errors of socket(2) and bind(2) for network interfaces.
    pub(crate) fn open(budget: &Arc<DescriptorBudget>, bell: &Arc<EventWaker>) -> Result<Self, Errno> {
        let permit = || budget.take().ok_or(Errno::EMFILE);
        let permits = [permit()?, permit()?];
        let rdma = group(SockProtocol::NetlinkRDMA, NOTIFY)
            .inspect_err(|error| tracing::debug!(%error, "no RDMA events from the kernel"));
        Ok(Self {
            rdma: rdma.ok(),
            links: group(SockProtocol::NetlinkRoute, LINK)?,
            bell: Arc::clone(bell),
            _permits: permits,
        })
    }
}

fn group(protocol: SockProtocol, groups: u32) -> Result<OwnedFd, Errno> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let fd = socket(AddressFamily::Netlink, SockType::Raw, flags, protocol)?;
    bind(fd.as_raw_fd(), &NetlinkAddr::new(0, groups))?;
    Ok(fd)
}

/// The next message of a socket. `None`: none is available.
fn next<'a>(fd: &OwnedFd, buffer: &'a mut [u8]) -> Result<Option<&'a [u8]>, Errno> {
    loop {
        match recvfrom::<NetlinkAddr>(fd.as_raw_fd(), buffer) {
            Ok((length, Some(from))) if from.pid() == 0 => {
                return Ok(Some(buffer.get(..length).unwrap_or_default()));
            }
            // Not from the kernel.
            Ok(_) | Err(Errno::EINTR) => {}
            Err(Errno::EAGAIN) => return Ok(None),
            Err(error) => return Err(error),
        }
    }
}

impl EventSource for EventSockets {
    fn hear(&mut self, limit: Duration, take: &mut dyn FnMut(SocketEvent<'_>)) -> Result<(), Errno> {
        let mut fds = vec![
            PollFd::new(self.bell.fd.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.links.as_fd(), PollFlags::POLLIN),
        ];
        let rdma = self.rdma.as_ref();
        fds.extend(rdma.map(|fd| PollFd::new(fd.as_fd(), PollFlags::POLLIN)));
        match poll(&mut fds, PollTimeout::try_from(limit).unwrap_or(PollTimeout::MAX)) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error),
        }
        let mut buffer = [0; PIECE];
        let mut drain = |fd: &OwnedFd, heard: fn(&[u8]) -> SocketEvent<'_>| {
            loop {
                match next(fd, &mut buffer) {
                    Ok(Some(bytes)) => take(heard(bytes)),
                    Ok(None) => return Ok(()),
                    Err(Errno::ENOBUFS) => take(SocketEvent::Lost),
                    Err(error) => return Err(error),
                }
            }
        };
        if let Some(fd) = rdma {
            drain(fd, |bytes| SocketEvent::Rdma(bytes))?;
        }
        drain(&self.links, |bytes| SocketEvent::Links(bytes))?;
        if self.bell.fd.read().is_ok() {
            take(SocketEvent::Bell);
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::netlink::Protocol;
    use crate::netlink::message::Request;
    use crate::sys::netlink::Socket;

    /// Sets an interface up, in the network namespace of this thread.
    pub(crate) fn set_up(index: u32) {
        let (index, up) = (index.to_ne_bytes(), 1_u32.to_ne_bytes());
        let fixed = [&[0; 4][..], &index, &up, &up].concat();
        // RTM_NEWLINK
        let mut request = Request::one(16).with_fixed(&fixed);
        Socket::of(Protocol::Route)
            .unwrap()
            .ask(&mut request, &mut |_| Ok(()))
            .unwrap();
    }

    #[test]
    fn a_bell_that_was_rung_before_anybody_listened_is_heard_once() {
        let budget = DescriptorBudget::new(3);
        let bell = Arc::new(EventWaker::new(&budget).unwrap());
        let mut ears = EventSockets::open(&budget, &bell).unwrap();
        bell.ring();
        bell.ring();
        let mut rung = 0;
        let mut count = |heard: SocketEvent<'_>| rung += usize::from(heard == SocketEvent::Bell);
        ears.hear(Duration::from_secs(60), &mut count).unwrap();
        ears.hear(Duration::ZERO, &mut count).unwrap();
        assert_eq!(rung, 1);
    }

    #[test]
    fn without_descriptors_to_spare_there_is_no_hearing() {
        let budget = DescriptorBudget::new(2);
        let bell = Arc::new(EventWaker::new(&budget).unwrap());
        assert_eq!(EventSockets::open(&budget, &bell).err(), Some(Errno::EMFILE));
        // The permits are returned.
        let (one, two) = (budget.take(), budget.take());
        assert_eq!((one.is_some(), two.is_some()), (true, false));
    }
}
