//! Free loopback ports, reserved before and after the program that needs them binds them.

use std::net::{Ipv4Addr, TcpListener};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use anyhow::{Context, Result};

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
        TcpListener::bind((Ipv4Addr::LOCALHOST, number)).ok()?;
        Some(Self { number, _lock: lock })
    }

    /// The number.
    pub fn number(&self) -> u16 {
        self.number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_reservations_differ_and_can_be_bound() {
        let (a, b) = (Port::reserve().unwrap(), Port::reserve().unwrap());
        assert_ne!(a.number(), b.number());
        TcpListener::bind((Ipv4Addr::LOCALHOST, a.number())).unwrap();
        assert!(Port::take(b.number()).is_none());
    }
}
