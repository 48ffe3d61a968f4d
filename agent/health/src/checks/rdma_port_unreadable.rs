//! Check `rdma-port-unreadable`: a port that was in use cannot be read.

use collectors::{Subject, SubjectKind, domain, ethernet};

use super::unreadable::{self, Meaning, Rule};
use super::{Check, Looks, May, Scope, Version};
use crate::judge::Judge;

/// The row.
pub static CHECK: Check = Check {
    id: "rdma-port-unreadable",
    subject: SubjectKind::RdmaPort,
    fires_when: "Reading the state of a port that was in use fails, or does not return for 25 s. Or its readings take longer than 3 s.",
    lasting: "8 consecutive readings, at least 120 s",
    clears_when: "3 consecutive readings, at least 60 s, in which the state is read in time, or the port is no longer listed.",
    ignored_when: "Ports that were never in use. Threads that run. Missing permission and late readings: shown, never drain.",
    scope: Scope::Node,
    // A driver's recovery may take minutes, and jobs without RDMA still run.
    may: May::CommentOrDrain,
    since: Version(0, 1, 0),
    watch: || Looks::start(|judge, ()| unreadable::conditions(judge, &RULE)),
};

static RULE: Rule = Rule {
    id: CHECK.id,
    // The other collector of ports reads no state.
    covers: |collector| {
        let spec = collector.spec;
        std::ptr::eq(spec.domain, &domain::RDMA) && spec.name != ethernet::SPEC.name
    },
    kind: SubjectKind::RdmaPort,
    in_use,
    means: |reason| match reason {
        "denied" | "slow" => Meaning::Shown,
        // Check rdma-missing.
        "gone" => Meaning::Other,
        _ => Meaning::Fault,
    },
    // Check `reading-blocked` writes the comment.
    late: Meaning::Shown,
};

fn in_use(judge: &Judge<'_>, subject: &Subject) -> bool {
    let mut known = judge.known.once_in_use();
    known.any(|(_, role, _)| role.name == subject.name)
}
