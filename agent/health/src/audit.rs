//! The entries of the audit trail: what nodewarden wanted, wrote and lifted, and what operators ordered.

use model::scheduler::IncidentId;
use serde::{Deserialize, Serialize};

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// nodewarden starts an act. Once, however often it tries.
    Wanted,
    /// The cluster's limit or a pause holds the act back. Once for each act of an incident.
    Held,
    /// nodewarden's drain is in place.
    Written,
    /// The act was refused or failed, or its outcome is unknown. nodewarden tries again while it is required.
    Refused,
    /// A foreign drain or reason is in place, and stays.
    Foreign,
    /// The act is no longer required, and was not seen to take effect.
    Withdrawn,
    /// An operator lifted nodewarden's drain, or a drain of their own, although an incident requires one.
    Overridden,
    /// nodewarden's drain is lifted. Without an act: not by nodewarden, and no incident required it.
    Lifted,
    /// The scheduler's controller lost nodewarden's drain.
    Lost,
    /// A drain of nodewarden is in place that its record does not have.
    Found,
    /// An operator acknowledged an incident.
    Ack,
    /// An operator closed an incident.
    Clear,
    /// An operator stopped acts on the node.
    Pause,
    /// An operator allowed acts on the node again.
    Resume,
    /// A driver is released to an operator.
    Release,
    /// An order was refused.
    RefusedOrder,
}

impl Kind {
    /// Whether the site's command gets it: not an intent, whose outcome follows, and not what any user can cause.
    pub const fn notifies(self) -> bool {
        match self {
            Self::Wanted | Self::Withdrawn | Self::RefusedOrder => false,
            Self::Held
            | Self::Written
            | Self::Refused
            | Self::Foreign
            | Self::Overridden
            | Self::Lifted
            | Self::Lost
            | Self::Found
            | Self::Ack
            | Self::Clear
            | Self::Pause
            | Self::Resume
            | Self::Release => true,
        }
    }

    /// Whether it is written once for each act and text: further attempts add nothing new.
    pub(super) const fn repeats(self) -> bool {
        matches!(self, Self::Wanted | Self::Held | Self::Refused | Self::Foreign)
    }
}

/// An act on the own node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Act {
    /// Set DRAIN.
    Drain,
    /// Clear it.
    Undrain,
}

/// An entry. Fields that do not apply are empty.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// What happened.
    pub kind: Kind,
    /// When, in seconds since the epoch.
    pub at: i64,
    /// The act.
    pub act: Option<Act>,
    /// The incident.
    pub incident: Option<IncidentId>,
    /// The check whose finding causes the act; of an order, the check whose finding names the incident.
    pub check: Option<String>,
    /// The subject of the incident.
    pub subject: Option<String>,
    /// The detail of that finding, the length of a pause, or what is released for how long.
    pub detail: Option<String>,
    /// The evidence of that finding.
    pub evidence: Vec<String>,
    /// The reason in the scheduler, or that of an operator's order.
    pub reason: Option<String>,
    /// Why an act or order was refused or ended.
    pub why: Option<String>,
    /// The verb of a refused order.
    pub order: Option<String>,
    /// The operator: user name or uid.
    pub by: Option<String>,
    /// The operator's uid, from the kernel.
    pub uid: Option<u32>,
    /// The slot of the act.
    pub slot: Option<String>,
    /// Entries of this kind and user that were not written since the last one.
    pub suppressed: u64,
}

impl Entry {
    /// Of this kind, with all else empty.
    pub const fn new(kind: Kind, at: i64) -> Self {
        Self {
            kind,
            at,
            act: None,
            incident: None,
            check: None,
            subject: None,
            detail: None,
            evidence: Vec::new(),
            reason: None,
            why: None,
            order: None,
            by: None,
            uid: None,
            slot: None,
            suppressed: 0,
        }
    }
}
