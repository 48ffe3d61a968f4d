//! Check `gpu-driver-blocked`: a call into a GPU's driver does not come back.

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
    condition: "A thread has been inside of a GPU's driver for five minutes or more in uninterruptible sleep, in the same place of the kernel, which is known and none of a filesystem. One that is merely late, as on a busy node, is not.",
    scope: Scope::Node,
    may: May::Drain,
    since: Version(0, 1, 0),
    clears: "By itself: the driver has answered in three readings running, over a minute or more.",
    runbook: "docs/runbooks/gpu-driver-blocked.md",
    watch: || Blocked::start(&RULE),
};

static RULE: Rule = Rule {
    id: CHECK.id,
    is_of: |collector| collector.spec.domain.signals == Signals::Never,
    is_telling: blocked::sleeps_in_driver,
    // Firmware that does not answer makes every call wait for a good minute before it fails.
    long: Duration::from_secs(300),
    // A GPU that is not listed has not answered.
    ends_unlisted: false,
    finding: |subject, _| Finding {
        detail: "driver blocked".to_owned(),
        remedy: Remedy::Reboot,
        drains: true,
        joins: Joins::Attaches,
        ..Finding::of_condition(CHECK.id, subject)
    },
};
