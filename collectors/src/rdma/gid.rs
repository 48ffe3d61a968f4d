//! The GID table of an Ethernet port: which addresses it has, and for which version of RoCE.

use std::io::ErrorKind::{InvalidInput, Unsupported};
use std::net::Ipv6Addr;
use std::path::Path;

use crate::Error;
use crate::sys::root;

/// Entries are looked at up to here. A table has 16 to 1024 places, and the kernel fills the first ones.
const MOST: u32 = 64;
/// Empty places in a row after which the rest is taken for empty.
const GAP: u32 = 8;

/// RoCE's versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RoceVersion {
    V1,
    V2,
}

impl RoceVersion {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::V1 => "RoCE v1",
            Self::V2 => "RoCE v2",
        }
    }
}

/// The family of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    /// `::ffff:192.0.2.1`.
    Ipv4,
    /// Of global scope, unique local ones too.
    Ipv6,
    /// `fe80::/10`: made from the interface's own address, on no route.
    LinkLocal,
}

impl Family {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Ipv4 => "ipv4",
            Self::Ipv6 => "ipv6",
            Self::LinkLocal => "link_local",
        }
    }

    /// `None`: an empty place.
    fn of(gid: Ipv6Addr) -> Option<Self> {
        if gid.is_unspecified() {
            None
        } else if gid.to_ipv4_mapped().is_some() {
            Some(Self::Ipv4)
        } else if gid
            .segments()
            .first()
            .is_some_and(|first| first & 0xffc0 == 0xfe80)
        {
            Some(Self::LinkLocal)
        } else {
            Some(Self::Ipv6)
        }
    }
}

/// One entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gid {
    pub(super) index: u32,
    pub(super) version: RoceVersion,
    pub(super) family: Family,
}

impl Gid {
    /// Whether packets that carry it find their way through routers.
    pub(super) fn is_routed(&self) -> bool {
        self.version == RoceVersion::V2 && self.family != Family::LinkLocal
    }

    /// Reads one place of the table of `/sys/class/infiniband/*/ports/*`. `Ok(None)`: it is empty.
    ///
    /// # Errors
    /// When it cannot be read, or does not hold what it should; ENOENT where the table is shorter.
    pub(super) fn read(port: &Path, index: u32) -> Result<Option<Self>, Error> {
        let file = port.join("gids").join(index.to_string());
        let text = match root::read_text(&file) {
            Ok(Some(text)) => text,
            Ok(None) => return Err(Error::io(&file, nix::errno::Errno::ENOENT.into())),
            // What some drivers say of a place that is empty.
            Err(error) if is_refused(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        let gid = text.parse::<Ipv6Addr>();
        let gid = gid.map_err(|_| Error::parse(file.display().to_string(), &text, "an address of IPv6"))?;
        let Some(family) = Family::of(gid) else {
            return Ok(None);
        };
        let file = port.join("gid_attrs/types").join(index.to_string());
        let text = match root::read_text(&file) {
            Ok(text) => text.unwrap_or_default(),
            // It was emptied meanwhile.
            Err(error) if is_refused(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        let version = match text.as_str() {
            // One word for both: what is v1 here would be InfiniBand's own there.
            "IB/RoCE v1" => RoceVersion::V1,
            "RoCE v2" => RoceVersion::V2,
            _ => {
                return Err(Error::parse(
                    file.display().to_string(),
                    &text,
                    "IB/RoCE v1 or RoCE v2",
                ));
            }
        };
        Ok(Some(Self {
            index,
            version,
            family,
        }))
    }
}

fn is_refused(error: &Error) -> bool {
    matches!(error, Error::Io { source, .. } if matches!(source.kind(), InvalidInput | Unsupported))
}

/// What was read of a port's table.
#[derive(Debug)]
pub(super) struct GidTable {
    pub(super) gids: Vec<Gid>,
    /// There are no others, as far as anybody can tell.
    pub(super) is_whole: bool,
}

/// The entries of a port's table. `Ok(None)`: it has none to read.
///
/// # Errors
/// Those of [`Gid::read`], but for a table that ends.
pub(super) fn table(port: &Path) -> Result<Option<GidTable>, Error> {
    let (mut gids, mut empty) = (Vec::new(), 0);
    for index in 0..MOST {
        match Gid::read(port, index) {
            Ok(Some(gid)) => {
                gids.push(gid);
                empty = 0;
            }
            Ok(None) => empty += 1,
            Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
                return Ok((index > 0).then_some(GidTable { gids, is_whole: true }));
            }
            Err(error) => return Err(error),
        }
        if empty >= GAP {
            break;
        }
    }
    // Behind the last entry that is looked at there may be others, and behind places that were all empty.
    let is_whole = empty >= GAP && !gids.is_empty();
    Ok(Some(GidTable { gids, is_whole }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_families() {
        for (gid, family) in [
            ("0000:0000:0000:0000:0000:0000:0000:0000", None),
            ("0000:0000:0000:0000:0000:ffff:c000:0201", Some(Family::Ipv4)),
            ("fe80:0000:0000:0000:0e42:a1ff:fe65:93a0", Some(Family::LinkLocal)),
            ("febf:0000:0000:0000:0000:0000:0000:0001", Some(Family::LinkLocal)),
            ("fec0:0000:0000:0000:0000:0000:0000:0001", Some(Family::Ipv6)),
            ("2001:0db8:0000:0000:0000:0000:0000:0001", Some(Family::Ipv6)),
            ("fd00:0000:0000:0000:0000:0000:0000:0001", Some(Family::Ipv6)),
        ] {
            assert_eq!(Family::of(gid.parse().unwrap()), family, "{gid}");
        }
    }

    #[test]
    fn only_the_second_version_is_routed_and_only_with_an_address_that_is() {
        let routed = |version, family| {
            let gid = Gid {
                index: 0,
                version,
                family,
            };
            gid.is_routed()
        };
        assert!(routed(RoceVersion::V2, Family::Ipv4) && routed(RoceVersion::V2, Family::Ipv6));
        assert!(!routed(RoceVersion::V2, Family::LinkLocal) && !routed(RoceVersion::V1, Family::Ipv4));
    }
}
