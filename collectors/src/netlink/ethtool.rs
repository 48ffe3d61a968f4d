//! Queries of ethtool by generic netlink (include/uapi/linux/ethtool_netlink.h, net/ethtool). Any user may send
//! them. The kernel holds RTNL while the driver answers.

use super::Garbled;
use super::attribute::{Attributes, text, u16, u32, u64};
use super::message::Request;

/// `GENL_ID_CTRL`, which lists the ids of the families.
const CONTROL: u16 = 0x10;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;

const LINKSTATE_GET: u8 = 6;
const PAUSE_GET: u8 = 21;
const FEC_GET: u8 = 29;
const VERSION: u8 = 1;

/// The first attribute of every query and answer here.
const HEADER: u16 = 1;
const HEADER_NAME: u16 = 2;
const HEADER_FLAGS: u16 = 3;
/// `ETHTOOL_FLAG_COMPACT_BITSETS`.
const COMPACT: u32 = 1;
/// `ETHTOOL_FLAG_STATS`.
const STATISTICS: u32 = 4;

const PAUSE_STATS: u16 = 5;
const PAUSE_STAT_TX: u16 = 2;
const PAUSE_STAT_RX: u16 = 3;

const FEC_ACTIVE: u16 = 4;
const FEC_STATS: u16 = 5;
const FEC_STAT_CORRECTED: u16 = 2;
const FEC_STAT_UNCORRECTABLE: u16 = 3;

const LINKSTATE_DOWN_COUNT: u16 = 7;

/// `struct genlmsghdr`.
const HEAD: usize = 4;

/// Queries the id of ethtool's family, which the kernel assigns at each boot.
pub(crate) fn family() -> Request {
    Request::one(CONTROL)
        .with_fixed(&[GET_FAMILY, 1, 0, 0])
        .with_text(FAMILY_NAME, "ethtool")
}

/// Reads the answer to [`family`].
///
/// # Errors
/// When the answer has no id.
pub(crate) fn family_id(payload: &[u8]) -> Result<u16, Garbled> {
    for attribute in attributes(payload)? {
        if let (FAMILY_ID, value) = attribute? {
            return u16(value);
        }
    }
    Err(Garbled("a family without its number"))
}

/// A query about an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EthtoolQuery {
    /// Pause frames.
    Pause,
    /// Forward error correction.
    Fec,
    /// How often the link went down.
    LinkState,
}

impl EthtoolQuery {
    const fn command(self) -> u8 {
        match self {
            Self::Pause => PAUSE_GET,
            Self::Fec => FEC_GET,
            Self::LinkState => LINKSTATE_GET,
        }
    }

    /// Whether the answer has useful values besides statistics.
    pub(crate) const fn has_more(self) -> bool {
        matches!(self, Self::Fec)
    }

    /// The query, with or without statistics. A kernel that does not support statistics for it returns EINVAL if
    /// they are requested (`LinkState` before 6.1, `Fec` before 5.13).
    pub(crate) fn of(self, family: u16, netdev: &str, statistics: bool) -> Request {
        let flags = if statistics { COMPACT | STATISTICS } else { COMPACT };
        let header = Request::one(0)
            .with_text(HEADER_NAME, netdev)
            .with(HEADER_FLAGS, flags);
        Request::one(family)
            .with_fixed(&[self.command(), VERSION, 0, 0])
            .with_nest(HEADER, &header)
    }
}

/// Pause frames of the whole link. Counts that the driver does not provide are absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pause {
    pub(crate) rx: Option<u64>,
    pub(crate) tx: Option<u64>,
}

impl Pause {
    /// Reads the answer to [`EthtoolQuery::Pause`].
    ///
    /// # Errors
    /// When it is about another interface or malformed.
    pub(crate) fn parse(payload: &[u8], netdev: &str) -> Result<Self, Garbled> {
        let mut found = Self::default();
        each(payload, netdev, |kind, value| {
            if kind == PAUSE_STATS {
                for count in Attributes::new(value) {
                    match count? {
                        (PAUSE_STAT_RX, value) => found.rx = Some(u64(value)?),
                        (PAUSE_STAT_TX, value) => found.tx = Some(u64(value)?),
                        _ => {}
                    }
                }
            }
            Ok(())
        })?;
        Ok(found)
    }
}

