//! Sockets to listen on.

use std::io::{self, ErrorKind, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixListener;
use std::path::Path;

use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrStorage, bind, listen, setsockopt, socket, sockopt,
};

use sys::files;

/// An address that could not be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {source}")]
pub struct BindError {
    /// The address, or the path of the socket.
    pub address: String,
    /// What the kernel said.
    pub source: io::Error,
}

impl BindError {
    /// Whether no interface has that address, or not yet.
    pub(super) fn is_not_there(&self) -> bool {
        // A link-local address whose scope is gone: ENODEV, EINVAL.
        self.source.kind() == ErrorKind::AddrNotAvailable
            || matches!(self.source.raw_os_error(), Some(libc::ENODEV | libc::EINVAL))
    }

    /// Whether another socket listens there.
    pub(super) fn is_in_use(&self) -> bool {
        self.source.kind() == ErrorKind::AddrInUse
    }
}

/// Listens on one address.
pub(super) fn bind_one(address: &SocketAddr) -> Result<TcpListener, BindError> {
    let failed = |source| BindError {
        address: address.to_string(),
        source,
    };
    listen_on(address).map_err(|e| failed(e.into()))
}

/// As std does, except for two things. The IPv6 wildcard serves IPv4 too, whatever net.ipv6.bindv6only says. And std's queue of 128
/// overflows in a flood of connections: a scraper's SYN is then lost for a second.
fn listen_on(address: &SocketAddr) -> nix::Result<TcpListener> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::Inet,
        SocketAddr::V6(_) => AddressFamily::Inet6,
    };
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket = socket(family, SockType::Stream, flags, None)?;
    setsockopt(&socket, sockopt::ReuseAddr, &true)?;
    if address.is_ipv6() && address.ip().is_unspecified() {
        setsockopt(&socket, sockopt::Ipv6V6Only, &false)?;
    }
    bind(socket.as_raw_fd(), &SockaddrStorage::from(*address))?;
    listen(&socket, Backlog::MAXALLOWABLE)?;
    Ok(TcpListener::from(socket))
}

/// Bytes that the kernel keeps of one connection's answers, and of its requests.
const BUFFERS: [usize; 2] = [256 << 10, 64 << 10];

/// Limits what a connection holds in the kernel, which is memory of the service: without it, one client that pipelines requests and reads
/// slowly makes the buffers grow to net.ipv4.tcp_wmem, MiB for each connection. Accepted connections inherit it.
pub(super) fn limit_buffers(listener: &TcpListener) {
    let [answers, requests] = BUFFERS;
    sys::ignore(setsockopt(listener, sockopt::SndBuf, &answers));
    sys::ignore(setsockopt(listener, sockopt::RcvBuf, &requests));
}

/// Says where a listener listens. A port that the kernel chose is also written to standard output, for scripts that start
/// the daemon.
pub(super) fn announce(listener: &TcpListener, asked: SocketAddr, scheme: &str) {
    let Ok(actual) = listener.local_addr() else { return };
    tracing::info!("listening on {scheme}://{actual}");
    if asked.port() == 0
        && let Err(error) = writeln!(io::stdout(), "listening on {scheme}://{actual}")
    {
        tracing::debug!(%error, "standard output is closed");
    }
}

/// Listens on `control.sock` in the run directory. Everybody may connect; who may do what is decided by SO_PEERCRED.
///
/// # Errors
/// When another daemon listens there, or the socket cannot be made.
pub fn bind_control(run_dir: &Path) -> Result<UnixListener, BindError> {
    let path = run_dir.join(super::control::SOCKET);
    let failed = |source| BindError {
        address: path.display().to_string(),
        source,
    };
    let listener = files::listen_unix(&path, 0o666).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_names_the_address() {
        let taken = bind_one(&"127.0.0.1:0".parse().unwrap()).unwrap();
        let address = taken.local_addr().unwrap();
        let error = bind_one(&address).unwrap_err();
        assert!(!error.is_not_there());
        let text = error.to_string();
        assert!(
            text.starts_with(&format!("cannot listen on {address}: ")),
            "{text}"
        );
    }

    /// In a network of its own where this is allowed: there the sysctl asks for IPv6 only.
    #[test]
    #[allow(clippy::disallowed_methods, reason = "tests set the sysctl")]
    fn the_ipv6_wildcard_serves_ipv4_whatever_the_sysctl_says() {
        let bound = std::thread::spawn(|| {
            if nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET).is_ok() {
                drop(std::fs::write("/proc/sys/net/ipv6/bindv6only", "1"));
            }
            bind_one(&"[::]:0".parse().unwrap()).unwrap()
        });
        let listener = bound.join().unwrap();
        let only = nix::sys::socket::getsockopt(&listener, sockopt::Ipv6V6Only).unwrap();
        assert!(!only);
    }

    #[test]
    fn an_address_of_no_interface_is_not_there() {
        // TEST-NET-1 and a scope that no interface has.
        for address in ["192.0.2.1:0", "[fe80::1%4000000]:0"] {
            assert!(bind_one(&address.parse().unwrap()).unwrap_err().is_not_there());
        }
    }
}
