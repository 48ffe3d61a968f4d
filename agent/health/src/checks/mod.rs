//! The checks: one row each, and a function from series or events to findings. To add one: a file, two lines here, and a
//! row in order.rs.

mod blocked;
pub mod collector_silent;
pub mod custom_check;
pub mod edac_uncorrected;
mod expected;
mod gpfs;
pub mod gpfs_daemon_down;
pub mod gpfs_node_state;
pub mod gpfs_waiters_long;
mod gpu;
pub mod gpu_application_errors;
pub mod gpu_configuration;
pub mod gpu_double_booked;
pub mod gpu_down;
pub mod gpu_driver_blocked;
pub mod gpu_driver_unusable;
pub mod gpu_ecc;
pub mod gpu_foreign_process;
pub mod gpu_heat;
pub mod gpu_idle;
pub mod gpu_memory_held;
pub mod gpu_missing;
pub mod gpu_nvlink;
pub mod gpu_pcie;
pub mod gpu_recovery_action;
pub mod gpu_row_remap;
pub mod gpu_setup;
pub mod gpu_stalled;
pub mod gpu_unreadable;
mod gpu_use;
mod growth;
pub mod job_blocked;
pub mod kernel_lines;
mod lustre;
pub mod lustre_evicted;
pub mod lustre_lnet_down;
pub mod lustre_target_unreachable;
pub mod mount_local;
pub mod mount_unresponsive;
pub mod nvme_drive;
pub mod order;
pub mod pcie_degraded;
pub mod profile;
pub mod rdma_bit_errors;
pub mod rdma_cnp_ignored;
pub mod rdma_configuration;
pub mod rdma_firmware_timeout;
pub mod rdma_link_integrity;
pub mod rdma_lossless_loss;
pub mod rdma_missing;
pub mod rdma_packet_loss;
pub mod rdma_pause_without_cnp;
mod rdma_peers;
pub mod rdma_pfc_storm;
pub mod rdma_port_blocked;
pub mod rdma_port_degraded;
pub mod rdma_port_down;
pub mod rdma_port_flapping;
pub mod rdma_port_unreadable;
pub mod rdma_retries_exceeded;
pub(crate) mod rdma_scope;
pub(crate) mod rdma_setup;
pub mod reading_blocked;
pub(crate) mod switched_off;
mod unreadable;
pub mod values_unread;
mod watch;
pub mod xid;

use collectors::SubjectKind;

use super::Mode;
use super::settings::Command;
pub use crate::scope::Scope;
pub use watch::{Expected, Forget, Heard, Kept, Looks, Said, Watch, Watches};

/// What a check may do, from least to most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum May {
    /// Be counted and shown.
    Observe,
    /// The same by default, and drain the node, or write into its Comment, where the site enables it.
    ObserveOrDrain,
    /// Write into the node's Comment.
    Comment,
    /// The same by default, and drain the node where the site enables it.
    CommentOrDrain,
    /// Drain the node.
    Drain,
}

impl May {
    /// What it does where the site says nothing about it.
    pub const fn by_default(self) -> Mode {
        match self {
            Self::Observe | Self::ObserveOrDrain => Mode::Observe,
            Self::Comment | Self::CommentOrDrain => Mode::Comment,
            Self::Drain => Mode::Drain,
        }
    }

    /// The most that a site may enable: more is refused in its configuration.
    pub const fn at_most(self) -> Mode {
        match self {
            Self::Observe => Mode::Observe,
            Self::Comment => Mode::Comment,
            Self::ObserveOrDrain | Self::CommentOrDrain | Self::Drain => Mode::Drain,
        }
    }
}

/// A release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u32, pub u32, pub u32);

impl Version {
    /// Reads `0.1.0`, `0.1` or `1`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('.');
        let mut next = || match parts.next() {
            Some(part) if part.bytes().all(|b| b.is_ascii_digit()) => part.parse().ok(),
            Some(_) => None,
            None => Some(0),
        };
        let version = Self(next()?, next()?, next()?);
        parts.next().is_none().then_some(version)
    }
}

/// One check.
#[derive(Debug)]
pub struct Check {
    /// Its id: key of `[health.checks]`, label of its counts, first word of its reasons.
    pub id: &'static str,
    /// What it looks at.
    pub subject: SubjectKind,
    /// The fault that it reports.
    pub fires_when: &'static str,
    /// How long the fault must last.
    pub lasting: &'static str,
    /// What ends the finding automatically.
    pub clears_when: &'static str,
    /// What looks like the fault and is not reported. Empty: nothing.
    pub ignored_when: &'static str,
    /// Whether it is the node's own fault.
    pub scope: Scope,
    /// What it may do.
    pub may: May,
    /// The release that brought it.
    pub since: Version,
    /// What it does, at its start.
    pub watch: fn() -> Box<dyn Watch>,
}

impl Check {
    /// The page about it, from the folder of the documents.
    pub fn runbook(&self) -> String {
        format!("runbooks/{}.md", self.id)
    }

    /// When it fires and clears: field name and text.
    pub fn conditions(&self) -> [(&'static str, &'static str); 4] {
        let or_none = |text: &'static str| if text.is_empty() { "-" } else { text };
        [
            ("fires when", self.fires_when),
            ("for", self.lasting),
            ("clears when", self.clears_when),
            ("ignored when", or_none(self.ignored_when)),
        ]
    }
}