/// Forward error correction. Values that the driver does not report are absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fec {
    /// The mode in use: off, rs, baser or llrs.
    pub(crate) mode: Option<&'static str>,
    pub(crate) corrected: Option<u64>,
    pub(crate) uncorrectable: Option<u64>,
}

impl Fec {
    /// Reads the answer to [`EthtoolQuery::Fec`].
    ///
    /// # Errors
    /// When it is about another interface or malformed.
    pub(crate) fn parse(payload: &[u8], netdev: &str) -> Result<Self, Garbled> {
        let mut found = Self::default();
        each(payload, netdev, |kind, value| {
            match kind {
                FEC_ACTIVE => found.mode = mode(u32(value)?),
                FEC_STATS => {
                    for count in Attributes::new(value) {
                        match count? {
                            (FEC_STAT_CORRECTED, value) => found.corrected = total(value)?,
                            (FEC_STAT_UNCORRECTABLE, value) => found.uncorrectable = total(value)?,
                            _ => {}
                        }
                    }
                }
                _ => {}
            }
            Ok(())
        })?;
        Ok(found)
    }
}

/// By the bit number of the link mode (`ETHTOOL_LINK_MODE_FEC_*_BIT`).
const fn mode(bit: u32) -> Option<&'static str> {
    match bit {
        49 => Some("off"),
        50 => Some("rs"),
        51 => Some("baser"),
        74 => Some("llrs"),
        _ => None,
    }
}

/// The total precedes the lanes. A driver without counts returns an empty list.
fn total(list: &[u8]) -> Result<Option<u64>, Garbled> {
    if !list.len().is_multiple_of(8) {
        return Err(Garbled("list of 64-bit numbers of unexpected length"));
    }
    list.get(..8).map(u64).transpose()
}

/// Reads the answer to [`EthtoolQuery::LinkState`]: how often the link went down, if the driver counts it.
///
/// # Errors
/// When it is about another interface or malformed.
pub(crate) fn down_count(payload: &[u8], netdev: &str) -> Result<Option<u32>, Garbled> {
    let mut found = None;
    each(payload, netdev, |kind, value| {
        if kind == LINKSTATE_DOWN_COUNT {
            found = Some(u32(value)?);
        }
        Ok(())
    })?;
    Ok(found)
}

fn attributes(payload: &[u8]) -> Result<Attributes<'_>, Garbled> {
    let behind = payload
        .get(HEAD..)
        .ok_or(Garbled("ethtool answer without its header"))?;
    Ok(Attributes::new(behind))
}

