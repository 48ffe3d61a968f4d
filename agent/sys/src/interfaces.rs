//! The addresses of this machine's interfaces.

use std::io;
use std::net::{SocketAddr, SocketAddrV4, SocketAddrV6};

/// An address and the interface that has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Local {
    /// The interface's name.
    pub interface: String,
    /// The address, port 0; a link-local one of IPv6 with its scope.
    pub address: SocketAddr,
}

/// Every IPv4 and IPv6 address that an interface has. May wait for the kernel's lock on network configuration: not for
/// a thread that serves.
///
/// # Errors
/// When getifaddrs(3) fails.
pub fn addresses() -> io::Result<Vec<Local>> {
    let found = nix::ifaddrs::getifaddrs()?;
    Ok(found
        .filter_map(|entry| {
            let storage = entry.address?;
            let address = if let Some(v4) = storage.as_sockaddr_in() {
                SocketAddr::V4(SocketAddrV4::new(v4.ip(), 0))
            } else {
                let v6 = storage.as_sockaddr_in6()?;
                SocketAddr::V6(SocketAddrV6::new(v6.ip(), 0, 0, v6.scope_id()))
            };
            Some(Local {
                interface: entry.interface_name,
                address,
            })
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_there() {
        let all = addresses().unwrap();
        let lo = all.iter().find(|l| l.address.ip().to_string() == "127.0.0.1");
        assert_eq!(lo.unwrap().address.port(), 0);
        assert!(!lo.unwrap().interface.is_empty());
    }
}
