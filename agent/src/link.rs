//! Packets between parent and daemon, in postcard, one per packet of the socket that is the daemon's descriptor 0.

use std::io;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::time::Duration;

use collectors::Env;
use collectors::slurm::hook::RecordId;
use serde::{Deserialize, Serialize};
use sys::packet::Packets;

use crate::config::Loaded;
use crate::own::NotificationCounts;
use crate::web::WebConfig;
use health::audit::Entry;
use health::verdict::Health;
use model::commands::CommandState;
use model::scheduler::{Action, ActionId, LookError, NodeState, Outcome};

/// The bytes of a packet.
///
/// # Errors
/// When the packet has a value that postcard cannot write.
pub fn bytes(packet: &impl Serialize) -> io::Result<Vec<u8>> {
    postcard::to_stdvec(packet).map_err(io::Error::other)
}

/// Sends a packet to the daemon, with a descriptor if it has one.
///
/// # Errors
/// As [`bytes`] and [`Packets::send`].
pub fn send(link: &Packets, packet: &ToDaemon, fd: Option<BorrowedFd<'_>>) -> io::Result<()> {
    link.send(&bytes(packet)?, fd)
}

/// Parent to daemon.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum ToDaemon {
    /// The first packet.
    Init(Box<Init>),
    /// A listening socket from the service manager comes with the packet. [`Init::sockets`] of these packets follow.
    Socket,
    /// The web configuration in force; `None`: `web_config_file` is not set. The first one follows [`ToDaemon::Init`].
    Web(Option<Box<WebConfig>>),
    /// The file of `web_config_file` has changed, and the one in force stays.
    WebRejected,
    /// The configuration was reloaded.
    Config {
        /// The configuration in force: the new one, or the last good one.
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
        /// Number of starts for this domain since the parent's start.
        starts: u64,
        /// Lock slots held by earlier processes that have not ended within their grace.
        stuck_slots: u8,
    },
    /// No worker runs for this domain now.
    WorkerDown {
        /// Number in [`collectors::DOMAINS`].
        domain: u16,
        /// Why.
        why: WorkerDown,
        /// Lock slots held by earlier processes that have not ended within their grace.
        stuck_slots: u8,
    },
    /// The answer to [`ToParent::Look`].
    Looked(Result<NodeState, LookError>),
    /// The outcome of [`ToParent::Act`].
    Acted(ActionId, Outcome),
    /// No process of ours runs for the domain of [`ToParent::Hold`]; its number comes back.
    Held(u16, u64),
    /// Notifications so far.
    Notified(NotificationCounts),
    /// A command of the site that checks the node.
    Checked(Box<CommandState>),
    /// The number of earlier processes of a running worker's domain that are stuck.
    Slots(u16, u8),
}

/// The daemon's initial state.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Init {
    /// The parent's build.
    pub build: String,
    /// The configuration.
    pub loaded: Loaded,
    /// Why the configuration is not the one in the file, if so.
    pub config_error: Option<String>,
    /// What the workers may read, and where.
    pub env: Env,
    /// Directory of verdict and control socket.
    pub run_dir: PathBuf,
    /// Directory of records. `None`: it is not ours, or its disk hangs. It must not be touched.
    pub state_dir: Option<PathBuf>,
    /// An address in use is retried, not an error: an earlier daemon of this parent was up, or a service manager started it.
    pub waits_to_listen: bool,
    /// Whether the parent's system calls are filtered.
    pub parent_seccomp: Option<bool>,
    /// Number of [`ToDaemon::Socket`] that follow.
    pub sockets: u16,
    /// Interval of [`ToParent::Alive`].
    pub heartbeat: Duration,
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
    /// The node does not have its source.
    Absent,
}

impl WorkerDown {
    /// The word for a label.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Backoff => "backoff",
            Self::Stuck => "stuck",
            Self::Start => "start",
            Self::Absent => "absent",
        }
    }
}

/// Daemon to parent. No packet names a path, a node, an argument or a program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ToParent {
    /// Listening, state loaded.
    Ready,
    /// The loop runs.
    Alive,
    /// The verdict has changed.
    Summary(Summary),
    /// Read the own node.
    Look,
    /// Change the own node.
    Act(ActionId, Action),
    /// Start no worker for this domain until [`ToParent::Free`], and report when none is left. The number identifies
    /// the order.
    Hold(u16, u64),
    /// Start workers for it again.
    Free(u16),
    /// Remove the record of an ended job: its line is written.
    Recorded(RecordId),
    /// Send this to the site's command.
    Notify(Box<Entry>),
}

/// The verdict in numbers: what a service manager may show to every user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// The verdict.
    pub health: Health,
    /// Open incidents.
    pub open: u32,
}

/// The exit status of a daemon that cannot start and has logged why: a restart would not help.
pub const CANNOT_START: u8 = 3;

#[cfg(test)]
mod tests {
    use model::scheduler::Author;
    use model::scheduler::mirror::{Mirror, MirrorSeen, MirroredDrain};
    use model::scheduler::{IncidentId, NodeState, Permission};

    use super::*;

    /// The packets have no names of fields: a field that is left out shifts all others.
    #[test]
    fn a_node_with_any_copy_of_a_record_arrives_as_it_was_sent() {
        let drain = MirroredDrain {
            id: IncidentId("abcdefg2".to_owned()),
            at: 7,
            uid: 0,
            boot: "b-1".to_owned(),
            reboot: true,
            gpus: Vec::new(),
        };
        let of = |drain| {
            MirrorSeen::Own(Some(Mirror {
                drain,
                lifts: vec![1],
            }))
        };
        for mirror in [
            MirrorSeen::NotRead,
            MirrorSeen::Foreign,
            MirrorSeen::Own(None),
            of(None),
            of(Some(drain)),
        ] {
            let node = NodeState {
                name: "n0".to_owned(),
                drained: Some(true),
                boot_timed_out: false,
                reboots: false,
                reboot_requested: false,
                reason_notes_reboot: false,
                reason: None,
                author: Author::None,
                drain: Permission::Allowed,
                undrain: Permission::Allowed,
                maintenance: false,
                comment: None,
                controller_started: None,
                gres: String::new(),
                guard: None,
                mirror,
            };
            let packet = postcard::to_allocvec(&ToDaemon::Looked(Ok(node.clone()))).unwrap();
            match postcard::from_bytes(&packet).unwrap() {
                ToDaemon::Looked(Ok(found)) => assert_eq!(found, node),
                other => panic!("{other:?}"),
            }
        }
    }
}
