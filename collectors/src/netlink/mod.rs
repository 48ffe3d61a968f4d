//! The language of netlink: messages, their attributes, and what RDMA says in it. Any bytes give values or the reason
//! why not; sockets are in [`crate::sys::netlink`].

pub(crate) mod attribute;
pub(crate) mod dcb;
pub(crate) mod ethtool;
pub(crate) mod link;
pub(crate) mod message;
pub(crate) mod nldev;
pub(crate) mod notice;
pub(crate) mod recording;

/// Whom a question is for: each has a socket of its own kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// `NETLINK_RDMA`.
    Rdma,
    /// `NETLINK_ROUTE`: links, DCB.
    Route,
    /// `NETLINK_GENERIC`: ethtool and other families.
    Generic,
}

impl Protocol {
    const ALL: [Self; 3] = [Self::Rdma, Self::Route, Self::Generic];

    /// As a recording has it.
    const fn word(self) -> &'static str {
        match self {
            Self::Rdma => "rdma",
            Self::Route => "route",
            Self::Generic => "generic",
        }
    }
}

/// Bytes that are not what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("netlink: {0}")]
pub(crate) struct Garbled(pub(crate) &'static str);

/// Everything begins at a multiple of four bytes (`NLMSG_ALIGNTO`, `NLA_ALIGNTO`).
const fn aligned(length: usize) -> usize {
    (length + 3) & !3
}

/// Reads any bytes as what a kernel has sent, for fuzzing.
pub(crate) fn check(data: &[u8]) {
    for message in message::Messages::new(data) {
        let Ok(message) = message else { break };
        drop(nldev::NldevDevice::parse(message.payload));
        if let Ok(port) = nldev::NldevPort::parse(message.payload)
            && let Some((_, name)) = port.netdev
        {
            assert!(!name.is_empty() && !name.chars().any(char::is_control));
        }
        if let Ok(notice) = notice::Notice::parse(message.payload) {
            for name in notice.device.iter().chain(&notice.netdev) {
                assert!(!name.is_empty() && !name.chars().any(char::is_control));
            }
        }
        for kind in [link::NEW, link::GONE] {
            if let Ok(Some(link)) = link::NetInterface::parse(kind, message.payload) {
                assert!(link.is_up.is_none() || kind == link::NEW);
            }
        }
        let mut kinds = 0;
        let counted = nldev::each_resource(message.payload, |name, _| {
            assert!(!name.is_empty() && !name.chars().any(char::is_control));
            kinds += 1;
        });
        if counted.is_ok() {
            assert!(kinds * 20 <= data.len());
        }
        let mut names = 0;
        let counted = nldev::each_counter(message.payload, |name, _| {
            assert!(!name.is_empty() && !name.chars().any(char::is_control));
            names += 1;
        });
        if counted.is_ok() {
            // A name takes eight bytes at least, a value twelve.
            assert!(names * 20 <= data.len());
        }
    }
}

/// Reads any bytes as what an Ethernet port says, for fuzzing.
pub(crate) fn check_ethernet(payload: &[u8]) {
    if let Ok(ieee) = dcb::DcbSettings::parse(payload, "eth0") {
        let all_known = |&(dscp, priority): &(u8, u8)| dscp < 64 && usize::from(priority) < dcb::PRIORITIES;
        assert!(ieee.dscp.iter().all(all_known));
        assert!(ieee.dscp.is_empty() || payload.len() > 8 * ieee.dscp.len());
        ieee.trust();
    }
    std::hint::black_box(ethtool::family_id(payload)).ok();
    std::hint::black_box(ethtool::Pause::parse(payload, "eth0")).ok();
    std::hint::black_box(ethtool::Fec::parse(payload, "eth0")).ok();
    std::hint::black_box(ethtool::down_count(payload, "eth0")).ok();
}
