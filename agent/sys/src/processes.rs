//! The table of processes and their rights. docs/security.md is made from it, and a test compares it with /proc.

use collectors::DOMAINS;
use collectors::domain::{Capability, DAEMON_UID};

use crate::seccomp::{Policy, policy};

/// One process.
#[derive(Debug)]
pub struct Process {
    /// `parent`, `daemon`, or the name of a worker's domain.
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

/// The parent's capabilities, and so the most that a child can have. The unit's CapabilityBoundingSet, by test.
pub static PARENT_CAPABILITIES: &[Capability] = &[
    Capability::Chown,
    Capability::DacReadSearch,
    Capability::Kill,
    Capability::Setgid,
    Capability::Setuid,
    Capability::Setpcap,
    Capability::SysPtrace,
    Capability::SysAdmin,
    Capability::Syslog,
];

impl Process {
    /// Its CapEff, CapPrm and CapBnd.
    pub fn capability_mask(&self) -> u64 {
        mask(self.capabilities)
    }

    /// Its filter.
    pub fn filter(&self) -> &'static Policy {
        policy::of(self.name)
    }
}

/// The bits of capabilities.
pub fn mask(capabilities: &[Capability]) -> u64 {
    capabilities.iter().fold(0, |mask, c| mask | c.mask())
}

/// Every process, the parent first.
pub fn all() -> Vec<Process> {
    let own = [
        Process {
            name: "parent",
            user: "root",
            uid: 0,
            capabilities: PARENT_CAPABILITIES,
            landlock: false,
        },
        Process {
            name: "daemon",
            user: crate::users::DAEMON_USER,
            uid: DAEMON_UID,
            capabilities: &[],
            landlock: true,
        },
    ];
    let workers = DOMAINS.iter().map(|domain| Process {
        name: domain.name,
        user: domain.user,
        uid: domain.uid,
        capabilities: domain.capabilities,
        landlock: confined(domain.name),
    });
    own.into_iter().chain(workers).collect()
}

/// Whether Landlock confines a worker. Not where it reads other processes, a driver's library looks for files, or
/// settings name the files.
pub fn confined(worker: &str) -> bool {
    worker == "rdma"
}
