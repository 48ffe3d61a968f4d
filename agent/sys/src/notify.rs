//! The service manager's socket (sd_notify(3)). The messages are the crate's; the socket is ours, since the crate's
//! blocks and knows no abstract names: docs/decisions/0016-socket-of-sd-notify.md.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

pub use sd_notify::NotifyState;

/// What the service manager asks for.
#[derive(Debug)]
pub struct Manager {
    /// Its socket; `None` without a manager.
    pub socket: Option<NotifySocket>,
    /// It acts when it receives no `WATCHDOG=1` for this long.
    pub watchdog: Option<Duration>,
}

/// The manager's socket.
#[derive(Debug)]
pub struct NotifySocket {
    socket: UnixDatagram,
    address: SocketAddr,
}

impl Manager {
    /// Reads the environment. An unusable socket is logged and counts as none: the node is watched all the same.
    pub fn from_env() -> Self {
        let socket = std::env::var_os("NOTIFY_SOCKET").and_then(|address| {
            NotifySocket::new(&address)
                .inspect_err(|e| tracing::error!(socket = ?address, error = %e, "cannot use NOTIFY_SOCKET"))
                .ok()
        });
        let watchdog = sd_notify::watchdog_enabled().filter(|w| !w.is_zero());
        Self { socket, watchdog }
    }
}

impl NotifySocket {
    /// A path, or `@` and a name in the abstract namespace.
    ///
    /// # Errors
    /// When it is neither, or no socket can be made.
    pub fn new(address: &OsStr) -> io::Result<Self> {
        let address = match address.as_bytes() {
            [b'@', name @ ..] if !name.is_empty() => SocketAddr::from_abstract_name(name)?,
            [b'/', ..] => SocketAddr::from_pathname(address)?,
            _ => {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    "expected a path from / or a name after @",
                ));
            }
        };
        let socket = UnixDatagram::unbound()?;
        // A manager that does not read must not stop the parent.
        socket.set_nonblocking(true)?;
        Ok(Self { socket, address })
    }

    /// Sends one datagram of lines.
    ///
    /// # Errors
    /// `WouldBlock` when the manager's queue is full, else what sendto(2) says.
    pub fn send(&self, lines: &str) -> io::Result<()> {
        self.socket
            .send_to_addr(lines.as_bytes(), &self.address)
            .map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(socket: &UnixDatagram) -> String {
        let mut buffer = [0; 256];
        let length = socket.recv(&mut buffer).unwrap();
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    }

    #[test]
    fn a_manager_hears_lines_at_a_path_and_at_an_abstract_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let at_path = UnixDatagram::bind(&path).unwrap();
        let name = format!("nodewarden-test-{}", std::process::id());
        let abstract_one = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        for (address, socket) in [
            (path.display().to_string(), at_path),
            (format!("@{name}"), abstract_one),
        ] {
            let notify = NotifySocket::new(OsStr::new(&address)).unwrap();
            notify.send("READY=1\nSTATUS=healthy").unwrap();
            assert_eq!(heard(&socket), "READY=1\nSTATUS=healthy", "{address}");
        }
    }

    #[test]
    fn a_bad_address_is_refused() {
        for address in ["", "@", "relative", "vsock:2:1", &format!("/{}", "x".repeat(200))] {
            assert!(NotifySocket::new(OsStr::new(address)).is_err(), "{address:?}");
        }
    }

    #[test]
    fn a_manager_that_does_not_read_never_blocks_us() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let _silent = UnixDatagram::bind(&path).unwrap();
        let notify = NotifySocket::new(path.as_os_str()).unwrap();
        let refused = (0..100_000).find_map(|_| notify.send("WATCHDOG=1").err());
        assert_eq!(refused.unwrap().kind(), io::ErrorKind::WouldBlock);
    }
}
