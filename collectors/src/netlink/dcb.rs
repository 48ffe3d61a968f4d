//! What an Ethernet port says of its priorities (include/uapi/linux/dcbnl.h, net/dcb/dcbnl.c). Anybody may ask. The kernel
//! holds RTNL while its driver answers.

use super::Garbled;
use super::attribute::{Attributes, text};
use super::message::Request;

/// `RTM_GETDCB`.
const GET_DCB: u16 = 78;
const IEEE_GET: u8 = 21;

const ATTR_IFNAME: u16 = 1;
const ATTR_IEEE: u16 = 13;
const IEEE_PFC: u16 = 2;
const IEEE_APP_TABLE: u16 = 3;
const IEEE_APP_TRUST: u16 = 11;
const APP: u16 = 1;
/// An entry about a selector of the kernel's own, such as PCP.
const DCB_APP: u16 = 2;

const SELECTOR_DSCP: u8 = 5;

/// `struct dcbmsg`.
const HEAD: usize = 4;

/// How many priorities there are.
pub(crate) const PRIORITIES: usize = 8;
/// `struct ieee_pfc` up to its counts, and one of the two lists of counts.
const PFC_HEAD: usize = 8;

/// Asks how the priorities of an interface are set up.
pub(crate) fn ieee(netdev: &str) -> Request {
    Request::one(GET_DCB)
        .with_fixed(&[0, IEEE_GET, 0, 0])
        .with_text(ATTR_IFNAME, netdev)
}

/// Which field of a packet decides about its priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    /// DSCP, of IP.
    Dscp,
    /// PCP, of the VLAN tag.
    Pcp,
}

/// Priority flow control.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pfc {
    /// A bit for each priority.
    pub(crate) enabled: u8,
    /// Frames sent, by priority. mlx5 gives what it counted when its statistics were asked for last.
    pub(crate) requests: [u64; PRIORITIES],
    /// Frames received, likewise.
    pub(crate) indications: [u64; PRIORITIES],
}

impl Pfc {
    /// Whether it is on for a priority.
    pub(crate) fn is_on(&self, priority: u8) -> bool {
        self.enabled.checked_shr(priority.into()).unwrap_or(0) & 1 == 1
    }
}

/// The answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DcbSettings {
    /// `None`: the driver has none.
    pub(crate) pfc: Option<Pfc>,
    /// What the driver says itself; it may also follow from [`DcbSettings::dscp`].
    told_trust: Option<Trust>,
    /// DSCP and the priority that it gives.
    pub(crate) dscp: Vec<(u8, u8)>,
}

impl DcbSettings {
    /// Reads the answer to [`ieee`].
    ///
    /// # Errors
    /// When it is about another interface or is not what it should be.
    pub(crate) fn parse(payload: &[u8], netdev: &str) -> Result<Self, Garbled> {
        let attributes = payload
            .get(HEAD..)
            .ok_or(Garbled("an answer of DCB without its head"))?;
        let (mut found, mut of) = (Self::default(), None);
        for attribute in Attributes::new(attributes) {
            match attribute? {
                (ATTR_IFNAME, value) => of = Some(text(value)?),
                (ATTR_IEEE, value) => found.read(value)?,
                _ => {}
            }
        }
        if of == Some(netdev) {
            Ok(found)
        } else {
            Err(Garbled("an answer of DCB about another interface"))
        }
    }

