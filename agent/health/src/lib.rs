//! From series and events to findings, incidents, a verdict, and what is to be done. No I/O, no clock, no randomness:
//! [`engine::Engine::step`] is a pure function of state, time and input, so that every decision can be replayed.

#![forbid(unsafe_code)]

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
pub mod lasting;
mod log;
pub mod policy;
pub mod reads;
mod record;
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

use collectors::{Cursor, Event};
use serde::{Deserialize, Serialize};

use model::scheduler::{Action, ActionId, IncidentId, LookError, NodeState, Outcome};
use model::snapshot::Snapshot;

/// The time of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Time since boot, suspended time included (CLOCK_BOOTTIME). What deadlines are counted in.
    pub boottime: Duration,
    /// Wall-clock time, in seconds since the epoch. For people and records; may jump.
    pub wall: i64,
}

/// What a check is allowed to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Count what it would have done.
    #[default]
    Observe,
    /// Write it into the node's Comment.
    Comment,
    /// Drain the node.
    Drain,
}

impl Mode {
    /// The word of the configuration, of labels and for people.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Observe => "observe",
            Self::Comment => "comment",
            Self::Drain => "drain",
        }
    }

    /// It and what is less, as the configuration writes them: for messages.
    pub const fn at_most(self) -> &'static str {
        match self {
            Self::Observe => "\"observe\"",
            Self::Comment => "\"observe\" or \"comment\"",
            Self::Drain => "\"observe\", \"comment\" or \"drain\"",
        }
    }
}

/// What the engine is told.
#[derive(Debug)]
pub enum Input<'a> {
    /// A health tick: the node as it looks now.
    Snapshot(&'a Snapshot),
    /// Something happened, by the kernel's log.
    Event(&'a Event),
    /// Something happened, by the watcher of the collector of that name.
    EventOf(&'a str, &'a Event),
    /// What the collector of that name wants kept for its next worker.
    Notes(&'a str, &'a str),
    /// The answer to [`Query::Node`].
    Scheduler(Result<&'a NodeState, &'a LookError>),
    /// What became of an act.
    Done(ActionId, &'a Outcome),
    /// Whether a record reached the disk.
    Stored(u64, bool),
    /// A person's order.
    Operator(Order),
    /// Nothing but time: a deadline of [`engine::Engine::next_deadline`] has come.
    Tick,
}

/// What a person may order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// `ack` or `clear`.
    pub verb: OrderVerb,
    /// The incident.
    pub incident: IncidentId,
    /// Why, in the person's words.
    pub reason: String,
    /// Who: user name or uid, from SO_PEERCRED.
    pub by: String,
}

/// The verbs of [`Order`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OrderVerb {
    /// Somebody looks after it; nothing else changes.
    Ack,
    /// It is repaired: close the incident, lift our drain.
    Clear,
}

impl OrderVerb {
    /// As a person types it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Ack => "ack",
            Self::Clear => "clear",
        }
    }
}

/// What the engine wants done. Effects are carried out in order; an act starts after the store before it answered.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Keep this record.
    Store(Record),
    /// Events of this collector up to here are stored: its watcher need not tell them again. Comes after the store that holds them.
    Acknowledge(String, Cursor),
    /// Read something of the scheduler.
    Look(Query),
    /// Do something to the own node.
    Act(ActionId, Action),
    /// The verdict for `nodewarden check`.
    Publish(verdict::Verdict),
    /// Tell the person who gave the last order what became of it.
    Answer(Result<String, String>),
}

/// What can be read of the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Query {
    /// The own node.
    Node,
}

/// Everything that must survive a restart, as one record: cursor and consequences cannot come apart.
#[derive(Clone, Debug)]
pub struct Record {
    /// Its number; answered by [`Input::Stored`].
    pub number: u64,
    /// The state, as one JSON document.
    pub json: Arc<str>,
}
