//! Check `mount-unresponsive`: the probe of a mounted filesystem fails or does not return.

use collectors::{SubjectKind, domain};

use super::unreadable::{self, Meaning, Rule};
use super::{Check, Looks, May, Scope, Version};

/// The row.
pub static CHECK: Check = Check {
    id: "mount-unresponsive",
    subject: SubjectKind::Mount,
    fires_when: "The probe of a mounted filesystem fails (stale file handle, I/O error), takes longer than 3 s, or does not return for 125 s.",
    lasting: "8 consecutive readings, at least 120 s",
    clears_when: "3 consecutive readings, at least 60 s, in which the probe returns in time, or the filesystem is no longer mounted.",
    ignored_when: "Mount points that nodewarden's user may not reach. Probes whose thread waits for a processor. Late probes: at most a comment.",
    // The server's fault more often than the node's.
    scope: Scope::Shared,
    may: May::CommentOrDrain,
    since: Version(0, 1, 0),
    runbook: "docs/runbooks/mount-unresponsive.md",
    watch: || Looks::start(|judge, ()| unreadable::conditions(judge, &RULE)),
};

static RULE: Rule = Rule {
    id: CHECK.id,
    covers: |collector| std::ptr::eq(collector.spec.domain, &domain::MOUNTS),
    kind: SubjectKind::Mount,
    in_use: |_, _| true,
    means: |reason| match reason {
        // A folder of root's, or an unmount between two readings.
        "denied" | "gone" | "not_recorded" => Meaning::Other,
        "slow" => Meaning::Comment,
        _ => Meaning::Fault,
    },
    late: Meaning::Comment,
};
