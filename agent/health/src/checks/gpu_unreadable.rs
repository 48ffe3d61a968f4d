//! Check `gpu-unreadable`: the driver responds, but the state of a GPU stays unknown.

use collectors::SubjectKind;
use collectors::device_files::{self, DeviceFiles};

use super::unreadable::{self, Meaning, Rule};
use super::{Check, Looks, May, Scope, Version};

/// The row.
pub static CHECK: Check = Check {
    id: "gpu-unreadable",
    subject: SubjectKind::Gpu,
    fires_when: "The state of a GPU cannot be read: calls time out or return an unknown code. A call does not return for 25 s. Readings take longer than 3 s.",
    lasting: "8 consecutive readings, at least 120 s",
    clears_when: "3 consecutive readings, at least 60 s, in which the GPU is read in time.",
    ignored_when: "GPUs that are lost, refused or without power (`gpu-down`), in use by a diagnostic, or without driver. Threads that run. Missing permission and late readings: shown, never drain.",
    scope: Scope::Node,
    // The GPU may still work for jobs.
    may: May::CommentOrDrain,
    since: Version(0, 1, 0),
    watch: || Looks::start(|judge, ()| unreadable::conditions(judge, &RULE)),
};

static RULE: Rule = Rule {
    id: CHECK.id,
    covers: |collector| {
        let is_its = |files: &&DeviceFiles| files.collector == collector.spec.name;
        device_files::ALL.iter().any(is_its)
    },
    kind: SubjectKind::Gpu,
    in_use: |_, _| true,
    means: |reason| match reason {
        "no_permission" | "denied" | "slow" => Meaning::Shown,
        "unknown" | "timeout" | "io" | "panic" => Meaning::Fault,
        // Checks gpu-down and gpu-driver-unusable, and a diagnostic.
        _ => Meaning::Other,
    },
    // Check `reading-blocked` writes the comment.
    late: Meaning::Shown,
};
