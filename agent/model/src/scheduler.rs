//! The scheduler's vocabulary: the own node as the scheduler has it, the permitted writes, the requests of the daemon to
//! the parent, and their outcomes. The parent is the only process that runs commands.

pub mod mirror;

use std::borrow::Cow;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use mirror::{MirrorSeen, Note};

/// Who set a reason, and when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeReason {
    /// The text, without what the scheduler adds to it.
    pub text: String,
    /// The user, as the scheduler prints it.
    pub user: String,
    /// The time, in seconds since the epoch, where it could be read.
    pub at: Option<i64>,
}

/// Who wrote the reason of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Author {
    /// No reason is set.
    None,
    /// nodewarden, for this incident.
    Ours(IncidentId),
    /// The scheduler: a text of its own that can have replaced ours.
    Scheduler,
    /// The scheduler's daemon on the node, for a fault that it found: a drain of its own, also where it replaced our reason.
    NodeDaemon,
    /// The scheduler: a drain of its own, which it sets only on a node that is not drained.
    SchedulerDrain,
    /// A person, or another program.
    Foreign,
}

/// Whether something may be written to the node in its present state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Permission {
    /// It may be written.
    Allowed,
    /// Nothing to do: the node is already so.
    Already,
    /// Another author's text or drain stands there: it is left alone.
    Foreign,
    /// Not in this state; retried later. A stable word names the reason.
    Withheld(Cow<'static, str>),
}

/// The time limits of commands that one request may use up. It has up to twelve commands, and ends at the first that does
/// not answer.
const TIME_LIMITS: u32 = 6;

/// The time after which a request to the parent is abandoned, with this time limit of one command.
pub fn patience(timeout: Duration) -> Duration {
    timeout
        .saturating_mul(TIME_LIMITS)
        .saturating_add(Duration::from_secs(10))
}

/// The word of [`Permission::Withheld`] for a node in maintenance.
pub const MAINTENANCE: &str = "maint";

/// How a person reads that an act ended before its write.
pub const NOT_WRITTEN: &str = "nothing was written: ";
/// The word of [`Permission::Withheld`] for a state that the scheduler names with words that are not known.
pub const UNKNOWN_STATE: &str = "unknown_state";

/// The own node, as the scheduler has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeState {
    /// The node's name.
    pub name: String,
    /// Whether it is drained. `None`: the scheduler does not know the node yet, or no longer.
    pub drained: Option<bool>,
    /// Whether it is DOWN because it did not boot in time.
    pub boot_timed_out: bool,
    /// Whether a reboot is requested or under way.
    pub reboots: bool,
    /// Whether a reboot is requested and not under way: it can still be cancelled.
    pub reboot_requested: bool,
    /// Whether the scheduler noted a reboot in the reason, with its own time and user.
    pub reason_notes_reboot: bool,
    /// The reason.
    pub reason: Option<NodeReason>,
    /// Who wrote the reason.
    pub author: Author,
    /// Whether a drain with our reason may be written.
    pub drain: Permission,
    /// Whether the drain of the incident that the reason names may be lifted; see [`NodeState::undrain`].
    pub undrain: Permission,
    /// Whether it is in a maintenance, whatever else it is in.
    pub maintenance: bool,
    /// The comment.
    pub comment: Option<String>,
    /// The start of the scheduler's controller, in seconds since the epoch by its clock. Read only where a drain that
    /// nodewarden wrote is gone.
    pub controller_started: Option<i64>,
    /// The GPUs and other resources that the scheduler has for the node, as configured.
    pub gres: String,
    /// What the cluster's limit on drains was, as read for a drain.
    pub guard: Option<Guard>,
    /// The copy of the drain's record.
    pub mirror: MirrorSeen,
}

impl NodeState {
    /// Whether it is known to be drained.
    pub fn is_drained(&self) -> bool {
        self.drained == Some(true)
    }

