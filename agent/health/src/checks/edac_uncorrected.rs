//! Check `edac-uncorrected`: the host's memory had errors that ECC could not correct.

use std::collections::BTreeMap;

use collectors::{Subject, SubjectKind};

use super::{Check, Kept, May, Said, Scope, Version, Watch};
use crate::finding::{Clear, Finding, Remedy};
use crate::judge::Judge;

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
    watch: || Box::<State>::default(),
};

/// The counts that were already judged, by controller, of one boot.
#[derive(Default)]
struct State(BTreeMap<String, u64>);

impl Watch for State {
    /// One finding for every controller whose count has grown since it was last judged.
    fn after(&mut self, judge: &Judge<'_>) -> Vec<Said> {
        let mut found = Vec::new();
        for (controller, &count) in &judge.host.uncorrected {
            let before = self.0.get(controller).copied().unwrap_or(0);
            // A count that went down began anew with its driver.
            let new = if count < before { count } else { count - before };
            if count != before {
                self.0.insert(controller.clone(), count);
            }
            if new > 0 {
                judge.changed(true);
                found.push(Said::Found(finding(controller, count, new)));
            }
        }
        found
    }

    fn rebooted(&mut self) {
        self.0.clear();
    }

    fn kept(&mut self) -> Option<&mut dyn Kept> {
        Some(&mut self.0)
    }
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
