//! Where to listen: an address, all addresses of an interface, or every local address inside a network.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What an entry may be.
pub(crate) const EXPECTED: &str = "an address, interface or network with a port, such as \"127.0.0.1:19190\", \
     \"[::]:19190\", \"ib0:19190\", \"10.20.0.0/16:19190\" or \"[fd00::]/8:19190\"";

/// The longest name of an interface, in bytes (IFNAMSIZ less its end).
const MAX_NAME: usize = 15;

/// One entry of `listen`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Listen {
    /// `127.0.0.1:19190`
    Address(SocketAddr),
    /// `ib0:19190`
    Interface(String, u16),
    /// `10.20.0.0/16:19190`, `[fd00::]/8:19190`
    Network(Network, u16),
}

/// A network in CIDR notation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Network {
    base: IpAddr,
    bits: u8,
}

impl Network {
    fn new(base: IpAddr, bits: u8) -> Option<Self> {
        let most = if base.is_ipv4() { 32 } else { 128 };
        (bits <= most).then_some(Self { base, bits })
    }

    /// Whether an address is inside.
    pub fn contains(&self, address: IpAddr) -> bool {
        let differ = match (self.base, address) {
            (IpAddr::V4(a), IpAddr::V4(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
            (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
            _ => return false,
        };
        differ >= u32::from(self.bits)
    }
}

/// An entry that is none.
#[derive(Debug, thiserror::Error)]
#[error("expected {EXPECTED}")]
pub struct NotListen;

impl FromStr for Listen {
    type Err = NotListen;

    fn from_str(text: &str) -> Result<Self, NotListen> {
        parse(text).ok_or(NotListen)
    }
}

fn parse(text: &str) -> Option<Listen> {
    if let Ok(address) = text.parse() {
        return Some(Listen::Address(address));
    }
    let (what, port) = text.rsplit_once(':')?;
    let port = digits(port)?;
    if let Some((base, bits)) = what.split_once('/') {
        let base = match base.strip_prefix('[') {
            Some(v6) => IpAddr::V6(v6.strip_suffix(']')?.parse().ok()?),
            None => IpAddr::V4(base.parse().ok()?),
        };
        return Some(Listen::Network(Network::new(base, digits(bits)?)?, port));
    }
    interface(what).then(|| Listen::Interface(what.to_owned(), port))
}

/// A number without sign.
fn digits<T: FromStr>(text: &str) -> Option<T> {
    let good = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    good.then(|| text.parse().ok())?
}

/// A name as interfaces have it. Host names are not looked up, and `localhost` would be waited for in vain.
fn interface(name: &str) -> bool {
    name.len() <= MAX_NAME
        && name != "localhost"
        && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"_.-@".contains(&b))
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Interface(name, port) => write!(f, "{name}:{port}"),
            Self::Network(network, port) => match network.base {
                IpAddr::V4(v4) => write!(f, "{v4}/{}:{port}", network.bits),
                IpAddr::V6(v6) => write!(f, "[{v6}]/{}:{port}", network.bits),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn entries_read_back() {
        for text in [
            "127.0.0.1:19190",
            "[::1]:19190",
            "0.0.0.0:0",
            "[fe80::1%3]:80",
            "ib0:19190",
            "eth0.100:1",
            "10.20.0.0/16:19190",
            "0.0.0.0/0:1",
            "[fd00::]/8:19190",
            "[::]/128:65535",
        ] {
            let entry: Listen = text.parse().unwrap();
            assert_eq!(entry.to_string(), text);
            assert_eq!(matches!(entry, Listen::Network(..)), text.contains('/'), "{text}");
        }
    }

    #[test]
    fn what_is_not_an_entry() {
        for text in [
            "",
            ":1",
            "ib0",
            "ib0:",
            "ib0:65536",
            "ib0:+1",
            "ib 0:1",
            "localhost:1",
            "averylonginterface:1",
            "1.2.3.4",
            "1.2.3:4",
            "1.2.3.4.5:6",
            "::1:19190",
            "10.0.0.0/33:1",
            "10.0.0.0/:1",
            "10.0.0.0/8",
            "[fd00::]/129:1",
            "fd00::/8:1",
            "[10.0.0.0]/8:1",
            "ib0/8:1",
            "*:1",
            "http://1.2.3.4:5",
        ] {
            assert!(text.parse::<Listen>().is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_inside_a_network() {
        let inside = |net: &str, address: &str| {
            let Ok(Listen::Network(network, 1)) = net.parse() else {
                panic!("{net}")
            };
            network.contains(address.parse().unwrap())
        };
        assert!(inside("10.20.0.0/16:1", "10.20.255.255"));
        assert!(!inside("10.20.0.0/16:1", "10.21.0.0"));
        assert!(
            inside("10.20.3.4/16:1", "10.20.9.9"),
            "bits beyond the prefix do not count"
        );
        assert!(inside("0.0.0.0/0:1", "1.2.3.4") && !inside("0.0.0.0/0:1", "::1"));
        assert!(inside("1.2.3.4/32:1", "1.2.3.4") && !inside("1.2.3.4/32:1", "1.2.3.5"));
        assert!(inside("[fd00::]/8:1", "fdff::1") && !inside("[fd00::]/8:1", "fe80::1"));
        assert!(!inside("[::]/0:1", "1.2.3.4"));
    }

    proptest! {
        #[test]
        fn no_text_panics_and_what_is_taken_reads_back(
            text in "(\\[[0-9a-f:]{2,6}\\]|[0-9]{1,2}(\\.[0-9]{1,2}){3}|ib0|eth1)(/[0-9]{1,2})?:[0-9]{1,5}|[ -~]{0,40}",
        ) {
            if let Ok(entry) = text.parse::<Listen>() {
                prop_assert_eq!(entry.to_string().parse::<Listen>().unwrap(), entry);
            }
        }

        #[test]
        fn networks_read_back(a in any::<[u8; 4]>(), bits in 0_u8..=32, port in any::<u16>()) {
            let text = format!("{}/{bits}:{port}", IpAddr::from(a));
            prop_assert_eq!(text.parse::<Listen>().unwrap().to_string(), text);
        }
    }
}
