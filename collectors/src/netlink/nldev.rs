//! Properties of RDMA devices by netlink (include/uapi/rdma/rdma_netlink.h, drivers/infiniband/core/nldev.c). Any
//! user may query them.

use super::Garbled;
use super::attribute::{Attributes, text, u8, u32, u64};
use super::message::Request;

/// `RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, ...)`.
pub(super) const NLDEV: u16 = 5 << 10;
const GET: u16 = NLDEV | 1;
const PORT_GET: u16 = NLDEV | 5;
const RES_GET: u16 = NLDEV | 9;
const STAT_GET: u16 = NLDEV | 17;

pub(super) const DEV_INDEX: u16 = 1;
pub(super) const DEV_NAME: u16 = 2;
pub(super) const PORT_INDEX: u16 = 3;
const NODE_GUID: u16 = 6;
const PORT_STATE: u16 = 12;
const PORT_PHYS_STATE: u16 = 13;
const RES_SUMMARY: u16 = 15;
const RES_SUMMARY_ENTRY: u16 = 16;
const RES_SUMMARY_ENTRY_NAME: u16 = 17;
const RES_SUMMARY_ENTRY_CURR: u16 = 18;
pub(super) const NDEV_INDEX: u16 = 50;
pub(super) const NDEV_NAME: u16 = 51;
const STAT_HWCOUNTERS: u16 = 80;
const STAT_HWCOUNTER_ENTRY: u16 = 81;
const STAT_HWCOUNTER_ENTRY_NAME: u16 = 82;
const STAT_HWCOUNTER_ENTRY_VALUE: u16 = 83;

/// Maximum length of the name of a counter or a device.
pub(super) const LONGEST: usize = 128;

/// Queries the devices of our network namespace. The answers also hold the number of objects of each, which the
/// kernel counts without asking a driver.
pub(crate) fn devices() -> Request {
    Request::all(RES_GET)
}

/// Queries one device. The kernel asks its driver for the firmware version.
pub(crate) fn device(index: u32) -> Request {
    Request::one(GET).with(DEV_INDEX, index)
}

/// Queries the hardware counters of one port. The kernel does not cache them: on mlx5 each query costs 3 firmware
/// commands.
pub(crate) fn counters(device: u32, port: u32) -> Request {
    Request::one(STAT_GET)
        .with(DEV_INDEX, device)
        .with(PORT_INDEX, port)
}

/// Queries the state of one port. The kernel asks its driver once, as for each of the files `state`, `phys_state`
/// and `rate`.
pub(crate) fn port(device: u32, port: u32) -> Request {
    Request::one(PORT_GET)
        .with(DEV_INDEX, device)
        .with(PORT_INDEX, port)
}

/// Queries the number of objects of one device. The kernel counts them one by one: too expensive for every reading.
pub(crate) fn resources(device: u32) -> Request {
    Request::one(RES_GET).with(DEV_INDEX, device)
}

/// A port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NldevPort {
    /// InfiniBand's numbers, as in the files.
    pub(crate) state: u8,
    pub(crate) physical_state: u8,
    /// Index and name of its network interface. `None`: it has none, or one in another network namespace.
    pub(crate) netdev: Option<(u32, String)>,
}

impl NldevPort {
    /// Reads one answer to [`port`].
    ///
    /// # Errors
    /// When a state is missing or the answer is malformed.
    pub(crate) fn parse(payload: &[u8]) -> Result<Self, Garbled> {
        let (mut state, mut physical, mut index, mut name) = (None, None, None, None);
        for attribute in Attributes::new(payload) {
            match attribute? {
                (PORT_STATE, value) => state = Some(u8(value)?),
                (PORT_PHYS_STATE, value) => physical = Some(u8(value)?),
                (NDEV_INDEX, value) => index = Some(u32(value)?),
                (NDEV_NAME, value) => name = Some(text(value)?),
                _ => {}
            }
        }
        let name = name.filter(|n| !n.is_empty() && n.len() <= LONGEST);
        Ok(Self {
            state: state.ok_or(Garbled("port without a state"))?,
            physical_state: physical.ok_or(Garbled("port without a physical state"))?,
            netdev: index.zip(name).map(|(index, name)| (index, name.to_owned())),
        })
    }
}

