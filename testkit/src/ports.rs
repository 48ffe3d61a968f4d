//! Free loopback ports, reserved before and after the program that needs them binds them.

use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use anyhow::{Context, Result};
use nix::sys::socket::sockopt::ReuseAddr;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn, bind, setsockopt, socket};

/// Below the kernel's range of ephemeral ports, so that no outgoing connection uses one.
const FIRST: u16 = 20_000;
const LAST: u16 = 31_999;

/// One reserved port. The reservation ends with the value.
#[derive(Debug)]
pub struct Port {
    number: u16,
    // An abstract socket is a lock between processes, without a file, released when its holder ends.
    _lock: UnixDatagram,
}

impl Port {
    /// Reserves a port without a listener.
    pub fn reserve() -> Result<Self> {
        // Processes start at different numbers, which keeps the search short.
        let span = LAST - FIRST + 1;
        let start = u16::try_from(std::process::id() * 37 % u32::from(span))?;
        (0..span)
            .find_map(|i| Self::take(FIRST + (start + i) % span))
            .context("no free port")
    }

    fn take(number: u16) -> Option<Self> {
        let name = format!("nodewarden-testkit-port-{number}");
        let address = SocketAddr::from_abstract_name(name).ok()?;
        let lock = UnixDatagram::bind_addr(&address).ok()?;
        check_free(number).ok()?;
        Some(Self { number, _lock: lock })
    }

    /// The number.
    pub fn number(&self) -> u16 {
        self.number
    }
}

/// Binds without listening. A child that another thread starts holds the socket until its exec, and would keep the
/// program for which the port is from listening.
fn check_free(number: u16) -> nix::Result<()> {
    let probe = socket(
        AddressFamily::Inet,
        SockType::Stream,
        SockFlag::SOCK_CLOEXEC,
        None,
    )?;
    setsockopt(&probe, ReuseAddr, &true)?;
    bind(probe.as_raw_fd(), &SockaddrIn::new(127, 0, 0, 1, number))
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};
    use std::process::Command;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::*;

    #[test]
    fn a_port_in_use_is_not_free() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let number = listener.local_addr().unwrap().port();
        assert_eq!(check_free(number), Err(nix::errno::Errno::EADDRINUSE));
        drop(listener);
        // A child of another test may hold it until its exec.
        crate::wait::until_true("it is free", crate::wait::PATIENCE, || check_free(number).is_ok()).unwrap();
    }

    #[test]
    fn programs_that_start_meanwhile_do_not_hold_the_port() {
        let end = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !end.load(Ordering::Relaxed) {
                    drop(Command::new("true").status());
                }
            });
            let bound = |port: Port| TcpListener::bind((Ipv4Addr::LOCALHOST, port.number()));
            let failed = (0..3000).find_map(|_| bound(Port::reserve().ok()?).err());
            end.store(true, Ordering::Relaxed);
            assert!(failed.is_none(), "{failed:?}");
        });
    }

    #[test]
    fn two_reservations_differ_and_can_be_bound() {
        let (a, b) = (Port::reserve().unwrap(), Port::reserve().unwrap());
        assert_ne!(a.number(), b.number());
        TcpListener::bind((Ipv4Addr::LOCALHOST, a.number())).unwrap();
        assert!(Port::take(b.number()).is_none());
    }
}
