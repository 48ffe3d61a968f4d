//! Why there is no answer: a word for the `reason` label.

use nix::errno::Errno;

use crate::rdma::attribute;
use crate::rdma::text::Reason;
use crate::sys::netlink::NetlinkError;

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallError {
    /// The device is left alone after a slow call.
    Resting,
    /// Another call is in flight.
    Busy,
    /// The interface lies above others, such as a bond: what it says is not one port's.
    Stacked,
    /// The kernel or the driver said no.
    Refused(Reason),
}

impl CallError {
    pub(super) fn of(errno: Errno) -> Self {
        Self::Refused(attribute::reason(errno))
    }

    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Resting => "resting",
            Self::Busy => "busy",
            Self::Stacked => "stacked",
            Self::Refused(reason) => reason.word(),
        }
    }
}

impl From<NetlinkError> for CallError {
    fn from(failed: NetlinkError) -> Self {
        match failed {
            // A kernel without that protocol or family.
            NetlinkError::Kernel(Errno::EPROTONOSUPPORT | Errno::ENOENT) => {
                Self::Refused(Reason::Unsupported)
            }
            NetlinkError::Kernel(errno) => Self::of(errno),
            NetlinkError::Garbled(_) => Self::Refused(Reason::Malformed),
            NetlinkError::Busy => Self::Busy,
        }
    }
}
