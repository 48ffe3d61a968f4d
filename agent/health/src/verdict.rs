//! The verdict, which `nodewarden check` reads.

use serde::{Deserialize, Serialize};

/// Name of the file in the run directory that holds the current verdict.
pub const FILE: &str = "verdict";

/// The verdict's value. Unknown never drains and never undrains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Health {
    /// All required sources were read, and no incident requires a drain.
    Healthy,
    /// An incident is open whose check drains the node, or would without `health.mode`. The latest readings confirm it.
    Unhealthy,
    /// A required source is unreadable, the latest readings do not confirm such an incident, or bad ones may become one.
    Unknown,
}

impl Health {
    /// Its name in output.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Unhealthy => "unhealthy",
            Self::Unknown => "unknown",
        }
    }
}

/// The verdict file's content: one JSON object on one line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// The verdict.
    pub health: Health,
    /// One line: `xid79 gpu GPU-... act=reboot id=...`, or why it is unknown.
    pub text: String,
    /// The number of open incidents, also of those that leave the node in service.
    #[serde(default)]
    pub incidents: usize,
    /// The boot in which it is valid.
    pub boot: String,
    /// The time since boot (CLOCK_BOOTTIME, milliseconds) of the verdict.
    pub at_ms: u64,
    /// The time since boot (milliseconds) at which it expires.
    pub valid_until_ms: u64,
    /// The time since boot (milliseconds) at which nodewarden's drain took effect. `None`: none stands, it is from before
    /// this boot, or a person made it theirs. Absent in verdicts of builds without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drained_ms: Option<u64>,
    /// The collector whose failure makes it unknown: the text then has that failure's, which is not for everybody.
    #[serde(skip)]
    pub blind: Option<&'static str>,
}
