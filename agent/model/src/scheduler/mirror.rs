//! A copy of the drain's record in the scheduler, for a node that loses its state directory.

use serde::{Deserialize, Serialize};

use super::{IncidentId, NodeState};

/// The most lifts in a copy.
pub const MOST_LIFTS: usize = 8;
/// The most GPUs in a copy.
pub const MOST_GPUS: usize = 16;
/// The only user whose drains are copied, as a number and as the scheduler prints it.
pub const ROOT: (u32, &str) = (0, "root");

/// The copy, under one key of ours.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mirror {
    /// The drain that stands.
    #[serde(default)]
    pub drain: Option<MirroredDrain>,
    /// The times of the automatic lifts of the last 24 h, in seconds since the epoch.
    #[serde(default)]
    pub lifts: Vec<i64>,
}

/// What proves that a drain is nodewarden's, and what ends it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MirroredDrain {
    /// The incident in the reason.
    pub id: IncidentId,
    /// The time of the reason, by the scheduler's clock, in seconds since the epoch.
    pub at: i64,
    /// The user who set the reason.
    pub uid: u32,
    /// The boot of its latest evidence.
    pub boot: String,
    /// Another boot repairs every fault behind it, without a test.
    pub reboot: bool,
    /// The PCI addresses of the GPUs behind it: after that boot, each is on the bus again.
    #[serde(default)]
    pub gpus: Vec<String>,
}

/// What the daemon adds to a copy. Time and user come from the node's reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// See [`MirroredDrain::boot`].
    pub boot: String,
    /// See [`MirroredDrain::reboot`].
    pub reboot: bool,
    /// See [`MirroredDrain::gpus`].
    pub gpus: Vec<String>,
    /// See [`Mirror::lifts`].
    pub lifts: Vec<i64>,
}

impl Note {
    /// Whether it may be written as it is: short, and without special characters.
    pub fn is_plain(&self) -> bool {
        let is_plain = |text: &String| {
            let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"-:.".contains(&b);
            text.len() <= 64 && text.bytes().all(is_plain)
        };
        is_plain(&self.boot)
            && self.gpus.len() <= MOST_GPUS
            && self.gpus.iter().all(is_plain)
            && self.lifts.len() <= MOST_LIFTS
    }
}

/// The copy as the last reading of the node shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum MirrorSeen {
    /// The reading does not show it, this version of the scheduler has no place for it, or the site turned it off.
    #[default]
    NotRead,
    /// Its place holds a text of others that must not change.
    Foreign,
    /// It may be written; the present copy.
    Own(Option<Mirror>),
}

impl NodeState {
    /// What the copy of the drain that stands must be. `None`: the drain is not of this incident, or not of root, or its
    /// time was not read.
    pub fn mirror_of(&self, incident: &IncidentId, note: &Note) -> Option<Mirror> {
        let reason = self.reason.as_ref().filter(|_| self.is_drained())?;
        // The scheduler's own note of a reboot takes the place of root.
        let is_proven = || self.proof().is_some_and(|drain| drain.id == *incident);
        let is_own = self.incident() == Some(incident) && (reason.user == ROOT.1 || is_proven());
        let at = reason.at.filter(|_| is_own)?;
        let Note {
            boot,
            reboot,
            gpus,
            lifts,
        } = note.clone();
        let (id, uid) = (incident.clone(), ROOT.0);
        let drain = MirroredDrain {
            id,
            at,
            uid,
            boot,
            reboot,
            gpus,
        };
        Some(Mirror {
            drain: Some(drain),
            lifts,
        })
    }

    /// The copy of the drain that stands: incident, time and user are those of the reason. Where the scheduler noted a reboot in
    /// it, time and user are the scheduler's: later than ours.
    pub fn proof(&self) -> Option<&MirroredDrain> {
        let MirrorSeen::Own(Some(mirror)) = &self.mirror else {
            return None;
        };
        let reason = self.reason.as_ref().filter(|_| self.is_drained())?;
        mirror.drain.as_ref().filter(|drain| {
            let is_own = reason.at == Some(drain.at) && reason.user == ROOT.1;
            let is_noted = self.reason_notes_reboot && reason.at.is_some_and(|at| at >= drain.at);
            self.incident() == Some(&drain.id) && drain.uid == ROOT.0 && (is_own || is_noted)
        })
    }
}
