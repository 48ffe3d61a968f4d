//! The runs whose lines are written, so that none is written twice: after a crash a run, or the record of its epilog, may
//! still be there, and its folder, its readings and its epilog may be heard of in any order.

use std::collections::{BTreeMap, VecDeque};

use super::epilog::SAME;
use super::line::Line;
use super::running::{Running, UNREAD};

/// Limit of known runs: far more than end between a line's writing and the removal of its record.
const MOST: usize = 8192;
/// The start of a run as read from its cgroup is rounded, and may precede its prolog by some of this, in seconds. Slurm
/// waits longer before it runs a job again.
const NEAR: f64 = 1.0;

/// A run that has a line.
#[derive(Debug)]
pub(super) struct Known {
    job: String,
    began: f64,
    /// When its folder was reported gone, if that was reported: the line may end later.
    pub(super) ended: f64,
    is_read: bool,
    /// Start of its prolog, if that is known: the line may have another one.
    pub(super) prolog: Option<f64>,
    /// An epilog reported its end.
    by_epilog: bool,
    /// Its folder was reported, so the next report of one is of another run.
    pub(super) was_told: bool,
    /// It is one of the results.
    pub(super) is_counted: bool,
}

impl Known {
    /// The run of a line that is written now.
    pub(super) fn of(line: &Line) -> Self {
        Self {
            job: line.job.clone(),
            began: line.began,
            ended: line.ended.unwrap_or(line.began),
            is_read: line.readings > 0,
            prolog: None,
            by_epilog: line.end.is_some(),
            was_told: false,
            is_counted: true,
        }
    }

    fn starts(&self, time: f64) -> bool {
        let mut starts = [Some(self.began), self.prolog].into_iter().flatten();
        starts.any(|start| (start - time).abs() < SAME)
    }

    /// Whether it is the run that an epilog reports, whose prolog has another start than this line. Runs of one number never
    /// overlap on a node; what was never read may have been reported late.
    fn overlaps(&self, (began, ended): (f64, f64)) -> bool {
        let late = if self.is_read { 0.0 } else { UNREAD };
        self.prolog.is_none() && self.began <= ended + late && self.ended >= began
    }

    /// Whether a run without its prolog's record, which its epilog removes, is this one: it begins within the time of it.
    fn contains(&self, run: &Running) -> bool {
        let late = if run.is_only_told() && !self.was_told {
            UNREAD
        } else {
            NEAR
        };
        let began = run.line.began;
        self.by_epilog && self.began - NEAR <= began && began <= self.ended + late
    }
}

/// The known runs.
#[derive(Debug, Default)]
pub(super) struct Written {
    /// The oldest first.
    runs: VecDeque<Known>,
    /// How many of them each job has. Nearly all running jobs have none, and each is looked up at each reading.
    jobs: BTreeMap<String, usize>,
}

impl Written {
    /// A line that an earlier life of the daemon wrote.
    pub(super) fn remember(&mut self, line: &Line) {
        self.add(Known {
            was_told: true,
            is_counted: false,
            ..Known::of(line)
        });
    }

    /// A line is written.
    pub(super) fn add(&mut self, known: Known) {
        if self.runs.len() >= MOST
            && let Some(oldest) = self.runs.pop_front()
            && let Some(count) = self.jobs.get_mut(&oldest.job)
        {
            *count -= 1;
            if *count == 0 {
                self.jobs.remove(&oldest.job);
            }
        }
        *self.jobs.entry(known.job.clone()).or_default() += 1;
        self.runs.push_back(known);
    }

    /// The line that a run has already. `prolog`: the start of its prolog, if that is known.
    pub(super) fn find(&self, run: &Running, prolog: Option<f64>) -> Option<usize> {
        let is_it = |known: &Known| match prolog {
            Some(start) => known.starts(start),
            None => known.starts(run.line.began) || known.contains(run),
        };
        self.of(&run.line.job, is_it)
    }

    /// The first run of this job that is the one.
    fn of(&self, job: &str, is_it: impl Fn(&Known) -> bool) -> Option<usize> {
        self.jobs.get(job)?;
        self.runs
            .iter()
            .position(|known| known.job == job && is_it(known))
    }

    /// An epilog reports the end of a run of this job in that time. Whether that run has a line.
    pub(super) fn report(&mut self, job: &str, run: (f64, f64)) -> bool {
        let at = self
            .of(job, |known| known.starts(run.0))
            .or_else(|| self.of(job, |known| known.overlaps(run)));
        let known = at.and_then(|at| self.runs.get_mut(at));
        known
            .map(|known| {
                known.prolog = Some(run.0);
                known.by_epilog = true;
            })
            .is_some()
    }

    /// The last run of this job that ended after that time and whose folder's report may still come.
    pub(super) fn untold_after(&mut self, job: &str, time: f64) -> Option<&mut Known> {
        self.jobs.get(job)?;
        let mut runs = self.runs.iter_mut().rev();
        runs.find(|known| known.job == job && known.ended > time && !known.was_told)
    }

    /// The run at this place.
    pub(super) fn get_mut(&mut self, at: usize) -> Option<&mut Known> {
        self.runs.get_mut(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(job: &str, began: f64, ended: f64) -> Line {
        Line {
            job: job.to_owned(),
            began,
            ended: Some(ended),
            readings: 1,
            ..Line::default()
        }
    }

    fn has(written: &Written, job: &str, began: f64) -> bool {
        written.find(&Running::new(job, began), Some(began)).is_some()
    }

    #[test]
    fn a_run_is_known_by_its_number_and_start() {
        let mut written = Written::default();
        written.add(Known::of(&line("7", 100.0, 200.0)));
        assert_eq!(
            [("7", 100.0005), ("7", 150.0), ("8", 100.0)].map(|(job, began)| has(&written, job, began)),
            [true, false, false]
        );
        for n in 0..MOST {
            written.add(Known::of(&line("9", n as f64, n as f64)));
        }
        assert!(!has(&written, "7", 100.0), "the oldest are forgotten");
        assert_eq!(
            written.jobs.keys().collect::<Vec<_>>(),
            ["9"],
            "and cost no search"
        );
    }

    #[test]
    fn the_report_of_an_epilog_belongs_to_the_line_of_its_time_and_both_starts_are_known_then() {
        for (job, run, is_known) in [
            ("7", (99.0, 199.0), true),
            ("7", (150.0, 300.0), true),
            ("7", (200.5, 300.0), false),
            ("7", (50.0, 99.5), false),
            ("8", (99.0, 199.0), false),
        ] {
            let mut written = Written::default();
            written.add(Known::of(&line("7", 100.0, 200.0)));
            assert_eq!(written.report(job, run), is_known, "{job} {run:?}");
            assert_eq!(has(&written, job, run.0), is_known, "{job} {run:?}");
            assert!(has(&written, "7", 100.0));
        }
    }

    /// Its worker hung, so its line ends late.
    #[test]
    fn a_line_that_its_epilog_has_reported_contains_no_later_run() {
        let mut written = Written::default();
        written.add(Known::of(&line("7", 100.0, 200.0)));
        assert!(written.report("7", (99.0, 140.0)));
        assert!(!written.report("7", (150.0, 180.0)));
    }

    #[test]
    fn a_line_whose_prolog_is_known_has_no_other() {
        let mut written = Written::default();
        written.add(Known {
            prolog: Some(100.0),
            ..Known::of(&line("7", 100.0, 200.0))
        });
        written.add(Known::of(&line("7", 195.0, 300.0)));
        assert!(written.report("7", (193.0, 299.0)));
        assert!(!written.report("7", (120.0, 190.0)));
    }
}
