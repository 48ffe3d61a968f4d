//! Messages of RDMA_NL_GROUP_NOTIFY (Linux 6.12, renames later): RDMA devices that are added and removed, and the
//! network interfaces of their ports.

use super::Garbled;
use super::attribute::{Attributes, text, u8, u32};
use super::nldev::{DEV_INDEX, DEV_NAME, LONGEST, NDEV_INDEX, NDEV_NAME, NLDEV, PORT_INDEX};

/// `RDMA_NLDEV_CMD_MONITOR`.
pub(crate) const MONITOR: u16 = NLDEV | 28;

/// `RDMA_NLDEV_ATTR_EVENT_TYPE`.
const EVENT_TYPE: u16 = 102;

/// `enum rdma_nl_notify_event_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoticeType {
    Registered,
    Unregistered,
    NetdevAttached,
    NetdevDetached,
    Renamed,
    NetdevRenamed,
    /// From a newer kernel.
    Other,
}

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Notice {
    pub(crate) what: NoticeType,
    /// The device's index, which its successor may reuse. Absent for a renamed interface, and for an interface of
    /// another network namespace that was attached or detached: for those the kernel reports nothing else.
    pub(crate) index: Option<u32>,
    /// Its current name. Some kernels report only the index.
    pub(crate) device: Option<String>,
    /// The port, if the message concerns one.
    pub(crate) port: Option<u32>,
    /// The network interface, if it is in our network namespace.
    pub(crate) netdev: Option<String>,
    /// The interface's index.
    pub(crate) netdev_index: Option<u32>,
}

impl Notice {
    /// Reads one message of the kind [`MONITOR`].
    ///
    /// # Errors
    /// When it has no event type or no device.
    pub(crate) fn parse(payload: &[u8]) -> Result<Self, Garbled> {
        let (mut what, mut index, mut device, mut port) = (None, None, None, None);
        let (mut netdev, mut netdev_index) = (None, None);
        for attribute in Attributes::new(payload) {
            match attribute? {
                (EVENT_TYPE, value) => what = Some(u8(value)?),
                (DEV_INDEX, value) => index = Some(u32(value)?),
                (DEV_NAME, value) => device = Some(text(value)?),
                (PORT_INDEX, value) => port = Some(u32(value)?),
                (NDEV_NAME, value) => netdev = Some(text(value)?),
                (NDEV_INDEX, value) => netdev_index = Some(u32(value)?),
                _ => {}
            }
        }
        let name = |name: Option<&str>| {
            let name = name.filter(|n| !n.is_empty() && n.len() <= LONGEST);
            name.map(str::to_owned)
        };
        if index.is_none() && matches!(what, Some(0 | 1 | 4)) {
            return Err(Garbled("notice without a device"));
        }
        Ok(Self {
            what: match what.ok_or(Garbled("notice without an event type"))? {
                0 => NoticeType::Registered,
                1 => NoticeType::Unregistered,
                2 => NoticeType::NetdevAttached,
                3 => NoticeType::NetdevDetached,
                4 => NoticeType::Renamed,
                5 => NoticeType::NetdevRenamed,
                _ => NoticeType::Other,
            },
            index,
            device: name(device),
            port,
            netdev: name(netdev),
            netdev_index,
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::super::attribute::tests::written as attribute;
    use super::super::message::tests::written as message;
    use super::*;

    /// A message as the kernel sends it: `what` by number.
    pub(crate) fn notice(
        what: u8,
        index: u32,
        device: Option<&str>,
        port: Option<u32>,
        netdev: Option<&str>,
    ) -> Vec<u8> {
        let name = |kind, name: &str| attribute(kind, format!("{name}\0").as_bytes());
        let parts = [
            Some(attribute(DEV_INDEX, &index.to_ne_bytes())),
            device.map(|d| name(DEV_NAME, d)),
            port.map(|p| attribute(PORT_INDEX, &p.to_ne_bytes())),
            netdev.map(|n| name(NDEV_NAME, n)),
            Some(attribute(EVENT_TYPE, &[what])),
        ];
        let payload: Vec<u8> = parts.into_iter().flatten().flatten().collect();
        message(MONITOR, 0, &payload)
    }

    proptest! {
        #[test]
        fn what_was_noticed_is_read(
            what in 0..8_u8,
            index: u32,
            device in prop::option::of("[a-z][a-z0-9_-]{0,20}"),
            port in prop::option::of(any::<u32>()),
            netdev in prop::option::of("[a-z][a-z0-9@._-]{0,14}"),
        ) {
            let bytes = notice(what, index, device.as_deref(), port, netdev.as_deref());
            let read = Notice::parse(&bytes[16..]).unwrap();
            prop_assert_eq!((read.index, read.device, read.port, read.netdev), (Some(index), device, port, netdev));
            prop_assert_eq!(read.what == NoticeType::Other, what > 5);
        }
    }

    /// A message with an event type and no device.
    pub(crate) fn without_device(what: u8) -> Vec<u8> {
        message(MONITOR, 0, &attribute(EVENT_TYPE, &[what]))
    }

    /// A message about a renamed interface does not name the device.
    pub(crate) fn netdev_renamed(index: u32, name: &str) -> Vec<u8> {
        let parts = [
            attribute(NDEV_INDEX, &index.to_ne_bytes()),
            attribute(NDEV_NAME, format!("{name}\0").as_bytes()),
            attribute(EVENT_TYPE, &[5]),
        ];
        message(MONITOR, 0, &parts.concat())
    }

    #[test]
    fn a_renamed_interface_is_reported_by_its_number_without_its_device() {
        let read = Notice::parse(&netdev_renamed(7, "net0")[16..]).unwrap();
        assert_eq!((read.what, read.index), (NoticeType::NetdevRenamed, None));
        assert_eq!(
            (read.netdev.as_deref(), read.netdev_index),
            (Some("net0"), Some(7))
        );
        // Of an interface in another network namespace.
        assert!(Notice::parse(&attribute(EVENT_TYPE, &[5])).is_ok());
    }

    #[test]
    fn a_notice_without_its_device_or_of_nothing_is_none() {
        assert!(Notice::parse(&[]).is_err());
        for what in [0, 1, 4] {
            assert!(Notice::parse(&attribute(EVENT_TYPE, &[what])).is_err());
        }
        assert!(Notice::parse(&attribute(DEV_INDEX, &[0; 4])).is_err());
    }

    #[test]
    fn an_interface_of_another_network_namespace_is_reported_without_anything_else() {
        for (what, read) in [(2, NoticeType::NetdevAttached), (3, NoticeType::NetdevDetached)] {
            let notice = Notice::parse(&attribute(EVENT_TYPE, &[what])).unwrap();
            assert_eq!((notice.what, notice.index, notice.device), (read, None, None));
        }
    }
}