/// The kinds of objects in an answer to [`resources`] and their counts, in the order of the kernel.
///
/// # Errors
/// When it is malformed. Discard the values reported before the error.
pub(crate) fn each_resource(payload: &[u8], tell: impl FnMut(&str, u64)) -> Result<(), Garbled> {
    let table = (RES_SUMMARY, RES_SUMMARY_ENTRY);
    each_named(
        payload,
        table,
        (RES_SUMMARY_ENTRY_NAME, RES_SUMMARY_ENTRY_CURR),
        tell,
    )
}

/// A device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NldevDevice {
    /// Its index, which stays until it is removed, also across renames.
    pub(crate) index: u32,
    pub(crate) name: String,
    /// In sysfs format: `b859:9f03:00c2:88f4`. Only in answers to [`device`].
    pub(crate) node_guid: Option<String>,
}

impl NldevDevice {
    /// Reads one answer to [`devices`] or [`device`].
    ///
    /// # Errors
    /// When a part is missing or malformed.
    pub(crate) fn parse(payload: &[u8]) -> Result<Self, Garbled> {
        let (mut index, mut name, mut guid) = (None, None, None);
        for attribute in Attributes::new(payload) {
            match attribute? {
                (DEV_INDEX, value) => index = Some(u32(value)?),
                (DEV_NAME, value) => name = Some(text(value)?),
                (NODE_GUID, value) => guid = Some(u64(value)?),
                _ => {}
            }
        }
        let name = name.filter(|n| !n.is_empty() && n.len() <= LONGEST);
        Ok(Self {
            index: index.ok_or(Garbled("device without its index"))?,
            name: name.ok_or(Garbled("device without a name"))?.to_owned(),
            node_guid: guid.map(written),
        })
    }
}

fn written(guid: u64) -> String {
    let parts = [48, 32, 16, 0].map(|shift| format!("{:04x}", (guid >> shift) & 0xffff));
    parts.join(":")
}

/// Whether this answer is about that port of the device with that index and name: indexes are reused.
///
/// # Errors
/// When it does not name its device and port.
pub(crate) fn is_of(payload: &[u8], (device, name): (u32, &str), port: u32) -> Result<bool, Garbled> {
    let (mut of_device, mut of_port, mut of_name) = (None, None, None);
    for attribute in Attributes::new(payload) {
        match attribute? {
            (DEV_INDEX, value) => of_device = Some(u32(value)?),
            (DEV_NAME, value) => of_name = Some(text(value)?),
            (PORT_INDEX, value) => of_port = Some(u32(value)?),
            _ => {}
        }
    }
    let whose = of_device.zip(of_port);
    let is_same = whose.ok_or(Garbled("answer without a port"))? == (device, port);
    Ok(is_same && of_name.is_none_or(|of| of == name))
}

/// The counters in an answer to [`counters`], in the order of the driver.
///
/// # Errors
/// When it is malformed. Discard the values reported before the error.
pub(crate) fn each_counter(payload: &[u8], tell: impl FnMut(&str, u64)) -> Result<(), Garbled> {
    let table = (STAT_HWCOUNTERS, STAT_HWCOUNTER_ENTRY);
    let entry = (STAT_HWCOUNTER_ENTRY_NAME, STAT_HWCOUNTER_ENTRY_VALUE);
    each_named(payload, table, entry, tell)
}

