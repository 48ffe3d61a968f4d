//! Sockets that the service manager has opened for us and passes on (sd_listen_fds(3)).

#![allow(unsafe_code, reason = "takes ownership of inherited descriptors")]

use std::ffi::OsString;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::socket::{SockType, getsockopt, sockopt};

/// The first descriptor that is passed on.
const FIRST: RawFd = 3;
/// More is a mistake, not a wish.
const MOST: u32 = 32;

/// A listening TCP socket.
#[derive(Debug)]
pub struct Passed {
    /// Where it listens.
    pub address: SocketAddr,
    /// The socket.
    pub fd: OwnedFd,
}

/// A descriptor that is not what it should be.
#[derive(Debug, thiserror::Error)]
#[error("descriptor {fd} ({name:?}) from the service manager: {found}; expected a listening TCP socket")]
pub struct WrongSocket {
    fd: RawFd,
    name: String,
    found: String,
}

/// Takes what was passed on to this process; nothing where nobody has.
///
/// # Errors
/// The first descriptor that is not a listening TCP socket: the socket unit is wrong, and its port would be dead.
pub fn take() -> Result<Vec<Passed>, WrongSocket> {
    named(|name| std::env::var_os(name), std::process::id())
        .into_iter()
        .map(|(fd, name)| {
            check(fd).map_err(|found| WrongSocket {
                fd,
                name,
                found: found.to_string(),
            })
        })
        .collect()
}

/// Numbers and names (`FileDescriptorName=`) of what was passed on.
fn named(var: impl Fn(&str) -> Option<OsString>, own_pid: u32) -> Vec<(RawFd, String)> {
    let number = |name| var(name)?.to_str()?.parse::<u32>().ok();
    // Without our pid they are meant for whoever has started us, and may long be something else.
    if number("LISTEN_PID") != Some(own_pid) {
        return Vec::new();
    }
    let count = number("LISTEN_FDS").unwrap_or(0).min(MOST);
    let names = var("LISTEN_FDNAMES")
        .and_then(|n| n.into_string().ok())
        .unwrap_or_default();
    let names = names
        .split(':')
        .map(str::to_owned)
        .chain(std::iter::repeat(String::new()));
    (FIRST..).zip(names).take(count as usize).collect()
}

fn check(fd: RawFd) -> io::Result<Passed> {
    // SAFETY: nothing of ours has this number yet, and where nothing has, the first call says so.
    let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
    // Children must not inherit it: one that is stuck would keep the port.
    fcntl(borrowed, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
    if getsockopt(&borrowed, sockopt::SockType)? != SockType::Stream {
        return Err(io::Error::other("a socket of another type"));
    }
    if !getsockopt(&borrowed, sockopt::AcceptConn)? {
        return Err(io::Error::other("a socket that does not listen"));
    }
    // SAFETY: the manager has left this descriptor to us, and `take` is called once.
    let listener = TcpListener::from(unsafe { OwnedFd::from_raw_fd(fd) });
    let address = listener.local_addr()?;
    Ok(Passed {
        address,
        fd: listener.into(),
    })
}

impl AsFd for Passed {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::IntoRawFd;
    use std::os::unix::net::UnixListener;

    use super::*;

    fn of(pairs: &[(&str, &str)]) -> Vec<(RawFd, String)> {
        named(
            |name| pairs.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).into()),
            7,
        )
    }

    #[test]
    fn descriptors_count_only_when_they_are_meant_for_this_process() {
        let two = vec![(3, "metrics".to_owned()), (4, String::new())];
        assert_eq!(
            of(&[
                ("LISTEN_PID", "7"),
                ("LISTEN_FDS", "2"),
                ("LISTEN_FDNAMES", "metrics")
            ]),
            two
        );
        assert!(of(&[("LISTEN_PID", "8"), ("LISTEN_FDS", "2")]).is_empty());
        assert!(of(&[("LISTEN_FDS", "2")]).is_empty());
        assert!(of(&[("LISTEN_PID", "7"), ("LISTEN_FDS", "-1")]).is_empty());
        assert!(of(&[("LISTEN_PID", "7")]).is_empty());
        assert_eq!(of(&[("LISTEN_PID", "7"), ("LISTEN_FDS", "9999999")]).len(), 32);
    }

    #[test]
    fn a_listening_tcp_socket_is_taken_and_its_address_known() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let passed = check(listener.into_raw_fd()).unwrap();
        assert_eq!(passed.address, address);
        let flags = fcntl(&passed.fd, FcntlArg::F_GETFD).unwrap();
        assert_eq!(flags & FdFlag::FD_CLOEXEC.bits(), FdFlag::FD_CLOEXEC.bits());
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
