//! The service manager's socket: what systemd is told, in datagrams of `NAME=value` lines (sd_notify(3)).

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use collectors::sys::boot;

/// Where a service manager listens, and how often it wants to hear from us.
#[derive(Debug)]
pub struct Manager {
    /// Its socket; `None` where no manager has asked.
    pub socket: Option<Notify>,
    /// It acts when it hears no `WATCHDOG=1` for so long.
    pub watchdog: Option<Duration>,
}

/// A manager's socket.
#[derive(Debug)]
pub struct Notify {
    socket: UnixDatagram,
    address: SocketAddr,
}

impl Manager {
    /// What the environment says. A manager that cannot be understood is logged and counts as none: the node is watched
    /// all the same.
    pub fn from_env() -> Self {
        Self::read(|name| std::env::var_os(name), std::process::id())
    }

    fn read(var: impl Fn(&str) -> Option<OsString>, own_pid: u32) -> Self {
        let socket = var("NOTIFY_SOCKET").and_then(|path| match Notify::new(&path) {
            Ok(notify) => Some(notify),
            Err(e) => {
                tracing::error!(socket = ?path, error = %e, "NOTIFY_SOCKET cannot be used");
                None
            }
        });
        // WATCHDOG_PID names another process where a wrapper has left its environment to us.
        let ours = number(var("WATCHDOG_PID")).is_none_or(|pid| pid == u64::from(own_pid));
        let watchdog = number(var("WATCHDOG_USEC"))
            .filter(|usec| ours && *usec > 0)
            .map(Duration::from_micros);
        Self { socket, watchdog }
    }
}

fn number(text: Option<OsString>) -> Option<u64> {
    text?.to_str()?.parse().ok()
}

impl Notify {
    /// A path, or `@` and a name in the abstract namespace.
    ///
    /// # Errors
    /// When it is neither, or no socket can be made.
    pub fn new(place: &OsStr) -> io::Result<Self> {
        let address = match place.as_bytes() {
            [b'@', name @ ..] if !name.is_empty() => SocketAddr::from_abstract_name(name)?,
            [b'/', ..] => SocketAddr::from_pathname(place)?,
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

    /// Tells it one datagram of lines.
    ///
    /// # Errors
    /// `WouldBlock` when it does not keep up, else what sendto(2) says.
    pub fn tell(&self, lines: &str) -> io::Result<()> {
        self.socket
            .send_to_addr(lines.as_bytes(), &self.address)
            .map(drop)
    }
}

/// CLOCK_MONOTONIC in microseconds, as `MONOTONIC_USEC` wants it.
pub fn monotonic_usec() -> u64 {
    u64::try_from(boot::monotonic().as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vars<'a>(vars: &'a [(&str, &str)]) -> impl Fn(&str) -> Option<OsString> + 'a {
        |name| vars.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).into())
    }

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
        for (place, socket) in [
            (path.display().to_string(), at_path),
            (format!("@{name}"), abstract_one),
        ] {
            let manager = Manager::read(vars(&[("NOTIFY_SOCKET", &place)]), 7);
            manager.socket.unwrap().tell("READY=1\nSTATUS=healthy").unwrap();
            assert_eq!(heard(&socket), "READY=1\nSTATUS=healthy", "{place}");
            assert_eq!(manager.watchdog, None);
        }
    }

    #[test]
    fn without_a_manager_or_with_a_bad_address_there_is_none() {
        assert!(Manager::read(vars(&[]), 7).socket.is_none());
        for place in ["", "@", "relative", "vsock:2:1", &format!("/{}", "x".repeat(200))] {
            let manager = Manager::read(vars(&[("NOTIFY_SOCKET", place)]), 7);
            assert!(manager.socket.is_none(), "{place:?}");
        }
    }

    #[test]
    fn a_manager_that_does_not_read_never_blocks_us() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let _silent = UnixDatagram::bind(&path).unwrap();
        let notify = Notify::new(path.as_os_str()).unwrap();
        let refused = (0..100_000).find_map(|_| notify.tell("WATCHDOG=1").err());
        assert_eq!(refused.unwrap().kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn the_watchdog_is_ours_unless_it_names_another_process() {
        let watchdog = |pairs: &[(&str, &str)]| Manager::read(vars(pairs), 7).watchdog;
        let minute = Some(Duration::from_secs(60));
        assert_eq!(watchdog(&[("WATCHDOG_USEC", "60000000")]), minute);
        assert_eq!(
            watchdog(&[("WATCHDOG_USEC", "60000000"), ("WATCHDOG_PID", "7")]),
            minute
        );
        assert_eq!(
            watchdog(&[("WATCHDOG_USEC", "60000000"), ("WATCHDOG_PID", "8")]),
            None
        );
        for bad in ["0", "", "-1", "soon"] {
            assert_eq!(watchdog(&[("WATCHDOG_USEC", bad)]), None, "{bad:?}");
        }
    }
}
