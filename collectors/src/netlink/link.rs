//! Messages of RTNLGRP_LINK about network interfaces (include/uapi/linux/{rtnetlink,if_link}.h).

use super::Garbled;
use super::attribute::{Attributes, u8};

/// `RTM_NEWLINK`: an interface was added or changed.
pub(crate) const NEW: u16 = 16;
/// `RTM_DELLINK`: an interface was removed, possibly to another network namespace.
pub(crate) const GONE: u16 = 17;

const OPERSTATE: u16 = 16;
/// `IFF_LOWER_UP`: it has a carrier.
const LOWER_UP: u32 = 1 << 16;

/// One interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NetInterface {
    /// Its index, which a rename does not change.
    pub(crate) index: u32,
    /// Whether it can carry traffic. `None`: it was removed.
    pub(crate) is_up: Option<bool>,
}

impl NetInterface {
    /// Reads one message of that kind. `None`: it is about another object, such as the ports of a bridge.
    ///
    /// # Errors
    /// When it is malformed.
    pub(crate) fn parse(kind: u16, payload: &[u8]) -> Result<Option<Self>, Garbled> {
        if !matches!(kind, NEW | GONE) {
            return Ok(None);
        }
        // struct ifinfomsg
        let (head, rest) = payload
            .split_first_chunk::<16>()
            .ok_or(Garbled("interface shorter than its header"))?;
        let [family, _, _, _, i, j, k, l, f, g, h, m, ..] = *head;
        if family != 0 {
            return Ok(None);
        }
        let index = u32::from_ne_bytes([i, j, k, l]);
        let carrier = u32::from_ne_bytes([f, g, h, m]) & LOWER_UP != 0;
        let mut is_up = carrier;
        for attribute in Attributes::new(rest) {
            if let (OPERSTATE, value) = attribute? {
                is_up = match u8(value)? {
                    // IF_OPER_UNKNOWN: the driver does not report it (loopback, some virtual interfaces).
                    0 => carrier,
                    state => state == 6,
                };
            }
        }
        Ok(Some(Self {
            index,
            is_up: (kind == NEW).then_some(is_up),
        }))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::super::attribute::tests::written as attribute;
    use super::super::message::tests::written as message;
    use super::*;

    /// The fixed part of a message about an interface.
    pub(crate) fn head(family: u8, index: u32, flags: u32) -> Vec<u8> {
        let (index, flags) = (index.to_ne_bytes(), flags.to_ne_bytes());
        [&[family, 0, 0, 0][..], &index, &flags, &[0; 4]].concat()
    }

    /// A message as the kernel sends it.
    pub(crate) fn link(kind: u16, index: u32, operstate: u8) -> Vec<u8> {
        let payload = [head(0, index, 0), attribute(OPERSTATE, &[operstate])].concat();
        message(kind, 0, &payload)
    }

    fn parse(kind: u16, payload: &[u8]) -> Option<NetInterface> {
        NetInterface::parse(kind, payload).unwrap()
    }

    #[test]
    fn an_interface_is_up_by_its_operational_state_or_where_that_is_unknown_by_its_carrier() {
        for (operstate, flags, is_up) in [
            (6, LOWER_UP, true),
            (6, 0, true),
            (2, LOWER_UP, false),
            (3, 0, false),
            (5, LOWER_UP, false),
            (0, LOWER_UP, true),
            (0, 1, false),
        ] {
            let payload = [head(0, 7, flags), attribute(OPERSTATE, &[operstate])].concat();
            let read = parse(NEW, &payload);
            assert_eq!(
                read,
                Some(NetInterface {
                    index: 7,
                    is_up: Some(is_up)
                }),
                "{operstate} {flags:x}"
            );
        }
        assert_eq!(parse(NEW, &head(0, 7, LOWER_UP)).unwrap().is_up, Some(true));
    }

    #[test]
    fn one_that_has_left_is_neither() {
        assert_eq!(
            parse(GONE, &head(0, 7, LOWER_UP)),
            Some(NetInterface {
                index: 7,
                is_up: None
            })
        );
    }

    #[test]
    fn ports_of_a_bridge_and_other_messages_are_not_about_interfaces() {
        assert_eq!(parse(NEW, &head(7, 7, 0)), None);
        assert_eq!(parse(20, &[]), None);
        assert!(NetInterface::parse(NEW, &[0; 15]).is_err());
    }

    proptest! {
        #[test]
        fn any_attributes_give_an_interface_or_an_error(
            index: u32,
            flags: u32,
            all in vec((prop_oneof![Just(OPERSTATE), any::<u16>()], vec(any::<u8>(), 0..6)), 0..5),
        ) {
            let mut bytes = head(0, index, flags);
            bytes.extend(all.iter().flat_map(|(kind, value)| attribute(*kind, value)));
            if let Ok(Some(link)) = NetInterface::parse(NEW, &bytes) {
                prop_assert_eq!(link.index, index);
                prop_assert!(link.is_up.is_some());
            }
        }

        #[test]
        fn any_bytes_break_nothing(bytes in vec(any::<u8>(), 0..100)) {
            let link = NetInterface::parse(NEW, &bytes);
            prop_assert!(link.is_err() || bytes.len() >= 16);
        }
    }
}
