//! The loop's account of jobs.

use std::sync::Arc;
use std::time::Duration;

use collectors::event::{JobChange, JobEnd, JobEvent};
use collectors::sys::boot;

use super::{Daemon, now, wall_clock};
use crate::daemon::jobs;
use crate::link::ToParent;

impl Daemon {
    /// Stores lines of ended jobs, and the totals of running jobs whenever they are shown: no counter may decrease
    /// after a restart.
    pub(super) fn keep_jobs(&mut self) {
        let closed = self.jobs.closed();
        let view = self.jobs.view();
        let is_due = !closed.is_empty() || !view.running.is_empty();
        closed.into_iter().for_each(|line| self.keeper.line(line));
        for record in self.jobs.done() {
            self.tell_parent(&ToParent::Recorded(record));
        }
        self.jobs.unwritten(self.keeper.unwritten());
        if let Some(book) = is_due.then(|| jobs::kept(&self.jobs, &self.boot)).flatten() {
            self.keeper.book(book);
        }
        self.facts.job_lines_dropped = self.keeper.dropped().saturating_add(self.records_dropped);
        self.facts.jobs = Arc::new(view);
    }

    /// A job has begun or ended.
    pub(super) fn job(&mut self, job: &JobChange) {
        let wall = wall_clock().as_secs_f64();
        let start = job.start_us.map(|us| Duration::from_micros(us).as_secs_f64());
        match job.what {
            JobEvent::Began => self.jobs.began(&job.folder, start, wall),
            JobEvent::Ended => {
                for job in self.jobs.left(&job.folder, start, wall) {
                    self.engine.job_left(now(), &job);
                }
            }
        }
        self.looks.stirred(boot::boottime(), job.what == JobEvent::Began);
    }

    /// The epilog of a job has left its record.
    pub(super) fn job_end(&mut self, end: &JobEnd) {
        self.records_dropped = self.records_dropped.max(end.dropped);
        if let Some(job) = self.jobs.told(end.clone(), wall_clock().as_secs_f64()) {
            self.engine.job_left(now(), &job);
        }
        self.looks.stirred(boot::boottime(), false);
    }
}