    /// The incident that the reason names, where nodewarden wrote it.
    pub fn incident(&self) -> Option<&IncidentId> {
        match &self.author {
            Author::Ours(id) => Some(id),
            Author::None
            | Author::Scheduler
            | Author::NodeDaemon
            | Author::SchedulerDrain
            | Author::Foreign => None,
        }
    }

    /// Whether the drain of this incident may be lifted. The caller knows from its record that it drained the node.
    pub fn undrain(&self, id: &IncidentId) -> &Permission {
        match &self.undrain {
            Permission::Withheld(word) if word != UNKNOWN_STATE && self.is_another(id) => {
                &Permission::Foreign
            }
            Permission::Allowed if self.is_another(id) => &Permission::Foreign,
            own => own,
        }
    }

    fn is_another(&self, id: &IncidentId) -> bool {
        self.incident().is_some_and(|named| named != id)
    }
}

/// The limit on drains over the cluster, as one node read it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guard {
    /// The partition whose drains are counted.
    pub partition: String,
    /// The pool of slots, as its part of the slots' names.
    pub pool: String,
    /// The slot that was taken.
    pub slot: Option<String>,
    /// The slots of the pool, and those that were taken, the own one included.
    pub slots: u64,
    /// See `slots`.
    pub taken: u64,
    /// The drains of nodewarden that stand in the partition, where they were counted.
    pub standing: Option<u64>,
    /// The most that may stand.
    pub most: u64,
    /// Whether slots of other nodes were taken under other limits.
    pub differs: bool,
    /// The time of a slot in seconds: no slot that was read here is taken for longer.
    pub window_seconds: u64,
}

/// What holds back an act that the node's state allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HeldBy {
    /// No drain slot is free.
    Guard,
    /// As many drains stand as may.
    Standing,
    /// A person paused this node or the cluster.
    Pause,
    /// Slots or the pause cannot be read or taken.
    Refused,
}

impl HeldBy {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Guard, Self::Standing, Self::Pause, Self::Refused];

    /// Its name in output.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Guard => "guard",
            Self::Standing => "standing",
            Self::Pause => "pause",
            Self::Refused => "refused",
        }
    }
}

/// An act that waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// What it waits for.
    pub by: HeldBy,
    /// The same for a person.
    pub why: String,
    /// The limit, where it was read.
    pub guard: Option<Guard>,
}

/// The id of an incident: 8 characters of lower-case base 32, also the `id=` of a drain reason.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct IncidentId(pub String);

impl IncidentId {
    /// Takes 8 characters out of `a-z2-7`. `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let good = text.len() == 8
            && text
                .bytes()
                .all(|b| b.is_ascii_lowercase() || (b'2'..=b'7').contains(&b));
        good.then(|| Self(text.to_owned()))
    }
}

impl std::fmt::Display for IncidentId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for IncidentId {
    type Error = &'static str;

    /// Text from another process is checked like our own.
    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text).ok_or("an incident id is 8 characters of a-z and 2-7")
    }
}

/// How each text of ours in Slurm begins.
pub const PREFIX: &str = "nodewarden:";

/// What stands before the remedy in a reason or comment.
const ACT: &str = " act=";

/// The end of the reason of a drain that is set again after an operator lifted it.
pub const AFTER_LIFT: &str = " again-after-lift";

/// The text of a drain reason or comment: printable ASCII without quotes, backslashes and shell or Slurm syntax, at
/// most 200 bytes, beginning with `nodewarden:`. Checked again by the parent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct Reason(String);

impl TryFrom<String> for Reason {
    type Error = &'static str;

    /// What arrives from another process is checked like what is made here.
    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::new(&text).ok_or("a reason begins with nodewarden:, is short, and has no special characters")
    }
}

impl Reason {
    /// The longest reason, in bytes.
    pub const MAX: usize = 200;

    /// Takes a text that has the form; `None` otherwise.
    pub fn new(text: &str) -> Option<Self> {
        let good = text.starts_with(PREFIX) && text.len() <= Self::MAX && text.bytes().all(Self::allowed);
        good.then(|| Self(text.to_owned()))
    }

