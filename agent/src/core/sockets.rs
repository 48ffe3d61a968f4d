//! Listening sockets that the service manager opened: the parent passes them on, and only the daemon accepts.

use std::net::{SocketAddr, TcpListener};

use anyhow::Context;

use super::start::next_packet;
use crate::link::ToDaemon;
use crate::sys::packet::Packets;

/// Takes the sockets that follow the first packet. `None`: the parent has gone.
///
/// # Errors
/// When something else comes, or a socket cannot be used.
pub fn receive(parent: &mut Packets, number: u16) -> anyhow::Result<Option<Vec<TcpListener>>> {
    let mut sockets = Vec::new();
    for _ in 0..number {
        let Some((packet, fd)) = next_packet(parent)? else {
            return Ok(None);
        };
        anyhow::ensure!(
            matches!(packet, ToDaemon::Socket),
            "the parent did not go on with its sockets"
        );
        let listener = TcpListener::from(fd.context("a socket was announced and did not come")?);
        listener.set_nonblocking(true)?;
        sockets.push(listener);
    }
    Ok(Some(sockets))
}

/// Which of the configured addresses no socket of the manager's serves already.
pub fn not_served(configured: &[SocketAddr], sockets: &[TcpListener]) -> Vec<SocketAddr> {
    let served: Vec<SocketAddr> = sockets.iter().filter_map(|s| s.local_addr().ok()).collect();
    (configured.iter())
        .filter(|wanted| !served.iter().any(|have| serves(*have, **wanted)))
        .copied()
        .collect()
}

/// A socket on all addresses serves each of them; Linux lets one on `[::]` serve IPv4 as well.
fn serves(have: SocketAddr, wanted: SocketAddr) -> bool {
    let everywhere = have.ip().is_unspecified() && (have.is_ipv6() || wanted.is_ipv4());
    have.port() == wanted.port() && (everywhere || have.ip() == wanted.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn an_address_that_a_passed_socket_serves_is_not_bound_again() {
        for (have, wanted, served) in [
            ("127.0.0.1:1", "127.0.0.1:1", true),
            ("0.0.0.0:1", "127.0.0.1:1", true),
            ("[::]:1", "127.0.0.1:1", true),
            ("[::]:1", "[::1]:1", true),
            ("127.0.0.1:1", "127.0.0.1:2", false),
            ("127.0.0.1:1", "0.0.0.0:1", false),
            ("0.0.0.0:1", "[::1]:1", false),
            ("10.0.0.1:1", "10.0.0.2:1", false),
        ] {
            assert_eq!(serves(at(have), at(wanted)), served, "{have} {wanted}");
        }
    }

    #[test]
    fn what_no_socket_serves_is_left_to_bind() {
        let passed = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = passed.local_addr().unwrap();
        let other = at("127.0.0.2:0");
        assert_eq!(not_served(&[address, other], &[passed]), [other]);
        assert_eq!(not_served(&[address], &[]), [address]);
    }
}
