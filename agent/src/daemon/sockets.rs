//! Listening sockets that the service manager opened: the parent passes them on, and only the daemon accepts.

use std::net::TcpListener;

use anyhow::Context;

use super::start::next_packet;
use crate::link::ToDaemon;
use sys::packet::Packets;

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
        let listener =
            TcpListener::from(fd.context("protocol error from the parent: announced socket is missing")?);
        listener.set_nonblocking(true)?;
        sockets.push(listener);
    }
    Ok(Some(sockets))
}
