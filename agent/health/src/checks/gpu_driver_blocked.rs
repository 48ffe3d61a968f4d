//! Check `gpu-driver-blocked`: a call into a GPU's driver does not return.

use std::time::Duration;

use collectors::SubjectKind;
use collectors::domain::Signals;

use super::blocked::{self, Blocked, Rule};
use super::{Check, May, Scope, Version};
use crate::finding::{Finding, Joins, Remedy};

/// The row.
pub static CHECK: Check = Check {
    id: "gpu-driver-blocked",
    subject: SubjectKind::Gpu,
    fires_when: "A thread is in uninterruptible sleep (state D) at the same place in the GPU driver for at least 300 s.",
    lasting: "2 consecutive readings, at least 10 s",
    clears_when: "3 consecutive readings, at least 60 s, in which the driver responds. After a reboot also without the GPU, if it was replaced.",
    ignored_when: "Threads that wait for storage, memory or cgroups. Where the kernel shows no wait channel (x86_64 before Linux 5.16): calls on other files than the driver's devices, and open(2).",
    scope: Scope::Node,
    may: May::Drain,
    since: Version(0, 1, 0),
    watch: || Blocked::start(&RULE),
};

static RULE: Rule = Rule {
    id: CHECK.id,
    covers: |collector| collector.spec.domain.signals == Signals::Never,
    is_blocked: blocked::sleeps_in_driver,
    // With unresponsive firmware every call waits for more than a minute before it fails.
    long: Duration::from_secs(300),
    // An unlisted GPU with a name has not responded.
    ends_unlisted: false,
    finding: |subject, _| Finding {
        detail: "driver blocked".to_owned(),
        remedy: Remedy::Reboot,
        drains: true,
        joins: Joins::Attaches,
        ..Finding::of_condition(CHECK.id, subject)
    },
};
