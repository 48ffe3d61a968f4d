//! The socket between parent and daemon: whole packets, each with at most one descriptor.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use collectors::sys::message;
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, send, sendmsg, setsockopt, socketpair,
    sockopt,
};

/// Limit of a packet, in bytes. The largest packet is a configuration.
pub const MAX_PACKET: usize = 512 * 1024;

/// One end.
#[derive(Debug)]
pub struct Packets {
    fd: OwnedFd,
    buffer: Vec<u8>,
}

/// The result of [`Packets::receive`].
#[derive(Debug)]
pub enum Received {
    /// A packet, and the descriptor that came with it.
    Packet(Vec<u8>, Option<OwnedFd>),
    /// No packet is waiting.
    Nothing,
    /// The other end is gone.
    Closed,
}

/// Creates a connected pair, both ends non-blocking and closed on exec.
///
/// # Errors
/// When socketpair(2) fails.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    connected(SockFlag::SOCK_NONBLOCK)
}

/// Creates a connected pair whose ends wait, for requests and replies; both are closed on exec.
///
/// # Errors
/// When socketpair(2) fails.
pub fn waiting_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    connected(SockFlag::empty())
}

fn connected(flags: SockFlag) -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = flags | SockFlag::SOCK_CLOEXEC;
    let (a, b) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags)?;
    for end in [&a, &b] {
        // Only CAP_NET_ADMIN may exceed net.core.wmem_max; others get its value.
        if setsockopt(end, sockopt::SndBufForce, &MAX_PACKET).is_err() {
            crate::ignore(setsockopt(end, sockopt::SndBuf, &MAX_PACKET));
        }
    }
    Ok((a, b))
}

impl Packets {
    /// Wraps one end.
    pub fn new(fd: OwnedFd) -> Self {
        Self {
            fd,
            buffer: vec![0; MAX_PACKET],
        }
    }

    /// Sends one whole packet. `WouldBlock` if the peer does not keep up.
    ///
    /// # Errors
    /// When send(2) fails; EPIPE after the peer has closed.
    pub fn send(&self, packet: &[u8], fd: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let (socket, flags) = (
            self.fd.as_raw_fd(),
            MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT,
        );
        message::retried(|| match fd {
            // Another call: the filter of the daemon denies the one that can send descriptors.
            None => send(socket, packet, flags),
            Some(fd) => {
                let fds = [fd.as_raw_fd()];
                let control = [ControlMessage::ScmRights(&fds)];
                sendmsg::<()>(socket, &[IoSlice::new(packet)], &control, flags, None)
            }
        })?;
        Ok(())
    }

    /// Receives one packet, without waiting.
    ///
    /// # Errors
    /// When recvmsg(2) fails or the packet was truncated.
    pub fn receive(&mut self) -> io::Result<Received> {
        let message = match message::receive(&self.fd, &mut self.buffer, MsgFlags::MSG_DONTWAIT) {
            Ok(message) => message,
            Err(Errno::EAGAIN) => return Ok(Received::Nothing),
            Err(Errno::ECONNRESET) => return Ok(Received::Closed),
            Err(e) => return Err(e.into()),
        };
        if message.is_cut {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "packet larger than the buffer",
            ));
        }
        let (length, first) = (message.length, message.descriptors.into_iter().next());
        if length == 0 {
            return Ok(Received::Closed);
        }
        Ok(Received::Packet(
            self.buffer.get(..length).unwrap_or_default().to_vec(),
            first,
        ))
    }
}

impl AsFd for Packets {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn a_packet_arrives_whole_with_its_descriptor_and_the_end_is_seen() {
        let (a, b) = pair().unwrap();
        let (a, mut b) = (Packets::new(a), Packets::new(b));
        assert!(matches!(b.receive().unwrap(), Received::Nothing));
        let file = std::fs::File::open("/proc/self/comm").unwrap();
        a.send(b"hello", Some(file.as_fd())).unwrap();
        a.send(b"again", None).unwrap();
        let Received::Packet(bytes, Some(fd)) = b.receive().unwrap() else {
            panic!("no packet")
        };
        assert_eq!(bytes, b"hello");
        let mut text = String::new();
        std::fs::File::from(fd).read_to_string(&mut text).unwrap();
        assert!(!text.is_empty());
        assert!(matches!(b.receive().unwrap(), Received::Packet(p, None) if p == b"again"));
        drop(a);
        assert!(matches!(b.receive().unwrap(), Received::Closed));
    }
}
