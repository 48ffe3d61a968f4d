//! Packets between parent and daemon, in postcard, one per packet of the socket that is the daemon's descriptor 0.

use std::path::PathBuf;
use std::time::Duration;

use collectors::Env;
use serde::{Deserialize, Serialize};

use crate::config::Loaded;
use health::verdict::Health;
use model::scheduler::{Action, ActionId, LookError, NodeState, Outcome};

/// Parent to daemon.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum ToDaemon {
    /// The first packet.
    Init(Box<Init>),
    /// A listening socket of the service manager's comes with the packet. As many as [`Init::sockets`] says follow it.
    Socket,
    /// The configuration was read again.
    Config {
        /// What is in force now: the new one, or the last good one.
        loaded: Box<Loaded>,
        /// Why the new one is not in force.
        error: Option<String>,
    },
    /// A worker was started; its socket comes with the packet.
    Worker {
        /// Number in [`collectors::DOMAINS`].
        domain: u16,
        /// Its process.
        pid: i32,
        /// How often one was started for this domain since the parent's start.
        starts: u64,
        /// Lock slots held by earlier processes that have not ended.
        stuck_slots: u8,
    },
    /// No worker runs for this domain now.
    WorkerDown {
        /// Number in [`collectors::DOMAINS`].
        domain: u16,
        /// Why.
        why: WorkerDown,
        /// Lock slots held by earlier processes that have not ended.
        stuck_slots: u8,
    },
    /// The answer to [`ToParent::Look`].
    Looked(Result<NodeState, LookError>),
    /// What became of [`ToParent::Act`].
    Acted(ActionId, Outcome),
    /// Nothing of ours runs for a domain that [`ToParent::Hold`] named; its number comes back.
    Held(u16, u64),
}

/// What the daemon starts with.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Init {
    /// The parent's build.
    pub build: String,
    /// The configuration.
    pub loaded: Loaded,
    /// Why it is not the one in the file, where it is not.
    pub config_error: Option<String>,
    /// What the workers may read, and where.
    pub env: Env,
    /// Where verdict and control socket go.
    pub run_dir: PathBuf,
    /// Where records go.
    pub state_dir: PathBuf,
    /// An earlier daemon of this parent was up: an address that is in use is waited for, not given up.
    pub restarted: bool,
    /// How many [`ToDaemon::Socket`] follow.
    pub sockets: u16,
    /// How often the daemon is to say [`ToParent::Alive`]; `None`: never.
    pub heartbeat: Option<Duration>,
}

/// Why no worker runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WorkerDown {
    /// It ended; the next start waits.
    Backoff,
    /// Both lock slots are held by processes that cannot end.
    Stuck,
    /// It could not be started.
    Start,
}

impl WorkerDown {
    /// The word for a label.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Backoff => "backoff",
            Self::Stuck => "stuck",
            Self::Start => "start",
        }
    }
}

/// Daemon to parent. Nothing here names a path, a node, an argument or a program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ToParent {
    /// Listening, state loaded.
    Ready,
    /// The loop runs.
    Alive,
    /// The verdict is another.
    Summary(Summary),
    /// Read the own node.
    Look,
    /// Do something to the own node.
    Act(ActionId, Action),
    /// Start no worker for this domain until [`ToParent::Free`], and say when none is left. With a number that tells
    /// one such order from the next.
    Hold(u16, u64),
    /// Start workers for it again.
    Free(u16),
}

/// The verdict in numbers: what a service manager may show to everybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// The verdict.
    pub health: Health,
    /// Open incidents.
    pub open: u32,
}

/// The exit status of a daemon that cannot start and has said why: restarting it would not help.
pub const CANNOT_START: u8 = 3;
