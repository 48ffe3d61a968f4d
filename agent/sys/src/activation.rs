//! Sockets that the service manager has opened for us and passes on (sd_listen_fds(3)).

#![allow(unsafe_code, reason = "takes ownership of inherited descriptors")]

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use nix::sys::socket::{SockType, getsockopt, sockopt};

/// A listening TCP socket.
#[derive(Debug)]
pub struct PassedSocket {
    /// Where it listens.
    pub address: SocketAddr,
    /// The socket.
    pub fd: OwnedFd,
}

/// What was passed on cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ActivationError {
    /// The number or the names of the descriptors are wrong.
    #[error(
        "sockets from the service manager: {0}; expected LISTEN_FDS and LISTEN_FDNAMES as in sd_listen_fds(3)"
    )]
    Environment(#[from] io::Error),
    /// A descriptor that is not what it should be.
    #[error("descriptor {fd} ({name:?}) from the service manager: {found}; expected a listening TCP socket")]
    WrongSocket {
        /// Its number.
        fd: RawFd,
        /// Its name in the socket unit.
        name: String,
        /// Why it is refused.
        found: io::Error,
    },
}

/// Takes what was passed on to this process; nothing without a manager.
///
/// # Errors
/// The first descriptor that is not a listening TCP socket: the socket unit is wrong, and its port would be dead.
pub fn take() -> Result<Vec<PassedSocket>, ActivationError> {
    sd_notify::listen_fds_with_names()?
        .map(|(fd, name)| check(fd).map_err(|found| ActivationError::WrongSocket { fd, name, found }))
        .collect()
}

fn check(fd: RawFd) -> io::Result<PassedSocket> {
    // SAFETY: nothing of ours has this number yet, and where nothing has, the first call says so.
    let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
    if getsockopt(&borrowed, sockopt::SockType)? != SockType::Stream {
        return Err(io::Error::other("a socket of another type"));
    }
    if !getsockopt(&borrowed, sockopt::AcceptConn)? {
        return Err(io::Error::other("a socket that does not listen"));
    }
    // SAFETY: the manager has left this descriptor to us, and `take` is called once.
    let listener = TcpListener::from(unsafe { OwnedFd::from_raw_fd(fd) });
    let address = listener.local_addr()?;
    Ok(PassedSocket {
        address,
        fd: listener.into(),
    })
}

impl AsFd for PassedSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Takes the descriptor of that place among those that [`crate::fork::start_self`] passes on beside descriptor 0. Once for
/// each place, first thing after exec.
///
/// # Errors
/// When nothing has this number.
pub fn passed(place: u8) -> io::Result<OwnedFd> {
    let number = crate::fork::FIRST_PASSED + RawFd::from(place);
    // SAFETY: where nothing has this number, the call says so; nothing else of this process owns it.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    nix::fcntl::fcntl(
        borrowed,
        nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::FD_CLOEXEC),
    )?;
    // SAFETY: it is open, and start_self has left it to this process.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

#[cfg(test)]
mod tests {
    use std::os::fd::IntoRawFd;
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn a_listening_tcp_socket_is_taken_and_its_address_known() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let passed = check(listener.into_raw_fd()).unwrap();
        assert_eq!(passed.address, address);
    }

    #[test]
    fn anything_else_is_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let unix = UnixListener::bind(dir.path().join("s")).unwrap();
        let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let file = tempfile::tempfile().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        for fd in [
            unix.into_raw_fd(),
            udp.into_raw_fd(),
            file.into_raw_fd(),
            stream.into_raw_fd(),
            9999,
        ] {
            assert!(check(fd).is_err());
        }
    }
}
