//! Whose the GPUs are when something is found, as far as that is certain: jobs come and go between two looks.

use std::collections::BTreeSet;

use collectors::Subject;

use crate::core::derive::owners::{Owner, jobs_on};

/// When something happened, as far as it matters here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum When {
    /// Just now.
    Now,
    /// At some time between the last health tick and this one.
    SinceTick,
    /// Before anybody looked.
    #[default]
    Long,
}

/// Owners as of the last looks.
#[derive(Debug, Default)]
pub(super) struct Tenants {
    now: Vec<Owner>,
    /// Those that were there at every look since the last tick. `None`: there was no tick.
    steady: Option<Vec<Owner>>,
    /// Jobs that have left since the last look.
    left: BTreeSet<String>,
}

impl Tenants {
    /// Somebody has looked.
    pub(super) fn look(&mut self, owners: Vec<Owner>) {
        let is_there = |owner: &Owner| {
            let same =
                |o: &Owner| o.gpu == owner.gpu && o.gpu_instance == owner.gpu_instance && o.job == owner.job;
            owners.iter().any(same)
        };
        if let Some(steady) = &mut self.steady {
            steady.retain(is_there);
        }
        self.now = owners;
        self.left.clear();
    }

    /// What was found at a tick has been told.
    pub(super) fn ticked(&mut self) {
        self.steady = Some(self.now.clone());
    }

    /// The kernel tells that a job is gone.
    pub(super) fn left(&mut self, job: &str) {
        self.left.insert(job.to_owned());
    }

    /// Owners as of the last look.
    pub(super) fn now(&self) -> &[Owner] {
        &self.now
    }

    /// The jobs that had a device.
    pub(super) fn on(&self, subject: &Subject, when: When) -> Vec<String> {
        let owners = match when {
            When::Now => &self.now,
            When::SinceTick => self.steady.as_ref().unwrap_or(&self.now),
            When::Long => return Vec::new(),
        };
        let mut jobs = jobs_on(owners, subject);
        jobs.retain(|job| !self.left.contains(job));
        jobs
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::derive::owners::Evidence;

    fn owners(all: &[(&str, &str)]) -> Vec<Owner> {
        let owner = |(gpu, job): &(&str, &str)| Owner {
            gpu: (*gpu).to_owned(),
            gpu_instance: String::new(),
            job: (*job).to_owned(),
            evidence: Evidence::DeviceProgram,
            share: 1.0,
        };
        all.iter().map(owner).collect()
    }

    fn on(tenants: &Tenants, gpu: &str, when: When) -> Vec<String> {
        tenants.on(&Subject::gpu(gpu), when)
    }

    #[test]
    fn what_happens_now_is_of_whoever_is_there() {
        let mut tenants = Tenants::default();
        tenants.look(owners(&[("0", "7"), ("1", "8")]));
        assert_eq!(on(&tenants, "0", When::Now), ["7"]);
        assert_eq!(on(&tenants, "2", When::Now), [""; 0]);
        // Who comes next is not known until somebody has looked.
        tenants.left("7");
        assert_eq!(on(&tenants, "0", When::Now), [""; 0]);
        assert_eq!(on(&tenants, "1", When::Now), ["8"]);
        tenants.look(owners(&[("0", "9"), ("1", "8")]));
        assert_eq!(on(&tenants, "0", When::Now), ["9"]);
    }

    #[test]
    fn what_happened_since_the_last_tick_is_of_whoever_was_there_all_the_time() {
        let mut tenants = Tenants::default();
        tenants.look(owners(&[("0", "7"), ("1", "8")]));
        assert_eq!(
            on(&tenants, "0", When::SinceTick),
            ["7"],
            "the first look is all there is"
        );
        tenants.ticked();
        tenants.look(owners(&[("1", "8")]));
        tenants.look(owners(&[("0", "9"), ("1", "8")]));
        assert_eq!(
            on(&tenants, "0", When::SinceTick),
            [""; 0],
            "it may have been 7 or 9"
        );
        assert_eq!(on(&tenants, "1", When::SinceTick), ["8"]);
        tenants.ticked();
        tenants.look(owners(&[("0", "9"), ("1", "8")]));
        assert_eq!(on(&tenants, "0", When::SinceTick), ["9"]);
    }

    #[test]
    fn what_happened_long_ago_is_nobodys() {
        let mut tenants = Tenants::default();
        tenants.look(owners(&[("0", "7")]));
        assert_eq!(on(&tenants, "0", When::Long), [""; 0]);
    }
}