/// The entries of a table: name and number.
fn each_named(
    payload: &[u8],
    (table, entry): (u16, u16),
    (name_of, value_of): (u16, u16),
    mut tell: impl FnMut(&str, u64),
) -> Result<(), Garbled> {
    for attribute in Attributes::new(payload) {
        let (kind, inner) = attribute?;
        if kind != table {
            continue;
        }
        for attribute in Attributes::new(inner) {
            let (kind, inner) = attribute?;
            if kind != entry {
                continue;
            }
            let (mut name, mut count) = (None, None);
            for part in Attributes::new(inner) {
                match part? {
                    (kind, value) if kind == name_of => name = Some(text(value).unwrap_or_default()),
                    (kind, value) if kind == value_of => count = Some(u64(value)?),
                    _ => {}
                }
            }
            let both = name.zip(count);
            let (name, count) = both.ok_or(Garbled("entry without name or number"))?;
            // As with files, an invalid name costs only its own entry.
            if !name.is_empty() && name.len() <= LONGEST {
                tell(name, count);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::super::attribute::tests::written as attribute;
    use super::*;

    /// An answer with these counters.
    pub(crate) fn answer(device: u32, port: u32, counters: &[(&str, u64)]) -> Vec<u8> {
        let entries = counters.iter().flat_map(|(name, value)| {
            let name = attribute(STAT_HWCOUNTER_ENTRY_NAME, format!("{name}\0").as_bytes());
            let value = attribute(STAT_HWCOUNTER_ENTRY_VALUE, &value.to_ne_bytes());
            // The kernel sets the flag on attributes that hold others.
            attribute(STAT_HWCOUNTER_ENTRY | 0x8000, &[name, value].concat())
        });
        let table: Vec<u8> = entries.collect();
        [
            attribute(DEV_INDEX, &device.to_ne_bytes()),
            attribute(DEV_NAME, b"mlx5_0\0"),
            attribute(PORT_INDEX, &port.to_ne_bytes()),
            attribute(STAT_HWCOUNTERS | 0x8000, &table),
        ]
        .concat()
    }

    /// An answer that names a device.
    pub(crate) fn device(index: u32, name: &str, guid: Option<u64>) -> Vec<u8> {
        let guid = guid.map(|guid| attribute(NODE_GUID, &guid.to_ne_bytes()));
        let name = attribute(DEV_NAME, format!("{name}\0").as_bytes());
        [
            attribute(DEV_INDEX, &index.to_ne_bytes()),
            name,
            guid.unwrap_or_default(),
        ]
        .concat()
    }

    /// An answer about a port.
    pub(crate) fn port_answer(
        device: u32,
        port: u32,
        states: (u8, u8),
        netdev: Option<(u32, &str)>,
    ) -> Vec<u8> {
        let mut parts = vec![
            attribute(DEV_INDEX, &device.to_ne_bytes()),
            attribute(DEV_NAME, b"mlx5_0\0"),
            attribute(PORT_INDEX, &port.to_ne_bytes()),
            attribute(PORT_STATE, &[states.0]),
            attribute(PORT_PHYS_STATE, &[states.1]),
        ];
        if let Some((index, name)) = netdev {
            parts.push(attribute(NDEV_INDEX, &index.to_ne_bytes()));
            parts.push(attribute(NDEV_NAME, format!("{name}\0").as_bytes()));
        }
        parts.concat()
    }

    /// An answer with these kinds of objects.
    pub(crate) fn resources_answer(device: u32, counts: &[(&str, u64)]) -> Vec<u8> {
        let entries = counts.iter().flat_map(|(name, count)| {
            let name = attribute(RES_SUMMARY_ENTRY_NAME, format!("{name}\0").as_bytes());
            let count = attribute(RES_SUMMARY_ENTRY_CURR, &count.to_ne_bytes());
            attribute(RES_SUMMARY_ENTRY | 0x8000, &[name, count].concat())
        });
        let table: Vec<u8> = entries.collect();
        [
            attribute(DEV_INDEX, &device.to_ne_bytes()),
            attribute(DEV_NAME, b"mlx5_0\0"),
            attribute(RES_SUMMARY | 0x8000, &table),
        ]
        .concat()
    }

    #[test]
    fn a_port_has_two_states_and_perhaps_an_interface() {
        let whole = port_answer(3, 1, (4, 5), Some((7, "ens1f0np0")));
        let port = NldevPort::parse(&whole).unwrap();
        assert_eq!((port.state, port.physical_state), (4, 5));
        assert_eq!(port.netdev, Some((7, "ens1f0np0".to_owned())));
        // In another network namespace, or InfiniBand.
        assert_eq!(
            NldevPort::parse(&port_answer(3, 1, (1, 3), None)).unwrap().netdev,
            None
        );
        assert!(NldevPort::parse(&[]).is_err(), "no state is not state 0");
        let two_bytes = attribute(PORT_STATE, &[4, 0]);
        assert!(NldevPort::parse(&[two_bytes, attribute(PORT_PHYS_STATE, &[5])].concat()).is_err());
    }

    #[test]
    fn resources_are_read_in_the_order_of_the_kernel() {
        let counts = [("pd", 2), ("cq", 3), ("qp", 70), ("mr", 100_000)];
        let mut all = Vec::new();
        each_resource(&resources_answer(3, &counts), |name, n| {
            all.push((name.to_owned(), n))
        })
        .unwrap();
        assert_eq!(all, counts.map(|(name, n)| (name.to_owned(), n)));
        // A table of counters is not one of resources.
        each_resource(&answer(3, 1, &[("a", 1)]), |_, _| panic!()).unwrap();
    }

    proptest! {
        #[test]
        fn what_a_port_says_is_read(state: u8, physical: u8, netdev in prop::option::of((any::<u32>(), "[a-z][a-z0-9@._-]{0,14}"))) {
            let named = netdev.as_ref().map(|(index, name)| (*index, name.as_str()));
            let expected = NldevPort { state, physical_state: physical, netdev: netdev.clone() };
            prop_assert_eq!(NldevPort::parse(&port_answer(3, 1, (state, physical), named)), Ok(expected));
        }

        #[test]
        fn what_resources_say_is_read(counts in prop::collection::vec(("[a-z_]{1,12}", any::<u64>()), 0..12)) {
            let named: Vec<(&str, u64)> = counts.iter().map(|(name, n)| (name.as_str(), *n)).collect();
            let mut all = Vec::new();
            each_resource(&resources_answer(3, &named), |name, n| all.push((name.to_owned(), n))).unwrap();
            prop_assert_eq!(all, counts);
        }
    }

    fn read(payload: &[u8]) -> Result<Vec<(String, u64)>, Garbled> {
        let mut all = Vec::new();
        each_counter(payload, |name, value| all.push((name.to_owned(), value)))?;
        Ok(all)
    }

    #[test]
    fn counters_are_read_in_the_order_of_the_driver() {
        let counters = [
            ("np_cnp_sent", 7),
            ("out_of_buffer", u64::MAX),
            ("np_cnp_sent", 8),
        ];
        let payload = answer(3, 1, &counters);
        let expected = counters.map(|(name, value)| (name.to_owned(), value));
        assert_eq!(read(&payload).unwrap(), expected);
        assert_eq!(is_of(&payload, (3, "mlx5_0"), 1), Ok(true));
        assert_eq!(is_of(&payload, (3, "mlx5_0"), 2), Ok(false));
        assert_eq!(is_of(&payload, (4, "mlx5_0"), 1), Ok(false));
        assert_eq!(is_of(&payload, (3, "mlx5_1"), 1), Ok(false));
        assert!(is_of(&[], (3, "mlx5_0"), 1).is_err());
        assert_eq!(read(&answer(3, 1, &[])).unwrap(), []);
    }

    #[test]
    fn what_is_cut_off_reports_less_and_never_more() {
        let whole = answer(3, 1, &[("a", 1), ("b", 2)]);
        let full = read(&whole).unwrap().len();
        for end in 0..whole.len() {
            // Cut between two attributes, it is a valid shorter answer.
            assert!(read(&whole[..end]).map_or(true, |all| all.len() < full), "{end}");
        }
    }

    #[test]
    fn an_odd_name_costs_its_own_counter() {
        let long = "x".repeat(LONGEST + 1);
        let all = read(&answer(3, 1, &[("", 1), ("a\nb", 2), (&long, 3), ("good", 4)]));
        assert_eq!(all.unwrap(), [("good".to_owned(), 4)]);
    }

    #[test]
    fn a_device_has_its_index_name_and_guid() {
        let parts = [
            attribute(DEV_INDEX, &5_u32.to_ne_bytes()),
            attribute(DEV_NAME, b"rxe0\0"),
            attribute(NODE_GUID, &0x5054_00ff_fe12_3456_u64.to_ne_bytes()),
        ];
        let found = NldevDevice::parse(&parts.concat()).unwrap();
        let expected = NldevDevice {
            index: 5,
            name: "rxe0".to_owned(),
            node_guid: Some("5054:00ff:fe12:3456".to_owned()),
        };
        assert_eq!(found, expected);
        for missing in 0..2 {
            let rest = parts.iter().enumerate().filter(|(n, _)| *n != missing);
            let rest: Vec<u8> = rest.flat_map(|(_, p)| p.clone()).collect();
            assert!(NldevDevice::parse(&rest).is_err());
        }
    }
}
