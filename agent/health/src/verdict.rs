//! The verdict: what `nodewarden check` reads.

use serde::{Deserialize, Serialize};

/// Three values, not two: unknown never drains and never undrains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Health {
    /// Everything that is needed was read, and nothing is wrong.
    Healthy,
    /// An incident is open whose check takes the node out of service, or would if `health.mode` let it.
    Unhealthy,
    /// What is needed could not be read.
    Unknown,
}

impl Health {
    /// The word for people.
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
    /// One line for people: `xid79 gpu GPU-... act=reboot id=...`, or why it is unknown.
    pub text: String,
    /// The boot in which it holds.
    pub boot: String,
    /// Time since boot (CLOCK_BOOTTIME, milliseconds) at which it was given.
    pub at_ms: u64,
    /// Time since boot (milliseconds) after which it holds no longer.
    pub valid_until_ms: u64,
}
