//! Sockets to listen on.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::path::Path;

use crate::sys::files;

/// An address that could not be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {source}")]
pub struct BindError {
    /// The address, or the path of the socket.
    pub address: String,
    /// What the kernel said.
    pub source: io::Error,
}

/// Listens on every address, or on none. Where port 0 left the choice to the kernel, the address is also written to
/// standard output, for scripts that start the daemon.
///
/// # Errors
/// The first address that could not be bound.
pub fn bind(addresses: &[SocketAddr]) -> Result<Vec<TcpListener>, BindError> {
    let mut listeners = Vec::with_capacity(addresses.len());
    for address in addresses {
        let failed = |source| BindError {
            address: address.to_string(),
            source,
        };
        let listener = TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let actual = listener.local_addr().map_err(failed)?;
        listeners.push((listener, actual, address.port() == 0));
    }
    for (_, actual, chosen) in &listeners {
        tracing::info!("listening on http://{actual}");
        if *chosen && let Err(error) = writeln!(io::stdout(), "listening on http://{actual}") {
            tracing::debug!(%error, "standard output is closed");
        }
    }
    Ok(listeners.into_iter().map(|(listener, ..)| listener).collect())
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
        let taken = bind(&["127.0.0.1:0".parse().unwrap()]).unwrap();
        let address = taken[0].local_addr().unwrap();
        let error = bind(&[address]).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("cannot listen on {address}: ")),
            "{error}"
        );
    }
}
