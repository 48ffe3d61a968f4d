//! When to look at jobs, apart from health ticks and scrapes: a job may be shorter than the time between two of those.

use std::time::Duration;

use collectors::device_files;
use collectors::{rdma, slurm};

use crate::filter::Filter;

/// A job that has just begun has no process yet, and its rules come with its first step.
const FIRST: Duration = Duration::from_millis(250);
/// However many begin and end, they are looked at no more often than this.
const APART: Duration = Duration::from_secs(1);
/// After this a health tick comes anyway.
const LAST: Duration = Duration::from_secs(8);

/// Looks that are due: one soon after whatever happened, and after a beginning more of them, ever further apart, so that
/// what is missed of a job is a part of its length.
#[derive(Debug, Default)]
pub struct Looks {
    next: Option<Duration>,
    last: Option<Duration>,
    /// The time from the next look to the one after it.
    then: Option<Duration>,
}

/// Whom a look asks: those of whom anything is counted for a job. Others have their own pace.
pub fn asked() -> Filter {
    let of_gpus = device_files::ALL.iter().map(|files| files.collector);
    let all = [slurm::SPEC.name, rdma::SPEC.name].into_iter().chain(of_gpus);
    Filter::Only(all.map(str::to_owned).collect())
}

impl Looks {
    /// A job has begun (`began`) or ended.
    pub fn stirred(&mut self, now: Duration, began: bool) {
        let at = match self.last {
            Some(last) => (now + FIRST).max(last + APART),
            None => now + FIRST,
        };
        self.next = Some(self.next.map_or(at, |next| next.min(at)));
        if began {
            self.then = Some(APART);
        }
    }

    /// When the next is due.
    pub fn next(&self) -> Option<Duration> {
        self.next
    }

    /// Whether one is due, which then counts as done.
    pub fn is_due(&mut self, now: Duration) -> bool {
        if self.next.is_none_or(|next| next > now) {
            return false;
        }
        self.last = Some(now);
        self.next = self.then.map(|wait| now + wait);
        self.then = self.then.map(|wait| wait * 2).filter(|wait| *wait <= LAST);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// The moments at which it looks until then.
    fn looks(looks: &mut Looks, until: u64) -> Vec<u64> {
        let mut done = Vec::new();
        while let Some(next) = looks.next().filter(|next| *next <= at(until)) {
            assert!(!looks.is_due(next - at(1)));
            assert!(looks.is_due(next));
            done.push(u64::try_from(next.as_millis()).unwrap());
        }
        done
    }

    #[test]
    fn a_job_that_begins_is_looked_at_ever_more_seldom_and_one_that_ends_once() {
        let mut all = Looks::default();
        assert_eq!(looks(&mut all, 100_000), [0; 0]);
        all.stirred(at(1000), true);
        assert_eq!(looks(&mut all, 100_000), [1250, 2250, 4250, 8250, 16_250]);
        all.stirred(at(20_000), false);
        assert_eq!(looks(&mut all, 100_000), [20_250]);
    }

    #[test]
    fn a_look_asks_those_alone_whose_readings_a_line_is_made_of() {
        let all = collectors::COLLECTORS.iter().map(|spec| spec.name);
        let mut asked: Vec<&str> = all.filter(|name| asked().takes(name)).collect();
        asked.sort_unstable();
        assert_eq!(asked, ["amd", "nvidia", "rdma", "slurm"]);
    }

    #[test]
    fn however_many_stir_there_is_one_look_in_a_second() {
        let mut all = Looks::default();
        let mut done = Vec::new();
        for ms in (0..10_000).step_by(10) {
            all.stirred(at(ms), ms % 20 == 0);
            done.extend(looks(&mut all, ms));
        }
        assert_eq!(done.len(), 10, "{done:?}");
    }
}
