//! The addresses of this machine's interfaces.

use std::io;
use std::net::{SocketAddr, SocketAddrV4, SocketAddrV6};

use nix::net::if_::InterfaceFlags;

/// An address and the interface that has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Local {
    /// The interface's name.
    pub interface: String,
    /// The address, port 0; a link-local one of IPv6 with its scope.
    pub address: SocketAddr,
}

/// Every IPv4 and IPv6 address of an interface that is up. May wait for the kernel's lock on network configuration: not for
/// a thread that serves.
///
/// # Errors
/// When getifaddrs(3) fails.
pub fn addresses() -> io::Result<Vec<Local>> {
    let found = nix::ifaddrs::getifaddrs()?;
    Ok(found
        // One that is down gets no packets: kube-proxy keeps the addresses of all services on such a one.
        .filter(|entry| is_in_use(entry.flags))
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

/// A new network namespace has its loopback down.
fn is_in_use(flags: InterfaceFlags) -> bool {
    flags.intersects(InterfaceFlags::IFF_UP | InterfaceFlags::IFF_LOOPBACK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_that_are_down_are_not_in_use() {
        assert!(is_in_use(InterfaceFlags::IFF_UP | InterfaceFlags::IFF_RUNNING));
        assert!(is_in_use(InterfaceFlags::IFF_LOOPBACK));
        assert!(!is_in_use(
            InterfaceFlags::IFF_NOARP | InterfaceFlags::IFF_BROADCAST
        ));
    }

    #[test]
    fn loopback_is_there() {
        let all = addresses().unwrap();
        let lo = all.iter().find(|l| l.address.ip().to_string() == "127.0.0.1");
        assert_eq!(lo.unwrap().address.port(), 0);
        assert!(!lo.unwrap().interface.is_empty());
    }
}
