//! From series and events to findings, incidents, a verdict and effects. No I/O, no clock, no randomness:
//! [`engine::Engine::step`] is a pure function of state, time and input, so that every decision can be replayed.

#![forbid(unsafe_code)]

pub mod audit;
mod book;
pub mod bounded;
pub mod checks;
mod comment;
pub mod condition;
pub mod counts;
mod drain;
pub mod engine;
pub mod finding;
mod hits;
mod id;
pub mod incident;
pub mod judge;
mod keep;
pub mod lasting;
mod log;
mod mirror;
pub mod pause;
pub mod policy;
pub mod profile;
pub mod reads;
mod record;
pub mod scope;
pub mod settings;
mod show;
mod sight;
pub mod site;
pub mod trail;
pub mod verdict;
pub mod view;
pub mod xids;

pub use settings::Settings;

use std::sync::Arc;
use std::time::Duration;

use collectors::Event;
use serde::{Deserialize, Serialize};

use model::scheduler::{Action, ActionId, IncidentId, LookError, NodeState, Outcome};
use model::snapshot::Snapshot;

/// The time of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Now {
    /// Time since boot, suspended time included (CLOCK_BOOTTIME). The clock of deadlines.
    pub boottime: Duration,
    /// Wall-clock time, in seconds since the epoch, for output and records. May jump.
    pub wall: i64,
}

/// What a check is allowed to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Count suppressed drains only.
    #[default]
    Observe,
    /// Write the finding to the node's Comment.
    Comment,
    /// Drain the node.
    Drain,
}

impl Mode {
    /// Its name in configuration, labels and output.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Observe => "observe",
            Self::Comment => "comment",
            Self::Drain => "drain",
        }
    }

    /// It and all lower modes, as the configuration writes them, for messages.
    pub const fn at_most(self) -> &'static str {
        match self {
            Self::Observe => "\"observe\"",
            Self::Comment => "\"observe\" or \"comment\"",
            Self::Drain => "\"observe\", \"comment\" or \"drain\"",
        }
    }
}

/// An input of the engine.
#[derive(Debug)]
pub enum Input<'a> {
    /// A health tick, with the current snapshot.
    Snapshot(&'a Snapshot),
    /// An event of the watcher of this collector.
    Event(&'a str, &'a Event),
    /// Notes that this collector keeps for its next worker.
    Notes(&'a str, &'a str),
    /// The answer to [`Query::Node`].
    Scheduler(Result<&'a NodeState, &'a LookError>),
    /// The outcome of an act.
    Done(ActionId, &'a Outcome),
    /// Whether a record reached the disk.
    Stored(u64, bool),
    /// An operator's order.
    Operator(Order),
    /// A deadline of [`engine::Engine::next_deadline`] has passed.
    Tick,
}

/// An order of an operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// The verb.
    pub verb: OrderVerb,
    /// The operator's reason.
    pub reason: String,
    /// The operator: user name or uid, from SO_PEERCRED.
    pub by: String,
    /// The operator's uid, from SO_PEERCRED.
    pub uid: u32,
}

impl Order {
    /// Whether the operator is root.
    pub const fn is_root(&self) -> bool {
        self.uid == 0
    }
}

/// The verbs of [`Order`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OrderVerb {
    /// Acknowledge the incident; nothing else changes.
    Ack(IncidentId),
    /// Close a repaired incident and undrain the node.
    Clear(IncidentId),
    /// Write nothing for this time.
    Pause {
        /// In seconds.
        seconds: u64,
    },
    /// End the pause.
    Resume,
}

impl OrderVerb {
    /// The subcommand.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Ack(_) => "ack",
            Self::Clear(_) => "clear",
            Self::Pause { .. } => "pause",
            Self::Resume => "resume",
        }
    }

    /// The incident that it is about.
    pub const fn incident(&self) -> Option<&IncidentId> {
        match self {
            Self::Ack(incident) | Self::Clear(incident) => Some(incident),
            Self::Pause { .. } | Self::Resume => None,
        }
    }
}

/// An effect of the engine. Effects run in order; an act starts after the store before it answered.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Keep this record.
    Store(Record),
    /// Query the scheduler.
    Look(Query),
    /// Change the own node in the scheduler.
    Act(ActionId, Action),
    /// Write this into the audit trail. Neither the record nor an act waits for it.
    Audit(Box<audit::Entry>),
    /// The verdict for `nodewarden check`.
    Publish(verdict::Verdict),
    /// The answer to the last order.
    Answer(Result<String, String>),
}

/// A query of the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Query {
    /// The own node.
    Node,
}

/// The persistent state as one record, so that cursor and consequences stay consistent.
#[derive(Clone, Debug)]
pub struct Record {
    /// Its number; answered by [`Input::Stored`].
    pub number: u64,
    /// The state, as one JSON document.
    pub json: Arc<str>,
}
