//! The runs whose lines are written, so that none is written twice: after a crash a run, or the record of its epilog, may
//! still be there.

use std::collections::VecDeque;

use super::epilog::SAME;
use super::line::Line;

/// Limit of known runs: far more than end between a line's writing and the removal of its record.
const MOST: usize = 8192;

/// Job, start and end of each, and whether an epilog reported the end; the oldest first.
#[derive(Debug, Default)]
pub(super) struct Written(VecDeque<(String, f64, f64, bool)>);

impl Written {
    pub(super) fn add(&mut self, line: &Line) {
        if self.0.len() >= MOST {
            self.0.pop_front();
        }
        let ended = line.ended.unwrap_or(line.began);
        self.0
            .push_back((line.job.clone(), line.began, ended, line.end.is_some()));
    }

    /// Whether the run of this job that began then has a line.
    pub(super) fn has(&self, job: &str, began: f64) -> bool {
        let mut runs = self.0.iter();
        runs.any(|(known, start, ..)| known == job && (start - began).abs() < SAME)
    }

    /// Whether a run of this job in that time has a line: runs of one number never overlap on a node, and a line without
    /// a prolog's record has another start.
    pub(super) fn overlaps(&self, job: &str, (began, ended): (f64, f64)) -> bool {
        let mut runs = self.0.iter();
        self.has(job, began)
            || runs.any(|(known, start, end, _)| known == job && *start <= ended && *end >= began)
    }

    /// Whether an epilog reported the end of a run of this job that has a line: the run's start and end are given.
    pub(super) fn has_reported(&self, job: &str, is_meant: impl Fn(f64, f64) -> bool) -> bool {
        let mut runs = self.0.iter();
        runs.any(|(known, start, end, by_epilog)| known == job && *by_epilog && is_meant(*start, *end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_known_by_number_and_start_and_a_report_of_it_by_its_time_too() {
        let mut written = Written::default();
        let line = |job: &str, began: f64, ended: f64| Line {
            job: job.to_owned(),
            began,
            ended: Some(ended),
            ..Line::default()
        };
        written.add(&line("7", 100.0, 200.0));
        assert_eq!(
            [("7", 100.0005), ("7", 150.0), ("8", 100.0)].map(|(job, began)| written.has(job, began)),
            [true, false, false]
        );
        for (job, run, is_known) in [
            ("7", (99.0, 199.0), true),
            ("7", (150.0, 300.0), true),
            ("7", (200.5, 300.0), false),
            ("7", (50.0, 99.5), false),
            ("8", (99.0, 199.0), false),
        ] {
            assert_eq!(written.overlaps(job, run), is_known, "{job} {run:?}");
        }
        for n in 0..MOST {
            written.add(&line("9", n as f64, n as f64));
        }
        assert!(!written.has("7", 100.0), "the oldest are forgotten");
    }
}