    fn allowed(b: u8) -> bool {
        b.is_ascii_alphanumeric() || b" :=.,_+-/%<>()#@".contains(&b)
    }

    /// `nodewarden:<check> <subject> <detail> act=<remedy> id=<incident>`. Characters that are not allowed become `_`;
    /// the detail is cut so that remedy and id always fit.
    pub fn compose(check: &str, subject: &str, detail: &str, remedy: &str, id: &IncidentId) -> Self {
        let mut remedy = Self::clean(remedy);
        remedy.truncate(32);
        let tail = format!("{ACT}{remedy} id={id}");
        let mut head = Self::head(check, subject, detail);
        head.truncate(Self::MAX.saturating_sub(tail.len()));
        Self(format!("{}{tail}", head.trim_end()))
    }

    fn clean(text: &str) -> String {
        let is_allowed = |c: char| c.is_ascii() && Self::allowed(c as u8);
        text.chars()
            .map(|c| if is_allowed(c) { c } else { '_' })
            .collect()
    }

    /// All before the remedy, if it fits.
    fn head(check: &str, subject: &str, detail: &str) -> String {
        let [check, subject, detail] = [check, subject, detail].map(Self::clean);
        format!("{PREFIX}{check} {subject} {detail}")
    }

    /// The same, for a drain after an operator's lift.
    #[must_use]
    pub fn after_lift(mut self) -> Self {
        // The head gives way, as in `compose`: the tail always fits.
        let over = (self.0.len() + AFTER_LIFT.len()).saturating_sub(Self::MAX);
        if let Some(tail) = self.0.rfind(ACT) {
            self.0.replace_range(tail.saturating_sub(over)..tail, "");
        }
        self.0.push_str(AFTER_LIFT);
        self
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The parts of a text that [`Reason::compose`] made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReasonParts<'a> {
    /// All before the remedy.
    head: &'a str,
    /// The check.
    pub check: &'a str,
    /// Subject and detail, which may be cut.
    pub about: &'a str,
    /// The remedy.
    pub act: &'a str,
    /// The length of what follows the head, in bytes.
    tail: usize,
}

impl<'a> ReasonParts<'a> {
    /// Of a text in Slurm; `None`: it has another form.
    pub fn of(text: &'a str) -> Option<Self> {
        let (head, after) = text.rsplit_once(ACT)?;
        let known = head.strip_prefix(PREFIX)?;
        let (check, about) = known.split_once(' ').unwrap_or((known, ""));
        Some(Self {
            head,
            check,
            about,
            act: after.split(' ').next().unwrap_or_default(),
            tail: text.len() - head.len(),
        })
    }

    /// Whether it names this fault. Where the text was cut, as far as it goes.
    pub fn name(&self, check: &str, subject: &str, detail: &str) -> bool {
        let head = Reason::head(check, subject, detail);
        let is_cut = head.len() + self.tail > Reason::MAX;
        self.head == head.trim_end() || (is_cut && head.starts_with(self.head))
    }
}

/// The number of one request to the parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ActionId(pub u64);

/// An act on the own node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    /// Set DRAIN with this reason, unless another author's reason stands there.
    Drain {
        /// The incident that it is for.
        incident: IncidentId,
        /// The reason.
        reason: Reason,
        /// The node was seen in maintenance, and this drain does not wait for its end.
        in_maintenance: bool,
        /// Its cause is proven to be one device of this node.
        is_device: bool,
    },
    /// Clear our own DRAIN (UNDRAIN, never RESUME).
    Undrain {
        /// The incident whose drain it was.
        incident: IncidentId,
        /// A person ordered it: a pause does not hold it.
        is_ordered: bool,
        /// The automatic lifts of the last 24 h with this one: the copy of the record keeps them.
        lifts: Vec<i64>,
    },
    /// Copy the record of the drain that stands, where the place of the copy is empty or ours.
    Mirror {
        /// The incident in the drain's reason.
        incident: IncidentId,
        /// What the copy holds.
        note: Note,
    },
    /// Set the node's Comment, where it is empty or ours.
    Comment {
        /// The incident that it is for.
        incident: IncidentId,
        /// The text.
        text: Reason,
    },
    /// Empty the node's Comment, where it is ours.
    Uncomment {
        /// The incident whose comment it was.
        incident: IncidentId,
    },
}

