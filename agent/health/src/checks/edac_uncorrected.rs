//! Check `edac-uncorrected`: uncorrected ECC errors of the host's memory.

use collectors::{Subject, SubjectKind};

use super::{Check, Kept, May, Said, Scope, Version, Watch};
use crate::bounded::{Bounded, STORED};
use crate::finding::{Clear, Finding, Remedy};
use crate::judge::Judge;

/// The row.
pub static CHECK: Check = Check {
    id: "edac-uncorrected",
    subject: SubjectKind::MemoryController,
    fires_when: "The uncorrected ECC error count of a memory controller is above 0 in this boot, or increases.",
    lasting: "immediately",
    clears_when: "A reboot after which the controller counts 0 uncorrected errors.",
    ignored_when: "The controller is one of a GPU's memory (`MI200`): checks of GPUs.",
    scope: Scope::Node,
    may: May::Drain,
    since: Version(0, 1, 0),
    watch: || Box::<State>::default(),
};

/// The last judged count of this boot, by controller.
#[derive(Default)]
struct State(Bounded<String, u64, STORED>);

impl State {
    /// Takes a count: by how much it grew. Names beyond the limit are neither stored nor reported.
    fn grown(&mut self, controller: &str, count: u64) -> Option<u64> {
        let before = self.0.get(controller).copied().unwrap_or(0);
        // A count that went down was reset with its driver.
        let new = if count < before { count } else { count - before };
        let is_kept = count == before || self.0.set(controller.to_owned(), count);
        (new > 0 && is_kept).then_some(new)
    }
}

impl Watch for State {
    /// One finding for each controller whose count grew.
    fn after(&mut self, judge: &Judge<'_>) -> Vec<Said> {
        let mut found = Vec::new();
        let host = judge.host;
        let counts = host.uncorrected.iter();
        for (controller, &count) in counts.filter(|(name, _)| !host.of_gpus.contains(*name)) {
            if let Some(new) = self.grown(controller, count) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controllers_beyond_the_limit_are_neither_stored_nor_reported() {
        let mut state = State::default();
        for n in 0..2 * STORED {
            let grown = state.grown(&format!("mc{n}"), 1);
            assert_eq!(grown, (n < STORED).then_some(1), "{n}");
        }
        assert_eq!(state.0.iter().count(), STORED);
        assert_eq!(state.grown("mc0", 3), Some(2));
    }
}
