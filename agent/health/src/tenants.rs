//! Whose the GPUs are when something is found, as far as that is certain: jobs come and go between two looks.

use std::collections::{BTreeMap, BTreeSet};

use collectors::Subject;

use model::derive::owners::{Owner, jobs_on};

/// When something happened, as far as it matters here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum When {
    /// At this time of the wall clock, in seconds since the epoch.
    At(i64),
    /// At some time between the last health tick and this one.
    SinceTick,
    /// Before anybody looked.
    #[default]
    Long,
}

/// GPU, instance and job.
type Place = (String, String, String);

/// Owners as of the last looks.
#[derive(Debug, Default)]
pub(super) struct Tenants {
    now: Vec<Owner>,
    /// When each of them was seen first, in seconds since the epoch.
    since: BTreeMap<Place, i64>,
    /// Those that were there at every look since the last tick. `None`: there was no tick.
    steady: Option<Vec<Owner>>,
    /// Jobs that have left since the last look.
    left: BTreeSet<String>,
}

impl Tenants {
    /// Somebody has looked, at that time of the wall clock.
    pub(super) fn look(&mut self, owners: Vec<Owner>, wall: i64) {
        let since = |owner: &Owner| {
            let place = place(owner);
            let since = self.since.get(&place).copied();
            (place, since.unwrap_or(wall))
        };
        self.since = owners.iter().map(since).collect();
        if let Some(steady) = &mut self.steady {
            steady.retain(|owner| self.since.contains_key(&place(owner)));
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
        let mut jobs = match when {
            // What is read late may have happened before they came.
            When::At(wall) => {
                let was_there = |owner: &&Owner| self.since.get(&place(owner)).is_some_and(|s| *s <= wall);
                let there: Vec<Owner> = self.now.iter().filter(was_there).cloned().collect();
                jobs_on(&there, subject)
            }
            When::SinceTick => jobs_on(self.steady.as_ref().unwrap_or(&self.now), subject),
            When::Long => return Vec::new(),
        };
        jobs.retain(|job| !self.left.contains(job));
        jobs
    }
}

fn place(owner: &Owner) -> Place {
    (owner.gpu.clone(), owner.gpu_instance.clone(), owner.job.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::derive::owners::Evidence;

    const NOW: i64 = 1_795_227_100;

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
        tenants.look(owners(&[("0", "7"), ("1", "8")]), NOW);
        assert_eq!(on(&tenants, "0", When::At(NOW)), ["7"]);
        assert_eq!(on(&tenants, "2", When::At(NOW)), [""; 0]);
        // Who comes next is not known until somebody has looked.
        tenants.left("7");
        assert_eq!(on(&tenants, "0", When::At(NOW)), [""; 0]);
        assert_eq!(on(&tenants, "1", When::At(NOW)), ["8"]);
        tenants.look(owners(&[("0", "9"), ("1", "8")]), NOW);
        assert_eq!(on(&tenants, "0", When::At(NOW)), ["9"]);
    }

    #[test]
    fn what_is_read_late_is_of_nobody_who_came_after_it() {
        let mut tenants = Tenants::default();
        tenants.look(owners(&[("0", "7"), ("1", "8")]), NOW - 60);
        tenants.look(owners(&[("0", "9"), ("1", "8")]), NOW - 10);
        tenants.look(owners(&[("0", "9"), ("1", "8")]), NOW);
        assert_eq!(on(&tenants, "0", When::At(NOW - 30)), [""; 0]);
        assert_eq!(on(&tenants, "1", When::At(NOW - 30)), ["8"]);
        assert_eq!(on(&tenants, "0", When::At(NOW - 10)), ["9"]);
    }

    #[test]
    fn what_happened_since_the_last_tick_is_of_whoever_was_there_all_the_time() {
        let mut tenants = Tenants::default();
        tenants.look(owners(&[("0", "7"), ("1", "8")]), NOW);
        assert_eq!(
            on(&tenants, "0", When::SinceTick),
            ["7"],
            "the first look is all there is"
        );
        tenants.ticked();
        tenants.look(owners(&[("1", "8")]), NOW);
        tenants.look(owners(&[("0", "9"), ("1", "8")]), NOW);
        assert_eq!(
            on(&tenants, "0", When::SinceTick),
            [""; 0],
            "it may have been 7 or 9"
        );
        assert_eq!(on(&tenants, "1", When::SinceTick), ["8"]);
        tenants.ticked();
        tenants.look(owners(&[("0", "9"), ("1", "8")]), NOW);
        assert_eq!(on(&tenants, "0", When::SinceTick), ["9"]);
    }

    #[test]
    fn what_happened_long_ago_is_nobodys() {
        let mut tenants = Tenants::default();
        tenants.look(owners(&[("0", "7")]), NOW);
        assert_eq!(on(&tenants, "0", When::Long), [""; 0]);
    }
}
