//! The table of processes and their rights. docs/security.md is made from it, and a test compares it with /proc.

use collectors::DOMAINS;
use collectors::domain::{self, Capability, DAEMON_UID, mask};

use crate::seccomp::{Policy, policy};

/// One process.
#[derive(Debug)]
pub struct Process {
    /// Its part.
    pub role: Role,
    /// `parent`, `daemon`, or the name of a worker's domain or of a helper.
    pub name: &'static str,
    /// The passwd entry with its ids.
    pub user: &'static str,
    /// The uid and gid without that entry.
    pub uid: u32,
    /// Its permitted and effective capabilities.
    pub capabilities: &'static [Capability],
    /// Whether Landlock confines it.
    pub landlock: bool,
}

/// The part of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Starts all others, and acts on the node.
    Parent,
    /// Serves and decides.
    Daemon,
    /// Reads devices.
    Worker,
    /// Has one right, for a worker.
    Helper,
}

/// The parent's capabilities, and so the most that a child can have. The unit's CapabilityBoundingSet, by test.
pub static PARENT_CAPABILITIES: &[Capability] = &[
    Capability::Chown,
    Capability::DacOverride,
    Capability::DacReadSearch,
    Capability::Kill,
    Capability::Setgid,
    Capability::Setuid,
    Capability::Setpcap,
    Capability::NetAdmin,
    Capability::SysPtrace,
    Capability::SysAdmin,
    Capability::Syslog,
];

impl Process {
    /// Its CapEff, CapPrm and CapBnd.
    pub fn capability_mask(&self) -> u64 {
        mask(self.capabilities)
    }

    /// Its value of the label `process`.
    pub fn label(&self) -> String {
        match self.role {
            Role::Parent | Role::Daemon => self.name.to_owned(),
            Role::Worker => format!("worker-{}", self.name),
            Role::Helper => format!("helper-{}", self.name),
        }
    }

    /// Its filter.
    pub fn filter(&self) -> &'static Policy {
        policy::of(self.name)
    }
}

/// Every process, the parent first.
pub fn all() -> Vec<Process> {
    let own = [
        Process {
            role: Role::Parent,
            name: "parent",
            user: "root",
            uid: 0,
            capabilities: PARENT_CAPABILITIES,
            landlock: false,
        },
        Process {
            role: Role::Daemon,
            name: "daemon",
            user: crate::users::DAEMON_USER,
            uid: DAEMON_UID,
            capabilities: &[],
            landlock: true,
        },
    ];
    let workers = DOMAINS.iter().map(|domain| Process {
        role: Role::Worker,
        name: domain.name,
        user: domain.user,
        uid: domain.uid,
        capabilities: domain.capabilities,
        landlock: confined(domain.name),
    });
    let helpers = domain::helpers().map(|helper| Process {
        role: Role::Helper,
        name: helper.name,
        user: helper.user,
        uid: helper.uid,
        capabilities: helper.capabilities,
        landlock: false,
    });
    own.into_iter().chain(workers).chain(helpers).collect()
}

/// Whether Landlock confines a worker. Not where it reads other processes, a driver's library looks for files, or
/// settings name the files.
pub fn confined(worker: &str) -> bool {
    worker == "rdma"
}