/// All checks.
pub static CHECKS: &[&Check] = &[
    &xid::CHECK,
    &gpu_missing::CHECK,
    &edac_uncorrected::CHECK,
    &rdma_port_down::CHECK,
    &rdma_port_flapping::CHECK,
    &rdma_retries_exceeded::CHECK,
    &rdma_link_integrity::CHECK,
    &rdma_bit_errors::CHECK,
    &rdma_port_degraded::CHECK,
    &rdma_pfc_storm::CHECK,
    &rdma_lossless_loss::CHECK,
    &rdma_packet_loss::CHECK,
    &rdma_cnp_ignored::CHECK,
    &rdma_pause_without_cnp::CHECK,
    &rdma_configuration::CHECK,
    &rdma_missing::CHECK,
    &rdma_firmware_timeout::CHECK,
    &rdma_port_blocked::CHECK,
    &rdma_port_unreadable::CHECK,
    &pcie_degraded::CHECK,
    &gpu_down::CHECK,
    &gpu_recovery_action::CHECK,
    &gpu_row_remap::CHECK,
    &gpu_ecc::UNCORRECTED,
    &gpu_ecc::CORRECTED,
    &gpu_ecc::SRAM,
    &gpu_nvlink::CHECK,
    &gpu_nvlink::ERRORS,
    &gpu_heat::SLOWDOWN,
    &gpu_heat::TEMPERATURE,
    &gpu_pcie::SLOW_LINK,
    &gpu_pcie::REPLAYS,
    &gpu_setup::PERSISTENCE,
    &gpu_setup::FABRIC,
    &gpu_configuration::CHECK,
    &gpu_driver_blocked::CHECK,
    &gpu_driver_unusable::CHECK,
    &gpu_unreadable::CHECK,
    &gpu_foreign_process::CHECK,
    &gpu_double_booked::CHECK,
    &gpu_memory_held::CHECK,
    &gpu_application_errors::CHECK,
    &gpu_idle::CHECK,
    &gpu_stalled::CHECK,
    &job_blocked::CHECK,
    &gpfs_daemon_down::CHECK,
    &gpfs_node_state::CHECK,
    &gpfs_waiters_long::CHECK,
    &mount_unresponsive::CHECK,
    &mount_local::READ_ONLY_CHECK,
    &mount_local::FULL_CHECK,
    &nvme_drive::FAILING,
    &nvme_drive::WORN,
    &lustre_lnet_down::CHECK,
    &lustre_target_unreachable::CHECK,
    &lustre_evicted::CHECK,
    &kernel_lines::KERNEL_CRASH,
    &kernel_lines::MACHINE_CHECK,
    &kernel_lines::PCIE_ERROR,
    &kernel_lines::DISK_ERROR,
    &kernel_lines::FILESYSTEM_ERROR,
    &kernel_lines::GPU_DRIVER_ERROR,
    &kernel_lines::NETWORK_ADAPTER_ERROR,
    &kernel_lines::KERNEL_STALL,
    &kernel_lines::MEMORY_EXHAUSTED,
    &kernel_lines::STORAGE_SERVER,
    &profile::MEMORY,
    &profile::CPUS,
    &profile::PORTS,
    &profile::MOUNTS,
    &profile::MODULES,
    &reading_blocked::CHECK,
    &values_unread::CHECK,
    &collector_silent::CHECK,
    &custom_check::CHECK,
];

/// The check of that id. All checks of the site have one row.
pub fn check(id: &str) -> Option<&'static Check> {
    let of_site = || is_of_site(id).then_some(&custom_check::CHECK);
    CHECKS.iter().copied().find(|c| c.id == id).or_else(of_site)
}

/// The checks that `health.checks` may name: those of the site have their mode in their own row.
pub fn configurable() -> impl Iterator<Item = &'static Check> {
    CHECKS
        .iter()
        .copied()
        .filter(|check| check.id != custom_check::CHECK.id)
}

/// Whether the id is one of a check of the site: `site-NAME`.
pub fn is_of_site(id: &str) -> bool {
    id.starts_with(Command::PREFIX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_complete() {
        for check in CHECKS {
            assert!(
                !is_of_site(check.id),
                "{}: an id that a site may choose",
                check.id
            );
            if check.scope == Scope::Shared {
                assert!(check.may.by_default() < Mode::Drain, "{}", check.id);
            }
        }
    }

    #[test]
    fn each_condition_is_short_sentences() {
        for check in CHECKS {
            for (field, text) in check.conditions() {
                let is_phrase = field == "for" || text == "-";
                assert!(!text.is_empty(), "{}: {field}", check.id);
                assert!(is_phrase || text.ends_with('.'), "{}: {field}: {text}", check.id);
                assert!(!check.lasting.ends_with('.'), "{}: {field}: {text}", check.id);
                for sentence in text.split(". ") {
                    let words = sentence.split_whitespace();
                    let count = words.filter(|word| word.contains(char::is_alphanumeric)).count();
                    assert!(count <= 25, "{}: {field}: {count} words: {sentence}", check.id);
                }
            }
        }
    }

    #[test]
    fn versions() {
        assert_eq!(Version::parse("0.1"), Some(Version(0, 1, 0)));
        assert!(Version::parse("0.10.0") > Version::parse("0.9.9"));
        for text in ["", "a", "0.1.0.0", "-1", "0..1", "+1"] {
            assert_eq!(Version::parse(text), None, "{text}");
        }
    }
}