/// The outcome of an [`Action`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// Done and read back: the node after it.
    Done(NodeState),
    /// Not needed: the node was already in that state, by us.
    Already(NodeState),
    /// Not allowed in the node's present state; retried later. A stable word names the reason.
    Withheld(Cow<'static, str>, NodeState),
    /// Another author's reason stands there; nothing was written.
    Foreign(NodeState),
    /// Allowed, but held by the cluster's limit or a pause; nothing was written.
    Held(Held),
    /// This node is not proven to be ours; nothing was written.
    NotOurs(String),
    /// The scheduler rejected it, or accepted it and the state did not change.
    Failed(String),
    /// A time-out before the write; nothing was written.
    NotBegun(String),
    /// Time-out: the act may or may not have happened. The state must be read before the next act.
    Unknown(String),
}

impl Outcome {
    /// The node, where it was read.
    pub fn node(&self) -> Option<&NodeState> {
        match self {
            Self::Done(node) | Self::Already(node) | Self::Withheld(_, node) | Self::Foreign(node) => {
                Some(node)
            }
            Self::Held(_) | Self::NotOurs(_) | Self::Failed(_) | Self::NotBegun(_) | Self::Unknown(_) => None,
        }
    }
}

/// The error of a look at the node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum LookError {
    /// No slurmd runs here, or none that is ours.
    #[error("no Slurm node here: {0}")]
    NotHere(String),
    /// The node that Slurm knows by our name is not proven to be this machine.
    #[error("not proven to be this node: {0}")]
    NotOurs(String),
    /// The command failed, hung, is missing, or printed an unexpected text.
    #[error("{0}")]
    Failed(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(detail: &str) -> Reason {
        let id = IncidentId::parse("abcdefg2").unwrap();
        Reason::compose("site-disk", "node n1", detail, "inspect", &id)
    }

    #[test]
    fn a_reason_is_taken_apart_as_it_was_composed() {
        let reason = reason("a act=b; c");
        let parts = ReasonParts::of(reason.as_str()).unwrap();
        assert_eq!(
            (parts.check, parts.about, parts.act),
            ("site-disk", "node n1 a act=b_ c", "inspect")
        );
        for other in [
            "",
            "RMA 1234",
            "nodewarden:site-disk node n1",
            "x act=reboot id=abcdefg2",
        ] {
            assert_eq!(ReasonParts::of(other), None, "{other}");
        }
        let bare = ReasonParts::of("nodewarden:xid.79 act=reboot id=abcdefg2 again-after-lift").unwrap();
        assert_eq!((bare.check, bare.about, bare.act), ("xid.79", "", "reboot"));
    }

    #[test]
    fn a_reason_names_its_fault_with_other_characters_and_cut() {
        let names = |text: &str, detail: &str| {
            let parts = ReasonParts::of(text).unwrap();
            parts.name("site-disk", "node n1", detail) && !parts.name("site-disk", "node n2", detail)
        };
        let long = format!("\"{}\"", "x y".repeat(80));
        for detail in ["", "98% used", "a;b \"c\"", " ", &long] {
            let reason = reason(detail);
            assert!(names(reason.as_str(), detail), "{reason:?}");
            assert!(names(reason.clone().after_lift().as_str(), detail), "{reason:?}");
        }
        let short = reason("98% used");
        for other in ["98%", "98% used by a", &long] {
            assert!(!names(short.as_str(), other), "{other}");
        }
    }
}
