//! Check `edac-uncorrected`: the host's memory had errors that ECC could not correct.

use std::collections::BTreeMap;

use collectors::{Subject, SubjectKind};

use super::host::Host;
use super::{Check, May, Scope, Version};
use crate::finding::{Clear, Finding, Remedy};

/// The row.
pub static CHECK: Check = Check {
    id: "edac-uncorrected",
    subject: SubjectKind::MemoryController,
    condition: "A memory controller counted errors in this boot that ECC could not correct.",
    scope: Scope::Node,
    may: May::Drain,
    since: Version(0, 1, 0),
    clears: "By a reboot after which the controller counts none.",
    runbook: "docs/runbooks/edac-uncorrected.md",
    conditions: None,
};

/// The counts that were already judged, by controller, of one boot.
pub type Judged = BTreeMap<String, u64>;

/// One finding for every controller whose count has grown since it was last judged.
pub fn findings(host: &Host, judged: &mut Judged) -> Vec<Finding> {
    let mut found = Vec::new();
    for (controller, &count) in &host.uncorrected {
        let before = judged.get(controller).copied().unwrap_or(0);
        // A count that went down began anew with its driver.
        let new = if count < before { count } else { count - before };
        if count != before {
            judged.insert(controller.clone(), count);
        }
        if new > 0 {
            found.push(finding(controller, count, new));
        }
    }
    found
}

fn finding(controller: &str, count: u64, new: u64) -> Finding {
    Finding {
        detail: "uncorrected memory errors".to_owned(),
        remedy: Remedy::Reboot,
        drains: true,
        clears: vec![Clear::Reboot],
        count: new,
        evidence: format!("host_edac_uncorrected_errors_total{{controller=\"{controller}\"}} {count} > 0"),
        ..Finding::of_condition(CHECK.id, Subject::new(SubjectKind::MemoryController, controller))
    }
}
