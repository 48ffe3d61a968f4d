//! A node of Slurm in the scheduler's vocabulary.

use model::scheduler::NodeState;

use super::state::{Base, Flag, Node};
use super::texts::{author, ends_boot, notes_reboot};
use super::{decide, extra};

/// Maps a node.
pub fn describe(node: &Node) -> NodeState {
    let drained = node.has(Flag::Drain);
    let is_known = !matches!(node.base, Base::Unknown | Base::Error | Base::Future);
    NodeState {
        name: node.name.clone(),
        drained: (drained || is_known).then_some(drained),
        boot_timed_out: node.base == Base::Down && node.reason.as_ref().is_some_and(|r| ends_boot(&r.text)),
        reboots: node.has(Flag::RebootRequested) || node.has(Flag::RebootIssued),
        reboot_requested: node.has(Flag::RebootRequested) && !node.has(Flag::RebootIssued),
        reason_notes_reboot: node.reason.as_ref().is_some_and(|r| notes_reboot(&r.text)),
        reason: node.reason.clone(),
        author: author(node),
        drain: decide::drain(node),
        undrain: decide::undrain(node),
        maintenance: node.has(Flag::Maint),
        comment: node.comment.clone(),
        controller_started: None,
        gres: node.gres.clone(),
        guard: None,
        mirror: extra::seen(node),
    }
}