/// Calls a function with each attribute of an answer, if it is about that interface.
fn each(
    payload: &[u8],
    netdev: &str,
    mut take: impl FnMut(u16, &[u8]) -> Result<(), Garbled>,
) -> Result<(), Garbled> {
    let mut is_ours = false;
    for attribute in attributes(payload)? {
        match attribute? {
            (HEADER, header) => {
                for part in Attributes::new(header) {
                    if let (HEADER_NAME, name) = part? {
                        is_ours = text(name)? == netdev;
                    }
                }
            }
            (kind, value) => take(kind, value)?,
        }
    }
    if is_ours {
        Ok(())
    } else {
        Err(Garbled("ethtool answer about another interface"))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::netlink::attribute::tests::written;

    /// An answer as the kernel writes it: header, interface, and content.
    pub(crate) fn answer(netdev: &str, parts: &[Vec<u8>]) -> Vec<u8> {
        let name = [
            written(1, &2_u32.to_ne_bytes()),
            written(HEADER_NAME, format!("{netdev}\0").as_bytes()),
        ];
        [vec![22, 1, 0, 0], written(HEADER, &name.concat()), parts.concat()].concat()
    }

    /// The counts of [`EthtoolQuery::Pause`].
    pub(crate) fn pause_part(rx: u64, tx: u64) -> Vec<u8> {
        let counts = [
            written(PAUSE_STAT_TX, &tx.to_ne_bytes()),
            written(PAUSE_STAT_RX, &rx.to_ne_bytes()),
        ];
        written(PAUSE_STATS, &counts.concat())
    }

    /// Mode and counts of [`EthtoolQuery::Fec`], each as a total and two lanes.
    pub(crate) fn fec_part(bit: u32, corrected: u64, uncorrectable: u64) -> Vec<u8> {
        let list = |n: u64| [n, n, 0].map(u64::to_ne_bytes).concat();
        let counts = [
            written(FEC_STAT_CORRECTED, &list(corrected)),
            written(FEC_STAT_UNCORRECTABLE, &list(uncorrectable)),
        ];
        [mode_part(bit), written(FEC_STATS, &counts.concat())].concat()
    }

    /// Only the mode.
    pub(crate) fn mode_part(bit: u32) -> Vec<u8> {
        written(FEC_ACTIVE, &bit.to_ne_bytes())
    }

    /// The count of [`EthtoolQuery::LinkState`].
    pub(crate) fn down_part(count: u32) -> Vec<u8> {
        [
            written(2, &[1]),
            written(LINKSTATE_DOWN_COUNT, &count.to_ne_bytes()),
        ]
        .concat()
    }

    #[test]
    fn a_question_names_the_interface_and_wants_statistics() {
        let mut request = EthtoolQuery::Pause.of(21, "eth0", true);
        let bytes = request.numbered(1).to_vec();
        let (_, payload) = bytes.split_at(16);
        let header = [
            written(HEADER_NAME, b"eth0\0"),
            written(HEADER_FLAGS, &5_u32.to_ne_bytes()),
        ]
        .concat();
        // Nested attributes must have the flag, or the family rejects them.
        let nest = written(HEADER | 0x8000, &header);
        assert_eq!(payload, [&[PAUSE_GET, 1, 0, 0], &nest[..]].concat());
        assert_eq!(bytes[4..6], 21_u16.to_ne_bytes());
    }

    #[test]
    fn the_family_has_a_number() {
        let message = [
            vec![1, 2, 0, 0],
            written(FAMILY_NAME, b"ethtool\0"),
            written(FAMILY_ID, &21_u16.to_ne_bytes()),
        ];
        assert_eq!(family_id(&message.concat()), Ok(21));
        assert!(family_id(&[1, 2, 0, 0]).is_err() && family_id(&[]).is_err());
    }

    #[test]
    fn what_a_driver_does_not_count_is_not_there() {
        let nothing = answer("eth0", &[]);
        assert_eq!(Pause::parse(&nothing, "eth0"), Ok(Pause::default()));
        assert_eq!(Fec::parse(&nothing, "eth0"), Ok(Fec::default()));
        assert_eq!(down_count(&nothing, "eth0"), Ok(None));
        let empty = answer("eth0", &[written(FEC_STATS, &written(FEC_STAT_CORRECTED, &[]))]);
        assert_eq!(Fec::parse(&empty, "eth0"), Ok(Fec::default()));
    }

    #[test]
    fn counts_are_read_and_lanes_are_not_added_to_their_total() {
        let message = answer("eth0", &[pause_part(7, 9)]);
        assert_eq!(
            Pause::parse(&message, "eth0"),
            Ok(Pause {
                rx: Some(7),
                tx: Some(9)
            })
        );
        let expected = Fec {
            mode: Some("rs"),
            corrected: Some(123),
            uncorrectable: Some(4),
        };
        assert_eq!(
            Fec::parse(&answer("eth0", &[fec_part(50, 123, 4)]), "eth0"),
            Ok(expected)
        );
        assert_eq!(down_count(&answer("eth0", &[down_part(3)]), "eth0"), Ok(Some(3)));
        assert!(Pause::parse(&message, "eth1").is_err());
        let odd = answer(
            "eth0",
            &[written(FEC_STATS, &written(FEC_STAT_CORRECTED, &[0; 12]))],
        );
        assert!(Fec::parse(&odd, "eth0").is_err());
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(rx in any::<u64>(), tx in any::<u64>(), name in "[a-z0-9]{1,15}") {
            let message = answer(&name, &[pause_part(rx, tx)]);
            prop_assert_eq!(Pause::parse(&message, &name), Ok(Pause { rx: Some(rx), tx: Some(tx) }));
        }

        #[test]
        fn any_bytes_give_an_answer_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            std::hint::black_box(family_id(&bytes)).ok();
            std::hint::black_box(Pause::parse(&bytes, "")).ok();
            std::hint::black_box(Fec::parse(&bytes, "")).ok();
            std::hint::black_box(down_count(&bytes, "")).ok();
        }
    }
}