    fn read(&mut self, ieee: &[u8]) -> Result<(), Garbled> {
        for attribute in Attributes::new(ieee) {
            match attribute? {
                (IEEE_PFC, value) => self.pfc = Some(pfc(value)?),
                (IEEE_APP_TABLE, value) => self.applications(value)?,
                (IEEE_APP_TRUST, value) => {
                    for entry in Attributes::new(value) {
                        // The first decides.
                        if let (APP | DCB_APP, &[selector]) = entry? {
                            self.told_trust.get_or_insert(if selector == SELECTOR_DSCP {
                                Trust::Dscp
                            } else {
                                Trust::Pcp
                            });
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn applications(&mut self, table: &[u8]) -> Result<(), Garbled> {
        for entry in Attributes::new(table) {
            let (APP, value) = entry? else { continue };
            let &[selector, priority, low, high] = value else {
                return Err(Garbled("an entry of DCB's applications of another length"));
            };
            let protocol = u16::from_ne_bytes([low, high]);
            match u8::try_from(protocol) {
                Ok(dscp) if selector == SELECTOR_DSCP && dscp < 64 && usize::from(priority) < PRIORITIES => {
                    self.dscp.push((dscp, priority));
                }
                _ => {}
            }
        }
        self.dscp.sort_unstable();
        Ok(())
    }

    /// Which field decides. Most drivers, mlx5 among them, say so only by having entries for DSCP.
    pub(crate) fn trust(&self) -> Trust {
        let implied = if self.dscp.is_empty() {
            Trust::Pcp
        } else {
            Trust::Dscp
        };
        self.told_trust.unwrap_or(implied)
    }
}

/// `struct ieee_pfc`.
fn pfc(bytes: &[u8]) -> Result<Pfc, Garbled> {
    let short = Garbled("PFC of another length");
    let (head, counts) = bytes.split_first_chunk::<PFC_HEAD>().ok_or(short)?;
    let mut numbers = counts
        .chunks_exact(8)
        .filter_map(|n| Some(u64::from_ne_bytes(n.try_into().ok()?)));
    let mut list = || {
        let mut all = [0; PRIORITIES];
        for to in &mut all {
            *to = numbers.next().ok_or(short)?;
        }
        Ok::<_, Garbled>(all)
    };
    let [_, enabled, ..] = *head;
    Ok(Pfc {
        enabled,
        requests: list()?,
        indications: list()?,
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::netlink::attribute::tests::written;

    /// `struct ieee_pfc`.
    pub(crate) fn pfc_bytes(pfc: &Pfc) -> Vec<u8> {
        let mut bytes = vec![8, pfc.enabled, 0, 0, 0, 0, 0, 0];
        for count in pfc.requests.iter().chain(&pfc.indications) {
            bytes.extend(count.to_ne_bytes());
        }
        bytes
    }

    /// An answer as the kernel writes it.
    pub(crate) fn answer(netdev: &str, pfc: Option<&Pfc>, dscp: &[(u8, u8)]) -> Vec<u8> {
        let mut ieee = written(1, &[0; 59]);
        if let Some(pfc) = pfc {
            ieee.extend(written(IEEE_PFC, &pfc_bytes(pfc)));
        }
        // Applications of other selectors stand among them: RoCE v1 by its EtherType.
        let mut table = written(APP, &[1, 3, 0x15, 0x89]);
        for (dscp, priority) in dscp {
            table.extend(written(APP, &[SELECTOR_DSCP, *priority, *dscp, 0]));
        }
        ieee.extend(written(IEEE_APP_TABLE, &table));
        let name = written(ATTR_IFNAME, format!("{netdev}\0").as_bytes());
        let mut bytes = vec![0, IEEE_GET, 0, 0];
        bytes.extend([name, written(ATTR_IEEE, &ieee), written(14, &[4])].concat());
        bytes
    }

    const PFC: Pfc = Pfc {
        enabled: 0b1000,
        requests: [0, 0, 0, 12345, 0, 0, 0, 0],
        indications: [0, 0, 0, 678, 0, 0, 0, 0],
    };

    #[test]
    fn an_answer_has_the_bitmap_the_counts_and_the_dscp_map() {
        let found = DcbSettings::parse(&answer("eth0", Some(&PFC), &[(48, 6), (26, 3)]), "eth0").unwrap();
        assert_eq!(found.pfc, Some(PFC));
        assert_eq!(found.dscp, [(26, 3), (48, 6)]);
        assert_eq!(found.trust(), Trust::Dscp);
        let on = (0..8).filter(|p| PFC.is_on(*p)).collect::<Vec<u8>>();
        assert_eq!((on, PFC.is_on(200)), (vec![3], false));
    }

    #[test]
    fn the_trust_mode_is_implied_by_dscp_entries_where_the_driver_has_no_apptrust() {
        let without = DcbSettings::parse(&answer("eth0", Some(&PFC), &[]), "eth0").unwrap();
        assert_eq!(without.trust(), Trust::Pcp);
        let trusted = |selectors: &[u8]| {
            let list: Vec<u8> = selectors
                .iter()
                .flat_map(|s| written(if *s == SELECTOR_DSCP { APP } else { DCB_APP }, &[*s]))
                .collect();
            let mut ieee = DcbSettings::default();
            ieee.read(&written(IEEE_APP_TRUST, &list)).unwrap();
            ieee.trust()
        };
        assert_eq!(trusted(&[SELECTOR_DSCP, 255]), Trust::Dscp);
        assert_eq!(trusted(&[255, SELECTOR_DSCP]), Trust::Pcp);
    }

    #[test]
    fn an_answer_about_another_interface_or_cut_off_is_none() {
        let whole = answer("eth0", Some(&PFC), &[(26, 3)]);
        assert!(DcbSettings::parse(&whole, "eth1").is_err());
        assert!(DcbSettings::parse(&[], "eth0").is_err());
        assert!(pfc(&pfc_bytes(&PFC)[..135]).is_err());
        assert_eq!(pfc(&pfc_bytes(&PFC)), Ok(PFC));
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(
            enabled in any::<u8>(),
            requests in any::<[u64; 8]>(),
            indications in any::<[u64; 8]>(),
            dscp in prop::collection::btree_map(0_u8..64, 0_u8..8, 0..64),
        ) {
            let pfc = Pfc { enabled, requests, indications };
            let dscp: Vec<(u8, u8)> = dscp.into_iter().collect();
            let found = DcbSettings::parse(&answer("ens1f0np0", Some(&pfc), &dscp), "ens1f0np0").unwrap();
            prop_assert_eq!(found.pfc, Some(pfc));
            prop_assert_eq!(found.dscp, dscp);
        }

        #[test]
        fn any_bytes_give_an_answer_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            drop(DcbSettings::parse(&bytes, "eth0"));
        }
    }
}
